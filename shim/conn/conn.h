/* SPDX-License-Identifier: MIT */
/* What the library knows of a TCP socket: one object, which every descriptor of it names (fds.h).
 * It may be wrong, because the library does not see every close and option. Its users must tolerate
 * that; NS_CONN_NONE and NS_CONN_ALONE (pass everything through) are always safe.
 *
 * Any thread that uses the socket writes the members, with relaxed stores: each is a hint by
 * itself, none guards another, and the kernel's answer checks those that are read together. Members
 * that need an order say so. The memory of an object only ever holds such objects: a thread that
 * still uses a released one at worst reads and writes hints of another connection.
 *
 * The pure decision tables burst.h and ack.h are in this folder, because their states are members
 * here. Nothing here blocks; errno is unchanged; all is async-signal-safe. */
#ifndef NS_CONN_H
#define NS_CONN_H

#include "base/relaxed.h"
#include "conn/ack.h"
#include "conn/burst.h"
#include "policy/policy.h"
#include "policy/sockopt.h"

#include <stdatomic.h>

enum ns_conn_kind {
    NS_CONN_NONE = 0, /* released: no descriptor names it */
    NS_CONN_ALONE,    /* no rule governs it */
    /* From here on: a socket that a rule governs or may govern. */
    NS_CONN_ASK,   /* came from outside: its rule is chosen at its first use */
    NS_CONN_FRESH, /* made by socket(), neither connected nor listening */
    NS_CONN_LISTENER,
    NS_CONN_RULED, /* a connection that a rule governs */
};

/* The options of one socket that a rule rewrites, indexed as in sockopt.h. */
struct ns_view {
    _Atomic uint32_t hidden;   /* bits: getsockopt answers from value */
    _Atomic uint32_t deferred; /* bits: set before the rule was known, to asked */
    _Atomic int value[NS_SOCKOPT_COUNT];
    _Atomic int asked[NS_SOCKOPT_COUNT];
};
_Static_assert(NS_SOCKOPT_COUNT <= 32, "one bit per option");

struct ns_conn {
    _Atomic uint8_t kind; /* enum ns_conn_kind */
    _Atomic uint8_t role; /* enum ns_role */
    _Atomic uint8_t send; /* enum ns_send */
    _Atomic uint8_t ack;  /* enum ns_ack */
    _Atomic uint8_t nonblock;
    _Atomic uint8_t app_nodelay;    /* the TCP_NODELAY that the application has set */
    _Atomic uint8_t kernel_nodelay; /* the TCP_NODELAY that the kernel has */
    _Atomic uint8_t app_corks;      /* the application's own TCP_CORK, or MSG_MORE: bits below */
    _Atomic uint8_t immediate;      /* why bytes must not be held or joined: bits below */
    _Atomic uint8_t lowat;          /* SO_RCVLOWAT above 1: no read without waiting */
    _Atomic uint8_t origin;         /* bits below */
    _Atomic uint8_t wrote;          /* something was sent, and may be in flight */
    _Atomic uint8_t joins;          /* Nagle's algorithm may hold bytes of this burst */
    _Atomic uint8_t heard;          /* data was read since the last push */
    _Atomic uint8_t whole;          /* struct ns_whole; for a listener: generation (process.h) */
    _Atomic uint8_t delack;         /* TCP_DELACK_MAX_US: enum ns_delack */
    _Atomic uint32_t ack_state;     /* struct ns_ack_state */
    /* ns_thread.epoch at the last write. Differs from a thread's epoch if that thread has waited
     * since, or did not write. 0: the peer has answered since. */
    _Atomic uint32_t burst_epoch;
    _Atomic uint32_t listed_by;  /* token of the thread on whose list it is; 0: none */
    _Atomic uint32_t references; /* descriptors that name it; 0: it is free */
    union {                      /* the state from one write to the next, by send */
        _Atomic uint64_t burst;  /* adaptive and flush-before-read: struct ns_burst */
        _Atomic uint64_t cork;   /* auto-cork: struct ns_cork */
    };
    /* auto-cork: CLOCK_MONOTONIC nanoseconds after which held bytes are late; 0: none are held. It
     * is stored after the call that held them and cleared before the push. Both stores are
     * sequentially consistent, so that a push either covers the bytes or leaves the mark. */
    _Atomic uint64_t held_until;
    const struct ns_rule *_Atomic rule;
    /* NULL until a rule rewrites an option here. Never freed, since a thread may be reading it. */
    struct ns_view *_Atomic view;
};
_Static_assert(sizeof(struct ns_conn) == 64, "one cache line per connection");

/* held_until: bytes are about to be held or pushed, or a signal handler has jumped out of that. */
enum { NS_HELD_PUSHING = 1 };

/* joins: they are being pushed, or a signal handler has jumped out of that. Otherwise 0 or 1. */
enum { NS_JOINS_PUSHING = 2 };

/* immediate */
enum {
    NS_IMMEDIATE_NO_PUSH = 1, /* kTLS, or pushing does not work */
    NS_IMMEDIATE_LATE = 4,    /* held bursts were late here, or on other connections */
    NS_IMMEDIATE_UNSEEN = 2,  /* something else writes, too, or the program waits unseen */
};

enum ns_delack {
    NS_DELACK_UNASKED,
    NS_DELACK_OURS,  /* limited by the library, and hidden from the application */
    NS_DELACK_THEIRS /* limited by the application or by the process that made the socket */
};

/* app_corks */
enum {
    NS_CORKS_OPTION = 1,
    NS_CORKS_FLAG = 2,
    NS_CORKS_BYTES = 4, /* something was written since the option was set */
};

/* origin */
enum {
    NS_LISTENER_SETTLED = 1, /* a listener whose rule applies to every connection it accepts */
    NS_LISTENER_ADOPTED = 2, /* a listener that another process may use: nothing is set there */
    NS_HANDED_ON = 4,        /* from another program, which may have had the library, too */
    NS_COUNTED = 8,          /* TCP_NODELAY was counted in the report */
    NS_RING_READS = 16,      /* liburing has been given a read since the last write */
    NS_WAITS_UNSEEN = 32,    /* the program waits unseen, after a read that found nothing */
    NS_EXPECTED = 64,        /* what its rule sets was set at socket(), and counted */
    NS_READS_AGAIN = 128, /* reads twice without a wait; and with NS_WAITS_UNSEEN: waits between */
};

/* Does a rule govern the socket, or may one? */
static inline bool ns_conn_is_ours(const struct ns_conn *conn)
{
    return NS_GET(conn, kind) > NS_CONN_ALONE;
}

/* Access to a member that is a small struct, as one word. Two threads that use a socket at the same
 * time may lose a count, which costs a segment. */
#define NS_WORD_MEMBER(type, name, word_type, member)                                              \
    static inline struct type name(const struct ns_conn *conn)                                     \
    {                                                                                              \
        union {                                                                                    \
            word_type word;                                                                        \
            struct type value;                                                                     \
        } both = {.word = NS_GET(conn, member)};                                                   \
        return both.value;                                                                         \
    }                                                                                              \
    static inline void name##_put(struct ns_conn *conn, struct type value)                         \
    {                                                                                              \
        union {                                                                                    \
            struct type value;                                                                     \
            word_type word;                                                                        \
        } both = {.value = value};                                                                 \
        NS_PUT(conn, member, both.word);                                                           \
    }

NS_WORD_MEMBER(ns_burst, ns_conn_burst, uint64_t, burst)
NS_WORD_MEMBER(ns_cork, ns_conn_cork, uint64_t, cork)
NS_WORD_MEMBER(ns_ack_state, ns_conn_ack, uint32_t, ack_state)
NS_WORD_MEMBER(ns_whole, ns_conn_whole, uint8_t, whole)

/* The TCP_NODELAY that the kernel should have under the connection's rule. */
static inline int ns_conn_wants_nodelay(const struct ns_conn *conn)
{
    return ns_send_modes[NS_GET(conn, send)].nodelay || NS_GET(conn, app_nodelay);
}

/* What is pending on a connection. */
enum { NS_PENDING_PUSH = 1, NS_PENDING_ACK = 2, NS_PENDING_ALL = 3 };

static inline unsigned ns_conn_pending(struct ns_conn *conn)
{
    unsigned kinds = 0;
    if (NS_GET(conn, joins) || atomic_load(&conn->held_until))
        kinds = NS_PENDING_PUSH;
    if (ns_ack_is_pending(ns_conn_ack(conn)))
        kinds |= NS_PENDING_ACK;
    return kinds;
}

/* A new object with one reference, NS_CONN_ALONE and otherwise zero. NULL if there is no memory. */
struct ns_conn *ns_conn_make(void);

/* Take a reference. False if none was left: the object may be another connection's. */
bool ns_conn_hold(struct ns_conn *conn);

/* Drop a reference. The last one releases the object. */
void ns_conn_drop(struct ns_conn *conn);

#endif
