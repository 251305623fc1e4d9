/* SPDX-License-Identifier: MIT */
/* The descriptor table. Owns the chunks; never frees one, since a reader may be in it. Must never
 * take a lock or allocate with malloc: signal handlers and vfork children come here.
 * Async-signal-safe. */
#include "conn/fds.h"

#include "base/memory.h"
#include "conn/kernel.h"
#include "conn/process.h"
#include "report/log.h"

_Atomic unsigned ns_fd_limit;
_Atomic unsigned ns_fd_used;

/* Its first entries are on the page of the small variables. */
__attribute__((section(".bss.large.first"))) struct ns_conn *_Atomic ns_fd_first[NS_FD_CHUNK];
NS_LARGE_ARRAY struct ns_conn *_Atomic *_Atomic ns_fd_chunks[NS_FD_CHUNKS];

void ns_fd_open(unsigned limit)
{
    unsigned most = NS_FD_CHUNK * NS_FD_CHUNKS;
    atomic_store(&ns_fd_limit, limit < most ? limit : most);
}

/* The chunk of a number; NULL if it was not allocated yet. */
static struct ns_conn *_Atomic *chunk_of(unsigned number)
{
    return number < NS_FD_CHUNK ? ns_fd_first : atomic_load(&ns_fd_chunks[number / NS_FD_CHUNK]);
}

/* The place of fd, allocated if entry needs one. NULL: the table has none, or no memory. */
static struct ns_conn *_Atomic *place(int fd, const struct ns_conn *entry)
{
    unsigned number = (unsigned)fd;
    if (!ns_fd_has_place(fd))
        return NULL;
    struct ns_conn *_Atomic *chunk = chunk_of(number);
    if (!chunk && entry != NS_FD_UNKNOWN && !ns_process_is_disabled())
        chunk =
            ns_pages_put(&ns_fd_chunks[number / NS_FD_CHUNK], NULL, NS_FD_CHUNK * sizeof *chunk);
    bool uses = chunk && (ns_fd_is_conn(entry) || entry == NS_FD_FILE);
    unsigned end = atomic_load_explicit(&ns_fd_used, memory_order_relaxed);
    while (uses && end <= number && !atomic_compare_exchange_weak(&ns_fd_used, &end, number + 1))
        ;
    return chunk ? &chunk[number % NS_FD_CHUNK] : NULL;
}

static void drop(struct ns_conn *entry)
{
    if (ns_fd_is_conn(entry))
        ns_conn_unref(entry);
}

bool ns_fd_set(int fd, struct ns_conn *entry)
{
    struct ns_conn *_Atomic *at = place(fd, entry);
    struct ns_conn *was = at ? atomic_load(at) : entry;
    /* Without a write if nothing changes: it would copy the page in a forked child. gcc 12.2 -O2
     * for s390x and ppc64el lets atomic_exchange store the old value. */
    bool sets = at && (was != entry || ns_fd_is_conn(entry));
    while (sets && !atomic_compare_exchange_weak(at, &was, entry))
        ;
    drop(was);
    return at != NULL;
}

void ns_fd_fill(int fd, struct ns_conn *entry)
{
    struct ns_conn *_Atomic *at = place(fd, entry);
    struct ns_conn *expected = at ? atomic_load(at) : NS_FD_OTHER;
    if (!ns_fd_may_be_socket(expected) || !atomic_compare_exchange_strong(at, &expected, entry))
        drop(entry);
}

struct ns_conn *ns_fd_make(int fd)
{
    struct ns_conn *conn = ns_fd_has_place(fd) ? ns_conn_make() : NS_FD_UNKNOWN;
    return ns_fd_set(fd, conn) ? conn : NULL; /* even without memory the old entry is removed */
}

void ns_fd_each(void (*visit)(int fd, struct ns_conn *conn, void *context), void *context)
{
    unsigned end = atomic_load_explicit(&ns_fd_used, memory_order_relaxed);
    for (unsigned number = 0; number < end; number++) {
        struct ns_conn *conn = ns_fd_conn((int)number);
        if (!chunk_of(number))
            number |= NS_FD_CHUNK - 1; /* skip a chunk that was never used */
        else if (conn && ns_conn_is_tracked(conn))
            visit((int)number, conn, context);
    }
}

int ns_fd_other(const struct ns_conn *conn, int but)
{
    unsigned end = atomic_load_explicit(&ns_fd_used, memory_order_relaxed);
    for (unsigned number = 0; number < end; number++)
        if (number != (unsigned)but && ns_fd_lookup((int)number) == conn)
            return (int)number;
    return -1;
}

void ns_fd_refresh(int fd, struct ns_conn *conn)
{
    if (ns_has_other_fds() || ns_fd_conn(fd) != conn)
        return;
    NS_DEBUG(fd, "a call failed as it does on no TCP socket: asked again what it is");
    if (!ns_process_is_disabled() && ns_kernel_ask(fd).tcp)
        ns_conn_no_batch(conn, NS_NO_PUSH); /* this kernel lacks the option */
    else
        ns_fd_set(fd, NS_FD_UNKNOWN);
}
