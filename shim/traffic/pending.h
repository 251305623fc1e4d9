/* SPDX-License-Identifier: MIT */
/* The pending work of a thread, which it sends before it waits: bytes that the kernel holds
 * (pushes), and ACKs of data that it read and did not answer. Only this file makes a socket send.
 * Each thread has a set of descriptors. Whether something is still pending there is a property of
 * the connection, since any thread may have sent it.
 *
 * One rule for all that is pending: it is sent at the first wait that blocks, or at the
 * NS_PENDING_WAITS-th wait after it became pending; a burst that has grown begins to count again.
 * So a stream that asks for room before each write is not interrupted, and an event loop that
 * always finds events still sends. A wait with pending work is first made with zero timeout. A
 * burst whose first write was the first after the peer's data is sent without that, as its answer
 * cannot have come. */
#ifndef NS_PENDING_H
#define NS_PENDING_H

#include "conn/fds.h"
#include "traffic/ack.h"
#include "traffic/burst.h"

/* May the kernel hold bytes on any connection of this process? Set after the connection itself is
 * marked. */
extern _Atomic bool ns_push_any;

/* The time in milliseconds, for ns_burst. The coarse clock, which is cheap and never ahead: it may
 * be late by a tick (4 ms at HZ=250). */
uint16_t ns_push_clock(void);

/* The time in microseconds, for ns_ack_state. coarse: by that clock, which may also stand still
 * while all processors are idle. */
uint32_t ns_push_time(bool coarse);

/* From now on all is by the coarse clock: a thread may not read the processor's counter
 * (PR_SET_TSC, prctl(2)). Another thread's permission says nothing about this one. */
void ns_push_without_tsc(void);

/* The milliseconds after which a held write of conn is late, by its rule: see burst.h. */
static inline unsigned ns_push_pause(const struct ns_conn *conn, const struct ns_send_mode *mode)
{
    enum { TICK = 5 }; /* the coarse clock's error, rounded up */
    const struct ns_rule *rule = mode->option == TCP_CORK ? NS_GET(conn, rule) : NULL;
    if (rule) /* not if another thread passes it on */
        return rule->max_delay_us / 1000 + TICK;
    return mode->nodelay ? NS_BURST_PAUSE : NS_BURST_NEVER;
}

/* ns_conn.full counts the waits before writes. After NS_FULL_SOON of them it becomes NS_FULL_ASK:
 * the kernel is asked whether the line is full. A late write, which may have waited for room in the
 * send buffer, sets it to NS_FULL_SOON, so that the next write asks. If the line is full, the
 * writes are left to Nagle's algorithm until NS_FULL_END, where a read counts as NS_FULL_SOON
 * waits, and a wait after which all is acknowledged as NS_FULL_DRAINED; and then the count goes on
 * from NS_FULL_AGAIN. */
enum {
    NS_FULL_AGAIN = 48,
    NS_FULL_SOON = 64,
    NS_FULL_ASK,
    NS_FULL_DRAINED = 2048,
    NS_FULL_END = NS_FULL_ASK + 2 * NS_FULL_DRAINED
};

/* Are the writes of conn left to Nagle's algorithm, since its line is full? Then what it holds
 * leaves with the next ACK, and is pushed only by a read that blocks. */
static inline bool ns_push_is_left(const struct ns_conn *conn)
{
    return NS_GET(conn, full) >= NS_FULL_ASK && NS_GET(conn, held);
}

/* Set the kernel's TCP_NODELAY to the value that the connection's rule requires, unless a burst is
 * held there. */
void ns_enforce_nodelay(int fd, struct ns_conn *conn);

/* Setting an option that holds or pushes has failed with error (-errno): find out why. */
void ns_push_failed(int fd, struct ns_conn *conn, int error);

/* Send the bytes that the kernel holds on fd, if any. */
void ns_push_held(int fd, struct ns_conn *conn);
static inline void ns_push(int fd, struct ns_conn *conn)
{
    if (NS_GET(conn, held))
        ns_push_held(fd, conn);
}

/* Send the ACK that is pending on fd, if one is. */
void ns_acknowledge(int fd, struct ns_conn *conn);

/* The application's bytes carry the pending ACK. */
void ns_push_carries_ack(struct ns_conn *conn);

enum {
    NS_PENDING_WORD = 8 * sizeof(long),                  /* bits of a word */
    NS_PENDING_BITS = NS_PENDING_WORD * NS_PENDING_WORD, /* of all words: 4096, or 1024 */
    NS_PENDING_WAITS = 2,
    NS_PENDING_READY = 16, /* see ns_pending_skips */
};

/* A descriptor is a number of three digits of base NS_PENDING_WORD. Each is a bit: the lowest one
 * in a word of bits, which the middle one counts and has a bit in words; the highest one, modulo
 * the base, in groups. A signal handler may interrupt the code that changes the set at any
 * instruction, may change the set itself, and may jump away. So each change is one atomic operation
 * that can be made again: setting the bits until all three are seen, and clearing one, after which
 * what is still pending is set again. A bit that stays set costs a look. */
struct ns_thread {
    _Atomic unsigned long words;
    uint32_t id;         /* names this thread in ns_conn.writer; 0: none yet */
    uint32_t waits;      /* counts the waits of this thread, from a number of its own */
    uint32_t whole_at;   /* when a read that waits for all began, in us; 0: not judged */
    uint8_t ready[2];    /* writes, and reads, in a row that would not have waited: see below */
    _Atomic bool corked; /* a burst of the set may be corked */
    /* Inside an exported function that syscall() has called (calls/number.c). If another preloaded
     * library's definition of that function makes the call by number, too, it is passed through.
     * If a signal handler jumps out, this stays set, and the thread's calls of this kind that are
     * made by number are no longer seen. */
    bool by_number;
    _Atomic unsigned long groups;
    _Atomic unsigned long bits[NS_PENDING_WORD];
};

/* initial-exec: a signal handler can use it, since it is never allocated lazily. */
extern _Thread_local struct ns_thread ns_thread;

/* Start-up. */
void ns_thread_start(void);

/* Give this thread its id, and let its end be a wait. */
void ns_thread_begin(void);

/* Is the burst another thread's, which goes on without the answers that this one reads, and which
 * Nagle's algorithm holds until the writer waits? */
static inline bool ns_burst_is_anothers(const struct ns_conn *conn)
{
    uint32_t writer = NS_GET(conn, writer);
    return writer && writer != ns_thread.id &&
           ns_send_modes[NS_GET(conn, send)].option == TCP_NODELAY;
}

static inline void ns_push_own(int fd, struct ns_conn *conn)
{
    if (!ns_burst_is_anothers(conn))
        ns_push(fd, conn);
}

/* Must this thread send something there before it waits? */
static inline bool ns_pending_is(const struct ns_conn *conn)
{
    return (NS_GET(conn, held) && !ns_burst_is_anothers(conn)) ||
           ns_ack_is_pending(ns_conn_ack(conn));
}

/* May anything be pending on this thread? One load. False is certain. A macro: gcc forgets what it
 * expects of the result of an inline function. */
#define ns_pending_any() __builtin_expect(NS_GET(&ns_thread, words) != 0, 0)

/* The bit of the last digit of number; the word of a descriptor. */
static inline unsigned long ns_pending_bit(unsigned number)
{
    return 1ul << number % NS_PENDING_WORD;
}
#define ns_pending_word(fd) bits[(unsigned)(fd) / NS_PENDING_WORD % NS_PENDING_WORD]

/* Is the bit of the last digit of number the only one of the word? A rotation and a comparison. */
static inline bool ns_pending_alone(unsigned long word, unsigned number)
{
    unsigned by = number % NS_PENDING_WORD;
    return (word >> by | word << (-by % NS_PENDING_WORD)) == 1;
}

/* Is fd the only descriptor of the set? */
static inline bool ns_pending_only(int fd)
{
    return ns_pending_alone(NS_GET(&ns_thread, words), (unsigned)fd / NS_PENDING_WORD) &&
           ns_pending_alone(NS_GET(&ns_thread, ns_pending_word(fd)), (unsigned)fd) &&
           ns_pending_alone(NS_GET(&ns_thread, groups), (unsigned)fd / NS_PENDING_BITS);
}

/* Is fd in the set? */
static inline bool ns_pending_has(int fd)
{
    return NS_GET(&ns_thread, words) & ns_pending_bit((unsigned)fd / NS_PENDING_WORD) &&
           NS_GET(&ns_thread, ns_pending_word(fd)) & ns_pending_bit((unsigned)fd) &&
           NS_GET(&ns_thread, groups) & ns_pending_bit((unsigned)fd / NS_PENDING_BITS);
}

/* The part of ns_pending_add that needs more than a look. */
void ns_pending_set(int fd);

/* The connection of fd has something pending, and has been marked: this thread's next wait sends
 * it. */
static inline void ns_pending_add(int fd)
{
    if (!ns_pending_has(fd))
        ns_pending_set(fd);
}

/* Before a call that may block, if ns_pending_any: sends bursts whose answer cannot have come.
 * Returns whether more is pending, so that the call must first be made with zero timeout. */
bool ns_pending_before_wait(void);

/* Is anything pending on another connection than conn? Removes descriptors whose work is done,
 * until one is found whose is not. */
bool ns_pending_beside(const struct ns_conn *conn);

/* Push what the kernel holds for this thread and send every pending ACK. Called before anything
 * that may block. */
void ns_flush_pending(void);

/* Only the pushes. */
void ns_flush_pushes(void);

/* After a wait that has not blocked: send what has been pending for NS_PENDING_WAITS waits. */
void ns_flush_old(void);

/* May the next call on fd, to which no rule applies, be made without asking whether it waits? Calls
 * on files never wait. Those of a program that writes a log, copies from a pipe or serves many
 * peers hardly ever do: after NS_PENDING_READY reads, or writes, in a row that would not have
 * waited, the kernel is asked about one in as many. If another one waits after all, Nagle's
 * algorithm sends the bytes as without the library. A cork would not, so each call is asked about
 * while a burst of the set is corked; and so is each read from a connection, whose data may wait
 * for the ACK of what was read. */
static inline bool ns_pending_skips(int fd, bool reads)
{
    uint8_t *ready = &ns_thread.ready[reads];
    if (ns_thread.corked)
        return false;
    struct ns_conn *entry = ns_fd_has_place(fd) ? ns_fd_lookup(fd) : NS_FD_UNKNOWN;
    if (entry == NS_FD_FILE)
        return true;
    if ((reads && ns_fd_is_conn(entry)) || *ready < NS_PENDING_READY ||
        *ready >= 2 * NS_PENDING_READY - 1)
        return false;
    ++*ready;
    return true;
}

/* Before a call on fd that waits only while fd is not ready for events (POLLIN or POLLOUT): flush
 * if it is not ready, and no file, unless ns_pending_skips. events 0: it is not known what makes fd
 * ready. conn: fd's own work stays. Costs a system call or two if anything is pending. */
void ns_flush_unless_ready(int fd, const struct ns_conn *conn, short events);

/* Push every held byte of this process, whichever thread holds it: before a fork, an exec and the
 * end. */
void ns_flush_process(void);

#endif
