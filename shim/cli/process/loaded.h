/* SPDX-License-Identifier: MIT */
/* The library in a running process: is it in its memory, and what does its status section say? */
#ifndef NS_LOADED_H
#define NS_LOADED_H

#include "cli/process/proc.h"

#include "report/status.h"

enum ns_loaded_state {
    NS_LOADED_NO,
    NS_LOADED_UNREADABLE, /* a library of its name is there; error says why no more is known */
    NS_LOADED_STARTING,   /* its start-up has not ended */
    NS_LOADED_BROKEN,     /* the status section is invalid */
    NS_LOADED_VERSION,    /* a status section of a version that this command does not know */
    NS_LOADED_YES,
};

struct ns_loaded {
    enum ns_loaded_state state;
    int error;
    char path[PATH_MAX];     /* sanitized, without " (deleted)" */
    bool deleted;            /* the file was replaced or removed */
    bool denied;             /* memory cannot be read: only names were compared */
    bool observes;           /* libnagleshim-observe.so is there */
    char library[16];        /* the library's version, for VERSION and YES */
    struct ns_status status; /* for YES */
};

/* 0, or -errno if the list of mappings cannot be read. */
int ns_loaded_find(const struct ns_proc *proc, struct ns_loaded *loaded);

enum { NS_LOADED_RULES_MOST = 1000 }; /* further ones are not read */

/* Calls visit for each rule that applies to the process, with its number from 1. 0, or -errno if
 * the remaining ones cannot be read. */
int ns_loaded_each_rule(const struct ns_proc *proc, const struct ns_status *status,
                        void (*visit)(void *context, unsigned number,
                                      const struct ns_status_rule *rule),
                        void *context);

/* What the shim does in a process. */
enum ns_shim {
    NS_SHIM_UNKNOWN,
    NS_SHIM_DENIED,
    NS_SHIM_NO,
    NS_SHIM_UNNAMED, /* memory cannot be read, and no library has its name */
    NS_SHIM_STARTING,
    NS_SHIM_VERSION, /* one that this command does not know */
    NS_SHIM_OFF,
    NS_SHIM_DISABLED,
    NS_SHIM_OBSERVES, /* only the library that observes is there */
    NS_SHIM_READY,    /* no socket has got a rule yet */
    NS_SHIM_WORKS,
};

/* error: of ns_loaded_find. */
enum ns_shim ns_loaded_shim(const struct ns_proc *proc, int error, const struct ns_loaded *loaded);

#endif
