/* SPDX-License-Identifier: MIT */
/* The shim in a running process: is it in its memory, and what does its status section say. */
#ifndef NS_LOADED_H
#define NS_LOADED_H

#include "cli/process/proc.h"

#include "report/status.h"

enum ns_loaded_state {
    NS_LOADED_NO,
    NS_LOADED_UNREADABLE, /* it is there by its name; error says why no more can be told */
    NS_LOADED_STARTING,   /* its start-up has not come to an end */
    NS_LOADED_BROKEN,     /* what is at the place of the status section is none */
    NS_LOADED_VERSION,    /* a status section that this command does not know */
    NS_LOADED_YES,
};

struct ns_loaded {
    enum ns_loaded_state state;
    int error;
    char path[PATH_MAX];     /* tame; " (deleted)" is cut off */
    bool deleted;            /* the file has been replaced or removed since */
    bool denied;             /* memory cannot be read: only names were looked at */
    bool observes;           /* libnagleshim-observe.so is there */
    unsigned copies;         /* of the shim */
    unsigned libcs;          /* of libc: more than one after dlmopen */
    char library[16];        /* the shim's version, for VERSION and YES */
    struct ns_status status; /* for YES */
};

/* 0 or -errno, if not even the list of its mappings can be read. */
int ns_loaded_find(const struct ns_proc *proc, struct ns_loaded *loaded);

enum { NS_LOADED_RULES_MOST = 1000 }; /* more than anybody reads */

/* Calls visit for each rule that applies to the process, with its number from 1,
 * NS_LOADED_RULES_MOST at most. 0, or -errno: the others cannot be read. */
int ns_loaded_each_rule(const struct ns_proc *proc, const struct ns_status *status,
                        void (*visit)(void *context, unsigned number,
                                      const struct ns_status_rule *rule),
                        void *context);

/* What the shim does in a process. */
enum ns_shim {
    NS_SHIM_UNKNOWN, /* it could not be told */
    NS_SHIM_DENIED,
    NS_SHIM_NO,
    NS_SHIM_UNNAMED, /* memory cannot be read, and no library has its name */
    NS_SHIM_STARTING,
    NS_SHIM_VERSION, /* another one, that this command does not know */
    NS_SHIM_OFF,
    NS_SHIM_DISABLED,
    NS_SHIM_OBSERVES, /* the library that observes is there, and not the shim */
    NS_SHIM_READY,    /* no rule has taken a socket yet */
    NS_SHIM_WORKS,
};

/* error: of ns_loaded_find. */
enum ns_shim ns_loaded_shim(const struct ns_proc *proc, int error, const struct ns_loaded *loaded);

#endif
