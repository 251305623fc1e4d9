/* SPDX-License-Identifier: MIT */
/* What this thread owes before it waits: pushes of bytes it holds back, and ACKs of data it read
 * and did not answer. The list is the thread's own; whether an entry is still a debt stands in the
 * slot, where any thread may have settled it. Nothing here blocks or takes a lock. */
#ifndef NS_SETTLE_H
#define NS_SETTLE_H

#include "conn/fds.h"

enum { NS_OWES_PUSH = 1, NS_OWES_ACK = 2, NS_OWES_ALL = 3 };

enum { NS_OWED_INLINE = 6 };

struct ns_thread {
    /* Low half: how many entries the list has; high half: a count of changes, so that a signal
     * handler that came in between makes the exchange fail. */
    _Atomic uint32_t owed;
    uint32_t token; /* names this thread in ns_sock.lister; 0: none yet */
    /* Changes with every wait of this thread, and, once there is a token, differs from those of
     * other threads (but for a chance that costs a segment). */
    uint32_t epoch;
    /* auto-cork: 1 more than the one descriptor whose burst this thread holds; 0: none. Whether
     * bytes are still held there stands in its slot. */
    _Atomic int holding;
    uint8_t looks; /* how often it has looked without waiting (a poll with no time) */
    bool wrote;    /* to a connection that a rule governs, since it last looked or waited */
    bool may_push; /* some entry of the list may be a push */
    _Atomic int first[NS_OWED_INLINE];
    _Atomic int *_Atomic more; /* entries beyond those, one page; NULL until needed */
};

/* initial-exec: usable in a signal handler, since it is never allocated lazily. */
extern _Thread_local struct ns_thread ns_thread;

/* This thread is about to make a call that may wait: its bursts are over. */
static inline void ns_epoch_ends(void)
{
    ns_thread.epoch++;
    ns_thread.wrote = false;
}

/* Gives the thread its token and its first epoch. Async-signal-safe, errno unchanged. */
void ns_thread_begin(void);

/* Could this thread owe anything? One load; false is certain. */
static inline bool ns_owes(void)
{
    return __builtin_expect(
        (atomic_load_explicit(&ns_thread.owed, memory_order_relaxed) & 0xffff) != 0, 0);
}

/* This thread is about to look without waiting. Returns whether that is a wait all the same: a
 * second look in a row, with nothing written in between, is how a program waits that keeps busy. */
static inline bool ns_look_begins(void)
{
    bool waits = !ns_thread.wrote;
    if (waits)
        ns_thread.epoch++;
    ns_thread.wrote = false;
    ns_thread.looks++;
    return waits;
}

/* Is fd the one descriptor on the list? */
static inline bool ns_owes_only(int fd)
{
    return (atomic_load_explicit(&ns_thread.owed, memory_order_relaxed) & 0xffff) == 1 &&
           atomic_load_explicit(&ns_thread.first[0], memory_order_relaxed) == fd;
}

/* What this thread does owe (NS_OWES_ bits). Drops the list's entries that are settled already.
 * Async-signal-safe; errno unchanged. */
unsigned ns_owed(void);

/* Does it owe anything but on fd itself? */
bool ns_owes_elsewhere(int fd);

/* Settle the debts of this thread of the kinds in what. Called before anything that may block.
 * Never blocks itself, never allocates; errno is unchanged. Async-signal-safe. */
void ns_settle(unsigned what);

/* A look has found something, or its thread writes on and on: push only the bursts that nobody has
 * added to since the look before it, so that an answer does not lie there while an event loop is
 * busy, and a stream goes on. Safe as ns_settle is. */
void ns_settle_quiet(void);

/* Before a call on fd that waits only if fd is not ready for events (POLLIN, POLLOUT): settle if it
 * is not. Out of line; for those who owe. */
void ns_settle_unless_ready(int fd, short events);

/* Put fd on this thread's list; the caller has marked the debt in its slot before, and knows from
 * its lister that it is not there. Never fails: where the list is full the older debts are settled.
 * Async-signal-safe, errno unchanged. */
void ns_owe(int fd, struct ns_sock *slot);

/* Something is owed on fd, as its slot says: have this thread's next wait settle it. */
static inline void ns_owe_once(int fd, struct ns_sock *slot)
{
    if (NS_GET(slot, lister) != ns_thread.token || !ns_thread.token)
        ns_owe(fd, slot);
}

/* Start-up: have the debts of a thread settled when it exits. */
void ns_settle_open(void);

/* Push every held byte of this process, whichever thread holds it: before exec and exit.
 * Async-signal-safe. */
void ns_settle_process(void);

#endif
