/* SPDX-License-Identifier: MIT */
/* What the library knows of a TCP socket: one object, which every descriptor of it names (fds.h).
 * It may be wrong, because the library does not see every close and option. Its users must tolerate
 * that; NS_CONN_ALONE (pass everything through) is always safe.
 *
 * Any thread that uses the socket writes the members, with relaxed stores: each is a hint by
 * itself, none guards another, and the kernel's answer checks those that are read together. Members
 * that need an order say so. The memory of an object only ever holds such objects: a thread that
 * still uses a released one at worst reads and writes hints of another connection.
 *
 * The words burst and ack_state are read and written by traffic/burst.h and traffic/ack.h. */
#ifndef NS_CONN_H
#define NS_CONN_H

#include "base/relaxed.h"
#include "conn/process.h"
#include "policy/policy.h"

#include <stdatomic.h>

enum ns_conn_kind {
    NS_CONN_ALONE = 0, /* no rule applies to it, or no descriptor names it any more */
    /* From here on: a socket that a rule applies to, or may apply to. */
    NS_CONN_ASK,   /* came from outside: its rule is chosen at its first use */
    NS_CONN_FRESH, /* made by socket(), neither connected nor listening */
    NS_CONN_LISTENER,
    NS_CONN_MANAGED, /* a connection that a rule applies to */
};

/* The options of one socket that a rule rewrites, by index into ns_sockopts. All is 0 until a rule
 * rewrites an option. */
struct ns_view {
    _Atomic uint32_t hidden;   /* bits: getsockopt answers from value */
    _Atomic uint32_t deferred; /* bits: set before the rule was known, to asked */
    _Atomic int value[NS_SOCKOPT_COUNT];
    _Atomic int asked[NS_SOCKOPT_COUNT];
};
_Static_assert(NS_SOCKOPT_COUNT <= 32, "one bit per option");

struct ns_conn {
    _Alignas(64) _Atomic uint8_t kind; /* enum ns_conn_kind; one cache line per connection */
    _Atomic uint8_t role;              /* enum ns_role */
    _Atomic uint8_t send;              /* enum ns_send */
    _Atomic uint8_t ack;               /* enum ns_ack */
    _Atomic uint8_t nonblock;
    _Atomic uint8_t app_nodelay;    /* the TCP_NODELAY that the application has set */
    _Atomic uint8_t kernel_nodelay; /* the TCP_NODELAY that the kernel has while nothing is held */
    _Atomic uint8_t app_corks;      /* the application's own TCP_CORK, or MSG_MORE: bits below */
    _Atomic uint8_t no_batch;       /* why no burst may be held: bits below */
    _Atomic uint8_t flags;          /* bits below */
    _Atomic uint8_t in_flight;      /* something was sent, perhaps not acknowledged yet: below */
    _Atomic uint8_t held;           /* the kernel may hold bytes of a burst, which a push sends */
    _Atomic uint8_t delack;         /* TCP_DELACK_MAX_US: enum ns_delack */
    _Atomic uint16_t full;          /* waits before writes; from NS_FULL_ASK on the line is full */
    _Atomic uint8_t peer;           /* index of what is learned of it: learned.h; 0: not known */
    _Atomic uint8_t asks;           /* times that the kernel may be asked for its mode: in.c */
    _Atomic uint16_t rtt;           /* 1 + the shortest round trip in ms; 0: not asked for yet */
    _Atomic uint32_t writer;        /* the thread whose burst it is; 0: data was read since */
    _Atomic uint32_t references;    /* descriptors that name it; 0: it is free */
    _Atomic uint32_t children;      /* ns_process_children when it was made */
    _Atomic uint64_t ack_state;     /* struct ns_ack_state */
    _Atomic uint64_t burst;         /* struct ns_burst */
    const struct ns_rule *_Atomic rule;
};
_Static_assert(sizeof(struct ns_conn) == 64, "one cache line per connection");

/* in_flight */
enum {
    NS_FLIGHT_SEEN = 1,
    NS_FLIGHT_UNSEEN = 2, /* perhaps, before the library knew the socket */
};

/* no_batch */
enum {
    NS_NO_PUSH = 1,  /* kTLS, or pushing does not work */
    NS_UNSEEN = 2,   /* something else writes, too, or the program waits unseen */
    NS_WAS_LATE = 4, /* held bursts were very late here, or on other connections */
    NS_RING = 8,     /* a ring of this process may write, too, until calls of libc do both here */
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

/* flags */
enum {
    NS_LISTENER_SETTLED = 1, /* a listener whose rule applies to every connection it accepts */
    NS_ASK_AGAIN = 2,        /* has no rule yet, since a seccomp filter was to be installed */
    NS_COUNTED = 4,          /* TCP_NODELAY was counted in the report */
    NS_WAITS_UNSEEN = 16,    /* the program waits unseen, after a read that found nothing */
    NS_READS_AGAIN = 32, /* reads twice without a wait; and with NS_WAITS_UNSEEN: waits between */
    NS_LOWAT = 64,       /* SO_RCVLOWAT above 1: no read without waiting */
};

static inline void ns_conn_set_lowat(struct ns_conn *conn, bool above)
{
    uint8_t flags = NS_GET(conn, flags) & (uint8_t)~NS_LOWAT;
    NS_PUT(conn, flags, flags | (above ? NS_LOWAT : 0));
}

/* From now on no burst may be held, for this reason, too. */
static inline void ns_conn_no_batch(struct ns_conn *conn, uint8_t why)
{
    NS_PUT(conn, no_batch, NS_GET(conn, no_batch) | why);
}

/* Does a rule apply to the socket, or may one? */
static inline bool ns_conn_is_tracked(const struct ns_conn *conn)
{
    return NS_GET(conn, kind) > NS_CONN_ALONE;
}

/* Was it made in this process? A forked one may share it with its parent, which relies on it and
 * may write to it. */
static inline bool ns_conn_is_own(const struct ns_conn *conn)
{
    return NS_GET(conn, children) >= atomic_load_explicit(&ns_process_began, memory_order_relaxed);
}

/* May another process write to it, too? Then that has been forked since it was made, by this
 * process or as this one. */
static inline bool ns_conn_is_shared(const struct ns_conn *conn)
{
    return NS_GET(conn, children) !=
           atomic_load_explicit(&ns_process_children, memory_order_relaxed);
}

/* The TCP_NODELAY that the kernel should have under the connection's rule. */
static inline int ns_conn_wants_nodelay(const struct ns_conn *conn)
{
    return ns_send_modes[NS_GET(conn, send)].nodelay || NS_GET(conn, app_nodelay);
}

/* Access to a word as the small struct that it is, in the header of that. Two threads that use a
 * socket at the same time may lose a count, which costs a segment. */
#define NS_CONN_WORD(type, name, member)                                                           \
    static inline struct type name(const struct ns_conn *conn)                                     \
    {                                                                                              \
        union {                                                                                    \
            uint64_t word;                                                                         \
            struct type value;                                                                     \
        } both = {.word = NS_GET(conn, member)};                                                   \
        return both.value;                                                                         \
    }                                                                                              \
    static inline void name##_put(struct ns_conn *conn, struct type value)                         \
    {                                                                                              \
        union {                                                                                    \
            struct type value;                                                                     \
            uint64_t word;                                                                         \
        } both = {.value = value};                                                                 \
        NS_PUT(conn, member, both.word);                                                           \
    }

/* A new object with one reference, NS_CONN_ALONE and otherwise zero. NULL if there is no memory. */
struct ns_conn *ns_conn_make(void);

/* Take a reference. False if none was left: the object may be another connection's. */
bool ns_conn_ref(struct ns_conn *conn);

/* Drop a reference. The last one releases the object. */
void ns_conn_unref(struct ns_conn *conn);

/* The view of a connection, or NULL. With make, a missing one is allocated, and NULL means that no
 * memory was left. It is never freed, since a thread may be reading it. */
struct ns_view *ns_conn_view(const struct ns_conn *conn, bool make);

/* The limit of the kernel's delayed ACK, for ACKs before waits that the library cannot see (stdio,
 * a futex). Without the option these functions do nothing. */
enum {
    NS_DELACK_OPTION = 46, /* TCP_DELACK_MAX_US, linux/tcp.h of recent kernels */
    /* Two ticks at HZ=250, the lowest that such a kernel accepts. Others round up or refuse. */
    NS_DELACK_US = 8000,
};

/* Has the library limited the delay? */
static inline bool ns_delack_is_ours(const struct ns_conn *conn)
{
    return NS_GET(conn, delack) == NS_DELACK_OURS;
}

/* Set the limit, unless the socket has one, or its rule leaves ACKs alone. */
void ns_delack_bound(int fd, struct ns_conn *conn);

/* The socket came from outside: a limit that is neither the kernel's nor the library's stays. */
void ns_delack_found(int fd, struct ns_conn *conn);

/* Remove the library's limit. */
void ns_delack_unbound(int fd, struct ns_conn *conn);

/* The limit in microseconds that a new socket has, or the kernel's default if it is not known. */
int ns_delack_of_fresh(void);

#endif
