/* SPDX-License-Identifier: MIT */
/* Owns `nagleshim explain`: it finds the policy as a process would, matches one socket that is only
 * described, and says why. It must use the shim's own search and matcher, never a copy of their
 * rules. Not async-signal-safe. */
#include "cli/cli.h"

#include "cli/effect.h"
#include "cli/explain_options.h"
#include "cli/subject.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_process(const struct ns_subject *subject, const char *word)
{
    const struct ns_reach *reach = &subject->reach;
    const char *reason = ns_reach_reason(reach->verdict);

    if (!subject->process.exe) {
        printf("process: %s (%s; matched by this name alone)\n", word,
               reach->program[0] != '\0' ? "its interpreter is missing"
               : strchr(word, '/')       ? "there is no such file"
                                         : "not found in PATH");
        return;
    }
    printf("process: %s", subject->process.exe);
    if (reach->is_script)
        printf(" (the interpreter of %s)", reach->program);
    else if (!strchr(word, '/'))
        printf(" (%s in PATH is %s)", word, reach->program);
    putchar('\n');
    if (reason)
        printf("warning: the shim will not reach this process: %s %s\n", reach->file, reason);
}

static void print_socket(const struct ns_explain_options *options)
{
    bool is_known = options->facts.role != NS_ROLE_UNKNOWN;

    printf("socket: %s, local %s, remote %s\n",
           is_known ? ns_role_name(options->facts.role) : "role not given",
           options->local ? options->local : "not given",
           options->remote ? options->remote : "not given");
}

static const char *mismatch_text(enum ns_mismatch mismatch)
{
    switch (mismatch) {
    case NS_MATCHES:
        return "matches";
    case NS_MISMATCH_PROCESS:
        return "does not match: \"process\" names other programs";
    case NS_MISMATCH_ARGS:
        return "does not match: \"args\" is not among the arguments";
    case NS_MISMATCH_ROLE:
        return "does not match: \"role\" is another";
    case NS_MISMATCH_LOCAL:
        return "does not match: \"local\" has other addresses or ports";
    case NS_MISMATCH_REMOTE:
        return "does not match: \"remote\" has other addresses or ports";
    }
    return "does not match";
}

static void print_rules(const struct ns_policy *policy, const struct ns_subject *subject,
                        const struct ns_socket_facts *facts, const struct ns_rule *last)
{
    char name[256];

    for (size_t i = 0; i < policy->n_rules; i++) {
        const struct ns_rule *rule = &policy->rules[i];
        enum ns_mismatch mismatch = ns_match_explain(rule, &subject->process, facts);

        printf("%s: %s\n", ns_effect_name(rule, name, sizeof(name)), mismatch_text(mismatch));
        if (rule == last)
            return;
    }
}

static int explain_socket(const struct ns_policy *policy, const struct ns_subject *subject,
                          const struct ns_socket_facts *facts)
{
    struct ns_ruleset set;
    const struct ns_rule *rule;

    if (!policy->enabled) {
        puts("the policy is not enabled: every socket is left alone");
        return NS_EXIT_NO;
    }
    if (ns_ruleset_build(&set, policy, &subject->process) != 0) {
        ns_say("explain", "%s", strerror(ENOMEM));
        return NS_EXIT_ERROR;
    }
    rule = ns_match_socket(&set, facts);
    print_rules(policy, subject, facts, rule);
    if (rule)
        ns_effect_print(rule, facts->role);
    else
        puts("no rule matches: the socket is left alone");
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
    int status = NS_EXIT_ERROR;

    if (!ns_explain_take_options(argc, argv, &options))
        return NS_EXIT_ERROR;
    if (options.help) {
        ns_help_print("explain");
        return NS_EXIT_YES;
    }
    ns_subject_describe(&subject, options.process, options.args, options.n_args);
    print_process(&subject, options.process);
    print_socket(&options);
    if (ns_switched_off())
        puts("warning: NAGLESHIM_OFF is set, so the shim is switched off here");
    if (ns_subject_find_policy(&subject, "explain", options.policy, &found))
        status = explain_socket(found.policy, &subject, &options.facts);
    if (found.origin != NS_POLICY_BUILTIN)
        ns_policy_free((struct ns_policy *)found.policy);
    return status;
}
