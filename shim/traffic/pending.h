/* SPDX-License-Identifier: MIT */
/* The pending work of a thread, which must be sent before it waits: bytes that are held back
 * (pushes), and ACKs of data that it read and did not answer. Each thread has a list of
 * descriptors. Whether an entry is still pending is a property of the connection, since any thread
 * may have sent it.
 *
 * Nothing here blocks, sends or takes a lock; errno is unchanged; all is async-signal-safe except
 * ns_pending_open. */
#ifndef NS_PENDING_H
#define NS_PENDING_H

#include "conn/fds.h"

enum { NS_PENDING_INLINE = 6 };

struct ns_thread {
    /* Low half: the number of entries; high half: a count of changes, so that the exchange fails
     * after a signal handler has changed the list. */
    _Atomic uint32_t pending;
    uint32_t token; /* names this thread in ns_conn.listed_by; 0: none yet */
    /* Changes with every wait of this thread. Starts at the token's high bits, so that two threads
     * hardly ever have the same epoch; if they do, that costs a segment. */
    uint32_t epoch;
    /* auto-cork: 1 + the only descriptor on which this thread holds a burst; 0: none. Whether bytes
     * are still held there is a property of the connection. */
    _Atomic int holding;
    uint8_t probes; /* counts polls with zero timeout and the like */
    bool wrote;     /* to a ruled connection since the last probe or wait */
    bool may_push;  /* some entry of the list may be a push */
    /* Inside an exported function that syscall() has called (calls/number.c). If another preloaded
     * library's definition of that function makes the call by number, too, it is passed through.
     * If a signal handler jumps out, this stays set, and the thread's calls of this kind that are
     * made by number are no longer seen. */
    bool by_number;
    /* A part of the address of the descriptors in this thread's last poll or select for
     * writability. They are read before a call only if an earlier call has read them. */
    uint16_t room;
    uint16_t whole_at; /* when a read with MSG_WAITALL began, in ticks */
    _Atomic int first[NS_PENDING_INLINE];
    _Atomic int *_Atomic more; /* further entries, one page; NULL until needed */
};

/* initial-exec: a signal handler can use it, since it is never allocated lazily. */
extern _Thread_local struct ns_thread ns_thread;

/* Start-up. exits is called when a thread ends that has a token. */
void ns_pending_open(void (*exits)(void));

/* Give this thread its token and its first epoch. */
void ns_thread_begin(void);

/* This thread is about to make a call that may wait: its bursts end. */
static inline void ns_epoch_ends(void)
{
    ns_thread.epoch++;
    ns_thread.wrote = false;
}

/* This thread is about to make a probe: a call that looks for events without waiting. Returns
 * whether it counts as a wait. It does if nothing was written since the previous probe, because
 * programs that poll busily wait in this way. */
static inline bool ns_probe_begins(void)
{
    bool waits = !ns_thread.wrote;
    if (waits)
        ns_thread.epoch++;
    ns_thread.wrote = false;
    ns_thread.probes++;
    return waits;
}

/* May anything be pending on this thread? One load. False is certain. */
static inline bool ns_pending_any(void)
{
    return __builtin_expect(
        (atomic_load_explicit(&ns_thread.pending, memory_order_relaxed) & 0xffff) != 0, 0);
}

/* Is fd the only descriptor on the list? */
static inline bool ns_pending_only(int fd)
{
    return (atomic_load_explicit(&ns_thread.pending, memory_order_relaxed) & 0xffff) == 1 &&
           atomic_load_explicit(&ns_thread.first[0], memory_order_relaxed) == fd;
}

/* What is pending on this thread (NS_PENDING_ bits). Drops entries that are done. */
unsigned ns_pending_kinds(void);

/* Is anything pending on another connection than conn? */
bool ns_pending_elsewhere(const struct ns_conn *conn);

/* Is conn on this thread's list? */
static inline bool ns_pending_has(const struct ns_conn *conn)
{
    return ns_thread.token && NS_GET(conn, listed_by) == ns_thread.token;
}

/* Put fd on this thread's list. The connection has been marked before. Returns false if the list is
 * full; the caller then flushes it and tries again. */
bool ns_pending_try_add(int fd, struct ns_conn *conn);

/* Calls send for each entry and then takes the entry off the list. Not before, since a signal
 * handler may jump out of send. */
void ns_pending_drain(void (*send)(int fd, struct ns_conn *conn));

/* Calls visit for each entry, which stays on the list. */
void ns_pending_each(void (*visit)(int fd, struct ns_conn *conn));

#endif
