/* SPDX-License-Identifier: MIT */
/* What the files of this folder find out about a program that does not run yet: where it is,
 * whether the library can be preloaded into it, and the process that it will be; where the library
 * is; and whether the environment is right. */
#ifndef NS_PROGRAM_H
#define NS_PROGRAM_H

#include "policy/find.h"
#include "policy/match.h"
#include "process/facts.h"
#include "process/open.h"
#include "process/preload.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* --- environment.c: the variables that the library reads -------------------------------------- */

/* Warns of each unknown variable and each invalid value. */
void ns_environment_judge(void);

/* A sentence if the kill switch NAGLESHIM_OFF is on: anything but empty or "0". NULL: it is not. */
const char *ns_environment_off(void);

/* Reads the policy file that a program of this command will find by NAGLESHIM_POLICY, and sets path
 * to its absolute path. If the policy is broken: false, and one line on stderr. */
bool ns_environment_policy_file(const char *file, char path[PATH_MAX]);

/* --- preload.c: the library, and its place in LD_PRELOAD -------------------------------------- */

/* ns_preload_find in a file. False if it cannot be read, or is not a regular file. */
bool ns_preload_find_in_file(const char *path, char entry[PATH_MAX]);

/* The value of LD_PRELOAD with library added to old, in front of every entry but the sanitizers'
 * libraries. Any other of our libraries in old is dropped: two of them in a process would undo each
 * other. */
const char *ns_preload_join(const char *old, const char *library);

/* Finds the library with this name beside this command, in ../lib, or in the directory it was built
 * for. narrow: ns_elf.narrow of the program; a library for 32-bit programs is searched for in the
 * neighbours of these directories, and in those of the system. Returns NULL, or, if none is found
 * or one that does not load, a sentence that says so, without its full stop. */
const char *ns_preload_locate(const char *name, uint16_t narrow, char path[PATH_MAX]);

/* How many files there are that a loader of the system may take for an entry of LD_PRELOAD that it
 * searches for: a name without a slash, or a path with $LIB. narrow: ns_elf.narrow of its programs.
 * path gets the first one. */
unsigned ns_preload_search(const char *entry, uint16_t narrow, char path[PATH_MAX]);

/* The same for the library that cures. False, after a message, if it is not found. */
bool ns_preload_take(uint16_t narrow, char path[PATH_MAX]);

/* "LD_PRELOAD=" with a library added to this command's own list, behind the sanitizer's library
 * that the program's file needs, if any. It stays. */
char *ns_preload_variable(const char *library, const char *program);

/* --- reach.c: a program ----------------------------------------------------------------------- */

enum ns_reach_verdict {
    NS_REACH_YES,
    NS_REACH_UNKNOWN, /* not found or not readable: execve decides */
#define NS_REASON(id, cause, text) NS_REACH_##id,
#include "cli/program/reasons.def"
#undef NS_REASON
};

struct ns_reach {
    enum ns_reach_verdict verdict;
    char program[PATH_MAX]; /* the program's path; "" if it was not found */
    char file[PATH_MAX];    /* what the kernel loads: program, or the interpreter of a script */
    char loader[PATH_MAX];  /* the ELF interpreter of file; "" if it has none */
    uint16_t narrow;        /* see ns_elf: 0 if this command's library is for it */
    bool is_script;
    bool by_env; /* the script names env(1), which searches PATH for the interpreter */
};

/* word is what execvp would get. Opens files for reading and judges for the calling user. */
void ns_reach_inspect(const char *word, struct ns_reach *reach);

/* What names the library for such a program here, and by which entry: "LD_PRELOAD",
 * NS_PRELOAD_FILE, which only glibc's loader reads, or NULL. */
const char *ns_reach_source(const struct ns_reach *reach, char entry[PATH_MAX]);

/* The verdict from the kind of file alone, without its rights; path is its name. */
enum ns_reach_verdict ns_reach_judge_elf(const char *path, const struct ns_elf *elf);

/* The verdict on a running process: would the library see what it does with its sockets? */
enum ns_reach_verdict ns_reach_judge_process(const struct ns_facts *facts);

/* The libc of a loader, by its name: "glibc", "musl", or NULL for any other. */
const char *ns_reach_libc(const char *loader);

/* Why not, as the end of a sentence that begins with the file or the process; NULL for YES and
 * UNKNOWN. */
const char *ns_reach_reason(enum ns_reach_verdict verdict);

/* The same as a word for --json. */
const char *ns_reach_cause(enum ns_reach_verdict verdict);

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

/* Find its policy, or read file unless that is NULL. Prints every file tried on stdout and errors
 * on stderr. Returns false if the library would be disabled. */
bool ns_subject_find_policy(const struct ns_subject *subject, const char *file,
                            struct ns_policy_found *found);

/* Says that PATH has no such program. */
void ns_program_say_not_found(const char *word);

/* Says why execvp has failed with this errno. Returns the exit status, 126 or 127. */
int ns_program_say_failure(const char *word, int error);

/* 'rule 2 "quotes"', or 'rule 2' if it has no name. */
const char *ns_rule_title(const struct ns_rule *rule);

/* --- trial.c: /bin/true with the library ------------------------------------------------------ */

/* Why another user than root could replace the file, as a sentence: it, or a directory or link on
 * the way to it, is not root's, or others may write to it. NULL: nobody could. */
const char *ns_trial_replaceable(const char *file);

/* Starts /bin/true, in a clean environment with library in LD_PRELOAD; NULL: without LD_PRELOAD.
 * Neither it nor its loader may be replaceable. NULL if it exits with 0 and prints nothing;
 * otherwise the end of a sentence that begins with /bin/true. Takes ten seconds at most. */
const char *ns_trial_start(const char *library);

#endif
