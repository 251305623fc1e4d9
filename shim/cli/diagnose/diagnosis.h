/* SPDX-License-Identifier: MIT */
/* What diagnose, compare and top have found out: rows of connections that have the same process,
 * role and service, so that a client that makes a connection a request is one row. Filled from
 * looks from outside (watch.h) and from the records of observed processes; printed as text, JSON
 * and HTML. */
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
    uint64_t started; /* with its pid, which process it is; 0: not known */
    char name[64];    /* as ns_proc_name says it */
    char exe[PATH_MAX];
    bool has_shim; /* libnagleshim.so is in it, and not only observes */
    struct ns_curable curable;
    bool has_other_number; /* for itself: it is in another pid namespace */
    bool is_apart; /* another user's than this command's, or in another root or mount namespace */
};

struct ns_diagnosed_experiment;

struct ns_diagnosed {
    unsigned id; /* in the order of coming */
    const struct ns_diagnosed_process *process;
    enum ns_source source;
    enum ns_role role;
    struct ns_address
        service; /* client: the remote end; server: the local end; unknown role: the remote end */
    struct ns_address local, remote; /* of the connection that lost most */
    uint64_t worst_ns;               /* what that one lost */
    unsigned connections;
    struct ns_verdict verdict;
    char pattern[128]; /* "write 281, write 480, wait"; "" if not known */
    const struct ns_diagnosed_experiment *measured; /* which has shown a cure of it; or NULL */
};

/* One hold, for the picture of when it stalled. */
struct ns_diagnosed_hold {
    unsigned id;                    /* of its row */
    const struct ns_diagnosed *row; /* once ns_diagnosis_finish has put them in order */
    struct ns_hold hold;
};

/* What the coin of --experiment has shown in a process: how long answers took after the waits at
 * which something was done, and after the others. */
struct ns_diagnosed_experiment {
    const struct ns_diagnosed_process *process;
    const char *what; /* "push", "acknowledge" */
    size_t done, left;
    double done_ms, left_ms; /* medians; 0 if there were none */
    double p;                /* that chance makes such a difference */
};

/* A difference that chance makes less often than this is believed. */
#define NS_DIAGNOSIS_P_BELIEVED 0.01

enum { NS_EXPERIMENTS_MOST = 16 };

struct ns_diagnosis {
    uint64_t begin, end; /* CLOCK_MONOTONIC ns */
    double began;        /* CLOCK_REALTIME, seconds */
    uint64_t looks, missed, forgotten, denied;
    uint64_t idle;             /* connections without traffic, which have no row */
    enum ns_grade grade;       /* the worst */
    struct ns_diagnosed *rows; /* worst first */
    size_t n_rows;
    unsigned next_id;
    struct ns_diagnosed_process **processes;
    size_t n_processes;
    struct ns_diagnosed_hold *holds; /* in the order of time; the first NS_DIAGNOSIS_HOLDS_MOST */
    size_t n_holds;
    struct ns_diagnosed_experiment experiments[NS_EXPERIMENTS_MOST]; /* the first ones */
    size_t n_experiments;
    uint64_t holds_untold; /* further ones */
};

enum { NS_DIAGNOSIS_HOLDS_MOST = 4096 };

/* One connection, to be added to its row. */
struct ns_diagnosed_connection {
    const struct ns_diagnosed_process *process; /* of this diagnosis */
    enum ns_source source;
    enum ns_role role;
    struct ns_address local, remote;
    unsigned connections; /* of which this is the verdict; 0 is 1 */
    const struct ns_verdict *verdict;
    const char *pattern; /* "" if not known */
};

/* A process of the diagnosis, all zero but for its pid and when it was started (state.h, 0: not
 * known), or the one that is there already; NULL if there is no memory. */
struct ns_diagnosed_process *ns_diagnosis_process(struct ns_diagnosis *diagnosis, pid_t pid,
                                                  uint64_t started);

/* Another one, whatever pids are there: execve makes another program of a process. */
struct ns_diagnosed_process *ns_diagnosis_new_process(struct ns_diagnosis *diagnosis, pid_t pid);

/* Fill it from /proc while it is there: its name, whether the shim is in it, whether a preload can
 * reach it. What cannot be read stays as it is. */
void ns_diagnosed_process_look(struct ns_diagnosed_process *process);

/* The id of the row that such a connection belongs to, made if there is none; or -ENOMEM. verdict
 * is not looked at. */
int ns_diagnosis_row(struct ns_diagnosis *diagnosis,
                     const struct ns_diagnosed_connection *connection);

/* Add it, when all is known of it. The id of its row, or -ENOMEM. */
int ns_diagnosis_add(struct ns_diagnosis *diagnosis,
                     const struct ns_diagnosed_connection *connection);

/* A hold of the row that has this id; one too many is counted. */
void ns_diagnosis_add_hold(struct ns_diagnosis *diagnosis, unsigned id, const struct ns_hold *hold);

/* Take away the rows for which this is true, and their holds. Before ns_diagnosis_finish. */
void ns_diagnosis_drop(struct ns_diagnosis *diagnosis,
                       bool (*drop)(const struct ns_diagnosis *diagnosis,
                                    const struct ns_diagnosed *row));

/* The row of the same connections' other end, where that process was looked at, too. */
const struct ns_diagnosed *ns_diagnosis_other_end(const struct ns_diagnosis *diagnosis,
                                                  const struct ns_diagnosed *row);

/* After the last: what experiments have shown has the last word on their processes' rows; the rows
 * worst first, the holds in the order of time, the grade of all. */
void ns_diagnosis_finish(struct ns_diagnosis *diagnosis);

void ns_diagnosis_release(struct ns_diagnosis *diagnosis);

#endif
