/* SPDX-License-Identifier: MIT */
/* The shim in a running process: is it in its memory, and what does its status section say. */
#ifndef NS_LOADED_H
#define NS_LOADED_H

#include "cli/proc.h"

#include "conn/status.h"

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
    unsigned copies;         /* of the shim */
    unsigned libcs;          /* of libc: more than one after dlmopen */
    char library[16];        /* the shim's version, for VERSION and YES */
    struct ns_status status; /* for YES */
};

/* 0 or -errno, if not even the list of its mappings can be read. */
int ns_loaded_find(const struct ns_proc *proc, struct ns_loaded *loaded);

#endif
