/* SPDX-License-Identifier: MIT */
/* What a thread owes before it waits: pushes of bytes it holds back, and ACKs of data it read and
 * did not answer. The list is the thread's own; whether an entry is still a debt stands in the
 * connection, where any thread may have settled it. Nothing here blocks, settles or takes a lock;
 * errno is unchanged; all is async-signal-safe, ns_debts_open excepted. */
#ifndef NS_DEBTS_H
#define NS_DEBTS_H

#include "conn/fds.h"

enum { NS_DEBTS_INLINE = 6 };

struct ns_thread {
    /* Low half: how many entries the list has; high half: a count of changes, so that a signal
     * handler that came in between makes the exchange fail. */
    _Atomic uint32_t owed;
    uint32_t token; /* names this thread in ns_conn.listed_by; 0: none yet */
    /* Changes with every wait of this thread, and, once there is a token, differs from those of
     * other threads (but for a chance that costs a segment). */
    uint32_t epoch;
    /* auto-cork: 1 more than the one descriptor whose burst this thread holds; 0: none. Whether
     * bytes are still held there stands in its connection. */
    _Atomic int holding;
    uint8_t looks; /* how often it has looked without waiting (a poll with no time) */
    bool wrote;    /* to a connection that a rule governs, since it last looked or waited */
    bool may_push; /* some entry of the list may be a push */
    _Atomic int first[NS_DEBTS_INLINE];
    _Atomic int *_Atomic more; /* entries beyond those, one page; NULL until needed */
};

/* initial-exec: usable in a signal handler, since it is never allocated lazily. */
extern _Thread_local struct ns_thread ns_thread;

/* Start-up: have exits called when a thread that has a token ends. */
void ns_debts_open(void (*exits)(void));

/* Gives the thread its token and its first epoch. */
void ns_thread_begin(void);

/* This thread is about to make a call that may wait: its bursts are over. */
static inline void ns_epoch_ends(void)
{
    ns_thread.epoch++;
    ns_thread.wrote = false;
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

/* What this thread does owe (NS_OWES_ bits). Drops the list's entries that are settled already. */
unsigned ns_owed(void);

/* Does it owe anything but on conn itself (NULL: anything)? */
bool ns_owes_elsewhere(const struct ns_conn *conn);

/* Is conn on this thread's list? */
static inline bool ns_debts_have(const struct ns_conn *conn)
{
    return ns_thread.token && NS_GET(conn, listed_by) == ns_thread.token;
}

/* Put fd on this thread's list; the debt is marked in its connection before. Returns false if the
 * list is full: then the caller is to settle, and to ask again. */
bool ns_debts_add(int fd, struct ns_conn *conn);

/* Take each entry off the list, once settle has been called for it: not before, since a signal
 * handler may jump out of here. */
void ns_debts_drain(void (*settle)(int fd, struct ns_conn *conn));

/* Calls visit for each entry, and leaves it there. */
void ns_debts_each(void (*visit)(int fd, struct ns_conn *conn));

#endif
