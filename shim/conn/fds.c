/* SPDX-License-Identifier: MIT */
/* The descriptor table. Owns the chunks; never frees one, since a reader may be in it. Must never
 * take a lock or allocate with malloc: signal handlers and vfork children come here.
 * Async-signal-safe. */
#include "conn/fds.h"

#include "base/pages.h"
#include "conn/process.h"

_Atomic unsigned ns_fd_limit;
static _Atomic unsigned used; /* no connection has this number or a higher one */

/* The first chunk is static, as the first connections are. */
static struct ns_conn *_Atomic first[NS_FD_CHUNK] __attribute__((aligned(64)));
struct ns_conn *_Atomic *_Atomic ns_fd_chunks[NS_FD_CHUNKS] = {first};

void ns_fd_open(unsigned limit)
{
    unsigned most = NS_FD_CHUNK * NS_FD_CHUNKS;
    atomic_store(&ns_fd_limit, limit < most ? limit : most);
}

static void is_used(unsigned number)
{
    unsigned end = atomic_load_explicit(&used, memory_order_relaxed);
    while (end <= number && !atomic_compare_exchange_weak(&used, &end, number + 1))
        ;
}

/* The place of fd; NULL where there is none, nor is to be one: for what needs none, or without
 * memory. */
static struct ns_conn *_Atomic *place(int fd, const struct ns_conn *said)
{
    unsigned number = (unsigned)fd;
    if (!ns_fd_is_open(fd))
        return NULL;
    struct ns_conn *_Atomic *chunk = atomic_load(&ns_fd_chunks[number / NS_FD_CHUNK]);
    if (!chunk && said != NS_FD_UNKNOWN && !ns_process_is_aside())
        chunk =
            ns_pages_put(&ns_fd_chunks[number / NS_FD_CHUNK], NULL, NS_FD_CHUNK * sizeof *chunk);
    if (chunk && ns_fd_is_conn(said))
        is_used(number);
    return chunk ? &chunk[number % NS_FD_CHUNK] : NULL;
}

static void drop(struct ns_conn *said)
{
    if (!ns_fd_is_conn(said))
        return;
    /* Lists of debts are by number: under this one nobody finds it any more. */
    atomic_store(&said->listed_by, 0);
    ns_conn_drop(said);
}

bool ns_fd_set(int fd, struct ns_conn *said)
{
    struct ns_conn *_Atomic *at = place(fd, said);
    drop(at ? atomic_exchange(at, said) : said);
    return at != NULL;
}

void ns_fd_fill(int fd, struct ns_conn *said)
{
    struct ns_conn *_Atomic *at = place(fd, said);
    struct ns_conn *expected = NS_FD_UNKNOWN;
    if (!at || !atomic_compare_exchange_strong(at, &expected, said))
        drop(said);
}

struct ns_conn *ns_fd_make(int fd)
{
    struct ns_conn *conn = ns_fd_is_open(fd) ? ns_conn_make() : NS_FD_UNKNOWN;
    return ns_fd_set(fd, conn) ? conn : NULL; /* without memory: not what was there before */
}

void ns_fd_each(void (*visit)(int fd, struct ns_conn *conn, void *context), void *context)
{
    unsigned end = atomic_load_explicit(&used, memory_order_relaxed);
    for (unsigned number = 0; number < end; number++) {
        struct ns_conn *conn = ns_fd_conn((int)number);
        if (!atomic_load_explicit(&ns_fd_chunks[number / NS_FD_CHUNK], memory_order_relaxed))
            number |= NS_FD_CHUNK - 1; /* the whole chunk was never used */
        else if (conn && ns_conn_is_ours(conn))
            visit((int)number, conn, context);
    }
}

int ns_fd_other(const struct ns_conn *conn, int but)
{
    unsigned end = atomic_load_explicit(&used, memory_order_relaxed);
    for (unsigned number = 0; number < end; number++)
        if (number != (unsigned)but && ns_fd_look((int)number) == conn)
            return (int)number;
    return -1;
}
