/* SPDX-License-Identifier: MIT */
/* Reads the records that observed processes have left in a directory (judge/record.h), or still
 * write: each process image, each of its connections, and what the judge says of them. Another
 * process wrote them, so nothing in them is believed but what is checked here. Not
 * async-signal-safe; allocates. */
#ifndef NS_RECORDED_H
#define NS_RECORDED_H

#include "judge/record.h"
#include "judge/judge.h"
#include "policy/match.h"

#include <limits.h>
#include <sys/types.h>

/* A connection, or several of a process with the same role and service, one after another. */
struct ns_recorded {
    enum ns_role role;
    struct ns_address local, remote;
    unsigned connections;
    bool nodelay; /* as the program had it last */
    uint64_t writes, requests, waits;
    struct ns_verdict verdict;
    char pattern[128]; /* "write 281, write 480, wait"; that of a stall if there is one; "" if not
                          known */
};

/* A process image: a process that calls execve() makes another one. */
struct ns_recorded_process {
    pid_t pid, parent;
    char name[64];      /* base name of its executable, tame */
    char exe[PATH_MAX]; /* "" if not known */
    uint64_t began;     /* CLOCK_MONOTONIC ns */
    uint64_t tick_ns;
    enum ns_experiment experiment;
    uint64_t events_lost, slots_lost; /* what there was no room for */
    uint64_t looks;
    struct ns_recorded *connections;
    size_t n_connections;
    /* The experiment: how long answers took, in ms, after the waits at which the coin said yes and
     * no. */
    double *treated, *untreated;
    size_t n_treated, n_untreated;
};

struct ns_recorded_all {
    struct ns_recorded_process *processes; /* those that had a TCP connection, by began */
    size_t n_processes;
    size_t n_broken;     /* files that are no record, or one of another version */
    size_t n_unrecorded; /* processes that could make no record: too many, or no room */
};

/* Told of every hold, in the order of each connection's looks. process and connection are those
 * that ns_recorded_read returns, but not complete yet. */
struct ns_recorded_holds {
    void (*hold)(void *context, const struct ns_recorded_process *process,
                 const struct ns_recorded *connection, const struct ns_hold *hold);
    void *context;
};

/* Read every record of a directory, a descriptor of it; holds may be NULL. Returns 0, or -errno
 * where the directory cannot be read or there is no memory; then *all is empty. */
int ns_recorded_read(int directory, struct ns_recorded_all *all,
                     const struct ns_recorded_holds *holds);

void ns_recorded_free(struct ns_recorded_all *all);

#endif
