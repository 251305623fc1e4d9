/* SPDX-License-Identifier: MIT */
/* What is known of each descriptor. One slot per number, found with two loads and no lock; the
 * table is sparse, and it may be wrong: closes reach the kernel without us. So every state but
 * NS_FD_OTHER is a guess that its users must survive, and NS_FD_OTHER (pass everything through) is
 * always safe.
 *
 * A slot's members are written by whichever thread uses the socket, with relaxed stores: each is a
 * hint of its own, none guards another, and those that are read together are checked by the
 * kernel's answer. Members that do need an order say so. Everything here is async-signal-safe. */
#ifndef NS_FDTABLE_H
#define NS_FDTABLE_H

#include "conn/ack.h"
#include "conn/burst.h"
#include "policy/sockopt.h"

#include <stdatomic.h>

enum ns_fd_kind {
    NS_FD_UNKNOWN = 0, /* nobody has asked yet: zero, so that untouched memory says it */
    NS_FD_FILE,        /* a regular file, of which no read waits */
    NS_FD_OTHER,       /* not ours, or left alone */
    /* From here on: a TCP socket. */
    NS_FD_ASK,   /* came from outside: choose its rule at its first use */
    NS_FD_FRESH, /* made by socket(), neither connected nor listening */
    NS_FD_LISTENER,
    NS_FD_RULED, /* a connection that a rule governs */
};

/* The options of one socket that a rule rewrites, by sockopt.h's indexes. Belongs to the slot's
 * number for good, since a reader may be in it. */
struct ns_view {
    _Atomic uint32_t told;     /* bits: the application is answered from value */
    _Atomic uint32_t deferred; /* bits: asked before the rule was known; asked holds the value */
    _Atomic int value[NS_SOCKOPT_COUNT];
    _Atomic int asked[NS_SOCKOPT_COUNT];
};
_Static_assert(NS_SOCKOPT_COUNT <= 32, "one bit per option");

struct ns_sock {
    _Atomic uint8_t kind; /* enum ns_fd_kind */
    _Atomic uint8_t role; /* enum ns_role */
    _Atomic uint8_t send; /* enum ns_send */
    _Atomic uint8_t ack;  /* enum ns_ack */
    _Atomic uint8_t nonblock;
    _Atomic uint8_t app_nodelay;    /* what the application asked of TCP_NODELAY */
    _Atomic uint8_t kernel_nodelay; /* what the kernel has */
    _Atomic uint8_t app_corks;      /* the application's own TCP_CORK, or MSG_MORE: bits below */
    _Atomic uint8_t steady;         /* why bytes are not to be held or joined here: bits below */
    _Atomic uint8_t lowat;          /* SO_RCVLOWAT above 1: a short read is not ours to make */
    _Atomic uint8_t listener;       /* bits below */
    _Atomic uint8_t wrote;          /* a write has left: what follows may find it in flight */
    _Atomic uint8_t joins;          /* Nagle may hold bytes of this burst: see push.h */
    _Atomic uint8_t heard;          /* data was read since the last push */
    _Atomic uint8_t domain;         /* AF_INET or AF_INET6 */
    _Atomic uint8_t delack;         /* TCP_DELACK_MAX_US: enum ns_delack */
    _Atomic uint32_t ack_state;     /* struct ns_ack_state */
    /* ns_thread.epoch of the last write: it differs once that thread has waited, and for another
     * thread. 0: the peer has answered since. */
    _Atomic uint32_t burst_epoch;
    _Atomic uint32_t lister; /* the thread on whose list of debts this descriptor is; 0: none */
    _Atomic uint32_t twin;   /* the same for all descriptors of one socket; 0: it has one */
    _Atomic uint64_t burst;  /* struct ns_burst; under auto-cork struct ns_cork */
    /* auto-cork: CLOCK_MONOTONIC nanoseconds by which held bytes are to leave; 0: none are held.
     * Stored after the call that held them and cleared before the push, sequentially consistent
     * both, so that a push either covers the bytes or leaves the mark. */
    _Atomic uint64_t held_until;
    const struct ns_rule *_Atomic rule;
    struct ns_view *_Atomic view; /* NULL until a rule rewrites an option here */
};
_Static_assert(sizeof(struct ns_sock) == 64, "one cache line per socket");

/* held_until: overdue, and somebody is pushing, or was until a signal handler jumped away. */
enum { NS_HELD_OVERDUE = 1 };

/* steady */
enum {
    NS_STEADY_NEVER = 1,  /* kTLS, or pushing does not work */
    NS_STEADY_UNSEEN = 2, /* others write, too, or the program waits where we do not see it */
};

enum ns_delack {
    NS_DELACK_UNASKED,
    NS_DELACK_OURS,  /* and the application is not told */
    NS_DELACK_THEIRS /* bounded already, by the application or by who made the socket */
};

/* app_corks */
enum {
    NS_CORKS_OPTION = 1,
    NS_CORKS_FLAG = 2,
    NS_CORKS_BYTES = 4, /* something was written since the option was set */
};

/* listener */
enum {
    NS_LISTENER_SETTLED = 1, /* its rule is every accepted socket's rule */
    NS_LISTENER_ADOPTED = 2, /* from outside, and perhaps somebody else's: nothing is set on it */
    NS_HANDED_ON = 4,        /* a connection, by another program, which may have had a shim, too */
};

enum {
    NS_FD_CHUNK = 1024,  /* slots a chunk */
    NS_FD_CHUNKS = 1024, /* so descriptors up to 1 048 575; higher ones pass */
};

/* 0 until start-up is done, and again once we stand aside: then no descriptor has a slot. */
extern _Atomic unsigned ns_fd_limit;
extern struct ns_sock *_Atomic ns_fd_chunks[NS_FD_CHUNKS];

/* The slot of fd, NULL if it has none (then it is NS_FD_UNKNOWN). */
static inline struct ns_sock *ns_fd_slot(int fd)
{
    unsigned number = (unsigned)fd;
    if (number >= atomic_load_explicit(&ns_fd_limit, memory_order_relaxed))
        return NULL;
    struct ns_sock *chunk =
        /* acquire: pairs with the release that published a zeroed chunk */
        atomic_load_explicit(&ns_fd_chunks[number / NS_FD_CHUNK], memory_order_acquire);
    return chunk ? chunk + number % NS_FD_CHUNK : NULL;
}

#define NS_GET(slot, member) atomic_load_explicit(&(slot)->member, memory_order_relaxed)
#define NS_PUT(slot, member, value)                                                                \
    atomic_store_explicit(&(slot)->member, (value), memory_order_relaxed)

/* Is it a TCP socket, as far as is known? */
static inline bool ns_fd_is_tcp(const struct ns_sock *slot)
{
    return NS_GET(slot, kind) > NS_FD_OTHER;
}

/* A member that is a small struct, taken and put back whole. Two threads that use one socket at a
 * time may lose a count, which costs a segment. */
#define NS_WORD_MEMBER(type, name, word_type, member)                                              \
    static inline struct type name(const struct ns_sock *slot)                                     \
    {                                                                                              \
        union {                                                                                    \
            word_type word;                                                                        \
            struct type value;                                                                     \
        } both = {.word = NS_GET(slot, member)};                                                   \
        return both.value;                                                                         \
    }                                                                                              \
    static inline void name##_put(struct ns_sock *slot, struct type value)                         \
    {                                                                                              \
        union {                                                                                    \
            struct type value;                                                                     \
            word_type word;                                                                        \
        } both = {.value = value};                                                                 \
        NS_PUT(slot, member, both.word);                                                           \
    }

NS_WORD_MEMBER(ns_burst, ns_fd_burst, uint64_t, burst)
NS_WORD_MEMBER(ns_cork, ns_fd_cork, uint64_t, burst)
NS_WORD_MEMBER(ns_ack_state, ns_fd_ack, uint32_t, ack_state)

/* The slot of fd, its chunk allocated if need be; NULL if fd is out of range, there is no memory,
 * or we stand aside. */
struct ns_sock *ns_fd_make(int fd);

/* Forget what the slot says: NS_FD_UNKNOWN, nothing owed, nothing held. */
void ns_fd_reset(struct ns_sock *slot);

/* Start-up: open the table, up to limit descriptors (at most what it can hold). */
void ns_fd_open(unsigned limit);

/* Calls visit for every TCP socket. */
void ns_fd_each(void (*visit)(int fd, struct ns_sock *slot, void *context), void *context);

/* slot has changed in what the application may change on a socket (app_ members, nonblock, lowat,
 * steady): the other descriptors of the same socket in this process get it too. */
void ns_fd_share(struct ns_sock *slot);

/* source and slot are descriptors of one socket from now on. */
void ns_fd_twin(struct ns_sock *source, struct ns_sock *slot);

#endif
