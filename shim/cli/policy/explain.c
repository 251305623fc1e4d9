/* SPDX-License-Identifier: MIT */
/* Owns `nagleshim explain`: it finds the policy that a program would get, matches one socket, which
 * only the options describe, and says why. It must use the shim's own search and matcher, never a
 * copy of their rules. Not async-signal-safe. */
#include "cli/cli.h"

#include "cli/output.h"
#include "cli/policy/effect.h"
#include "cli/policy/explain_options.h"
#include "cli/process/environment.h"
#include "cli/process/program.h"
#include "cli/process/subject.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

__attribute__((format(printf, 1, 2))) static void warn(const char *format, ...)
{
    char text[2 * PATH_MAX];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    ns_output_line("warning: %s", text);
    ns_output_list("warnings", text);
}

static void warn_of_environment(void *context, const char *text)
{
    (void)context;
    warn("%s", text);
}

/* NULL without --json. */
static cJSON *add_object(const char *name)
{
    return ns_output_is_json() ? cJSON_AddObjectToObject(ns_output_object(), name) : NULL;
}

/* "./word" if word is not in PATH and is a file here, to see which interpreter it names; else word.
 */
static char *find_here(char *word, char here[PATH_MAX])
{
    struct stat st;
    char path[PATH_MAX];
    int length = snprintf(here, PATH_MAX, "./%s", word);

    if (strchr(word, '/') || ns_program_locate(word, path, sizeof path) || length >= PATH_MAX ||
        stat(here, &st) != 0 || !S_ISREG(st.st_mode))
        return word;
    return here;
}

static void say_process(const struct ns_subject *subject, const char *word)
{
    const struct ns_reach *reach = &subject->reach;
    const char *reason = ns_reach_reason(reach->verdict), *exe = subject->process.exe;
    cJSON *entry = add_object("process");

    ns_output_text(entry, "asked", word);
    ns_output_text(entry, "path", exe);
    ns_output_text(entry, "script", reach->is_script ? reach->program : NULL);
    if (!exe)
        ns_output_line("process: %s (%s; only its name is matched)", word,
                       reach->program[0] != '\0' ? "its interpreter is missing"
                       : strchr(word, '/')       ? "no such file"
                                                 : "not found in PATH");
    else if (reach->is_script)
        ns_output_line("process: %s (the interpreter of %s)", exe, reach->program);
    else if (!strchr(word, '/'))
        ns_output_line("process: %s (%s in PATH is %s)", exe, word, reach->program);
    else
        ns_output_line("process: %s", exe);
    if (exe && reason)
        warn("the shim will not reach this process: %s %s", reach->file, reason);
}

static void say_socket(const struct ns_explain_options *options)
{
    enum ns_role known = options->facts.role;
    const char *role = known == NS_ROLE_UNKNOWN ? NULL : ns_role_name(known);
    cJSON *entry = add_object("socket");

    ns_output_text(entry, "role", role);
    ns_output_text(entry, "local", options->local);
    ns_output_text(entry, "remote", options->remote);
    ns_output_line("socket: %s, local %s, remote %s", role ? role : "role not given",
                   options->local ? options->local : "not given",
                   options->remote ? options->remote : "not given");
}

struct judgement {
    const char *result; /* "matches", "does not match" or "undecided" */
    const char *why;    /* NULL if it matches */
};

static struct judgement judge(enum ns_mismatch mismatch, const struct ns_socket_facts *facts)
{
    static const char no[] = "does not match", open[] = "undecided";

    switch (mismatch) {
    case NS_MATCHES:
        break;
    case NS_MISMATCH_PROCESS:
        return (struct judgement){no, "\"process\" names other programs"};
    case NS_MISMATCH_ARGS:
        return (struct judgement){no, "\"args\" matches no argument"};
    case NS_MISMATCH_ROLE:
        return facts->role == NS_ROLE_UNKNOWN
                   ? (struct judgement){open, "it has \"role\", and --role is not given"}
                   : (struct judgement){no, "\"role\" is different"};
    case NS_MISMATCH_LOCAL:
        if (facts->local.known)
            return (struct judgement){no, "\"local\" has other addresses or ports"};
        if (facts->role == NS_ROLE_CLIENT)
            return (struct judgement){open, "it has \"local\", and --local is not given; a client "
                                            "has a local address only if the program binds one"};
        return (struct judgement){open, "it has \"local\", and --local is not given"};
    case NS_MISMATCH_REMOTE:
        return facts->remote.known
                   ? (struct judgement){no, "\"remote\" has other addresses or ports"}
                   : (struct judgement){open, "it has \"remote\", and --remote is not given"};
    }
    return (struct judgement){"matches", NULL};
}

/* Every rule up to the one that applies. Returns how many are undecided. */
static unsigned say_rules(const struct ns_policy *policy, const struct ns_subject *subject,
                          const struct ns_socket_facts *facts, const struct ns_rule *last)
{
    char name[256];
    unsigned undecided = 0;

    for (size_t i = 0; i < policy->n_rules; i++) {
        const struct ns_rule *rule = &policy->rules[i];
        struct judgement judgement = judge(ns_match_explain(rule, &subject->process, facts), facts);
        cJSON *entry = ns_output_entry("rules");

        if (entry)
            cJSON_AddNumberToObject(entry, "number", rule->index + 1);
        ns_output_text(entry, "name", rule->name);
        ns_output_text(entry, "result", judgement.result);
        ns_output_text(entry, "why", judgement.why);
        ns_output_line("%s: %s%s%s", ns_effect_name(rule, name, sizeof name), judgement.result,
                       judgement.why ? ": " : "", judgement.why ? judgement.why : "");
        undecided += *judgement.result == 'u';
        if (rule == last)
            break;
    }
    return undecided;
}

static void say_rule(const struct ns_rule *rule, const struct ns_socket_facts *facts)
{
    cJSON *entry = add_object("rule");

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

    if (!policy->enabled) {
        ns_output_line("the policy is not enabled: every socket is left alone");
        return NS_EXIT_NO;
    }
    if (ns_ruleset_build(&set, policy, &subject->process) != 0) {
        ns_say("explain", "%s", strerror(ENOMEM));
        return NS_EXIT_ERROR;
    }
    const struct ns_rule *rule = ns_match_socket(&set, facts);
    unsigned undecided = say_rules(policy, subject, facts, rule);
    if (undecided)
        warn("%u rule%s undecided; the following holds if %s", undecided,
             undecided == 1 ? " is" : "s are",
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
    static const char *const lists[] = {"tried", "rules", "effects", "warnings"};
    char off[128];
    int status = NS_EXIT_ERROR;

    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        ns_output_expect(lists[i]);
    if (!ns_explain_take_options(argc, argv, &options))
        return NS_EXIT_ERROR;
    if (options.help) {
        ns_help_print("explain");
        return NS_EXIT_YES;
    }
    char *word = find_here(options.process, here);
    ns_subject_describe(&subject, word, options.args, options.n_args);
    if (subject.reach.program[0] && !ns_subject_is_program(&subject.reach, "explain", true))
        return NS_EXIT_ERROR;
    say_process(&subject, word);
    say_socket(&options);
    if (ns_environment_off(off, sizeof off))
        warn("%s here", off);
    ns_environment_judge(false, warn_of_environment, NULL);
    if (ns_subject_find_policy(&subject, "explain", options.policy, &found))
        status = explain_socket(found.policy, &subject, &options.facts);
    if (found.origin != NS_POLICY_BUILTIN)
        ns_policy_free((struct ns_policy *)found.policy);
    return status;
}
