/* SPDX-License-Identifier: MIT */
/* Can the shim reach a program, judged from its file: before it runs, and without running it. */
#ifndef NS_REACH_H
#define NS_REACH_H

#include "cli/process/elf.h"

#include <limits.h>
#include <stdbool.h>

enum ns_reach_verdict {
    NS_REACH_YES,
    NS_REACH_UNKNOWN, /* not found, or not readable: execve will have its say */
    NS_REACH_OTHER_MACHINE,
    NS_REACH_GO,
    NS_REACH_PASCAL,
    NS_REACH_STATIC,
    NS_REACH_OTHER_LOADER,
    NS_REACH_SET_ID,
    NS_REACH_CAPABILITIES,
};

struct ns_reach {
    enum ns_reach_verdict verdict;
    char program[PATH_MAX]; /* where the program is; "" if it was not found */
    char file[PATH_MAX];    /* what the kernel loads: program, or the interpreter of a script */
    char loader[PATH_MAX];  /* the program interpreter that file asks for; "" if it has none */
    bool is_script;
    bool by_shell; /* it names no interpreter: execvp hands it to the shell */
    bool is_bun;
    bool by_env; /* the script names env(1), which looks for the interpreter in PATH */
};

/* word is what execvp would be given. Opens files for reading, changes nothing, and judges for the
 * user who asks. Allocates nothing; not async-signal-safe (reads the environment). */
void ns_reach_inspect(const char *word, struct ns_reach *reach);

/* What the kind of file says alone, whatever rights it has; path is its name. */
enum ns_reach_verdict ns_reach_judge_elf(const char *path, const struct ns_elf *elf);

/* The libc that a loader's name stands for ("glibc", "musl"); NULL if it is neither. */
const char *ns_reach_libc(const char *loader);

/* Why not, as the end of a sentence that begins with the file; NULL for YES and UNKNOWN. */
const char *ns_reach_reason(enum ns_reach_verdict verdict);

/* What is to be known of a Bun program, in the same way. */
#define NS_REACH_BUN                                                                               \
    "is a Bun program: the shim sees what it reads and writes, and not its waits, which it makes " \
    "without libc"

#endif
