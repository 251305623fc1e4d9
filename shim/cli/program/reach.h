/* SPDX-License-Identifier: MIT */
/* A program that does not run yet: where it is, whether the library can be preloaded into it, and
 * the process that it will be. */
#ifndef NS_REACH_H
#define NS_REACH_H

#include "process/elf.h"
#include "process/proc.h"
#include "policy/find.h"
#include "policy/match.h"

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
    uint16_t narrow;        /* see ns_elf: 0 if this command's library is for it */
    bool is_script;
    bool by_shell; /* it names no interpreter: execvp runs it with the shell */
    bool by_env;   /* the script names env(1), which searches PATH for the interpreter */
};

/* word is what execvp would get. Opens files for reading and judges for the calling user. */
void ns_reach_inspect(const char *word, struct ns_reach *reach);

/* The verdict from the kind of file alone, without its rights; path is its name. */
enum ns_reach_verdict ns_reach_judge_elf(const char *path, const struct ns_elf *elf);

/* Why the library would not see what a running process does with its sockets, as the end of a
 * sentence that begins with the process; NULL: it would, as far as can be seen. */
const char *ns_reach_running(const struct ns_proc *proc);

/* The libc of a loader, by its name: "glibc", "musl", or NULL for any other. */
const char *ns_reach_libc(const char *loader);

/* Why not, as the end of a sentence that begins with the file; NULL for YES and UNKNOWN. */
const char *ns_reach_reason(enum ns_reach_verdict verdict);

enum { NS_SUBJECT_ARGS_MOST = 1024 }; /* further ones are not matched */

/* What a policy's patterns and the search for a policy see. */
struct ns_subject {
    struct ns_process process;
    struct ns_reach reach;
    char exe[PATH_MAX];
    char *args[NS_SUBJECT_ARGS_MOST + 2];
};

/* word is what execvp would get, args the program's arguments. Both must stay. */
void ns_subject_describe(struct ns_subject *subject, char *word, char *const *args,
                         unsigned n_args);

/* False, after a message, if the file is not a program: a directory, data. With
 * may_be_script, a script with an interpreter need not be executable, as in "python3 job.py". */
bool ns_subject_is_program(const struct ns_reach *reach, bool may_be_script);

/* Find its policy, or read file unless that is NULL. Prints every file tried on stdout and errors
 * on stderr. Returns false if the library would be disabled. */
bool ns_subject_find_policy(const struct ns_subject *subject, const char *file,
                            struct ns_policy_found *found);

/* Says that PATH has no such program. */
void ns_program_say_not_found(const char *word);

/* Says why execvp has failed with this errno. Returns the exit status, 126 or 127. */
int ns_program_say_failure(const char *word, int error);

/* 'rule 2 "quotes"', or 'rule 2' if it has no name; valid until the next call. */
const char *ns_rule_title(const struct ns_rule *rule);

#endif
