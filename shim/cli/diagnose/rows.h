/* SPDX-License-Identifier: MIT */
/* The rows of a diagnosis. A row is all connections of a process with the same role and service, so
 * that a client that opens a connection for each request is one row. Rows are filled from samples
 * from outside (watch/watch.h) and from the records of observed processes (recorded.c), and printed
 * as text, JSON and a page. */
#ifndef NS_ROWS_H
#define NS_ROWS_H

#include "judge/judge.h"
#include "policy/match.h"
#include "watch/watched.h"

#include <limits.h>
#include <sys/types.h>

enum ns_source { NS_SOURCE_OUTSIDE, NS_SOURCE_INSIDE };

struct ns_row_process {
    pid_t pid;
    uint64_t started; /* see struct ns_watched; 0: unknown */
    char name[64];    /* see ns_proc_name */
    char exe[PATH_MAX];
    char words[2048]; /* its arguments, each with a zero byte; "": unknown, or too long */
    size_t words_size;
    bool has_variables; /* of what started it, without which it may not run */
    char unit[128];     /* the systemd service that it belongs to; "": none */
    bool in_container;
    bool is_stuck;                     /* in the kernel, so that nothing else is known */
    bool has_shim;                     /* the library is loaded in it and changes how it sends */
    bool is_reachable;                 /* by a preload */
    const char *unreachable;           /* why not, as doctor says it; NULL if it is, or unknown */
    struct ns_trial trial;             /* of --experiment */
    uint64_t queued_ns, queued_before; /* waited for a CPU: since it was first seen, and before */
    bool has_other_number; /* it is in another pid namespace, with a pid of its own there */
};

/* What one end can do, and how long a stalled request takes without and with it. */
struct ns_cure {
    const char *end;         /* "this end": that of a watched process; "other end" */
    const struct ns_row *at; /* the row of that end; NULL: it was not watched */
    const char *does;        /* "send adaptive", "ack before-wait", or both */
    double from_ms, to_ms;
    bool measured; /* by an experiment; otherwise estimated */
};

/* The connections of a row, or one of them, which is to be added to its row. */
struct ns_row {
    struct ns_row_process *process; /* of this diagnosis */
    enum ns_source source;
    enum ns_role role;
    bool is_peer;                    /* it is the other end of a connection of a watched process */
    struct ns_address local, remote; /* of the connection that lost most */
    unsigned connections;            /* in one that is to be added, 0 counts as 1 */
    struct ns_verdict verdict;
    const char *pattern; /* "write 281, write 480, wait"; NULL: unknown */
    /* Set when it is made: */
    unsigned id;
    struct ns_address service; /* a server's local end; otherwise the remote end; port 0: several
                                * ports */
    uint64_t worst_ns;         /* what the connection that lost most has lost */
    bool is_needless;
    /* Set by ns_diagnosis_finish: */
    const struct ns_trial *trial; /* the experiment with these connections, or NULL */
    bool is_cured;                /* it proves the cure */
    struct ns_conclusion conclusion;
    const struct ns_row *other; /* the row of the other end, or NULL */
    bool is_repeated;           /* it stalls, and so does its other end, an earlier row */
    bool misses;                /* some requests may not have been seen */
    bool counts;                /* its loss is not that of an earlier row */
    bool is_held;               /* the other end stalls and holds what this one waits for */
    bool both_hold;             /* both ends stall: each holds what the other one waits for */
    double own_ms;              /* the part of the loss that this end's holds, or its ACKs, cost */
    struct ns_cure cures[2];    /* of "this end" first */
    unsigned n_cures;
};

struct ns_row_hold {
    unsigned id;              /* of its row */
    const struct ns_row *row; /* set by ns_diagnosis_finish */
    struct ns_hold hold;
};

enum { NS_DIAGNOSIS_HOLDS_MOST = 4096 };

struct ns_diagnosis {
    uint64_t begin, end; /* CLOCK_MONOTONIC ns */
    double began;        /* CLOCK_REALTIME, seconds */
    uint64_t looks, missed, forgotten, denied;
    uint64_t idle; /* connections without traffic, which have no row */
    struct ns_row *rows;
    size_t n_rows;
    unsigned next_id;
    struct ns_row_process **processes;
    size_t n_processes;
    struct ns_row_hold *holds; /* the first NS_DIAGNOSIS_HOLDS_MOST */
    size_t n_holds;
    uint64_t holds_untold; /* further ones */
    const char *notes[8];  /* other facts, a sentence each */
    unsigned n_notes;
    bool interrupted; /* a signal has ended the watching */
    /* Set by ns_diagnosis_finish: */
    enum ns_grade grade; /* the worst of the rows */
    double lost_ms;      /* by all rows; counted once if both ends were watched */
};

/* The process with this pid and start; added with all other fields zero if it is not there. */
struct ns_row_process *ns_diagnosis_process(struct ns_diagnosis *diagnosis, pid_t pid,
                                            uint64_t started);

/* Always adds one: after execve, a process is another program. */
struct ns_row_process *ns_diagnosis_new_process(struct ns_diagnosis *diagnosis, pid_t pid);

/* The row of such a connection, which is made without counts if necessary. Rows move then. */
struct ns_row *ns_diagnosis_row(struct ns_diagnosis *diagnosis, const struct ns_row *connection);

/* Add a connection with its final verdict. */
void ns_diagnosis_add(struct ns_diagnosis *diagnosis, const struct ns_row *connection);

/* Read the records of observed processes (judge/record.h) in an open directory, and add them. The
 * processes may still be writing. Another process wrote the records, so that everything in them is
 * checked. Returns how many files are not a record of this version. */
size_t ns_recorded_read(int directory, struct ns_diagnosis *diagnosis);

/* Add a hold to the row with this id. If there are too many, it is only counted. */
void ns_diagnosis_add_hold(struct ns_diagnosis *diagnosis, unsigned id, const struct ns_hold *hold);

/* Remove the rows that are needless. Call it before ns_diagnosis_finish. */
void ns_diagnosis_drop_needless(struct ns_diagnosis *diagnosis);

/* Add a text that stays. Further ones than fit are left out. */
void ns_diagnosis_note(struct ns_diagnosis *diagnosis, const char *text);
#define NS_NOTE(diagnosis, ...) ns_diagnosis_note(diagnosis, ns_words(__VA_ARGS__))

/* The grade of a row in words: that of its verdict, or "held by the peer". */
const char *ns_row_grade(const struct ns_row *row);

/* Apply the experiments, sort rows (worst first) and holds (by time), and draw the conclusions. */
void ns_diagnosis_finish(struct ns_diagnosis *diagnosis);

void ns_diagnosis_release(struct ns_diagnosis *diagnosis);

#endif
