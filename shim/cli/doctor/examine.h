/* SPDX-License-Identifier: MIT */
/* The examination of a running process by `nagleshim doctor`. */
#ifndef NS_EXAMINE_H
#define NS_EXAMINE_H

#include "cli/doctor/findings.h"
#include "process/elf.h"
#include "process/loaded.h"
#include "process/proc.h"

#include <cJSON.h>
#include <limits.h>
#include <stdbool.h>

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
    char policy[PATH_MAX]; /* the file, sanitized; "NAGLESHIM_POLICY"; or "": built in */
    cJSON *rules;          /* those that apply to the process: number, name, send, ack, sockets */
};

/* Examine a process, by its number or that of one of its threads. Prints nothing. With wait, a
 * process that lacks the library is examined again when it is a second old; without, this does not
 * block. 0 or -errno; -ESRCH: there is no such process, or it has ended. Call ns_examine_end in any
 * case. */
int ns_examine(struct ns_examination *examination, pid_t pid, bool wait);
void ns_examine_end(struct ns_examination *examination);

#endif
