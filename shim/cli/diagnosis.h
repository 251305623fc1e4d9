/* SPDX-License-Identifier: MIT */
/* What diagnose, compare and top have found out: rows of connections that have the same process, role
 * and service, so that a client that makes a connection a request is one row. Filled from looks from
 * outside (watch.h) and from the records of observed processes; printed as text, JSON and HTML. */
#ifndef NS_DIAGNOSIS_H
#define NS_DIAGNOSIS_H

#include "judge/judge.h"
#include "policy/match.h"

#include <limits.h>
#include <sys/types.h>

enum ns_source { NS_SOURCE_OUTSIDE, NS_SOURCE_INSIDE };

/* Can a preload cure the process, judged as doctor does? */
struct ns_curable {
    bool yes;
    char reason[256]; /* why not, as doctor says it; "" if yes or not known */
};

struct ns_diagnosed_process {
    pid_t pid;
    char name[64]; /* base name of its executable, tame */
    char exe[PATH_MAX];
    bool has_shim; /* libnagleshim.so is in it, and not only observes */
    struct ns_curable curable;
};

struct ns_diagnosed {
    struct ns_diagnosed_process *process;
    enum ns_source source;
    enum ns_role role;
    struct ns_address service; /* client: the remote end; server: the local end; unknown role: the remote end */
    struct ns_address local, remote; /* of the connection that lost most */
    unsigned connections;
    struct ns_verdict verdict;
    char pattern[128]; /* "write 281, write 480, wait"; "" if not known */
};

/* One hold, for the picture of when it stalled. */
struct ns_diagnosed_hold {
    const struct ns_diagnosed *row;
    struct ns_hold hold;
};

struct ns_diagnosis {
    uint64_t begin, end;   /* CLOCK_MONOTONIC ns */
    double began;          /* CLOCK_REALTIME, seconds */
    uint64_t looks, missed, forgotten, denied;
    enum ns_grade grade;   /* the worst */
    struct ns_diagnosed *rows; /* worst first */
    size_t n_rows;
    struct ns_diagnosed_process *processes;
    size_t n_processes;
    struct ns_diagnosed_hold *holds; /* in the order of time; the first HOLDS_MOST */
    size_t n_holds;
    uint64_t holds_untold; /* further ones */
};

#endif
