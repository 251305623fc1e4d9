/* SPDX-License-Identifier: MIT */
/* What the files of `nagleshim diagnose` share: its options, and the two views. */
#ifndef NS_DIAGNOSE_H
#define NS_DIAGNOSE_H

#include "cli/diagnose/rows.h"
#include "cli/output.h"

#include <stdbool.h>
#include <sys/types.h>

struct ns_diagnose_options {
    char **program; /* NULL: watch running processes */
    pid_t pid;      /* 0: none */
    bool all;
    double seconds;        /* 0: until the program ends or a signal comes */
    enum ns_grade fail_on; /* 0: exit with the program's status */
    double max_lost_ms;
    struct ns_outfile json, page, policy;
    const char *experiment; /* "push", "acknowledge" or NULL */
    bool outside;
};

struct ns_child;

/* Watch until the program ends or the time is over, and fill diagnosis. child: the program, or
 * NULL. If nothing could be watched, returns an exit status after a message; otherwise 0. */
int ns_diagnose_watch(const struct ns_diagnose_options *options, struct ns_child *child,
                      struct ns_diagnosis *diagnosis);

/* The directory in which observed processes leave their records. */
struct ns_observation {
    char directory[1024]; /* removed by ns_observe_end; "": nothing is observed */
    int fd;               /* of it; its name may later be another directory's */
    char *environment[4]; /* for struct ns_child_options */
};

/* Prepare to observe the program from inside. If only watching from outside is possible, the
 * environment is empty, and the diagnosis has a note why. */
void ns_observe_begin(const struct ns_diagnose_options *options, struct ns_observation *observation,
                      struct ns_diagnosis *diagnosis);

/* Add what the records say. They replace rows from outside about the same connections. */
void ns_observe_collect(const struct ns_observation *observation, struct ns_diagnosis *diagnosis);

/* Remove the directory. */
void ns_observe_end(struct ns_observation *observation);

#endif
