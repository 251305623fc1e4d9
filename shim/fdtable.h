/* SPDX-License-Identifier: MIT */
/* What is known of each descriptor. One slot per number, found with two loads and no lock; the
 * table is sparse, and it may be wrong: closes reach the kernel without us. So every state but
 * NS_FD_OTHER is a guess that the engine must survive, and NS_FD_OTHER (pass everything through) is
 * always safe.
 *
 * A slot's members are written by whichever thread uses the socket, with relaxed stores: each is a
 * hint of its own, none guards another, and those that are read together are checked by the
 * kernel's answer. Members that do need an order say so. Everything here is async-signal-safe. */
#ifndef NS_FDTABLE_H
#define NS_FDTABLE_H

#include "mutant.h"
#include "sockopt.h"
#include "tempo.h"

#include <stdatomic.h>

enum ns_fd_kind {
    NS_FD_OTHER = 0, /* not ours, or left alone: zero, so that untouched memory says it */
    NS_FD_ASK,       /* a TCP socket that came from outside: choose its rule at its first use */
    NS_FD_FRESH,     /* made by socket(), neither connected nor listening */
    NS_FD_LISTENER,
    NS_FD_RULED, /* a connection that a rule governs */
    /* From here on: one whose bytes are gathered in our own memory, gather.h. */
    NS_FD_GATHERS, /* by this descriptor */
    NS_FD_READS,   /* by another, and nobody has written by this one */
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
    _Atomic uint8_t no_hold;        /* never hold bytes here: stdio, kTLS, shared, ... */
    _Atomic uint8_t lowat;          /* SO_RCVLOWAT above 1: a short read is not ours to make */
    _Atomic uint8_t listener;       /* bits below */
    _Atomic uint8_t ack_owed;       /* data was read, and nothing sent since */
    _Atomic uint8_t spun;           /* EAGAIN was returned since then: a second one is a wait */
    _Atomic uint8_t heard;          /* data was read since the last push */
    _Atomic uint8_t domain;         /* AF_INET or AF_INET6 */
    _Atomic uint8_t delack;         /* TCP_DELACK_MAX_US is ours, not the application's */
    _Atomic uint32_t ack_tempo;     /* struct ns_ack_tempo: how urgent an ACK is */
    /* ns_thread.epoch of the last write: it differs once that thread has waited, and for another
     * thread. 0: the peer has answered since. */
    _Atomic uint32_t burst_epoch;
    _Atomic uint32_t lister; /* the thread on whose list of debts this descriptor is; 0: none */
    _Atomic uint32_t twin;   /* the same for all descriptors of one socket; 0: it has one */
    /* struct ns_tempo: the writes of the burst, and of those before it. flush-before-read only
     * counts the writes since the last push. NS_FD_READS: the descriptor that gathers. */
    _Atomic uint64_t tempo;
    /* CLOCK_MONOTONIC nanoseconds by which held bytes are to leave; 0: none are held. Stored after
     * the call that held them and cleared before the push, sequentially consistent both, so that a
     * push either covers the bytes or leaves the mark. */
    _Atomic uint64_t held_until;
    const struct ns_rule *_Atomic rule;
    struct ns_view *_Atomic view; /* NULL until a rule rewrites an option here */
};
_Static_assert(sizeof(struct ns_sock) == 64, "one cache line per socket");

/* held_until: overdue, and somebody is pushing, or was until a signal handler jumped away. */
enum { NS_HELD_OVERDUE = 1 };

enum { NS_CORKS_OPTION = 1, NS_CORKS_FLAG = 2 }; /* app_corks */

/* listener */
enum {
    NS_LISTENER_SETTLED = 1, /* its rule is every accepted socket's rule */
    NS_LISTENER_ADOPTED = 2, /* from outside: its queue may be older than our options */
    /* Not a listener: another descriptor or process may write to it, too. */
    NS_CONNECTION_SHARED = 4,
    /* A duplicate of ours, by which a rest leaves after the close: see gather_socket.c. */
    NS_CONNECTION_LEAVING = 8,
};

enum {
    NS_FD_CHUNK = 1024,  /* slots a chunk */
    NS_FD_CHUNKS = 1024, /* so descriptors up to 1 048 575; higher ones pass */
};

/* 0 until start-up is done, and again once we stand aside: then no descriptor has a slot. */
extern _Atomic unsigned ns_fd_limit;
extern struct ns_sock *_Atomic ns_fd_chunks[NS_FD_CHUNKS];

/* The slot of fd, NULL if it has none (then it is NS_FD_OTHER). */
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

/* The members of tempo, taken and put back together. Two threads that write to one socket may lose
 * a count, which costs a segment. */
static inline struct ns_tempo ns_tempo_of(const struct ns_sock *slot)
{
    union {
        uint64_t word;
        struct ns_tempo tempo;
    } both = {.word = NS_GET(slot, tempo)};
    return both.tempo;
}

static inline void ns_tempo_put(struct ns_sock *slot, struct ns_tempo tempo)
{
    union {
        struct ns_tempo tempo;
        uint64_t word;
    } both = {.tempo = tempo};
    NS_PUT(slot, tempo, both.word);
}

static inline struct ns_ack_tempo ns_ack_tempo_of(const struct ns_sock *slot)
{
    union {
        uint32_t word;
        struct ns_ack_tempo tempo;
    } both = {.word = NS_GET(slot, ack_tempo)};
    return both.tempo;
}

static inline void ns_ack_tempo_put(struct ns_sock *slot, struct ns_ack_tempo tempo)
{
    union {
        struct ns_ack_tempo tempo;
        uint32_t word;
    } both = {.tempo = tempo};
    NS_PUT(slot, ack_tempo, both.word);
}

/* The slot of fd, its chunk allocated if need be; NULL if fd is out of range, there is no memory,
 * or we stand aside. */
struct ns_sock *ns_fd_make(int fd);

/* Forget what the slot says: NS_FD_OTHER, nothing owed, nothing held. */
void ns_fd_reset(struct ns_sock *slot);

/* Start-up: open the table, up to limit descriptors (at most what it can hold). */
void ns_fd_open(unsigned limit);

/* Calls visit for every slot that is not NS_FD_OTHER. */
void ns_fd_each(void (*visit)(int fd, struct ns_sock *slot, void *context), void *context);

/* slot has changed in what the application may change on a socket (app_ members, nonblock, lowat,
 * no_hold): the other descriptors of the same socket in this process get it too. */
void ns_fd_share(struct ns_sock *slot);

/* source and slot are descriptors of one socket from now on. */
void ns_fd_twin(struct ns_sock *source, struct ns_sock *slot);

/* The descriptor *fd of slot is NS_FD_READS: what is read by it is accounted for where its socket
 * is written to. Returns that slot, and its descriptor in *fd; or slot, if that one is closed. */
struct ns_sock *ns_fd_original(int *fd, struct ns_sock *slot);

#endif
