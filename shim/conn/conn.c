/* SPDX-License-Identifier: MIT */
/* See conn.h. Owns the memory of the connections, in slabs that are never freed. Must never take a
 * lock or allocate with malloc: signal handlers come here. */
#include "conn/conn.h"

#include "base/memory.h"
#include "conn/process.h"

#include <stddef.h>

enum {
    COUNT = 1024, /* objects a slab */
    SLABS = 1024, /* more sockets than fit into these are left alone */
};

struct slab {
    struct ns_conn conns[COUNT];
};

/* The first slab is static: for fewer sockets there is no system call, and untouched pages cost no
 * memory. slabs[0] is unused, since a pointer there would be a relocation at every start. */
NS_LARGE_ARRAY static struct slab first;
NS_LARGE_ARRAY static struct slab *_Atomic slabs[SLABS];
static _Atomic uint32_t made; /* objects that were ever used */

static _Atomic uint32_t place; /* where the search for a free object goes on */
enum { TRIES = 16 };

/* As a number of references: the object is being made or released, and not to be had. */
#define CHANGING UINT32_MAX

static struct slab *slab_at(uint32_t index)
{
    return index ? atomic_load(&slabs[index]) : &first;
}

static bool take(struct ns_conn *conn)
{
    uint32_t free = 0;
    return NS_GET(conn, references) == 0 &&
           atomic_compare_exchange_strong(&conn->references, &free, CHANGING);
}

/* Tries only a few objects: when most are in use, new ones are made. */
static struct ns_conn *take_free(void)
{
    uint32_t end = atomic_load(&made), number = atomic_load_explicit(&place, memory_order_relaxed);
    for (unsigned i = 0; i < TRIES && i < end; i++, number++) {
        number = number < end ? number : 0;
        struct ns_conn *conn = &slab_at(number / COUNT)->conns[number % COUNT];
        if (take(conn)) {
            atomic_store_explicit(&place, number, memory_order_relaxed);
            return conn;
        }
    }
    atomic_store_explicit(&place, number, memory_order_relaxed);
    return NULL;
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
        if (atomic_compare_exchange_weak(&made, &number, number + 1) &&
            take(&slab->conns[number % COUNT])) /* another thread may have found it */
            return &slab->conns[number % COUNT];
    }
}

static void reset(struct ns_conn *conn)
{
    /* The members of one byte: all but kind, which the caller sets. */
    _Atomic uint8_t *bytes = (_Atomic uint8_t *)conn;
    for (size_t i = offsetof(struct ns_conn, role); i < offsetof(struct ns_conn, writer); i++)
        atomic_store_explicit(&bytes[i], 0, memory_order_relaxed);
    NS_PUT(conn, generation, ns_process_makes());
    NS_PUT(conn, role, NS_ROLE_UNKNOWN);
    NS_PUT(conn, ack_state, 0);
    NS_PUT(conn, writer, 0);
    NS_PUT(conn, burst, 0);
    NS_PUT(conn, rule, &ns_rule_app);
    struct ns_view *view = NS_GET(conn, view);
    if (view) {
        NS_PUT(view, hidden, 0);
        NS_PUT(view, deferred, 0);
    }
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

bool ns_conn_hold(struct ns_conn *conn)
{
    uint32_t references = atomic_load(&conn->references);
    do {
        if (references == 0 || references == CHANGING)
            return false;
    } while (!atomic_compare_exchange_weak(&conn->references, &references, references + 1));
    return true;
}

void ns_conn_drop(struct ns_conn *conn)
{
    uint32_t references = atomic_load(&conn->references);
    while (!atomic_compare_exchange_weak(&conn->references, &references,
                                         references == 1 ? CHANGING : references - 1))
        ;
    if (references != 1)
        return;
    NS_PUT(conn, kind, NS_CONN_NONE); /* another thread that still sees it stops using it */
    atomic_store(&conn->references, 0);
}
