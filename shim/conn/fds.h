/* SPDX-License-Identifier: MIT */
/* Which connection a descriptor names: a table by number, read with two loads and no lock. It may
 * be wrong, because the library does not see every close. When a number is used again, its old
 * entry is dropped. */
#ifndef NS_FDS_H
#define NS_FDS_H

#include "conn/conn.h"

/* Table entries for descriptors that are not TCP sockets. */
#define NS_FD_UNKNOWN ((struct ns_conn *)0) /* not looked up yet; zero, as untouched memory is */
#define NS_FD_OTHER ((struct ns_conn *)1)   /* anything else */
#define NS_FD_FILE ((struct ns_conn *)2)    /* a file, for calls that do not need a socket */
#define NS_FD_UNIX ((struct ns_conn *)3)    /* a socket of AF_UNIX, which can pass descriptors */

enum {
    NS_FD_CHUNK = 1024,  /* descriptors that are allocated together */
    NS_FD_CHUNKS = 1024, /* descriptors above 1 048 575 are passed through */
};

/* 0 until start-up is done: then no descriptor is in the table. */
extern _Atomic unsigned ns_fd_limit;
/* No connection and no file has had this number or a higher one. */
extern _Atomic unsigned ns_fd_used;
/* The first chunk is static, as the first connections are; ns_fd_chunks[0] is unused. */
extern struct ns_conn *_Atomic ns_fd_first[NS_FD_CHUNK];
extern struct ns_conn *_Atomic *_Atomic ns_fd_chunks[NS_FD_CHUNKS];

/* Does the table exist, and does it have a place for fd? */
static inline bool ns_fd_has_place(int fd)
{
    return (unsigned)fd < atomic_load_explicit(&ns_fd_limit, memory_order_relaxed);
}

/* The entry of fd. Only if ns_fd_has_place(fd). */
static inline struct ns_conn *ns_fd_lookup(int fd)
{
    unsigned number = (unsigned)fd;
    struct ns_conn *_Atomic *chunk = ns_fd_first;
    if (__builtin_expect(number >= NS_FD_CHUNK, 0)) {
        /* acquire: pairs with the release that published a zeroed chunk */
        chunk = atomic_load_explicit(&ns_fd_chunks[number / NS_FD_CHUNK], memory_order_acquire);
        number %= NS_FD_CHUNK;
        if (!chunk)
            return NS_FD_UNKNOWN;
    }
    /* acquire: with the connection come the values that it was made with */
    return atomic_load_explicit(&chunk[number], memory_order_acquire);
}

static inline bool ns_fd_is_conn(const struct ns_conn *entry)
{
    return (uintptr_t)entry > (uintptr_t)NS_FD_UNIX;
}

/* May it be a TCP socket that was not looked up? So may a file that was closed unseen. */
static inline bool ns_fd_may_be_socket(const struct ns_conn *entry)
{
    return entry == NS_FD_UNKNOWN || entry == NS_FD_FILE;
}

/* The connection of fd; NULL if the table has none. */
static inline struct ns_conn *ns_fd_conn(int fd)
{
    struct ns_conn *entry = ns_fd_has_place(fd) ? ns_fd_lookup(fd) : NULL;
    return ns_fd_is_conn(entry) ? entry : NULL;
}

/* Does fd, which named conn before a call, still name it? While the call waited, another thread may
 * have closed fd, and the object may be another connection's. */
static inline bool ns_fd_names(int fd, const struct ns_conn *conn)
{
    return ns_fd_lookup(fd) == conn; /* the table is never closed, and no chunk is freed */
}

/* Was there ever a connection? */
static inline bool ns_fd_any(void)
{
    return atomic_load_explicit(&ns_fd_used, memory_order_relaxed) != 0;
}

/* Set the entry of fd to a connection, whose reference the caller gives away, or to one of the
 * values above. The connection that fd named before loses a reference. Returns false if the table
 * has no room for fd; then entry has lost its reference. */
bool ns_fd_set(int fd, struct ns_conn *entry);

/* The same only if ns_fd_may_be_socket. Otherwise entry loses its reference. For lookups that two
 * threads may make at the same time. */
void ns_fd_fill(int fd, struct ns_conn *entry);

/* Make a new connection and let fd name it. NULL if there is no room or no memory. */
struct ns_conn *ns_fd_make(int fd);

/* A descriptor of conn other than `but`, or -1. Searches the whole table. */
int ns_fd_other(const struct ns_conn *conn, int but);

/* A call on fd, which named conn, failed with an error that a TCP socket does not give: ask the
 * kernel what fd is, and drop the entry if it is something else. */
void ns_fd_refresh(int fd, struct ns_conn *conn);

/* Start-up: open the table for descriptors below limit. */
void ns_fd_open(unsigned limit);

/* Calls visit for every descriptor of a connection to which a rule applies or may apply. */
void ns_fd_each(void (*visit)(int fd, struct ns_conn *conn, void *context), void *context);

#endif
