/* SPDX-License-Identifier: MIT */
/* Owns the warnings of `nagleshim run`. It must change neither the environment nor files, and leave
 * no descriptor open. Not async-signal-safe. */
#include "cli/process/forewarn.h"

#include "base/path.h"
#include "cli/cli.h"
#include "cli/policy/effect.h"
#include "cli/process/environment.h"
#include "cli/process/preload.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define WARN(...) ns_say("run", "warning: " __VA_ARGS__)

static void warn_of_environment(void *context, const char *text)
{
    (void)context;
    WARN("%s", text);
}

void ns_forewarn_of_environment(void)
{
    ns_environment_judge(true, warn_of_environment, NULL);
}

static void warn_of_rule(void *context, const struct ns_rule *rule, const char *text)
{
    char name[160];

    WARN("%s: %s: %s", (const char *)context, ns_effect_name(rule, name, sizeof name), text);
}

static bool is_for(const struct ns_policy *policy, const struct ns_process *process)
{
    for (size_t i = 0; i < policy->n_rules; i++)
        if (ns_match_process(&policy->rules[i], process))
            return true;
    return false;
}

static void judge_policy(struct ns_policy_found *found, const struct ns_process *process)
{
    char text[PATH_MAX + sizeof found->where.message + 32];

    if (!found->policy) {
        WARN("the shim does nothing, because its policy is broken or cannot be read: %s",
             ns_policy_error_text(found, text, sizeof text));
        return;
    }
    ns_policy_unused_rules(found->policy, warn_of_rule, found->path);
    if (!found->policy->enabled)
        WARN("%s: \"enabled\" is false: the shim leaves every socket alone", found->path);
    else if (!is_for(found->policy, process))
        WARN("%s: no rule is for %s: the shim leaves its sockets alone; programs that it starts "
             "may have a rule",
             found->path, ns_path_base(process->exe ? process->exe : process->argv0));
}

void ns_forewarn_of_policy(const struct ns_subject *subject)
{
    static struct ns_policy_found found;
    const struct ns_policy_request request = {
        .policy = getenv("NAGLESHIM_POLICY"),
        .policy_dir = getenv("NAGLESHIM_POLICY_DIR"),
        .argv0 = subject->process.argv0,
        .exe = subject->process.exe,
    };

    ns_policy_find(&request, &found, NULL, NULL);
    if (found.origin == NS_POLICY_BUILTIN)
        return;
    judge_policy(&found, &subject->process);
    ns_policy_free((struct ns_policy *)found.policy);
}

/* Does env(1), with these arguments, start its program without the library? The options are those
 * of GNU coreutils; a single "-" means -i. */
static bool env_drops_preload(int argc, char **argv)
{
    static const struct option options[] = {
        {"ignore-environment", no_argument, NULL, 'i'},
        {"unset", required_argument, NULL, 'u'},
        {"chdir", required_argument, NULL, 'C'},
        {"split-string", required_argument, NULL, 'S'},
        {NULL, 0, NULL, 0},
    };
    static const char variable[] = "LD_PRELOAD=";
    char entry[PATH_MAX];
    bool drops = false;
    int option;

    optind = 0; /* start again: run's own options have been read */
    opterr = 0;
    while ((option = getopt_long(argc, argv, "+iu:C:S:v0", options, NULL)) != -1)
        if (option == 'i' || (option == 'u' && strcmp(optarg, "LD_PRELOAD") == 0))
            drops = true;
    if (optind < argc && strcmp(argv[optind], "-") == 0) {
        drops = true;
        optind++;
    }
    for (; optind < argc && strchr(argv[optind], '='); optind++)
        if (strncmp(argv[optind], variable, sizeof variable - 1) == 0)
            drops = !ns_preload_find(argv[optind] + sizeof variable - 1, entry);
    return drops;
}

/* Commands that start another program as another user. Whether they keep LD_PRELOAD depends on
 * their options and configuration. */
static bool changes_user(const char *name)
{
    static const char *const commands[] = {"sudo", "su", "runuser", "doas"};

    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(name, commands[i]) == 0)
            return true;
    return false;
}

void ns_forewarn_of_program(const struct ns_reach *reach, int argc, char **argv)
{
    const char *reason = ns_reach_reason(reach->verdict), *name = ns_path_base(argv[0]);

    if (strcmp(name, "env") == 0 && env_drops_preload(argc, argv))
        WARN("the shim will not reach the program that env starts: env takes the library out "
             "of LD_PRELOAD; put 'nagleshim run' behind env and its options");
    else if (changes_user(name))
        WARN("the shim may not reach the program that %s starts: %s can remove LD_PRELOAD; put "
             "'nagleshim run' behind %s and its options",
             name, name, name);
    else if (reason && reach->is_script)
        WARN("the shim will not reach %s: its interpreter %s %s", reach->program, reach->file,
             reason);
    else if (reason)
        WARN("the shim will not reach %s: it %s", reach->program, reason);
}
