/* SPDX-License-Identifier: MIT */
/* See pending.h. Owns ns_thread. */
#include "traffic/pending.h"

#include "base/real.h"
#include "conn/kernel.h"
#include "conn/process.h"
#include "traffic/push.h"

#include <sys/syscall.h>

/* Some compilers would align it to more, which leaves a gap. */
_Thread_local _Alignas(struct ns_thread) struct ns_thread ns_thread;
_Static_assert(sizeof(struct ns_thread) <= 576, "static TLS is scarce in processes that dlopen us");

static _Atomic uint32_t threads;
static pthread_key_t ends; /* its destructor runs in each thread that ends */
static bool sees_end;

static void end(void *unused)
{
    (void)unused;
    ns_flush_pending();
    ns_thread.id = 0; /* if a later destructor uses TCP, this one runs again */
}

void ns_thread_start(void)
{
    enum { KEPT_IN_THREAD = 32 }; /* glibc allocates memory for the values of further keys */
    /* Not NS_REAL: before 2.34 glibc has it in libpthread, which a program may lack. */
    sees_end = ns_real.pthread_key_create && ns_real.pthread_key_create(&ends, end) == 0 &&
               ends < KEPT_IN_THREAD;
}

void ns_thread_begin(void)
{
    ns_thread.id = atomic_fetch_add(&threads, 1) + 1;
    /* Far from those of other threads, and a multiple of NS_BURST_SAMPLE: samples are taken as if
     * all threads began at 0. */
    ns_thread.waits += ns_thread.id * 41475559u * NS_BURST_SAMPLE;
    if (sees_end)
        NS_REAL(pthread_setspecific)(ends, &ns_thread);
}

void ns_pending_set(int fd)
{
    do { /* again, if a signal handler has sent the set in between */
        atomic_fetch_or(&ns_thread.groups, ns_pending_bit((unsigned)fd / NS_PENDING_BITS));
        atomic_fetch_or(&ns_thread.ns_pending_word(fd), ns_pending_bit((unsigned)fd));
        atomic_fetch_or(&ns_thread.words, ns_pending_bit((unsigned)fd / NS_PENDING_WORD));
    } while (!ns_pending_has(fd));
}

/* A word is empty. */
static void unset_word(unsigned at)
{
    atomic_fetch_and(&ns_thread.words, ~ns_pending_bit(at));
    if (NS_GET(&ns_thread, bits[at])) { /* a signal handler has added something */
        atomic_fetch_or(&ns_thread.words, ns_pending_bit(at));
    } else if (!NS_GET(&ns_thread, words)) {
        NS_PUT(&ns_thread, groups, 0);
        if (NS_GET(&ns_thread, words))
            NS_PUT(&ns_thread, groups, ~0ul);
    }
}

/* What is done for a connection of the set. */
enum task { LOOK, PUSH, PUSH_FIRST, SEND_OLD, SEND };
/* What is left there. */
enum { LEFT = 1, BESIDE = 2 };

static inline unsigned visit(int fd, struct ns_conn *conn, enum task task,
                             const struct ns_conn *but)
{
    struct ns_burst burst = ns_conn_burst(conn);
    bool old = task == SEND_OLD;
    if (old ? ns_burst_waits(&burst, (uint8_t)ns_thread.waits) >= NS_PENDING_WAITS
            : task != LOOK && (task != PUSH_FIRST || !burst.crossing))
        ns_push_own(fd, conn);
    if (task == SEND ||
        (old && ns_ack_waits(ns_conn_ack(conn), ns_thread.waits) >= NS_PENDING_WAITS))
        ns_acknowledge(fd, conn);
    return !ns_pending_is(conn) ? 0 : conn == but ? LEFT : LEFT | BESIDE;
}

static unsigned lowest(unsigned long word)
{
    return (unsigned)__builtin_ctzl(word);
}

/* Visits the connections of a bit. */
static unsigned visit_bit(unsigned bit, enum task task, const struct ns_conn *but)
{
    unsigned left = 0, used = atomic_load_explicit(&ns_fd_used, memory_order_relaxed);
    for (unsigned long groups = NS_GET(&ns_thread, groups); groups; groups &= groups - 1)
        for (unsigned fd = lowest(groups) * NS_PENDING_BITS + bit; fd < used;
             fd += NS_PENDING_BITS * NS_PENDING_WORD) {
            struct ns_conn *conn = ns_fd_conn((int)fd);
            if (conn)
                left |= visit((int)fd, conn, task, but);
        }
    return left;
}

/* Visits all connections of the set, and removes descriptors with nothing left. Is something left
 * on another connection than but? LOOK ends when that is known. */
static bool visit_all(enum task task, const struct ns_conn *but)
{
    unsigned left = 0;
    int saved = errno;
    for (unsigned long words = NS_GET(&ns_thread, words); words; words &= words - 1) {
        unsigned at = lowest(words);
        for (unsigned long set = NS_GET(&ns_thread, bits[at]); set; set &= set - 1) {
            unsigned bit = at * NS_PENDING_WORD + lowest(set), here = visit_bit(bit, task, but);
            if (!here) {
                atomic_fetch_and(&ns_thread.bits[at], ~ns_pending_bit(bit));
                here = visit_bit(bit, LOOK, but); /* of a signal handler, before that */
                if (here)
                    atomic_fetch_or(&ns_thread.bits[at], ns_pending_bit(bit));
            }
            left |= here;
            if (task == LOOK && left & BESIDE)
                return true;
        }
        if (!NS_GET(&ns_thread, bits[at]))
            unset_word(at);
    }
    errno = saved;
    return left & BESIDE;
}

bool ns_pending_beside(const struct ns_conn *conn)
{
    return visit_all(LOOK, conn);
}

bool ns_pending_before_wait(void)
{
    return visit_all(PUSH_FIRST, NULL);
}

void ns_flush_pending(void)
{
    ns_thread.corked = false;
    while (NS_GET(&ns_thread, words)) /* a signal handler may add something */
        visit_all(SEND, NULL);
}

void ns_flush_pushes(void)
{
    visit_all(PUSH, NULL);
}

void ns_flush_old(void)
{
    visit_all(SEND_OLD, NULL);
}

/* Is fd ready for events, or a file, so that a call does not wait? */
static bool is_ready(int fd, short events)
{
    bool file = !ns_fd_conn(fd) && ns_kernel_is_file(fd);
    if (!ns_has_other_fds())
        ns_fd_fill(fd, file ? NS_FD_FILE : NS_FD_UNKNOWN);
    if (file)
        return true;
    struct pollfd one = {.fd = fd, .events = events};
    struct timespec none = {0, 0};
    int saved = errno;
    /* By number: ppoll() is a cancellation point, and some callers (sendfile) are not. */
    if (events)
        NS_REAL(syscall)(SYS_ppoll, &one, 1l, &none, NULL, 0l);
    errno = saved;
    return one.revents & ~POLLERR; /* which MSG_ZEROCOPY sets, and then a read waits */
}

void ns_flush_unless_ready(int fd, const struct ns_conn *conn, short events)
{
    bool reads = events == POLLIN;
    uint8_t *ready = &ns_thread.ready[reads];
    if (!ns_pending_any() || ns_pending_skips(fd, reads) || !ns_pending_beside(conn))
        return;
    if (is_ready(fd, events)) {
        *ready = *ready < NS_PENDING_READY ? *ready + 1 : NS_PENDING_READY;
    } else {
        *ready = 0;
        ns_flush_pending();
    }
}

static void push_any(int fd, struct ns_conn *conn, void *context)
{
    (void)context;
    ns_push(fd, conn);
}

void ns_flush_process(void)
{
    int saved = errno;
    if (atomic_load(&ns_push_any) && atomic_exchange(&ns_push_any, false))
        ns_fd_each(push_any, NULL);
    errno = saved;
}
