/* SPDX-License-Identifier: MIT */
/* Reads the records of observed processes (judge/record.h) and has them judged. The processes may
 * still be writing. Another process wrote the records, so that everything in them is checked. Not
 * async-signal-safe; allocates. */
#ifndef NS_RECORDED_H
#define NS_RECORDED_H

#include "judge/record.h"
#include "judge/judge.h"
#include "policy/match.h"

#include <limits.h>
#include <sys/types.h>

/* One or more successive connections of a process with the same role and service. */
struct ns_recorded {
    enum ns_role role;
    struct ns_address local, remote;
    unsigned connections;
    bool nodelay; /* the program's last setting */
    uint64_t writes, requests, waits;
    struct ns_verdict verdict;
    char pattern[128]; /* "write 281, write 480, wait", of a stall if there is one; "": unknown */
};

/* A process until it ends or calls execve. */
struct ns_recorded_process {
    pid_t pid, parent;
    char name[64];      /* base name of its executable, printable */
    char exe[PATH_MAX]; /* "": unknown */
    uint64_t began;     /* CLOCK_MONOTONIC ns */
    uint64_t tick_ns;
    enum ns_experiment experiment;
    uint64_t events_lost, slots_lost; /* without room in the record */
    uint64_t looks;
    struct ns_recorded *connections;
    size_t n_connections;
    /* The experiment: answer times in ms after waits with and without the push or ACK. */
    double *treated, *untreated;
    size_t n_treated, n_untreated;
};

struct ns_recorded_all {
    struct ns_recorded_process *processes; /* with a TCP connection, by began */
    size_t n_processes;
    size_t n_broken;     /* files that are not a record of this version */
    size_t n_unrecorded; /* processes without a record: too many, or no room */
};

/* Called for every hold, in the order of each connection's samples. process and connection will be
 * in the result, but are not complete yet. */
struct ns_recorded_holds {
    void (*hold)(void *context, const struct ns_recorded_process *process,
                 const struct ns_recorded *connection, const struct ns_hold *hold);
    void *context;
};

/* Read every record in an open directory. holds may be NULL. 0, or -errno if the directory cannot
 * be read or there is no memory; then *all is empty. */
int ns_recorded_read(int directory, struct ns_recorded_all *all,
                     const struct ns_recorded_holds *holds);

void ns_recorded_free(struct ns_recorded_all *all);

#endif
