/* SPDX-License-Identifier: MIT */
/* See pending.h. Owns ns_thread and the page behind it. Must never block, allocate with malloc,
 * take a lock or make a socket send: it runs before every wait and in signal handlers.
 * Async-signal-safe, except ns_pending_open. */
#include "traffic/pending.h"

#include "base/pages.h"
#include "base/real.h"

#include <sys/mman.h>

enum { MORE_SIZE = 4096, MORE_COUNT = MORE_SIZE / (int)sizeof(int) };

_Thread_local struct ns_thread ns_thread;
_Static_assert(sizeof(struct ns_thread) <= 64, "static TLS is scarce in processes that dlopen us");

static _Atomic uint32_t threads;

static _Atomic unsigned exit_key; /* 1 + the key; 0: none yet */
static void (*flush_at_exit)(void);

static void thread_exits(void *unused)
{
    (void)unused;
    flush_at_exit();
    _Atomic int *more = atomic_exchange(&ns_thread.more, NULL);
    if (more)
        munmap((void *)more, MORE_SIZE);
    /* The kernel sends the bytes that a later destructor writes. */
}

void ns_pending_open(void (*exits)(void))
{
    flush_at_exit = exits;
}

/* Arrange that thread_exits is called when this thread ends. Without libpthread no thread can end.
 * If two threads make the key at the same time, one key is wasted. */
static void hear_of_exit(void)
{
    int (*create)(unsigned *, void (*)(void *)) = NULL;
    int (*set)(unsigned, const void *) = NULL;
    unsigned made, key = atomic_load(&exit_key);
    *(void **)&create = ns_real_optional("pthread_key_create");
    *(void **)&set = ns_real_optional("pthread_setspecific");
    if (!flush_at_exit || !create || !set || (!key && create(&made, thread_exits) != 0))
        return;
    if (!key && atomic_compare_exchange_strong(&exit_key, &key, made + 1))
        key = made + 1;
    set(key - 1, &ns_thread);
}

void ns_thread_begin(void)
{
    uint32_t token;
    do
        token = atomic_fetch_add(&threads, 1) + 1;
    while (token == 0); /* 0 means none; only after 4 294 967 295 threads */
    ns_thread.token = token;
    ns_thread.epoch = token << 16;
    hear_of_exit();
}

static unsigned count_of(uint32_t pending)
{
    return pending & 0xffff;
}

/* The value of ns_thread.pending after a change that leaves count entries. */
static uint32_t changed(uint32_t pending, unsigned count)
{
    return ((pending & 0xffff0000u) + 0x10000u) | count;
}

static _Atomic int *entry_at(unsigned index)
{
    if (index < NS_PENDING_INLINE)
        return &ns_thread.first[index];
    return &ns_thread.more[index - NS_PENDING_INLINE];
}

/* Called before an entry is removed, so that a signal handler, or the code it jumps to, lists the
 * connection again. A needless entry does no harm; a missing one is a stall. */
static inline void unlist(struct ns_conn *conn)
{
    if (NS_GET(conn, listed_by) == ns_thread.token)
        NS_PUT(conn, listed_by, 0);
}

/* Is there room for an entry at index? The first index after the inline ones allocates the page. */
static bool has_room(unsigned index)
{
    if (index < NS_PENDING_INLINE)
        return true;
    if (index >= NS_PENDING_INLINE + MORE_COUNT)
        return false;
    return atomic_load(&ns_thread.more) || ns_pages_put(&ns_thread.more, NULL, MORE_SIZE);
}

/* Put fd at the end of the list, unless it is there already: a connection that had the same number
 * may have left it. Returns false if the list is full. Otherwise *pending is the list's new value,
 * which differs from the old one in any case, so that code that was about to remove the entry
 * notices. */
static bool append(int fd, uint32_t *pending)
{
    *pending = atomic_load(&ns_thread.pending);
    for (;;) {
        unsigned count = count_of(*pending), longer = count + 1;
        if (count && atomic_load_explicit(entry_at(count - 1), memory_order_relaxed) == fd)
            longer = count;
        else if (!has_room(count))
            return false;
        else
            atomic_store_explicit(entry_at(count), fd, memory_order_relaxed);
        uint32_t now = changed(*pending, longer);
        if (atomic_compare_exchange_strong(&ns_thread.pending, pending, now)) {
            *pending = now;
            return true;
        }
    }
}

bool ns_pending_try_add(int fd, struct ns_conn *conn)
{
    uint32_t pending;
    if (__builtin_expect(!ns_thread.token, 0))
        ns_thread_begin();
    do {
        if (!append(fd, &pending)) /* before listed_by: see unlist */
            return false;
        atomic_store(&conn->listed_by, ns_thread.token);
        /* A signal handler may have removed the entry in between. */
    } while (atomic_load(&ns_thread.pending) != pending);
    /* The number may name another connection by now: see ns_fd_set. */
    if (__builtin_expect(!ns_fd_names(fd, conn), 0))
        atomic_store(&conn->listed_by, 0);
    return true;
}

/* Remove the entry at index, where nothing is pending any more; the last entry takes its place.
 * pending is the list as the caller saw it. */
static void drop(unsigned index, int fd, struct ns_conn *conn, uint32_t pending)
{
    unsigned last = count_of(pending) - 1;
    int mover = atomic_load_explicit(entry_at(last), memory_order_relaxed);
    /* Before the check below: a handler that comes from now on lists fd again. */
    if (conn)
        unlist(conn);
    atomic_signal_fence(memory_order_seq_cst);
    bool again = conn && ns_conn_pending(conn);
    int listed = fd;
    if (!again && atomic_compare_exchange_strong(entry_at(index), &listed, mover)) {
        if (conn) /* a handler may have listed it here */
            unlist(conn);
        if (atomic_compare_exchange_strong(&ns_thread.pending, &pending, changed(pending, last)))
            return;
    }
    /* Something is pending again, or a signal handler has changed the list, and perhaps what fd is:
     * a needless entry does no harm. */
    conn = ns_fd_conn(fd);
    if (conn && ns_conn_pending(conn))
        ns_pending_try_add(fd, conn); /* there is room: it was there */
}

/* The kinds that are pending on other connections than except. Stops as soon as one of the kinds in
 * enough is found. Drops entries that are done. */
static unsigned kinds(const struct ns_conn *except, unsigned enough)
{
    unsigned found = 0;
    for (unsigned left = count_of(atomic_load(&ns_thread.pending)); left-- > 0;) {
        uint32_t pending = atomic_load(&ns_thread.pending);
        if (left >= count_of(pending)) /* a handler has removed some */
            continue;
        int fd = atomic_load_explicit(entry_at(left), memory_order_relaxed);
        struct ns_conn *conn = ns_fd_conn(fd);
        unsigned here = conn ? ns_conn_pending(conn) : 0;
        if (!here) {
            drop(left, fd, conn, pending);
            continue;
        }
        if (conn != except)
            found |= here;
        if (found & enough || found == NS_PENDING_ALL || (found && !ns_thread.may_push))
            break;
    }
    return found;
}

unsigned ns_pending_kinds(void)
{
    return kinds(NULL, 0);
}

bool ns_pending_elsewhere(const struct ns_conn *conn)
{
    return kinds(conn, NS_PENDING_ALL) != 0;
}

void ns_pending_drain(void (*send)(int fd, struct ns_conn *conn))
{
    for (;;) {
        uint32_t pending = atomic_load(&ns_thread.pending);
        unsigned count = count_of(pending);
        if (!count)
            return;
        int fd = atomic_load_explicit(entry_at(count - 1), memory_order_relaxed);
        struct ns_conn *conn = ns_fd_conn(fd);
        if (conn) {
            unlist(conn);
            send(fd, conn);
        }
        atomic_compare_exchange_strong(&ns_thread.pending, &pending, changed(pending, count - 1));
    }
}

void ns_pending_each(void (*visit)(int fd, struct ns_conn *conn))
{
    unsigned count = count_of(atomic_load(&ns_thread.pending));
    for (unsigned i = 0; i < count; i++) {
        int fd = atomic_load_explicit(entry_at(i), memory_order_relaxed);
        struct ns_conn *conn = ns_fd_conn(fd);
        if (conn)
            visit(fd, conn);
    }
}
