/* SPDX-License-Identifier: MIT */
/* See descriptor.h. Owns the table. Must never change a socket. */
#include "observe/descriptor.h"

#include "conn/kernel.h"
#include "observe/sample.h"

/* Higher descriptors are not observed. Unused pages of the table cost no memory. */
enum { MOST = 1 << 16 };

enum { UNASKED, OTHER, CONNECTION };

/* By descriptor: the socket's cookie, and what is known about that socket. */
static struct {
    _Atomic uint64_t cookie;
    _Atomic uint32_t number; /* of its connection in the record; a guess */
    _Atomic uint8_t role;    /* enum ns_role */
    _Atomic uint8_t kind;
} sockets[MOST];

static void set(int fd, uint64_t cookie, enum ns_role role)
{
    NS_PUT(&sockets[fd], kind, UNASKED);
    NS_PUT(&sockets[fd], role, (uint8_t)role);
    NS_PUT(&sockets[fd], cookie, cookie);
}

void ns_descriptor_has_role(int fd, enum ns_role role)
{
    if ((unsigned)fd < MOST && ns_recorder_is_open())
        set(fd, ns_sample_cookie(fd), role);
}

void ns_descriptor_closes(int fd)
{
    if ((unsigned)fd < MOST)
        NS_PUT(&sockets[fd], cookie, 0);
}

/* The role of a socket that was found out by another, low descriptor. */
static enum ns_role role_of(uint64_t cookie)
{
    for (int fd = 0; fd < 1024; fd++)
        if (NS_GET(&sockets[fd], cookie) == cookie)
            return (enum ns_role)NS_GET(&sockets[fd], role);
    return NS_ROLE_UNKNOWN;
}

/* A socket at its first use by this descriptor, or in this process. */
static struct ns_observed *first_use(int fd, uint64_t cookie)
{
    bool full = false;
    if (NS_GET(&sockets[fd], kind) == UNASKED)
        NS_PUT(&sockets[fd], kind, ns_kernel_ask(fd).tcp ? CONNECTION : OTHER);
    if (NS_GET(&sockets[fd], kind) == OTHER)
        return NULL;
    struct ns_observed *conn = ns_recorder_find(cookie);
    if (!conn)
        conn = ns_recorder_add(fd, cookie, (enum ns_role)NS_GET(&sockets[fd], role), &full);
    if (conn)
        NS_PUT(&sockets[fd], number, ns_recorder_number(conn));
    else if (full) /* ask no more */
        NS_PUT(&sockets[fd], kind, OTHER);
    return conn;
}

struct ns_observed *ns_descriptor_known(int fd)
{
    if ((unsigned)fd >= MOST || !ns_recorder_is_open())
        return NULL;
    struct ns_observed *conn = ns_recorder_at(NS_GET(&sockets[fd], number));
    uint64_t cookie = NS_GET(&sockets[fd], cookie);
    return conn && cookie && NS_GET(conn, cookie) == cookie ? conn : NULL;
}

/* The thread and the number of its waits. The kernel's result for a socket is used until the next
 * wait. */
static _Thread_local uint64_t epoch;

static void begin_thread(void)
{
    static _Atomic uint32_t threads;
    epoch = (uint64_t)(atomic_fetch_add(&threads, 1) + 1) << 32;
}

void ns_descriptor_waits(void)
{
    if (epoch)
        epoch++;
}

struct ns_observed *ns_descriptor_conn(int fd)
{
    struct ns_observed *conn = ns_descriptor_known(fd);
    if (!epoch)
        begin_thread();
    if (conn && NS_GET(conn, fd) == fd && NS_GET(conn, checked) == epoch)
        return conn;
    uint64_t cookie;
    if ((unsigned)fd >= MOST || !ns_recorder_is_open() || !(cookie = ns_sample_cookie(fd)))
        return NULL;
    if (NS_GET(&sockets[fd], cookie) != cookie)
        set(fd, cookie, role_of(cookie));
    if (NS_GET(&sockets[fd], kind) == OTHER)
        return NULL;
    conn = ns_descriptor_known(fd);
    if (!conn)
        conn = first_use(fd, cookie);
    if (conn) {
        NS_PUT(conn, fd, fd);
        NS_PUT(conn, checked, epoch);
    }
    return conn;
}
