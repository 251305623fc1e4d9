/* SPDX-License-Identifier: MIT */
/* The debts of a thread. Owns ns_thread and the pages behind it. Must never block, allocate with
 * malloc or hold a lock: it runs in front of every wait and in signal handlers. Async-signal-safe,
 * ns_settle_open excepted. */
#include "traffic/settle.h"

#include "hold/deadline.h"
#include "traffic/push.h"
#include "base/real.h"

#include <sys/mman.h>
#include <sys/syscall.h>

enum { MORE_SIZE = 4096, MORE_COUNT = MORE_SIZE / (int)sizeof(int) };

_Thread_local struct ns_thread ns_thread;
_Static_assert(sizeof(struct ns_thread) <= 64, "static TLS is scarce in processes that dlopen us");

static _Atomic uint32_t threads;

/* The libc's own pthread_key_create and pthread_setspecific; NULL where libpthread is not loaded,
 * and then there are no threads that could exit. */
static int (*key_set)(unsigned, const void *);
static unsigned exit_key;

static void thread_exits(void *unused)
{
    (void)unused;
    ns_settle(NS_OWES_ALL);
    _Atomic int *more = atomic_exchange(&ns_thread.more, NULL);
    if (more)
        munmap((void *)more, MORE_SIZE);
    /* A later destructor may still write; its debts are the kernel's. */
}

void ns_settle_open(void)
{
    int (*create)(unsigned *, void (*)(void *)) = NULL;
    *(void **)&create = ns_real_optional("pthread_key_create");
    if (create && create(&exit_key, thread_exits) == 0)
        *(void **)&key_set = ns_real_optional("pthread_setspecific");
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
    if (index < NS_OWED_INLINE)
        return &ns_thread.first[index];
    return &ns_thread.more[index - NS_OWED_INLINE];
}

static inline unsigned debts_of(struct ns_sock *slot)
{
    unsigned debts = 0;
    if (NS_GET(slot, joins) || atomic_load(&slot->held_until))
        debts = NS_OWES_PUSH;
    if (ns_ack_owes(ns_fd_ack(slot)))
        debts |= NS_OWES_ACK;
    return debts;
}

/* Before an entry goes, so that a signal handler, or whoever it jumps to, lists it anew: an entry
 * too many does no harm, and one too few is a stall. */
static inline void unlist(struct ns_sock *slot)
{
    if (NS_GET(slot, lister) == ns_thread.token)
        NS_PUT(slot, lister, 0);
}

/* Room for one more entry at index? Allocates the page at the first one beyond the inline ones. */
static bool has_room(unsigned index)
{
    if (index < NS_OWED_INLINE)
        return true;
    if (index >= NS_OWED_INLINE + MORE_COUNT)
        return false;
    if (atomic_load(&ns_thread.more))
        return true;
    int saved = errno;
    void *page = mmap(NULL, MORE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = saved;
    if (page == MAP_FAILED)
        return false;
    _Atomic int *expected = NULL;
    /* Against a signal handler that did the same. */
    if (!atomic_compare_exchange_strong(&ns_thread.more, &expected, page))
        munmap(page, MORE_SIZE);
    return true;
}

static void push_entry(int fd)
{
    for (;;) {
        uint32_t owed = atomic_load(&ns_thread.owed);
        unsigned count = count_of(owed);
        if (!has_room(count)) {
            ns_settle(NS_OWES_ALL);
            continue;
        }
        atomic_store_explicit(entry_at(count), fd, memory_order_relaxed);
        if (atomic_compare_exchange_strong(&ns_thread.owed, &owed, changed(owed, count + 1)))
            return;
    }
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

void ns_owe(int fd, struct ns_sock *slot)
{
    if (__builtin_expect(!ns_thread.token, 0))
        ns_thread_begin();
    push_entry(fd); /* first: see unlist */
    NS_PUT(slot, lister, ns_thread.token);
}

/* Take the settled entry at index off the list; the last one takes its place. owed is the list as
 * the caller saw it. */
static void drop(unsigned index, int fd, struct ns_sock *slot, uint32_t owed)
{
    unsigned last = count_of(owed) - 1;
    int mover = atomic_load_explicit(entry_at(last), memory_order_relaxed);
    /* Before the look below: whoever interrupts us from now on lists fd anew. */
    if (slot)
        unlist(slot);
    atomic_signal_fence(memory_order_seq_cst);
    bool owes = slot && debts_of(slot);
    int listed = fd;
    if (!owes && atomic_compare_exchange_strong(entry_at(index), &listed, mover)) {
        if (slot) /* a handler may have listed it just there */
            unlist(slot);
        if (atomic_compare_exchange_strong(&ns_thread.owed, &owed, changed(owed, last)))
            return;
    }
    /* It owes again, or a signal handler has changed the list: an entry too many does no harm. */
    if (slot && debts_of(slot))
        ns_owe(fd, slot);
}

/* What is owed but for one descriptor; nobody looks further once any of the kinds in any is found.
 * Drops what it finds settled. */
static unsigned owed_but(int but, unsigned any)
{
    unsigned debts = 0;
    for (unsigned left = count_of(atomic_load(&ns_thread.owed)); left-- > 0;) {
        uint32_t owed = atomic_load(&ns_thread.owed);
        if (left >= count_of(owed)) /* a handler has settled some */
            continue;
        int fd = atomic_load_explicit(entry_at(left), memory_order_relaxed);
        struct ns_sock *slot = ns_fd_slot(fd);
        unsigned debt = slot ? debts_of(slot) : 0;
        if (!debt) {
            drop(left, fd, slot, owed);
            continue;
        }
        if (fd != but)
            debts |= debt;
        if (debts & any || debts == NS_OWES_ALL || (debts && !ns_thread.may_push))
            break;
    }
    return debts;
}

unsigned ns_owed(void)
{
    return owed_but(-1, 0);
}

bool ns_owes_elsewhere(int fd)
{
    return owed_but(fd, NS_OWES_ALL) != 0;
}

static void settle_one(int fd, struct ns_sock *slot, unsigned what)
{
    if (what & NS_OWES_PUSH)
        ns_push(fd, slot);
    if (what & NS_OWES_ACK && ns_ack_owes(ns_fd_ack(slot)))
        ns_acknowledge(fd, slot);
}

/* An entry goes once it is settled, and not before: a signal handler may jump out of here. */
static void settle_all(void)
{
    for (;;) {
        uint32_t owed = atomic_load(&ns_thread.owed);
        unsigned count = count_of(owed);
        if (!count)
            return;
        int fd = atomic_load_explicit(entry_at(count - 1), memory_order_relaxed);
        struct ns_sock *slot = ns_fd_slot(fd);
        if (slot) {
            unlist(slot);
            settle_one(fd, slot, NS_OWES_ALL);
        }
        atomic_compare_exchange_strong(&ns_thread.owed, &owed, changed(owed, count - 1));
    }
}

/* Settle what only, of the entries that want it. They stay on the list. */
static void settle_some(unsigned what, bool (*wants)(struct ns_sock *slot))
{
    unsigned count = count_of(atomic_load(&ns_thread.owed));
    for (unsigned i = 0; i < count; i++) {
        int fd = atomic_load_explicit(entry_at(i), memory_order_relaxed);
        struct ns_sock *slot = ns_fd_slot(fd);
        if (slot && (!wants || wants(slot)))
            settle_one(fd, slot, what);
    }
}

void ns_settle(unsigned what)
{
    int saved = errno;
    if (what & NS_OWES_PUSH)
        ns_thread.may_push = false; /* before, so that a signal handler may set it again */
    if (what == NS_OWES_ALL)
        settle_all();
    else
        settle_some(what, NULL);
    errno = saved;
}

/* Nothing was written there between the last look and the one before it. */
static bool is_quiet(struct ns_sock *slot)
{
    return NS_GET(slot, send) != NS_SEND_ADAPTIVE ||
           ns_fd_burst(slot).look != (uint8_t)(ns_thread.looks - 1);
}

void ns_settle_quiet(void)
{
    int saved = errno;
    settle_some(NS_OWES_PUSH, is_quiet);
    errno = saved;
}

void ns_settle_unless_ready(int fd, short events)
{
    if (!ns_owed())
        return;
    struct pollfd one = {.fd = fd, .events = events};
    struct timespec none = {0, 0};
    int saved = errno;
    /* By number: no place to be cancelled at, which sendfile for one is not. */
    long ready = NS_REAL(syscall)(SYS_ppoll, &one, 1l, &none, NULL, 0l);
    errno = saved;
    if (ready <= 0)
        ns_settle(NS_OWES_ALL);
}

static void push_joined(int fd, struct ns_sock *slot, void *context)
{
    (void)context;
    if (NS_GET(slot, joins))
        ns_push(fd, slot);
}

void ns_settle_process(void)
{
    int saved = errno;
    ns_settle(NS_OWES_PUSH);
    if (atomic_exchange(&ns_push_joined, false)) /* other threads' bursts */
        ns_fd_each(push_joined, NULL);
    ns_deadline_push_all();
    errno = saved;
}
