/* SPDX-License-Identifier: MIT */
/* Which connection a descriptor names: a table by number, read with two loads and no lock. It may
 * be wrong, since closes reach the kernel without us; a number that is used again drops what it
 * named. Everything here is async-signal-safe; errno is unchanged. */
#ifndef NS_FDS_H
#define NS_FDS_H

#include "conn/conn.h"

/* What stands in the table for what is no TCP socket. */
#define NS_FD_UNKNOWN                                                                              \
    ((struct ns_conn *)0)                 /* nobody has asked: so that untouched memory says it    \
                                           */
#define NS_FD_FILE ((struct ns_conn *)1)  /* a regular file, of which no read waits */
#define NS_FD_OTHER ((struct ns_conn *)2) /* anything else that is not ours */

enum {
    NS_FD_CHUNK = 1024,  /* descriptors that are allocated together */
    NS_FD_CHUNKS = 1024, /* so descriptors up to 1 048 575; higher ones pass */
};

/* 0 until start-up is done: then no descriptor is in the table. */
extern _Atomic unsigned ns_fd_limit;
extern struct ns_conn *_Atomic *_Atomic ns_fd_chunks[NS_FD_CHUNKS];

/* Is there a table yet that has room for fd? */
static inline bool ns_fd_is_open(int fd)
{
    return (unsigned)fd < atomic_load_explicit(&ns_fd_limit, memory_order_relaxed);
}

/* What the table says of a number that ns_fd_is_open has allowed. */
static inline struct ns_conn *ns_fd_look(int fd)
{
    unsigned number = (unsigned)fd;
    struct ns_conn *_Atomic *chunk =
        /* acquire: pairs with the release that published a zeroed chunk */
        atomic_load_explicit(&ns_fd_chunks[number / NS_FD_CHUNK], memory_order_acquire);
    /* acquire: whoever sees the connection sees what it was made with */
    return chunk ? atomic_load_explicit(&chunk[number % NS_FD_CHUNK], memory_order_acquire)
                 : NS_FD_UNKNOWN;
}

static inline bool ns_fd_is_conn(const struct ns_conn *said)
{
    return (uintptr_t)said > (uintptr_t)NS_FD_OTHER;
}

/* The connection of fd; NULL if it names none that is known. */
static inline struct ns_conn *ns_fd_conn(int fd)
{
    struct ns_conn *said = ns_fd_is_open(fd) ? ns_fd_look(fd) : NULL;
    return ns_fd_is_conn(said) ? said : NULL;
}

/* Does fd, which named conn, still do so? A call may have waited so long that another thread has
 * closed fd, and the object is another connection's. */
static inline bool ns_fd_names(int fd, const struct ns_conn *conn)
{
    return ns_fd_look(fd) == conn; /* the table is never closed, nor is a chunk given back */
}

/* Has somebody asked what fd is? Not where there is no table. */
static inline bool ns_fd_is_known(int fd)
{
    return ns_fd_is_open(fd) && ns_fd_look(fd) != NS_FD_UNKNOWN;
}

/* Is fd nothing that we have to do with, as far as is known? Not where there is no table. */
static inline bool ns_fd_passes(int fd)
{
    if (!ns_fd_is_open(fd))
        return false;
    const struct ns_conn *said = ns_fd_look(fd);
    return !ns_fd_is_conn(said) || !ns_conn_is_ours(said);
}

/* fd names said from now on: a connection, of which the caller gives one reference away, or one of
 * the values above. What it named before loses a reference. Returns false, and has dropped that
 * of said, if the table has no room for fd. */
bool ns_fd_set(int fd, struct ns_conn *said);

/* The same where nothing is known of fd; where something is, or there is no room, said loses its
 * reference. For what is found out while another thread may find it out, too. */
void ns_fd_fill(int fd, struct ns_conn *said);

/* A new connection, which fd names from now on; NULL where there is no room for it. */
struct ns_conn *ns_fd_make(int fd);

/* A descriptor, other than but, that names conn; -1: there is none. Looks through the whole table.
 */
int ns_fd_other(const struct ns_conn *conn, int but);

/* Start-up: open the table, up to limit descriptors (at most what it can hold). */
void ns_fd_open(unsigned limit);

/* Calls visit for every descriptor of a connection that is ours. */
void ns_fd_each(void (*visit)(int fd, struct ns_conn *conn, void *context), void *context);

#endif
