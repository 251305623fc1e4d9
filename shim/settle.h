/* SPDX-License-Identifier: MIT */
/* What this thread owes before it waits: pushes of bytes it holds back, and ACKs of data it read
 * and did not answer. The list is the thread's own; whether an entry is still a debt stands in the
 * slot, where any thread may have settled it. Nothing here blocks or takes a lock. */
#ifndef NS_SETTLE_H
#define NS_SETTLE_H

#include "fdtable.h"

/* NS_OWES_LATER: an ACK on a connection whose answer has always come from somewhere else right
 * after it (another thread, an upstream server); it may wait a moment for that. */
enum { NS_OWES_PUSH = 1, NS_OWES_ACK = 2, NS_OWES_LATER = 4, NS_OWES_ALL = 7 };

enum { NS_OWED_INLINE = 8 };

struct ns_thread {
    /* Low half: how many entries the list has; high half: a count of changes, so that a signal
     * handler that came in between makes the exchange fail. */
    _Atomic uint32_t owed;
    uint32_t token; /* names this thread in ns_sock.lister; 0: none yet */
    /* Changes with every wait of this thread, and, once there is a token, differs from those of
     * other threads (but for a chance that costs a segment). */
    uint32_t epoch;
    /* 1 more than the one descriptor whose burst this thread holds; 0: none. Whether bytes are
     * still held there stands in its slot. */
    _Atomic int holding;
    _Atomic int first[NS_OWED_INLINE];
    _Atomic int *_Atomic more; /* entries beyond those, one page; NULL until needed */
};

/* initial-exec: usable in a signal handler, since it is never allocated lazily. */
extern _Thread_local struct ns_thread ns_thread;

/* This thread is about to make a call that may wait: its bursts are over. */
static inline void ns_epoch_ends(void)
{
    ns_thread.epoch++;
}

/* Gives the thread its token and its first epoch. Async-signal-safe, errno unchanged. */
void ns_thread_begin(void);

/* Could this thread owe anything? One load; false is certain. */
static inline bool ns_owes(void)
{
    return __builtin_expect(
        (atomic_load_explicit(&ns_thread.owed, memory_order_relaxed) & 0xffff) != 0, 0);
}

/* Is fd the one descriptor on the list? */
static inline bool ns_owes_only(int fd)
{
    return (atomic_load_explicit(&ns_thread.owed, memory_order_relaxed) & 0xffff) == 1 &&
           atomic_load_explicit(&ns_thread.first[0], memory_order_relaxed) == fd;
}

/* What this thread does owe (NS_OWES_ bits; NS_OWES_LATER may be missing where a stronger debt was
 * found). Drops the list's entries that are settled already. Async-signal-safe; errno unchanged. */
unsigned ns_owed(void);

/* Does it owe anything but on fd itself? */
bool ns_owes_elsewhere(int fd);

/* Settle the debts of this thread of the kinds in what. Called before anything that may block.
 * Never blocks itself, never allocates; errno is unchanged. Async-signal-safe. */
void ns_settle(unsigned what);

/* Put fd on this thread's list; the caller has marked the debt in its slot before, and knows from
 * its lister that it is not there. Never fails: where the list is full the older debts are settled.
 * Async-signal-safe, errno unchanged. */
void ns_owe(int fd, struct ns_sock *slot);

/* Start-up: have the debts of a thread settled when it exits. scattered: a thread may owe pushes on
 * other descriptors than the one it holds bytes on (flush-before-read; a rest that the kernel had
 * no room for). */
void ns_settle_open(bool scattered);

/* Push every held byte of this process, whichever thread holds it: before exec and exit.
 * Async-signal-safe. */
void ns_settle_process(void);

#endif
