/* SPDX-License-Identifier: MIT */
/* Can the library be preloaded into a program? Judged from its file, before it runs. */
#ifndef NS_REACH_H
#define NS_REACH_H

#include "cli/process/elf.h"

#include <limits.h>
#include <stdbool.h>

enum ns_reach_verdict {
    NS_REACH_YES,
    NS_REACH_UNKNOWN, /* not found or not readable: execve decides */
    NS_REACH_OTHER_MACHINE,
    NS_REACH_GO,
    NS_REACH_STATIC,
    NS_REACH_OTHER_LOADER,
    NS_REACH_SET_ID,
    NS_REACH_CAPABILITIES,
};

struct ns_reach {
    enum ns_reach_verdict verdict;
    char program[PATH_MAX]; /* the program's path; "" if it was not found */
    char file[PATH_MAX];    /* what the kernel loads: program, or the interpreter of a script */
    char loader[PATH_MAX];  /* the ELF interpreter of file; "" if it has none */
    bool is_script;
    bool by_shell; /* it names no interpreter: execvp runs it with the shell */
    bool by_env;   /* the script names env(1), which searches PATH for the interpreter */
};

/* word is what execvp would get. Opens files for reading and judges for the calling user. Not
 * async-signal-safe (reads the environment). */
void ns_reach_inspect(const char *word, struct ns_reach *reach);

/* The verdict from the kind of file alone, without its rights; path is its name. */
enum ns_reach_verdict ns_reach_judge_elf(const char *path, const struct ns_elf *elf);

/* The libc of a loader, by its name: "glibc", "musl", or NULL for any other. */
const char *ns_reach_libc(const char *loader);

/* Why not, as the end of a sentence that begins with the file; NULL for YES and UNKNOWN. */
const char *ns_reach_reason(enum ns_reach_verdict verdict);

#endif
