/* SPDX-License-Identifier: MIT */
/* A watched connection, its addresses, and counts about the watching. */
#ifndef NS_WATCHED_H
#define NS_WATCHED_H

#include "judge/judge.h"
#include "policy/match.h"

#include <string.h>
#include <sys/types.h>

/* Are both known and equal? */
static inline bool ns_address_is_same(const struct ns_address *one, const struct ns_address *other)
{
    return one->known && other->known && one->port == other->port &&
           memcmp(&one->addr, &other->addr, sizeof one->addr) == 0;
}

static inline bool ns_address_is_loopback(const struct ns_address *address)
{
    return IN6_IS_ADDR_LOOPBACK(&address->addr) ||
           (IN6_IS_ADDR_V4MAPPED(&address->addr) && address->addr.s6_addr[12] == 127);
}

struct ns_watched {
    uint64_t inode;
    pid_t pid;         /* the first process found to have it */
    uint64_t started;  /* when that was started, see proc.h, since pids are reused; 0: unknown */
    char name[64];     /* the base name of its executable when the socket was found */
    enum ns_role role; /* see ns_table_is_server; may change until the first hold */
    struct ns_address local, remote;
    bool ended;
    bool is_mptcp;      /* it is a subflow of an MPTCP socket */
    bool is_peer;       /* its process is not chosen: it is the other end of a chosen connection */
    bool is_behind;     /* it is another connection of such a process, to a server */
    bool traffic;       /* there was traffic between the first and the last sample */
    uint64_t active_at; /* the last traffic, CLOCK_MONOTONIC ns; 0: none recently */
    struct ns_judge judge;
    void *owner; /* for the caller; NULL at first */
};

/* Called for each hold that has ended; NULL: nobody asks. */
typedef void (*ns_watch_held)(void *context, struct ns_watched *watched,
                              const struct ns_hold *hold);

struct ns_watch_tally {
    uint64_t looks;     /* samples of connections */
    uint64_t rounds;    /* requests to the kernel */
    uint64_t missed;    /* rounds that were too late to recognise a hold */
    uint64_t forgotten; /* connections without room, or with fewer than two samples */
    uint64_t denied;    /* processes that could not be examined, now */
    pid_t refused;      /* the last of them, and why: -errno */
    int refusal;
    uint64_t busy_ns;     /* processor time used */
    unsigned connections; /* now */
    unsigned idle;        /* those without traffic that are not kept */
    unsigned busy;        /* those with recent traffic */
    unsigned sampled;     /* those that are sampled; by turns if fewer than busy */
};

#endif
