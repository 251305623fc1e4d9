/* SPDX-License-Identifier: MIT */
/* What the files of `nagleshim diagnose` share: what was asked for, and how the watching ended. */
#ifndef NS_DIAGNOSE_H
#define NS_DIAGNOSE_H

#include "cli/diagnose/diagnosis.h"

#include "judge/record.h"

#include <stdbool.h>
#include <sys/types.h>

struct ns_diagnose_options {
    const char *verb; /* in whose name messages are printed */
    char **program;   /* NULL: look at what runs */
    pid_t pid;        /* 0: none was named */
    bool all;
    double seconds;        /* 0: until it ends, or until somebody ends us */
    double interval_ms;    /* 0: as the watch thinks best */
    enum ns_grade fail_on; /* 0: the exit status is the program's own */
    double max_lost_ms;
    const char *json, *page, *policy; /* files to write; NULL: not asked for */
    enum ns_experiment experiment;
    bool outside;
    bool silent; /* no progress */
    bool help;
};

/* Fills options. Returns false when a message has been printed. */
bool ns_diagnose_take_options(int argc, char **argv, struct ns_diagnose_options *options);

/* How the watching ended. */
struct ns_diagnose_end {
    int failure;  /* an exit status, where nothing could be watched; a message has been printed */
    bool running; /* the program was started, and still runs */
    int status;   /* of the program, if it has ended */
    bool interrupted;
    char *notes[4]; /* allocated */
    unsigned n_notes;
};

struct ns_child;

/* Watch what was asked for, until it ends or the time is over, and fill diagnosis. child: the
 * program that was started, and signals: ns_child_signals's. */
void ns_diagnose_watch(const struct ns_diagnose_options *options, struct ns_child *child,
                       int signals, struct ns_diagnosis *diagnosis, struct ns_diagnose_end *end);

__attribute__((format(printf, 2, 3))) void ns_diagnose_note(struct ns_diagnose_end *end,
                                                            const char *format, ...);

/* Where observed processes leave what they see. */
struct ns_observation {
    char directory[1024];          /* private, removed by ns_observe_end; "": nothing is observed */
    int fd;                        /* of it: by its name it could be another one later */
    const char *environment[8];    /* for struct ns_child_options */
    char texts[4][PATH_MAX + 256]; /* of it */
    char *preload;
};

/* Prepare to observe the program from inside. False, with a note why, where that cannot be: then it
 * is watched from outside alone. */
bool ns_observe_begin(const struct ns_diagnose_options *options, struct ns_observation *observation,
                      struct ns_diagnose_end *end);

/* Take what was left there into the diagnosis, in place of what was seen of the same connections
 * from outside. */
void ns_observe_collect(const struct ns_observation *observation, struct ns_diagnosis *diagnosis,
                        struct ns_diagnose_end *end);

/* Remove the directory. */
void ns_observe_end(struct ns_observation *observation);

#endif
