/* SPDX-License-Identifier: MIT */
/* Owns what `nagleshim run` warns of. It must change nothing, neither environment nor files, and
 * leave no descriptor open. Not async-signal-safe. */
#include "cli/process/forewarn.h"

#include "base/path.h"
#include "cli/cli.h"
#include "cli/policy/directory.h"
#include "cli/process/effect.h"
#include "cli/process/environment.h"
#include "cli/process/wrapper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WARN(...) ns_say("run", "warning: " __VA_ARGS__)

enum { FILES_MOST = 5 }; /* broken files of a directory that are named */

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

    WARN("%s: %s: %s", (const char *)context, ns_effect_name(rule, name, sizeof(name)), text);
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
    char text[PATH_MAX + sizeof(found->where.message) + 32];

    if (!found->policy) {
        WARN("the shim will stand aside, its policy is broken or cannot be read: %s",
             ns_policy_error_text(found, text, sizeof(text)));
        return;
    }
    ns_policy_unused_rules(found->policy, warn_of_rule, found->path);
    if (!found->policy->enabled)
        WARN("%s: \"enabled\" is false: the shim leaves every socket alone", found->path);
    else if (!is_for(found->policy, process))
        WARN("%s: no rule is for %s itself: the shim leaves its sockets alone; what it starts may "
             "have one",
             found->path, ns_path_base(process->exe ? process->exe : process->argv0));
}

struct directory {
    const char *taken; /* the policy of the program that is run, which has been judged */
    unsigned broken;
};

static void judge_other(void *context, const char *path)
{
    static struct ns_policy_found found;
    struct directory *directory = context;
    char text[PATH_MAX + sizeof(found.where.message) + 32];

    if (strcmp(path, directory->taken) == 0)
        return;
    ns_policy_read(path, &found);
    if (found.error == -EINVAL && ++directory->broken <= FILES_MOST)
        WARN("the policy of another program is broken: %s",
             ns_policy_error_text(&found, text, sizeof(text)));
    ns_policy_free((struct ns_policy *)found.policy);
}

/* Policies of other programs: nobody hears of a broken one, as the shim says nothing there. */
static void judge_directory(const char *path, const char *taken)
{
    struct directory directory = {.taken = taken};

    ns_directory_each(path, judge_other, &directory);
    if (directory.broken > FILES_MOST)
        WARN("%u more policies in %s are broken; see 'nagleshim check'",
             directory.broken - FILES_MOST, path);
}

static void warn_of_wrapper(void *context, const char *text)
{
    WARN("the shim may not reach what %s starts: %s", (const char *)context, text);
}

void ns_forewarn_of_reach(const struct ns_reach *reach)
{
    static struct ns_wrapper wrapper;
    const char *reason = ns_reach_reason(reach->verdict);

    if (reason && reach->is_script)
        WARN("the shim will not reach %s: its interpreter %s %s", reach->program, reach->file,
             reason);
    else if (reason)
        WARN("the shim will not reach %s: it %s", reach->program, reason);
    else if (reach->is_script && ns_wrapper_is_shell(reach->file)) {
        ns_wrapper_read(reach->program, &wrapper);
        ns_wrapper_judge(&wrapper, reach->program, warn_of_wrapper, (void *)reach->program);
    }
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
    if (found.origin != NS_POLICY_BUILTIN)
        judge_policy(&found, &subject->process);
    if (found.origin == NS_POLICY_BUILTIN || found.origin == NS_POLICY_IN_DIRECTORY)
        judge_directory(ns_environment_policies(), found.path);
    if (found.origin != NS_POLICY_BUILTIN)
        ns_policy_free((struct ns_policy *)found.policy);
}
