/* SPDX-License-Identifier: MIT */
/* Owns what is known of a program that does not run. It judges files only and runs nothing. It must
 * use the library's own search for a policy, never a copy of its order. */
#include "cli/program/program.h"

#include "base/path.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "process/open.h"
#include "process/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

enum {
    SCRIPT_LEVELS = 4,      /* interpreters that are scripts themselves, as in the kernel */
    SCRIPT_LINE_MOST = 256, /* BINPRM_BUF_SIZE: how much of a #! line the kernel reads */
};

/* Finds the file that execvp would run: word itself if it has a slash, else the first executable
 * file of that name in PATH. False if there is none; path is then "". */
static bool locate(const char *word, char *path, size_t size)
{
    const char *entry = getenv("PATH");
    struct stat st;
    if (strchr(word, '/')) {
        snprintf(path, size, "%s", word);
        if (stat(path, &st) == 0)
            return true;
    } else if (*word != '\0') {
        if (!entry)
            entry = "/bin:/usr/bin"; /* what glibc's execvp takes */
        for (int length; entry; entry = entry[length] ? entry + length + 1 : NULL) {
            length = (int)strcspn(entry, ":");
            /* POSIX: an empty entry is the working directory. */
            snprintf(path, size, "%.*s/%s", length ? length : 1, length ? entry : ".", word);
            if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0)
                return true;
        }
    }
    path[0] = '\0';
    return false;
}

/* Will the loader ignore LD_PRELOAD because the file gives the process more rights than its user's?
 * The conditions are those under which the kernel sets AT_SECURE. */
static enum ns_reach_verdict judge_rights(const char *path)
{
    struct stat st;
    struct statvfs fs;
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ||
        (statvfs(path, &fs) == 0 && (fs.f_flag & ST_NOSUID)) || stat(path, &st) != 0)
        return NS_REACH_YES;
    if ((st.st_mode & S_ISUID) && st.st_uid != getuid())
        return NS_REACH_SET_ID;
    /* Without the group's execute bit, S_ISGID once meant mandatory locking. */
    if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getgid())
        return NS_REACH_SET_ID;
    if (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0)
        return NS_REACH_CAPABILITIES;
    return NS_REACH_YES;
}

const char *ns_reach_libc(const char *loader)
{
    const char *name = ns_path_base(loader);
    if (fnmatch("ld-musl-*.so*", name, 0) == 0)
        return "musl";
    /* ld-2.31.so, ld.so.1, ld64.so.2, ld-linux-x86-64.so.2, ld-linux-aarch64.so.1 */
    if (fnmatch("ld-[0-9]*.so", name, 0) == 0 || fnmatch("ld.so*", name, 0) == 0 ||
        fnmatch("ld64.so*", name, 0) == 0 || fnmatch("ld-linux*.so*", name, 0) == 0)
        return "glibc";
    return NULL;
}

const char *ns_reach_source(const struct ns_reach *reach, char entry[PATH_MAX])
{
    const char *list = getenv("LD_PRELOAD"), *libc = ns_reach_libc(reach->loader);
    if (list && ns_preload_find(list, entry))
        return "LD_PRELOAD";
    return libc && strcmp(libc, "glibc") == 0 && ns_preload_find_in_file(NS_PRELOAD_FILE, entry)
               ? NS_PRELOAD_FILE
               : NULL;
}

enum ns_reach_verdict ns_reach_judge_elf(const char *path, const struct ns_elf *elf)
{
    if (!elf->native && !elf->narrow)
        return NS_REACH_OTHER_MACHINE;
    if (elf->is_go)
        return NS_REACH_GO;
    /* ld.so itself has no interpreter, and obeys LD_PRELOAD. */
    if (elf->interpreter[0] == '\0' && fnmatch("ld*.so*", ns_path_base(path), 0) != 0)
        return NS_REACH_STATIC;
    if (elf->interpreter[0] != '\0' && !ns_reach_libc(elf->interpreter))
        return NS_REACH_OTHER_LOADER;
    return NS_REACH_YES;
}

enum ns_reach_verdict ns_reach_judge_process(const struct ns_facts *facts)
{
    enum ns_reach_verdict verdict =
        facts->has_elf ? ns_reach_judge_elf(facts->proc.exe, &facts->elf) : NS_REACH_UNKNOWN;
    if (ns_reach_reason(verdict))
        return verdict;
    if (facts->proc.secure)
        return NS_REACH_SECURE;
    return facts->own_calls ? NS_REACH_RAW : verdict;
}

/* "#!/usr/bin/env [-S] [OPTION...] [NAME=VALUE...] WORD": reach->file becomes the path of WORD, or
 * WORD itself if it is not found: then returns false. */
static bool follow_env(struct ns_reach *reach, char *words)
{
    char *rest = NULL;
    char *word = strtok_r(words + (strncmp(words, "-S", 2) == 0 ? 2 : 0), " \t", &rest);
    while (word && (*word == '-' || strchr(word, '=')))
        word = strtok_r(NULL, " \t", &rest);
    reach->by_env = true;
    if (word && locate(word, reach->file, sizeof reach->file))
        return true;
    snprintf(reach->file, sizeof reach->file, "%s", word ? word : "");
    return false;
}

/* reach->file is a script: replace it by its interpreter. Returns false if that is not found. */
static bool follow_script(int fd, struct ns_reach *reach)
{
    char line[SCRIPT_LINE_MOST + 1];
    ssize_t length = pread(fd, line, SCRIPT_LINE_MOST, 0);
    reach->is_script = true;
    line[length > 0 ? length : 0] = '\0';
    if (strncmp(line, "#!", 2) != 0) {
        /* execve fails with ENOEXEC, and execvp then runs the shell. */
        snprintf(reach->file, sizeof reach->file, "/bin/sh");
        return true;
    }
    line[strcspn(line, "\n")] = '\0';
    char *interpreter = line + 2 + strspn(line + 2, " \t");
    char *end = interpreter + strcspn(interpreter, " \t");
    if (*end != '\0')
        *end++ = '\0';
    if (strcmp(ns_path_base(interpreter), "env") == 0)
        return follow_env(reach, end);
    snprintf(reach->file, sizeof reach->file, "%s", interpreter);
    return true;
}

/* Sets the verdict, or returns true if reach->file has become an interpreter to judge. */
static bool judge_file(struct ns_reach *reach)
{
    static struct ns_elf elf;
    struct stat st;
    reach->verdict = NS_REACH_UNKNOWN;
    if (stat(reach->file, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    enum ns_reach_verdict rights = judge_rights(reach->file);
    NS_AUTO_CLOSE int fd = ns_open_regular(AT_FDCWD, reach->file);
    if (fd >= 0 && ns_elf_inspect(fd, &elf) != 0)
        return follow_script(fd, reach);
    /* Set-user-ID programs are often executable but not readable. It is not a script, which must be
     * readable to run. */
    if (rights != NS_REACH_YES)
        reach->verdict = rights;
    if (fd < 0)
        return false;
    memcpy(reach->loader, elf.interpreter, sizeof reach->loader);
    reach->narrow = elf.narrow;
    if (rights == NS_REACH_YES)
        reach->verdict = ns_reach_judge_elf(reach->file, &elf);
    return false;
}

void ns_reach_inspect(const char *word, struct ns_reach *reach)
{
    *reach = (struct ns_reach){.verdict = NS_REACH_UNKNOWN};
    if (!locate(word, reach->program, sizeof reach->program))
        return;
    memcpy(reach->file, reach->program, sizeof reach->file);
    for (int level = 0; level <= SCRIPT_LEVELS && judge_file(reach); level++)
        ;
}

static const struct {
    const char *cause, *reason;
} reasons[] = {
#define NS_REASON(id, cause, text) [NS_REACH_##id] = {cause, text},
#include "cli/program/reasons.def"
#undef NS_REASON
};

const char *ns_reach_reason(enum ns_reach_verdict verdict)
{
    return reasons[verdict].reason;
}

const char *ns_reach_cause(enum ns_reach_verdict verdict)
{
    return reasons[verdict].cause;
}

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

static void print_tried(const char *path, int error)
{
    const char *result = error == 0         ? "taken"
                         : error == -ENOENT ? "not there"
                         : error == -EINVAL ? "invalid"
                                            : ns_policy_error_reason(error);
    cJSON *entry = ns_output_entry("tried");
    ns_output_text(entry, "path", path);
    ns_output_text(entry, "result", result);
    ns_output_line("tried: %s: %s", path, result);
}

static void print_policy(const struct ns_policy_found *found)
{
    const struct ns_policy *policy = found->policy;
    bool is_builtin = found->origin == NS_POLICY_BUILTIN;
    cJSON *object = ns_output_object();
    ns_output_text(object, "policy", is_builtin ? NULL : found->path);
    cJSON_AddBoolToObject(object, "valid", policy != NULL);
    cJSON_AddBoolToObject(object, "enabled", policy && policy->enabled);
    cJSON_AddNumberToObject(object, "n_rules", policy ? (double)policy->n_rules : 0);
    if (!policy)
        ns_output_line("the library is disabled: every socket is left alone");
    else if (is_builtin)
        ns_output_line("policy: built in");
    else
        ns_output_line("policy: %s, %s", found->path, ns_count(policy->n_rules, "rule"));
}

bool ns_subject_find_policy(const struct ns_subject *subject, const char *file,
                            struct ns_policy_found *found)
{
    const struct ns_policy_request request = {
        .policy = getenv("NAGLESHIM_POLICY"),
        .policy_dir = getenv("NAGLESHIM_POLICY_DIR"),
        .argv0 = subject->process.argv0,
        .exe = subject->process.exe,
        .tried = print_tried,
    };
    if (file) {
        ns_policy_read(NS_POLICY_NAMED, file, found, NULL);
        print_tried(found->path, found->error);
    } else {
        ns_policy_find(&request, found);
    }
    if (!found->policy) {
        char text[PATH_MAX + sizeof found->where.message + 32];
        ns_say("%s", ns_policy_error_text(found, text, sizeof text));
    }
    print_policy(found);
    return found->policy != NULL;
}

const char *ns_rule_title(const struct ns_rule *rule)
{
    return rule->name && *rule->name ? ns_words("rule %u \"%s\"", rule->index + 1, rule->name)
                                     : ns_words("rule %u", rule->index + 1);
}

void ns_program_say_not_found(const char *word)
{
    bool has_pid = strcmp(ns_cli_verb, "diagnose") == 0 || strcmp(ns_cli_verb, "doctor") == 0;
    if (has_pid && *word && word[strspn(word, "0123456789")] == '\0')
        ns_say("cannot find '%s' in PATH; for the process with this number write --pid %s", word,
               word);
    else if (access(word, F_OK) == 0)
        ns_say("cannot find '%s' in PATH; for the file here write ./%s", word, word);
    else
        ns_say("cannot find '%s' in PATH", word);
}

int ns_program_say_failure(const char *word, int error)
{
    static struct ns_reach reach;
    ns_reach_inspect(word, &reach);
    const char *missing = reach.loader[0] ? reach.loader : reach.file;
    if (access(missing, F_OK) == 0) /* of a program that may not be read it is not known */
        missing = "its interpreter or loader";
    if (error == ENOENT && reach.program[0] != '\0')
        ns_say("cannot run '%s': %s is missing", word, missing);
    else if (error == ENOENT && !strchr(word, '/'))
        ns_program_say_not_found(word);
    else
        ns_say("cannot run '%s': %s", word, strerror(error));
    return error == ENOENT ? NS_EXIT_NOT_FOUND : NS_EXIT_NOT_EXECUTABLE;
}
