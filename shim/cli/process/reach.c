/* SPDX-License-Identifier: MIT */
/* Owns the verdict whether LD_PRELOAD works for a program. It judges files only; it must not run or
 * print anything. */
#include "cli/process/reach.h"

#include "base/path.h"
#include "cli/process/elf.h"
#include "cli/process/program.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
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

enum ns_reach_verdict ns_reach_judge_elf(const char *path, const struct ns_elf *elf)
{
    if (!elf->native)
        return NS_REACH_OTHER_MACHINE;
    if (elf->is_go)
        return NS_REACH_GO;
    /* ld.so itself has no interpreter, and obeys LD_PRELOAD. */
    if (!elf->has_interpreter && fnmatch("ld*.so*", ns_path_base(path), 0) != 0)
        return NS_REACH_STATIC;
    if (elf->interpreter[0] != '\0' && !ns_reach_libc(elf->interpreter))
        return NS_REACH_OTHER_LOADER;
    return NS_REACH_YES;
}

/* "#!/usr/bin/env [-S] [OPTION...] [NAME=VALUE...] WORD": reach->file becomes the path of WORD. */
static void follow_env(struct ns_reach *reach, char *words)
{
    char *rest = NULL;
    char *word = strtok_r(words, " \t", &rest);

    while (word && (*word == '-' || strchr(word, '='))) {
        /* "-Spython3" */
        if (strncmp(word, "-S", 2) == 0 && word[2] != '\0' && word[2] != '-') {
            word += 2;
            break;
        }
        word = strtok_r(NULL, " \t", &rest);
    }
    reach->by_env = true;
    if (!word || !ns_program_locate(word, reach->file, sizeof reach->file))
        reach->file[0] = '\0';
}

/* reach->file is a script: replace it by its interpreter. */
static void follow_script(int fd, struct ns_reach *reach)
{
    char line[SCRIPT_LINE_MOST + 1];
    ssize_t length = pread(fd, line, SCRIPT_LINE_MOST, 0);

    reach->is_script = true;
    line[length > 0 ? length : 0] = '\0';
    if (strncmp(line, "#!", 2) != 0) {
        /* execve fails with ENOEXEC, and execvp then runs the shell. */
        reach->by_shell = true;
        snprintf(reach->file, sizeof reach->file, "/bin/sh");
        return;
    }
    line[strcspn(line, "\n")] = '\0';
    char *interpreter = line + 2 + strspn(line + 2, " \t");
    char *end = interpreter + strcspn(interpreter, " \t");
    if (*end != '\0')
        *end++ = '\0';
    if (strcmp(ns_path_base(interpreter), "env") == 0)
        follow_env(reach, end);
    else
        snprintf(reach->file, sizeof reach->file, "%s", interpreter);
}

/* Sets the verdict, or returns true if reach->file has become an interpreter to judge. */
static bool judge_file(struct ns_reach *reach)
{
    static struct ns_elf elf;
    struct stat st;

    reach->verdict = NS_REACH_UNKNOWN;
    if (stat(reach->file, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    int fd = open(reach->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        /* Set-user-ID programs are often executable but not readable. It is not a script, which
         * must be readable to run. */
        enum ns_reach_verdict rights = judge_rights(reach->file);

        reach->verdict = rights == NS_REACH_YES ? NS_REACH_UNKNOWN : rights;
        return false;
    }
    bool is_elf = ns_elf_inspect(fd, &elf) == 0;
    if (is_elf) {
        memcpy(reach->loader, elf.interpreter, sizeof reach->loader);
        reach->verdict = judge_rights(reach->file);
        if (reach->verdict == NS_REACH_YES)
            reach->verdict = ns_reach_judge_elf(reach->file, &elf);
    } else {
        follow_script(fd, reach);
    }
    close(fd);
    return !is_elf && reach->file[0] != '\0';
}

void ns_reach_inspect(const char *word, struct ns_reach *reach)
{
    *reach = (struct ns_reach){.verdict = NS_REACH_UNKNOWN};
    if (!ns_program_locate(word, reach->program, sizeof reach->program))
        return;
    memcpy(reach->file, reach->program, sizeof reach->file);
    for (int level = 0; level <= SCRIPT_LEVELS; level++) {
        if (!judge_file(reach))
            return;
    }
}

const char *ns_reach_reason(enum ns_reach_verdict verdict)
{
    switch (verdict) {
    case NS_REACH_OTHER_MACHINE:
        return "is built for another kind of machine than the shim";
    case NS_REACH_GO:
        return "is a Go program, which makes its system calls without libc";
    case NS_REACH_STATIC:
        return "is linked statically, so that nothing can be preloaded into it";
    case NS_REACH_OTHER_LOADER:
        return "has the loader of a libc other than glibc and musl";
    case NS_REACH_SET_ID:
        return "is set-user-ID or set-group-ID, and the loader ignores LD_PRELOAD there";
    case NS_REACH_CAPABILITIES:
        return "has file capabilities, and the loader ignores LD_PRELOAD there";
    case NS_REACH_YES:
    case NS_REACH_UNKNOWN:
        break;
    }
    return NULL;
}
