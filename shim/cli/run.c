/* SPDX-License-Identifier: MIT */
/* Owns `nagleshim run`: it puts the library and the policy into the environment and executes the
 * program in its own place. It must not fork, leave a descriptor open, or touch signals: the
 * program starts as it would without this command. */
#include "base/path.h"
#include "cli/child.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/program/program.h"
#include "cli/verbs.h"
#include "policy/find.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WARN(...) ns_say("warning: " __VA_ARGS__)

/* Do options describe a rule? */
static bool has_rule(void)
{
    return ns_option_text(NS_RUN_SEND) || ns_option_text(NS_RUN_ACK) ||
           ns_option_text(NS_RUN_MAX_DELAY_US);
}

/* Is there a program, and can the options be used together? */
static bool is_clear(void)
{
    const char *word = ns_option_text(NS_RUN_SEND);
    int send = word ? ns_words_find(NS_TAKES_SEND, word) : NS_SEND_DEFAULT;
    if (ns_option_text(NS_RUN_POLICY) && has_rule())
        return NS_REFUSE(
            "--policy cannot be used with --send, --ack or --max-delay-us; write these into the "
            "policy file");
    if (ns_option_text(NS_RUN_MAX_DELAY_US) && !ns_send_corks((enum ns_send)send))
        return NS_REFUSE(
            "--max-delay-us can only be used with --send auto-cork: no other mode holds bytes");
    return ns_operands.n > 0 || NS_REFUSE("the program is missing; see 'nagleshim run --help'");
}

static bool put_environment(const char *name, const char *value)
{
    return setenv(name, value, 1) == 0 || NS_REFUSE("cannot set %s: %s", name, strerror(errno));
}

static bool put_policy_of_options(void)
{
    const char *send = ns_option_text(NS_RUN_SEND), *ack = ns_option_text(NS_RUN_ACK),
               *delay = ns_option_text(NS_RUN_MAX_DELAY_US);
    /* The words have been checked against lists, and need no escapes. */
    const char *text = ns_words(
        "{\"version\":1,\"rules\":[{\"name\":\"" NS_POLICY_OF_RUN "\"%s%s%s}]}",
        send ? ns_words(",\"send\":\"%s\"", send) : "", ack ? ns_words(",\"ack\":\"%s\"", ack) : "",
        delay ? ns_words(",\"max_delay_us\":%.0f", ns_option_number(NS_RUN_MAX_DELAY_US, 0)) : "");
    return put_environment("NAGLESHIM_POLICY", text);
}

/* The program must not start without the policy that was named: a broken one is an error. */
static bool put_policy(void)
{
    char path[PATH_MAX];
    const char *policy = ns_option_text(NS_RUN_POLICY);
    if (policy)
        return ns_environment_policy_file(policy, path) &&
               put_environment("NAGLESHIM_POLICY", path);
    return !has_rule() || put_policy_of_options();
}

/* The program starts even if the library for 32-bit programs is missing: those that it starts may
 * be of the other kind. */
static bool put_library(const struct ns_reach *reach)
{
    char path[PATH_MAX];
    const char *missing =
        reach->narrow ? ns_preload_locate(NS_LIBRARY_NAME, reach->narrow, path) : NULL;
    if (missing)
        WARN("the library will not reach %s: %s", reach->program, missing);
    if ((missing || !reach->narrow) && !ns_preload_take(0, path))
        return false;
    return putenv(ns_preload_variable(path, reach->file)) == 0;
}

static void warn_of_policy(const struct ns_process *process, const char *policy)
{
    static struct ns_policy_found found;
    const struct ns_policy_request request = {
        .policy = policy ? policy : getenv("NAGLESHIM_POLICY"),
        .policy_dir = getenv("NAGLESHIM_POLICY_DIR"),
        .argv0 = process->argv0,
        .exe = process->exe,
    };
    char text[PATH_MAX + sizeof found.where.message + 32];
    size_t i = 0;
    ns_policy_find(&request, &found);
    while (found.policy && i < found.policy->n_rules &&
           !ns_match_process(&found.policy->rules[i], process))
        i++;
    if (!found.policy)
        WARN("the library does nothing, because its policy is broken or cannot be read: %s",
             ns_policy_error_text(&found, text, sizeof text));
    else if (!found.policy->enabled)
        WARN("%s: \"enabled\" is false: the library leaves every socket alone", found.path);
    else if (found.origin != NS_POLICY_BUILTIN && i == found.policy->n_rules)
        WARN("%s: no rule is for %s: the library leaves its sockets alone; programs that it starts "
             "may have a rule",
             found.path, ns_path_base(process->exe ? process->exe : process->argv0));
}

static void warn_of_program(const struct ns_reach *reach)
{
    const char *reason = ns_reach_reason(reach->verdict),
               *what = reach->is_script ? ns_words("its interpreter %s", reach->file) : "it";
    if (reason)
        WARN("the library will not reach %s: %s %s; 'nagleshim cure' changes its sockets",
             reach->program, what, reason);
}

void ns_run_forewarn(const struct ns_subject *subject, const char *policy)
{
    if (subject->reach.program[0])
        warn_of_policy(&subject->process, policy);
    warn_of_program(&subject->reach);
}

int ns_run_main(void)
{
    char **argv = ns_operands.words;
    const char *log = ns_option_text(NS_RUN_LOG);
    static struct ns_subject subject;
    if (!is_clear())
        return NS_EXIT_RUN_FAILED;
    ns_subject_describe(&subject, argv[0], argv + 1, ns_operands.n - 1);
    if (!put_policy() || !put_library(&subject.reach) ||
        (log && !put_environment("NAGLESHIM_LOG", log)))
        return NS_EXIT_RUN_FAILED;
    ns_environment_judge();
    if (ns_environment_off()) {
        WARN("%s", ns_environment_off());
        warn_of_program(&subject.reach);
    } else {
        ns_run_forewarn(&subject, NULL);
    }
    ns_child_restore();
    execvp(argv[0], argv);
    return ns_program_say_failure(argv[0], errno);
}
