/* SPDX-License-Identifier: MIT */
/* See conn.h. Owns the memory of the connections, in slabs that are never freed, the list of free
 * objects, and ns_conn.delack. Must never take a lock or allocate with malloc: signal handlers come
 * here. */
#include "conn/conn.h"

#include "base/memory.h"
#include "conn/kernel.h"

#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>

enum {
    COUNT = 1024, /* objects a slab */
    SLABS = 1024, /* more sockets than fit into these are left alone */
};

/* The links of the free objects are not in the objects, where a thread that still uses one may
 * write. */
struct slab {
    struct ns_conn conns[COUNT];
    struct ns_view *_Atomic views; /* of the objects; NULL: no rule has rewritten an option here */
    _Atomic uint32_t next[COUNT];  /* 1 + the number of the next free object; 0: none */
};

/* The first slab is static: for fewer sockets there is no system call, and untouched pages cost no
 * memory. slabs[0] is unused, since a pointer there would be a relocation at every start. */
NS_LARGE_ARRAY static struct slab first;
NS_LARGE_ARRAY static struct slab *_Atomic slabs[SLABS];
static _Atomic uint32_t made; /* objects that were ever used */

/* The first free object. Low half: 1 + its number, 0 if there is none; high half: a count of
 * changes, so that the exchange fails if the object was taken and returned in between. */
static _Atomic uint64_t free_list;

static struct slab *slab_at(uint32_t index)
{
    return index ? atomic_load(&slabs[index]) : &first;
}

static uint64_t changed(uint64_t list, uint32_t next)
{
    return ((list & ~(uint64_t)UINT32_MAX) + (UINT64_C(1) << 32)) | next;
}

static struct ns_conn *take_free(void)
{
    uint64_t list = atomic_load(&free_list);
    for (;;) {
        uint32_t number = (uint32_t)list - 1;
        if (number == UINT32_MAX)
            return NULL;
        struct slab *slab = slab_at(number / COUNT);
        uint32_t within = number % COUNT, next = atomic_load(&slab->next[within]);
        if (!atomic_compare_exchange_weak(&free_list, &list, changed(list, next)))
            continue;
        struct ns_view *views = atomic_load(&slab->views);
        if (views) {
            NS_PUT(&views[within], hidden, 0);
            NS_PUT(&views[within], deferred, 0);
        }
        return &slab->conns[within];
    }
}

static struct ns_conn *take_new(void)
{
    uint32_t number = atomic_load(&made);
    for (;;) {
        uint32_t index = number / COUNT;
        struct slab *slab = index < SLABS ? slab_at(index) : NULL;
        if (!slab && index < SLABS && !ns_process_is_disabled())
            slab = ns_pages_put(&slabs[index], NULL, sizeof *slab);
        if (!slab)
            return NULL;
        if (atomic_compare_exchange_weak(&made, &number, number + 1))
            return &slab->conns[number % COUNT];
    }
}

static struct slab *slab_of(const struct ns_conn *conn, uint32_t *index)
{
    struct slab *slab;
    *index = 0;
    while (slab = slab_at(*index), conn < slab->conns || conn >= slab->conns + COUNT)
        ++*index;
    return slab;
}

struct ns_view *ns_conn_view(const struct ns_conn *conn, bool make)
{
    uint32_t index;
    struct slab *slab = slab_of(conn, &index);
    struct ns_view *views = atomic_load(&slab->views);
    if (!views && make && !ns_process_is_disabled())
        views = ns_pages_put(&slab->views, NULL, COUNT * sizeof *views);
    return views ? &views[conn - slab->conns] : NULL;
}

static void give_back(struct ns_conn *conn)
{
    uint32_t index;
    struct slab *slab = slab_of(conn, &index);
    uint32_t within = (uint32_t)(conn - slab->conns);
    uint64_t list = atomic_load(&free_list);
    do
        atomic_store(&slab->next[within], (uint32_t)list);
    while (!atomic_compare_exchange_weak(&free_list, &list,
                                         changed(list, index * COUNT + within + 1)));
}

static void reset(struct ns_conn *conn)
{
    /* The small members: all but kind, which the caller sets. 0 is NS_ROLE_UNKNOWN, too. */
    _Atomic uint8_t *bytes = (_Atomic uint8_t *)conn;
    for (size_t i = offsetof(struct ns_conn, role); i < offsetof(struct ns_conn, writer); i++)
        atomic_store_explicit(&bytes[i], 0, memory_order_relaxed);
    NS_PUT(conn, children, ns_process_makes());
    NS_PUT(conn, send, NS_SEND_APP);
    NS_PUT(conn, ack, NS_ACK_APP);
    NS_PUT(conn, ack_state, 0);
    NS_PUT(conn, writer, 0);
    NS_PUT(conn, burst, 0);
    NS_PUT(conn, rule, NULL);
}

struct ns_conn *ns_conn_make(void)
{
    struct ns_conn *conn = take_free();
    if (!conn)
        conn = take_new();
    if (!conn)
        return NULL;
    reset(conn);
    NS_PUT(conn, kind, NS_CONN_ALONE);
    atomic_store(&conn->references, 1);
    return conn;
}

bool ns_conn_ref(struct ns_conn *conn)
{
    uint32_t references = atomic_load(&conn->references);
    do {
        if (!references)
            return false;
    } while (!atomic_compare_exchange_weak(&conn->references, &references, references + 1));
    return true;
}

void ns_conn_unref(struct ns_conn *conn)
{
    if (atomic_fetch_sub(&conn->references, 1) != 1)
        return;
    NS_PUT(conn, kind, NS_CONN_ALONE); /* another thread that still sees it stops using it */
    give_back(conn);
}

/* Microseconds that a new socket has; 0: this kernel has no such option; -1: not asked yet. */
static _Atomic int delack_default = -1;

/* MPTCP returns -EOPNOTSUPP, which does not hold for other sockets. So only a TCP socket's result
 * is kept. */
void ns_delack_bound(int fd, struct ns_conn *conn)
{
    int unlimited = atomic_load_explicit(&delack_default, memory_order_relaxed);
    if (unlimited == 0 || NS_GET(conn, delack) || NS_GET(conn, ack) != NS_ACK_BEFORE_WAIT)
        return;
    if (unlimited < 0)
        unlimited = ns_kernel_get(fd, IPPROTO_TCP, NS_DELACK_OPTION);
    if (unlimited == -EOPNOTSUPP || (unlimited > 0 && unlimited <= NS_DELACK_US)) {
        /* A limit that another process has set, perhaps by the library, is not kept either. */
        NS_PUT(conn, delack, unlimited == NS_DELACK_US ? NS_DELACK_OURS : NS_DELACK_THEIRS);
        return;
    }
    int error = unlimited;
    if (unlimited > 0)
        error = ns_kernel_set(fd, IPPROTO_TCP, NS_DELACK_OPTION, NS_DELACK_US);
    if (error == -EOPNOTSUPP || error == -EBADF || error == -ENOTSOCK) /* closed unseen */
        return;
    if (error == 0)
        NS_PUT(conn, delack, NS_DELACK_OURS);
    else
        unlimited = 0; /* this kernel has no such option, or not with this value */
    atomic_store_explicit(&delack_default, unlimited, memory_order_relaxed);
}

void ns_delack_found(int fd, struct ns_conn *conn)
{
    int limit = ns_kernel_get(fd, IPPROTO_TCP, NS_DELACK_OPTION);
    if (limit == NS_DELACK_US)
        NS_PUT(conn, delack, NS_DELACK_OURS);
    else if (limit > 0 && limit != ns_delack_of_fresh())
        NS_PUT(conn, delack, NS_DELACK_THEIRS);
}

int ns_delack_of_fresh(void)
{
    enum { KERNEL_US = 200000 }; /* TCP_DELACK_MAX, include/net/tcp.h */
    int known = atomic_load_explicit(&delack_default, memory_order_relaxed);
    return known > 0 ? known : KERNEL_US;
}

void ns_delack_unbound(int fd, struct ns_conn *conn)
{
    if (!ns_delack_is_ours(conn))
        return;
    ns_kernel_set(fd, IPPROTO_TCP, NS_DELACK_OPTION, ns_delack_of_fresh());
    NS_PUT(conn, delack, NS_DELACK_UNASKED);
}
