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
    struct ns_hold *holds;
    size_t n_holds;
    char pattern[128]; /* "write 281, write 480, wait", of a stall if there is one; "": unknown */
};

/* A process until it ends or calls execve. */
struct ns_recorded_process {
    pid_t pid;
    char name[64];      /* base name of its executable, printable */
    char exe[PATH_MAX]; /* "": unknown */
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
    struct ns_recorded_process *processes; /* with a TCP connection, in order of their begin */
    size_t n_processes;
    size_t n_broken;     /* files that are not a record of this version */
    size_t n_unrecorded; /* processes without a record: too many, or no room */
};

/* Read every record in an open directory. 0, or -errno if the directory cannot be read or there is
 * no memory; then *all is empty. Without memory for them, holds are missing. */
int ns_recorded_read(int directory, struct ns_recorded_all *all);

void ns_recorded_free(struct ns_recorded_all *all);

#endif
