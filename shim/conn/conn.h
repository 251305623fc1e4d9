/* SPDX-License-Identifier: MIT */
/* What is known of a TCP socket, in one object for each, which every descriptor of it names
 * (fds.h). It may be wrong: closes and options reach the kernel without us. So what it says is a
 * guess that its users must survive, and NS_CONN_NONE and NS_CONN_ALONE (pass everything through)
 * are always safe.
 *
 * The members are written by whichever thread uses the socket, with relaxed stores: each is a hint
 * of its own, none guards another, and those that are read together are checked by the kernel's
 * answer. Members that do need an order say so. The memory of an object only ever holds such
 * objects, so that a thread that still uses one that has been released reads and writes hints of
 * another connection at worst. Everything here is async-signal-safe; errno is unchanged. */
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
    NS_CONN_ALONE,    /* no rule governs it: it is left alone */
    /* From here on: a socket that we have to do with. */
    NS_CONN_ASK,   /* came from outside: choose its rule at its first use */
    NS_CONN_FRESH, /* made by socket(), neither connected nor listening */
    NS_CONN_LISTENER,
    NS_CONN_RULED, /* a connection that a rule governs */
};

/* The options of one socket that a rule rewrites, by sockopt.h's indexes. */
struct ns_view {
    _Atomic uint32_t hidden;   /* bits: the application is answered from value */
    _Atomic uint32_t deferred; /* bits: asked before the rule was known; asked holds the value */
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
    _Atomic uint8_t app_nodelay;    /* what the application asked of TCP_NODELAY */
    _Atomic uint8_t kernel_nodelay; /* what the kernel has */
    _Atomic uint8_t app_corks;      /* the application's own TCP_CORK, or MSG_MORE: bits below */
    _Atomic uint8_t immediate;      /* why bytes are not to be held or joined here: bits below */
    _Atomic uint8_t lowat;          /* SO_RCVLOWAT above 1: a short read is not ours to make */
    _Atomic uint8_t origin;         /* bits below */
    _Atomic uint8_t wrote;          /* a write has left: what follows may find it in flight */
    _Atomic uint8_t joins;          /* Nagle may hold bytes of this burst: see push.h */
    _Atomic uint8_t heard;          /* data was read since the last push */
    _Atomic uint8_t domain;         /* AF_INET or AF_INET6 */
    _Atomic uint8_t delack;         /* TCP_DELACK_MAX_US: enum ns_delack */
    _Atomic uint32_t ack_state;     /* struct ns_ack_state */
    /* ns_thread.epoch of the last write: it differs once that thread has waited, and for another
     * thread. 0: the peer has answered since. */
    _Atomic uint32_t burst_epoch;
    _Atomic uint32_t listed_by;  /* the thread on whose list of debts it is; 0: none */
    _Atomic uint32_t references; /* descriptors that name it; 0: it is free */
    union { /* what is kept from one write to the next; which, is send's to say */
        _Atomic uint64_t burst; /* adaptive and flush-before-read: struct ns_burst */
        _Atomic uint64_t cork;  /* auto-cork: struct ns_cork */
    };
    /* auto-cork: CLOCK_MONOTONIC nanoseconds after which held bytes are late; 0: none are held.
     * Stored after the call that held them and cleared before the push, sequentially consistent
     * both, so that a push either covers the bytes or leaves the mark. */
    _Atomic uint64_t held_until;
    const struct ns_rule *_Atomic rule;
    /* NULL until a rule rewrites an option here. It stays with the object for good, since a reader
     * may be in it. */
    struct ns_view *_Atomic view;
};
_Static_assert(sizeof(struct ns_conn) == 64, "one cache line per connection");

/* held_until: bytes are about to be held or pushed; or were, until a signal handler jumped away. */
enum { NS_HELD_PUSHING = 1 };

/* immediate */
enum {
    NS_IMMEDIATE_NO_PUSH = 1, /* kTLS, or pushing does not work */
    NS_IMMEDIATE_LATE = 4,    /* held bursts were late here, or on other connections */
    NS_IMMEDIATE_UNSEEN = 2,  /* others write, too, or the program waits where we do not see it */
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

/* origin */
enum {
    NS_LISTENER_SETTLED = 1, /* a listener whose rule is that of every socket it accepts */
    NS_LISTENER_ADOPTED =
        2,            /* one from outside, and perhaps somebody else's: nothing is set there */
    NS_HANDED_ON = 4, /* a connection, by another program, which may have had a shim, too */
};

/* Does it want more of us than to be passed through? */
static inline bool ns_conn_is_ours(const struct ns_conn *conn)
{
    return NS_GET(conn, kind) > NS_CONN_ALONE;
}

/* A member that is a small struct, taken and put back whole. Two threads that use one socket at a
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

/* What the kernel's TCP_NODELAY is to be under the connection's rule. */
static inline int ns_conn_wants_nodelay(const struct ns_conn *conn)
{
    return ns_send_modes[NS_GET(conn, send)].nodelay || NS_GET(conn, app_nodelay);
}

/* What is owed on a connection. */
enum { NS_PENDING_PUSH = 1, NS_PENDING_ACK = 2, NS_PENDING_ALL = 3 };

static inline unsigned ns_conn_pending(struct ns_conn *conn)
{
    unsigned debts = 0;
    if (NS_GET(conn, joins) || atomic_load(&conn->held_until))
        debts = NS_PENDING_PUSH;
    if (ns_ack_is_pending(ns_conn_ack(conn)))
        debts |= NS_PENDING_ACK;
    return debts;
}

/* A new object with one reference, NS_CONN_ALONE and otherwise zeroes; NULL without memory. */
struct ns_conn *ns_conn_make(void);

/* One reference more. Returns false if there was none left: then it is somebody else's by now. */
bool ns_conn_hold(struct ns_conn *conn);

/* One reference less; the last one releases the object. */
void ns_conn_drop(struct ns_conn *conn);

#endif
