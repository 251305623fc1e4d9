/* SPDX-License-Identifier: MIT */
/* Owns what run, explain and doctor know about a program that does not run. It must use the shim's
 * own search for a policy, never a copy of its order. Not async-signal-safe. */
#include "cli/process/subject.h"

#include "base/path.h"
#include "cli/cli.h"
#include "cli/output.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void ns_subject_describe(struct ns_subject *subject, char *word, char *const *args, unsigned n_args)
{
    struct ns_reach *reach = &subject->reach;
    struct ns_process *process = &subject->process;
    unsigned n = 0;

    ns_reach_inspect(word, reach);
    process->argv0 = word;
    process->execfn = reach->program[0] != '\0' ? reach->program : word;
    process->exe = realpath(reach->file, subject->exe) ? subject->exe : NULL;
    if (reach->is_script) {
        /* The process is the interpreter, with the script as an argument. AT_EXECFN is the script's
         * path, unless the script names env(1). */
        subject->args[n++] = reach->program;
        process->argv0 = reach->file;
        if (reach->by_env) {
            process->execfn = reach->file;
            process->argv0 = ns_path_base(reach->file);
        }
    }
    for (unsigned i = 0; i < n_args && n <= NS_SUBJECT_ARGS_MOST; i++)
        subject->args[n++] = args[i];
    subject->args[n] = NULL;
    process->args = subject->args;
}

static bool is_library_name(const char *path)
{
    const char *base = ns_path_base(path);

    return fnmatch("*.so", base, 0) == 0 || fnmatch("*.so.[0-9]*", base, 0) == 0;
}

bool ns_subject_is_program(const struct ns_reach *reach, const char *command, bool may_be_script)
{
    struct stat st;

    may_be_script = may_be_script && reach->is_script && !reach->by_shell;
    if (stat(reach->program, &st) == 0 && !S_ISREG(st.st_mode))
        ns_say(command, "'%s' is %s, not a program", reach->program,
               S_ISDIR(st.st_mode) ? "a directory" : "a special file");
    else if (!may_be_script && access(reach->program, X_OK) != 0)
        ns_say(command, "'%s' is not executable: %s", reach->program, strerror(errno));
    else if (reach->verdict == NS_REACH_STATIC && is_library_name(reach->file))
        ns_say(command, "'%s' is a library, not a program", reach->file);
    else
        return true;
    return false;
}

static void print_tried(void *context, const char *path, int error)
{
    const char *result = error == 0         ? "taken"
                         : error == -ENOENT ? "not there"
                         : error == -EINVAL ? "invalid"
                                            : ns_policy_error_reason(error);
    cJSON *entry = ns_output_entry("tried");

    (void)context;
    ns_output_text(entry, "path", path);
    ns_output_text(entry, "result", result);
    ns_output_line("tried: %s: %s", path, result);
}

static void print_policy(const struct ns_policy_found *found)
{
    const struct ns_policy *policy = found->policy;
    bool is_builtin = found->origin == NS_POLICY_BUILTIN;

    if (ns_output_is_json()) {
        cJSON *entry = cJSON_AddObjectToObject(ns_output_object(), "policy");

        ns_output_text(entry, "path", is_builtin ? NULL : found->path);
        cJSON_AddBoolToObject(entry, "valid", policy != NULL);
        cJSON_AddBoolToObject(entry, "enabled", policy && policy->enabled);
        cJSON_AddNumberToObject(entry, "rules", policy ? (double)policy->n_rules : 0);
    } else if (!policy) {
        ns_output_line("the shim is disabled: every socket is left alone");
    } else if (is_builtin) {
        ns_output_line("policy: built in");
    } else {
        ns_output_line("policy: %s, %zu rule%s", found->path, policy->n_rules,
                       policy->n_rules == 1 ? "" : "s");
    }
}

bool ns_subject_find_policy(const struct ns_subject *subject, const char *command, const char *file,
                            struct ns_policy_found *found)
{
    const struct ns_policy_request request = {
        .policy = getenv("NAGLESHIM_POLICY"),
        .policy_dir = getenv("NAGLESHIM_POLICY_DIR"),
        .argv0 = subject->process.argv0,
        .exe = subject->process.exe,
    };

    if (file) {
        ns_policy_read(file, found);
        print_tried(NULL, found->path, found->error);
    } else {
        ns_policy_find(&request, found, print_tried, NULL);
    }
    if (!found->policy) {
        char text[PATH_MAX + sizeof found->where.message + 32];

        ns_say(command, "%s", ns_policy_error_text(found, text, sizeof text));
    }
    print_policy(found);
    return found->policy != NULL;
}
