/* SPDX-License-Identifier: MIT */
/* Owns `nagleshim explain`: it finds the policy as a process would, matches one socket that is only
 * described, and says why. It must use the shim's own search and matcher, never a copy of their
 * rules. Not async-signal-safe. */
#include "cli/cli.h"

#include "cli/process/effect.h"
#include "cli/process/environment.h"
#include "cli/policy/explain_options.h"
#include "cli/output.h"
#include "cli/process/program.h"
#include "cli/process/subject.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

__attribute__((format(printf, 1, 2))) static void warn(const char *format, ...)
{
    char text[2 * PATH_MAX];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    ns_output_line("warning: %s", text);
    ns_output_list("warnings", text);
}

static void warn_of_environment(void *context, const char *text)
{
    (void)context;
    warn("%s", text);
}

/* A name that is not in PATH and is a file here: what runs it is looked for in the file. A name
 * with a slash is taken as it is. Returns the name to go by. */
static char *name_of_process(char *word, char here[PATH_MAX])
{
    struct stat st;
    char path[PATH_MAX];
    int length = snprintf(here, PATH_MAX, "./%s", word);

    if (strchr(word, '/') || ns_program_locate(word, path, sizeof(path)) || length >= PATH_MAX ||
        stat(here, &st) != 0 || !S_ISREG(st.st_mode))
        return word;
    return here;
}

static void say_process(const struct ns_subject *subject, const char *word)
{
    const struct ns_reach *reach = &subject->reach;
    const char *reason = ns_reach_reason(reach->verdict);
    cJSON *entry =
        ns_output_is_json() ? cJSON_AddObjectToObject(ns_output_object(), "process") : NULL;

    ns_output_text(entry, "asked", word);
    ns_output_text(entry, "path", subject->process.exe);
    ns_output_text(entry, "script", reach->is_script ? reach->program : NULL);
    if (!subject->process.exe)
        ns_output_line("process: %s (%s; matched by this name alone)", word,
                       reach->program[0] != '\0' ? "its interpreter is missing"
                       : strchr(word, '/')       ? "there is no such file"
                                                 : "not found in PATH");
    else if (reach->is_script)
        ns_output_line("process: %s (the interpreter of %s)", subject->process.exe, reach->program);
    else if (!strchr(word, '/'))
        ns_output_line("process: %s (%s in PATH is %s)", subject->process.exe, word,
                       reach->program);
    else
        ns_output_line("process: %s", subject->process.exe);
    if (subject->process.exe && reason)
        warn("the shim will not reach this process: %s %s", reach->file, reason);
}

static void say_socket(const struct ns_explain_options *options)
{
    const char *role =
        options->facts.role == NS_ROLE_UNKNOWN ? NULL : ns_role_name(options->facts.role);
    cJSON *entry =
        ns_output_is_json() ? cJSON_AddObjectToObject(ns_output_object(), "socket") : NULL;

    ns_output_text(entry, "role", role);
    ns_output_text(entry, "local", options->local);
    ns_output_text(entry, "remote", options->remote);
    ns_output_line("socket: %s, local %s, remote %s", role ? role : "role not given",
                   options->local ? options->local : "not given",
                   options->remote ? options->remote : "not given");
}

/* What became of a rule, and why. */
struct judgement {
    const char *result; /* "matches", "does not match" or "undecided" */
    const char *why;    /* NULL: nothing is to be added */
};

static struct judgement judge(enum ns_mismatch mismatch, const struct ns_socket_facts *facts)
{
    static const char no[] = "does not match", open[] = "undecided";

    switch (mismatch) {
    case NS_MATCHES:
        return (struct judgement){"matches", NULL};
    case NS_MISMATCH_PROCESS:
        return (struct judgement){no, "\"process\" names other programs"};
    case NS_MISMATCH_ARGS:
        return (struct judgement){no, "\"args\" is not among the arguments"};
    case NS_MISMATCH_ROLE:
        return facts->role == NS_ROLE_UNKNOWN
                   ? (struct judgement){open, "it asks for a \"role\", and no --role is given"}
                   : (struct judgement){no, "\"role\" is another"};
    case NS_MISMATCH_LOCAL:
        if (facts->local.known)
            return (struct judgement){no, "\"local\" has other addresses or ports"};
        if (facts->role == NS_ROLE_CLIENT)
            return (struct judgement){open, "it asks for \"local\", and no --local is given; a "
                                            "client has one only if the program binds it"};
        return (struct judgement){open, "it asks for \"local\", and no --local is given"};
    case NS_MISMATCH_REMOTE:
        return facts->remote.known
                   ? (struct judgement){no, "\"remote\" has other addresses or ports"}
                   : (struct judgement){open, "it asks for \"remote\", and no --remote is given"};
    }
    return (struct judgement){no, NULL};
}

/* Every rule up to the one that applies. Returns how many of them what was given does not decide.
 */
static unsigned say_rules(const struct ns_policy *policy, const struct ns_subject *subject,
                          const struct ns_socket_facts *facts, const struct ns_rule *last)
{
    char name[256];
    unsigned undecided = 0;

    for (size_t i = 0; i < policy->n_rules; i++) {
        const struct ns_rule *rule = &policy->rules[i];
        enum ns_mismatch mismatch = ns_match_explain(rule, &subject->process, facts);
        struct judgement judgement = judge(mismatch, facts);
        cJSON *entry = ns_output_entry("rules");

        if (entry)
            cJSON_AddNumberToObject(entry, "number", rule->index + 1);
        ns_output_text(entry, "name", rule->name);
        ns_output_text(entry, "result", judgement.result);
        ns_output_text(entry, "why", judgement.why);
        ns_output_line("%s: %s%s%s", ns_effect_name(rule, name, sizeof(name)), judgement.result,
                       judgement.why ? ": " : "", judgement.why ? judgement.why : "");
        undecided += *judgement.result == 'u';
        if (rule == last)
            break;
    }
    return undecided;
}

static void say_rule(const struct ns_rule *rule, const struct ns_socket_facts *facts)
{
    cJSON *entry = ns_output_is_json() ? cJSON_AddObjectToObject(ns_output_object(), "rule") : NULL;

    if (entry) {
        cJSON_AddNumberToObject(entry, "number", rule->index + 1);
        cJSON_AddNumberToObject(entry, "max_delay_us", rule->max_delay_us);
    }
    ns_output_text(entry, "name", rule->name);
    ns_output_text(entry, "send", ns_send_name(rule->send));
    ns_output_text(entry, "ack", ns_ack_name(rule->ack));
    ns_effect_print(rule, facts->role);
}

static int explain_socket(const struct ns_policy *policy, const struct ns_subject *subject,
                          const struct ns_socket_facts *facts)
{
    struct ns_ruleset set;
    const struct ns_rule *rule;
    unsigned undecided;

    if (!policy->enabled) {
        ns_output_line("the policy is not enabled: every socket is left alone");
        return NS_EXIT_NO;
    }
    if (ns_ruleset_build(&set, policy, &subject->process) != 0) {
        ns_say("explain", "%s", strerror(ENOMEM));
        return NS_EXIT_ERROR;
    }
    rule = ns_match_socket(&set, facts);
    undecided = say_rules(policy, subject, facts, rule);
    if (undecided)
        warn("%u rule%s on what was not given: what follows holds if %s", undecided,
             undecided == 1 ? " above depends" : "s above depend",
             undecided == 1 ? "it does not match" : "none of them matches");
    if (rule)
        say_rule(rule, facts);
    else
        ns_output_line("no rule matches: the socket is left alone");
    if (facts->role == NS_ROLE_SERVER)
        ns_effect_print_listener(&set, &facts->local);
    ns_ruleset_release(&set);
    return rule ? NS_EXIT_YES : NS_EXIT_NO;
}

int ns_explain_main(int argc, char **argv)
{
    static struct ns_explain_options options;
    static struct ns_subject subject;
    static struct ns_policy_found found;
    static char here[PATH_MAX];
    char off[128], *word;
    int status = NS_EXIT_ERROR;

    ns_output_expect("tried");
    ns_output_expect("rules");
    ns_output_expect("effects");
    ns_output_expect("warnings");
    if (!ns_explain_take_options(argc, argv, &options))
        return NS_EXIT_ERROR;
    if (options.help) {
        ns_help_print("explain");
        return NS_EXIT_YES;
    }
    word = name_of_process(options.process, here);
    ns_subject_describe(&subject, word, options.args, options.n_args);
    if (subject.reach.program[0] && !ns_subject_is_program(&subject.reach, "explain", true))
        return NS_EXIT_ERROR;
    say_process(&subject, word);
    say_socket(&options);
    if (ns_environment_off(off, sizeof(off)))
        warn("%s here", off);
    ns_environment_judge(false, warn_of_environment, NULL);
    if (ns_subject_find_policy(&subject, "explain", options.policy, &found))
        status = explain_socket(found.policy, &subject, &options.facts);
    if (found.origin != NS_POLICY_BUILTIN)
        ns_policy_free((struct ns_policy *)found.policy);
    return status;
}
