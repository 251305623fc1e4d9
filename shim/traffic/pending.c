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
_Static_assert(sizeof(struct ns_thread) <= 1024,
               "static TLS is scarce in processes that dlopen us");

static _Atomic uint32_t threads;

void ns_thread_begin(void)
{
    uint32_t id;
    do
        id = atomic_fetch_add(&threads, 1) + 1;
    while (id == 0); /* 0 means none; only after 4 294 967 295 threads */
    ns_thread.id = id;
    NS_PUT(&ns_thread, list, id << 16 | 1); /* two threads hardly ever have the same; never 0 */
}

/* ns_thread.used: the low half is the end of the list, the high half counts additions. */
enum { END = UINT16_MAX, ADDITION = UINT16_MAX + 1 };

static void send_one(int fd, struct ns_conn *conn)
{
    ns_push(fd, conn);
    ns_acknowledge(fd, conn);
}

/* Puts fd into an empty slot, from the end of the list on. Returns false if all are used. */
static bool fill_slot(int fd)
{
    unsigned end = ns_pending_end();
    for (unsigned i = 0; i < NS_PENDING_MOST; i++) {
        unsigned at = (end + i) % NS_PENDING_MOST;
        int entry = NS_GET(&ns_thread, slots[at]);
        if (entry || !atomic_compare_exchange_strong(&ns_thread.slots[at], &entry, fd + 1))
            continue;
        uint32_t used = NS_GET(&ns_thread, used), next;
        do
            next = ((used + ADDITION) & ~(uint32_t)END) | (at < (used & END) ? used & END : at + 1);
        while (!atomic_compare_exchange_strong(&ns_thread.used, &used, next));
        return true;
    }
    return false;
}

bool ns_pending_beside(const struct ns_conn *conn, bool all)
{
    uint32_t used = NS_GET(&ns_thread, used), end = 0;
    bool found = false;
    for (unsigned at = used & END; at-- > 0 && (all || !found);) {
        int entry = NS_GET(&ns_thread, slots[at]);
        struct ns_conn *other = entry ? ns_fd_conn(entry - 1) : NULL;
        if (other && ns_conn_is_pending(other)) {
            found |= other != conn;
            end = end ? end : at + 1;
            continue;
        }
        if (other)
            NS_PUT(other, listed, 0); /* now, since a signal handler may jump away */
        /* Again, since the handler may have listed it here, or another one under this number. */
        if (entry && atomic_compare_exchange_strong(&ns_thread.slots[at], &entry, 0) &&
            (other = ns_fd_conn(entry - 1))) {
            NS_PUT(other, listed, 0);
            if (ns_conn_is_pending(other))
                ns_pending_list(entry - 1, other);
        }
    }
    if (end != (used & END)) /* fails if something was added */
        atomic_compare_exchange_strong(&ns_thread.used, &used, (used & ~(uint32_t)END) | end);
    return found;
}

void ns_pending_list(int fd, struct ns_conn *conn)
{
    if (!ns_thread.id)
        ns_thread_begin();
    /* Before: if a signal handler sends the list meanwhile, it has another name afterwards. */
    uint32_t list = NS_GET(&ns_thread, list);
    if (!fill_slot(fd) && (ns_pending_beside(NULL, true), !fill_slot(fd))) {
        send_one(fd, conn);
        return;
    }
    NS_PUT(conn, listed, list);
    /* The number may name another connection by now: see ns_fd_set. */
    if (__builtin_expect(!ns_fd_names(fd, conn), 0))
        NS_PUT(conn, listed, 0);
}

/* Calls send for each entry. */
static void each(void (*send)(int fd, struct ns_conn *conn))
{
    int saved = errno;
    for (unsigned at = 0; at < ns_pending_end(); at++) {
        int fd = NS_GET(&ns_thread, slots[at]) - 1;
        struct ns_conn *conn = ns_fd_conn(fd);
        if (conn)
            send(fd, conn);
    }
    errno = saved;
}

/* Slots are emptied before their work is sent. If a signal handler jumps away in between, the
 * connection's next write or read sends it. */
void ns_flush_pending(void)
{
    uint32_t used;
    int saved = errno;
    do {
        used = NS_GET(&ns_thread, used); /* first: what is added from now on is found below */
        uint32_t next = NS_GET(&ns_thread, list) + 1;
        NS_PUT(&ns_thread, list, next ? next : 1);
        ns_thread.corked = false;
        for (unsigned at = 0; at < (used & END); at++) {
            int fd = atomic_exchange(&ns_thread.slots[at], 0) - 1;
            struct ns_conn *conn = ns_fd_conn(fd);
            if (conn)
                send_one(fd, conn);
        }
    } while (!atomic_compare_exchange_strong(&ns_thread.used, &used, used & ~(uint32_t)END));
    errno = saved;
}

void ns_flush_pushes(void)
{
    each(ns_push);
}

static void push_unless_stream(int fd, struct ns_conn *conn)
{
    if (!ns_conn_burst(conn).crossing)
        ns_push(fd, conn);
}

bool ns_pending_before_wait(void)
{
    each(push_unless_stream);
    return ns_pending_beside(NULL, false);
}

static void send_if_old(int fd, struct ns_conn *conn)
{
    struct ns_burst burst = ns_conn_burst(conn);
    struct ns_ack_state ack = ns_conn_ack(conn);
    if (ns_burst_waits(&burst, (uint8_t)ns_thread.waits) >= NS_PENDING_WAITS)
        ns_push(fd, conn);
    if (ns_ack_is_pending(ack) && ns_ack_waits(ack, ns_thread.waits) >= NS_PENDING_WAITS)
        ns_acknowledge(fd, conn);
}

void ns_flush_old(void)
{
    each(send_if_old);
    ns_pending_beside(NULL, false); /* otherwise each later call would find what is done, too */
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
    long ready = events ? NS_REAL(syscall)(SYS_ppoll, &one, 1l, &none, NULL, 0l) : 0;
    errno = saved;
    return ready > 0;
}

void ns_flush_unless_ready(int fd, const struct ns_conn *conn, short events)
{
    bool reads = events == POLLIN;
    uint8_t *ready = &ns_thread.ready[reads];
    if (!ns_pending_any() || ns_pending_skips(fd, reads) || !ns_pending_beside(conn, false))
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
