/* SPDX-License-Identifier: MIT */
/* What the files of `nagleshim doctor` share: what they find, and how it is kept and printed. */
#ifndef NS_DOCTOR_H
#define NS_DOCTOR_H

#include "process/elf.h"
#include "process/loaded.h"
#include "process/proc.h"

#include <limits.h>
#include <stdbool.h>

enum { NS_FINDINGS_MOST = 16 };

enum ns_finding_kind {
    NS_FINDING_REASON,  /* why the library does nothing */
    NS_FINDING_UNKNOWN, /* why its status is unknown */
    NS_FINDING_WARNING, /* it works, but something may be wrong */
};

struct ns_findings {
    unsigned n;
    struct ns_finding {
        enum ns_finding_kind kind;
        const char *cause; /* a word, in --json; NULL: none */
        const char *text;
    } list[NS_FINDINGS_MOST];
};

/* Add a finding, unless the list is full. text: by ns_words. */
void ns_findings_add(struct ns_findings *findings, enum ns_finding_kind kind, const char *cause,
                     const char *text);

/* The finding that decides: the first reason, or the first one of kind UNKNOWN; NULL if the library
 * works. */
const struct ns_finding *ns_findings_verdict(const struct ns_findings *findings);

/* "yes", "no" or "unknown": does the library work? */
const char *ns_findings_works(const struct ns_findings *findings);

/* Print warnings, then reasons. */
void ns_findings_print(const struct ns_findings *findings);

/* Print the verdict, as the last line. Returns the exit status. */
int ns_findings_conclude(const char *works, const char *text);

/* `nagleshim doctor PROGRAM`: prints what it finds about a program, whose words these are. Returns
 * the exit status. */
int ns_doctor_program(char **words, unsigned n);

/* "loader: FILE (libc)", unless loader is "". */
void ns_findings_print_loader(const char *loader);

/* --- examine.c: a running process ------------------------------------------------------------- */

/* A running process: all that was found, as data. */
struct ns_examination {
    struct ns_proc proc;
    struct ns_loaded loaded;
    bool has_elf; /* the program's file could be read */
    struct ns_elf elf;
    struct ns_findings findings;
    unsigned sockets; /* descriptors of TCP sockets */
    /* if the library is loaded and its status could be read */
    bool has_policy;
    char policy[PATH_MAX]; /* the file; "NAGLESHIM_POLICY"; or "": built in */
};

struct ns_examined_rule {
    bool applies; /* to the process */
    char name[128];
    const char *send, *ack; /* NULL: unknown */
    unsigned sockets;       /* that have got it */
};

/* Examine a process, by its number or that of one of its threads. Prints nothing. With wait, a
 * process that lacks the library is examined again when it is a second old; without, this does not
 * block. 0 or -errno; -ESRCH: there is no such process, or it has ended. Call ns_proc_close
 * for its proc in any case. */
int ns_examine(struct ns_examination *examination, pid_t pid, bool wait);

/* Reads rule number i of the policy that the library has there, if it is enabled. False: there is
 * no such rule, or it cannot be read. */
bool ns_examine_rule(const struct ns_examination *examination, unsigned i,
                     struct ns_examined_rule *rule);

#endif
