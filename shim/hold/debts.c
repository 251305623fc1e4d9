/* SPDX-License-Identifier: MIT */
/* The debts of a thread. Owns ns_thread and the page behind it. Must never block, allocate with
 * malloc, hold a lock or make a socket send: it runs in front of every wait and in signal handlers.
 * Async-signal-safe, ns_debts_open excepted. */
#include "hold/debts.h"

#include "base/pages.h"
#include "base/real.h"

#include <sys/mman.h>

enum { MORE_SIZE = 4096, MORE_COUNT = MORE_SIZE / (int)sizeof(int) };

_Thread_local struct ns_thread ns_thread;
_Static_assert(sizeof(struct ns_thread) <= 64, "static TLS is scarce in processes that dlopen us");

static _Atomic uint32_t threads;

/* The libc's own pthread_key_create and pthread_setspecific; NULL where libpthread is not loaded,
 * and then there are no threads that could exit. */
static int (*key_set)(unsigned, const void *);
static unsigned exit_key;
static void (*settle_at_exit)(void);

static void thread_exits(void *unused)
{
    (void)unused;
    settle_at_exit();
    _Atomic int *more = atomic_exchange(&ns_thread.more, NULL);
    if (more)
        munmap((void *)more, MORE_SIZE);
    /* A later destructor may still write; its debts are the kernel's. */
}

void ns_debts_open(void (*exits)(void))
{
    int (*create)(unsigned *, void (*)(void *)) = NULL;
    settle_at_exit = exits;
    *(void **)&create = ns_real_optional("pthread_key_create");
    if (create && create(&exit_key, thread_exits) == 0)
        *(void **)&key_set = ns_real_optional("pthread_setspecific");
}

void ns_thread_begin(void)
{
    uint32_t token;
    do
        token = atomic_fetch_add(&threads, 1) + 1;
    while (token == 0); /* 0 means none; only after 4 294 967 295 threads */
    ns_thread.token = token;
    ns_thread.epoch = token << 16;
    if (key_set)
        key_set(exit_key, &ns_thread);
}

static unsigned count_of(uint32_t owed)
{
    return owed & 0xffff;
}

/* owed after a change that leaves count entries. */
static uint32_t changed(uint32_t owed, unsigned count)
{
    return ((owed & 0xffff0000u) + 0x10000u) | count;
}

static _Atomic int *entry_at(unsigned index)
{
    if (index < NS_DEBTS_INLINE)
        return &ns_thread.first[index];
    return &ns_thread.more[index - NS_DEBTS_INLINE];
}

/* Before an entry goes, so that a signal handler, or whoever it jumps to, lists it anew: an entry
 * too many does no harm, and one too few is a stall. */
static inline void unlist(struct ns_conn *conn)
{
    if (NS_GET(conn, listed_by) == ns_thread.token)
        NS_PUT(conn, listed_by, 0);
}

/* Room for one more entry at index? Allocates the page at the first one beyond the inline ones. */
static bool has_room(unsigned index)
{
    if (index < NS_DEBTS_INLINE)
        return true;
    if (index >= NS_DEBTS_INLINE + MORE_COUNT)
        return false;
    return atomic_load(&ns_thread.more) || ns_pages_put(&ns_thread.more, NULL, MORE_SIZE);
}

/* Returns whether the list has fd at its end now, and *owed as it is then: changed in any case, for
 * whoever is about to take the entry off. A connection that had this number before may have left it
 * there. */
static bool append(int fd, uint32_t *owed)
{
    *owed = atomic_load(&ns_thread.owed);
    for (;;) {
        unsigned count = count_of(*owed), longer = count + 1;
        if (count && atomic_load_explicit(entry_at(count - 1), memory_order_relaxed) == fd)
            longer = count;
        else if (!has_room(count))
            return false;
        else
            atomic_store_explicit(entry_at(count), fd, memory_order_relaxed);
        uint32_t now = changed(*owed, longer);
        if (atomic_compare_exchange_strong(&ns_thread.owed, owed, now)) {
            *owed = now;
            return true;
        }
    }
}

bool ns_debts_add(int fd, struct ns_conn *conn)
{
    uint32_t owed;
    if (__builtin_expect(!ns_thread.token, 0))
        ns_thread_begin();
    do {
        if (!append(fd, &owed)) /* first: see unlist */
            return false;
        atomic_store(&conn->listed_by, ns_thread.token);
        /* A signal handler that came in between has taken the entry off. */
    } while (atomic_load(&ns_thread.owed) != owed);
    /* Or the number is another's by now, and the entry says nothing of conn: see ns_fd_set. */
    if (__builtin_expect(!ns_fd_names(fd, conn), 0))
        atomic_store(&conn->listed_by, 0);
    return true;
}

/* Take the settled entry at index off the list; the last one takes its place. owed is the list as
 * the caller saw it. */
static void drop(unsigned index, int fd, struct ns_conn *conn, uint32_t owed)
{
    unsigned last = count_of(owed) - 1;
    int mover = atomic_load_explicit(entry_at(last), memory_order_relaxed);
    /* Before the look below: whoever interrupts us from now on lists fd anew. */
    if (conn)
        unlist(conn);
    atomic_signal_fence(memory_order_seq_cst);
    bool owes = conn && ns_conn_owes(conn);
    int listed = fd;
    if (!owes && atomic_compare_exchange_strong(entry_at(index), &listed, mover)) {
        if (conn) /* a handler may have listed it just there */
            unlist(conn);
        if (atomic_compare_exchange_strong(&ns_thread.owed, &owed, changed(owed, last)))
            return;
    }
    /* It owes again, or a signal handler has changed the list, and perhaps what fd is: an entry too
     * many does no harm. */
    conn = ns_fd_conn(fd);
    if (conn && ns_conn_owes(conn))
        ns_debts_add(fd, conn); /* into the room that it had */
}

/* What is owed but for one connection; nobody looks further once any of the kinds in any is found.
 * Drops what it finds settled. */
static unsigned owed_but(const struct ns_conn *but, unsigned any)
{
    unsigned debts = 0;
    for (unsigned left = count_of(atomic_load(&ns_thread.owed)); left-- > 0;) {
        uint32_t owed = atomic_load(&ns_thread.owed);
        if (left >= count_of(owed)) /* a handler has settled some */
            continue;
        int fd = atomic_load_explicit(entry_at(left), memory_order_relaxed);
        struct ns_conn *conn = ns_fd_conn(fd);
        unsigned debt = conn ? ns_conn_owes(conn) : 0;
        if (!debt) {
            drop(left, fd, conn, owed);
            continue;
        }
        if (conn != but)
            debts |= debt;
        if (debts & any || debts == NS_OWES_ALL || (debts && !ns_thread.may_push))
            break;
    }
    return debts;
}

unsigned ns_owed(void)
{
    return owed_but(NULL, 0);
}

bool ns_owes_elsewhere(const struct ns_conn *conn)
{
    return owed_but(conn, NS_OWES_ALL) != 0;
}

void ns_debts_drain(void (*settle)(int fd, struct ns_conn *conn))
{
    for (;;) {
        uint32_t owed = atomic_load(&ns_thread.owed);
        unsigned count = count_of(owed);
        if (!count)
            return;
        int fd = atomic_load_explicit(entry_at(count - 1), memory_order_relaxed);
        struct ns_conn *conn = ns_fd_conn(fd);
        if (conn) {
            unlist(conn);
            settle(fd, conn);
        }
        atomic_compare_exchange_strong(&ns_thread.owed, &owed, changed(owed, count - 1));
    }
}

void ns_debts_each(void (*visit)(int fd, struct ns_conn *conn))
{
    unsigned count = count_of(atomic_load(&ns_thread.owed));
    for (unsigned i = 0; i < count; i++) {
        int fd = atomic_load_explicit(entry_at(i), memory_order_relaxed);
        struct ns_conn *conn = ns_fd_conn(fd);
        if (conn)
            visit(fd, conn);
    }
}
