/* SPDX-License-Identifier: MIT */
/* The library in a running process: is it in its memory, and what does its status section say? */
#ifndef NS_LOADED_H
#define NS_LOADED_H

#include "process/preload.h"
#include "process/proc.h"
#include "report/status.h"

enum ns_shim {
    NS_SHIM_UNKNOWN,  /* unreadable or invalid; or ready, but it has seen no TCP socket yet */
    NS_SHIM_DENIED,   /* this user may not read it */
    NS_SHIM_STUCK,    /* the process is stuck in the kernel */
    NS_SHIM_NO,       /* not loaded, or the program makes its system calls itself */
    NS_SHIM_UNNAMED,  /* not all files in memory were read, and no library has its name */
    NS_SHIM_STARTING, /* its start-up has not ended */
    NS_SHIM_VERSION,  /* a status section of a version that this command does not know */
    NS_SHIM_OFF,
    NS_SHIM_DISABLED,
    NS_SHIM_OBSERVES, /* only libnagleshim-observe.so is there */
    NS_SHIM_CURED,    /* of top: not WORKS, but the kernel cures its control group */
    NS_SHIM_WORKS,    /* ready */
};

struct ns_loaded {
    enum ns_shim shim;
    int error;           /* why it is unknown; 0: the status section is invalid */
    char path[PATH_MAX]; /* without " (deleted)"; "": no library is there */
    bool deleted;        /* the file was replaced or removed */
    char library[16];    /* the library's version; "": unknown */
    bool has_status;     /* the library is OFF, DISABLED or ready */
    struct ns_status status;
    bool has_stats;
    struct ns_stats stats;
};

/* 0, or -errno if the list of mappings cannot be read. Fills loaded in any case. */
int ns_loaded_find(const struct ns_proc *proc, struct ns_loaded *loaded);

/* One word for a user. */
const char *ns_shim_name(enum ns_shim shim);

/* Does the library work there, or is it about to? */
static inline bool ns_shim_works(enum ns_shim shim)
{
    return shim == NS_SHIM_STARTING || shim == NS_SHIM_WORKS;
}

#endif
