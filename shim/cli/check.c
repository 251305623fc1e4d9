/* SPDX-License-Identifier: MIT */
/* Owns `nagleshim check`: it reads policies as the shim does and says what is wrong with them. It
 * must have no opinion of its own: errors and warnings are those of policy.h and trust.h. Not
 * async-signal-safe. */
#include "cli/cli.h"

#include "cli/trust.h"

#include "policy/find.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void print_warning(void *context, const struct ns_rule *rule, const char *text)
{
    const struct ns_policy_found *found = context;

    if (!rule)
        fprintf(stderr, "%s: warning: %s\n", found->path, text);
    else if (rule->name)
        fprintf(stderr, "%s: warning: rule %u \"%s\": %s\n", found->path, rule->index + 1,
                rule->name, text);
    else
        fprintf(stderr, "%s: warning: rule %u: %s\n", found->path, rule->index + 1, text);
}

static void print_distrust(void *context, const char *text)
{
    const char *path = context;

    fprintf(stderr, "%s: warning: it %s\n", path, text);
}

static int report(const struct ns_policy_found *found)
{
    char text[PATH_MAX + sizeof(found->where.message) + 32];
    const struct ns_policy *policy = found->policy;

    if (!policy) {
        fprintf(stderr, "%s\n", ns_policy_error_text(found, text, sizeof(text)));
        return found->error == -EINVAL ? NS_EXIT_NO : NS_EXIT_ERROR;
    }
    if (found->origin == NS_POLICY_BUILTIN) {
        printf(
            "no policy file: the built-in policy is in force (send %s, ack %s, every TCP socket)\n",
            ns_send_name(policy->rules[0].send), ns_ack_name(policy->rules[0].ack));
        return NS_EXIT_YES;
    }
    ns_policy_warnings(policy, print_warning, (void *)found);
    if (found->origin != NS_POLICY_INLINE && strcmp(found->path, "-") != 0)
        ns_trust_judge_path(found->path, geteuid(), print_distrust, (void *)found->path);
    printf("%s: valid, %zu rule%s%s\n", found->path, policy->n_rules,
           policy->n_rules == 1 ? "" : "s",
           policy->enabled ? "" : ", not enabled: every socket is left alone");
    return NS_EXIT_YES;
}

static int check_file(const char *file)
{
    static struct ns_policy_found found;
    int status;

    ns_policy_read(file, &found);
    status = report(&found);
    ns_policy_free((struct ns_policy *)found.policy);
    return status;
}

/* The policy of a process that no file of the directory is named after. */
static int check_here(void)
{
    static struct ns_policy_found found;
    const struct ns_policy_request request = {.policy = getenv("NAGLESHIM_POLICY"),
                                              .policy_dir = getenv("NAGLESHIM_POLICY_DIR")};
    int status;

    if (ns_switched_off())
        ns_say("check", "warning: NAGLESHIM_OFF is set, so the shim is switched off");
    ns_policy_find(&request, &found, NULL, NULL);
    status = report(&found);
    if (found.origin != NS_POLICY_BUILTIN)
        ns_policy_free((struct ns_policy *)found.policy);
    return status;
}

int ns_check_main(int argc, char **argv)
{
    static const struct option known[] = {{"help", no_argument, NULL, NS_OPTION_HELP}, {0}};
    int option, worst = NS_EXIT_YES;

    opterr = 0;
    while ((option = getopt_long(argc, argv, ":", known, NULL)) != -1) {
        if (option == NS_OPTION_HELP) {
            ns_help_print("check");
            return NS_EXIT_YES;
        }
        ns_say_option("check", argv, option);
        return NS_EXIT_ERROR;
    }
    if (optind >= argc)
        return check_here();
    for (int i = optind; i < argc; i++) {
        int status = check_file(argv[i]);

        worst = status > worst ? status : worst;
    }
    return worst;
}
