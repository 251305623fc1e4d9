/* SPDX-License-Identifier: MIT */
/* What is known of a connection that is watched, and how the watching goes. */
#ifndef NS_WATCHED_H
#define NS_WATCHED_H

#include "judge/judge.h"
#include "policy/match.h"

#include <sys/types.h>

/* A connection that was looked at: while it is there, and after it is gone. */
struct ns_watched {
    uint64_t inode;
    pid_t pid;         /* of one process that has it: the one that was found first */
    uint64_t started;  /* when it was, see state.h; 0: not known. Another process may get its pid */
    char name[64];     /* the base name of its executable, as it was when the socket was found */
    enum ns_role role; /* see role.h; it may change until the connection was held */
    struct ns_address local, remote;
    bool ended;
    bool traffic;       /* there was some between the first look and the last */
    uint64_t active_at; /* when there was some last, CLOCK_MONOTONIC ns; 0: not for some time */
    struct ns_judge judge;
    void *owner; /* for the caller, NULL at first: what it has made of the process */
};

/* How the watching went. */
struct ns_watch_tally {
    uint64_t looks;       /* at connections */
    uint64_t rounds;      /* times that the kernel was asked */
    uint64_t missed;      /* rounds that came too late to tell a hold from none */
    uint64_t forgotten;   /* connections without room, or that ended before the second look */
    uint64_t denied;      /* processes that may not be looked into, now */
    uint64_t unread;      /* processes that there was no descriptor or no memory for, now */
    uint64_t busy_ns;     /* processor time */
    unsigned connections; /* now */
    unsigned idle;        /* of those: have done nothing and are not visited */
    unsigned busy;        /* of those: had traffic lately */
    unsigned close;       /* are looked at one by one; by turns if fewer than busy */
};

#endif
