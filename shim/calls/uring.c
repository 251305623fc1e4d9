/* SPDX-License-Identifier: MIT */
/* The exported functions of liburing, which makes system calls without libc. Those that make a ring
 * mark the process. Those that may wait are waits. The submitted requests show what is written,
 * read, connected and closed. Must never change a request. */
#include "base/symbol.h"
#include "calls/calls.h"
#include "traffic/push.h"

#include <dlfcn.h>
#include <linux/io_uring.h>
#include <string.h>

/* The beginning of struct io_uring, which programs have compiled in. */
struct ring {
    unsigned *khead, *ktail, *kring_mask, *kring_entries, *kflags, *kdropped, *array;
    const struct io_uring_sqe *sqes;
    unsigned head, tail; /* requests that are prepared and not submitted */
};

/* Requests of 128 bytes. Then they are not looked at. */
enum { LARGE_REQUESTS = IORING_SETUP_SQE128 | 1u << 19 /* IORING_SETUP_SQE_MIXED, 6.18 */ };
static _Atomic bool large;

/* linux/io_uring.h has these since 6.0 and 6.1. */
enum { SEND_ZC = 47, SENDMSG_ZC = 48 };

enum { NS_RING_READS = 64 };

static void enters(unsigned waits_for)
{
    if (waits_for)
        ns_before_wait();
}

/* conn, here and below: NULL if no rule governs it. */
static void writes(struct ns_conn *conn)
{
    if (!conn)
        return;
    ns_push_carries_ack(conn);
    NS_PUT(conn, flags, NS_GET(conn, flags) & (uint8_t)~NS_RING_READS);
    NS_PUT(conn, in_flight, 1);
}

/* If it is not the first since the last write, the one before has taken data. When data came is not
 * known, so nothing shows that an ACK was needless: none is skipped. */
static void reads(int fd, struct ns_conn *conn)
{
    if (!conn)
        return;
    struct ns_ack_state state = ns_conn_ack(conn);
    state.pieces = 1;
    ns_conn_ack_put(conn, state);
    if (NS_GET(conn, flags) & NS_RING_READS)
        ns_in_took_unseen(fd, conn);
    NS_PUT(conn, flags, NS_GET(conn, flags) | NS_RING_READS);
}

/* What a ring accepts is unknown until its first request, and that may be any of these. A file is
 * looked up once. */
static void looks_at(const struct io_uring_sqe *request)
{
    int fd = request->fd;
    switch (request->opcode) {
    case IORING_OP_SEND:
    case IORING_OP_SENDMSG:
    case SEND_ZC:
    case SENDMSG_ZC:
    case IORING_OP_WRITE:
    case IORING_OP_WRITEV:
    case IORING_OP_WRITE_FIXED:
        writes(ns_socket_managed(fd, true));
        break;
    case IORING_OP_RECV:
    case IORING_OP_RECVMSG:
    case IORING_OP_READ:
    case IORING_OP_READV:
    case IORING_OP_READ_FIXED:
        reads(fd, ns_socket_managed(fd, true));
        break;
    case IORING_OP_CONNECT:
        ns_socket_arrived(fd, false);
        ns_socket_connecting(fd, (const struct sockaddr *)(uintptr_t)request->addr,
                             (socklen_t)request->off);
        break;
    case IORING_OP_CLOSE:
        if (!request->splice_fd_in) /* otherwise the number of a registered file, plus 1 */
            ns_socket_closing(fd);
        break;
    default:
        break;
    }
}

static void submits(const struct ring *ring, unsigned waits_for)
{
    unsigned count = ring->tail - ring->head;
    if (count && !atomic_load_explicit(&large, memory_order_relaxed) && !ns_has_other_fds() &&
        ns_fd_is_open(0)) {
        for (unsigned i = 0; i < count && count <= *ring->kring_entries; i++) {
            const struct io_uring_sqe *request = &ring->sqes[(ring->head + i) & *ring->kring_mask];
            if (!(request->flags & IOSQE_FIXED_FILE)) /* otherwise fd is no descriptor */
                looks_at(request);
        }
    }
    enters(waits_for);
}

/* liburing's own functions. Looked up at the first call, since most processes have none, and again
 * after a dlclose(), which may have unloaded them. */
enum {
#define NS_CALL(...)
#define NS_URING(name, before) NEXT_##name,
#include "base/calls.def"
#undef NS_URING
    NEXT_COUNT
};
typedef long (*function)(long, long, long, long, long, long);
static void *_Atomic next[NEXT_COUNT];

static function find(unsigned id, const char *name)
{
    function call;
    void *found = atomic_load_explicit(&next[id], memory_order_relaxed);
    if (!found) {
        ns_symbol_find(NS_SYMBOL_FIRST, name, 1, &found);
        atomic_store_explicit(&next[id], found, memory_order_relaxed);
    }
    memcpy(&call, &found, sizeof call);
    return call;
}

NS_EXPORT int dlclose(void *handle)
{
    int result = NS_REAL(dlclose)(handle);
    for (unsigned id = 0; id < NEXT_COUNT; id++)
        if (atomic_load_explicit(&next[id], memory_order_relaxed))
            atomic_store_explicit(&next[id], NULL, memory_order_relaxed);
    return result;
}

static void makes(unsigned flags)
{
    if (flags & LARGE_REQUESTS)
        atomic_store(&large, true);
    ns_handover_all_unseen();
}

/* All six argument registers are passed on, also to functions with fewer parameters. liburing
 * returns an int. A program without liburing may look up such a function; then there is nothing to
 * call. */
#define WRAPPER(name, before, after)                                                               \
    long name(long a, long b, long c, long d, long e, long f);                                     \
    NS_EXPORT long name(long a, long b, long c, long d, long e, long f)                            \
    {                                                                                              \
        function call = find(NEXT_##name, #name);                                                  \
        if (!call)                                                                                 \
            return -ENOSYS;                                                                        \
        before;                                                                                    \
        long result = call(a, b, c, d, e, f);                                                      \
        after;                                                                                     \
        return result;                                                                             \
    }
#define NS_URING(name, before) WRAPPER(name, before, )
/* The flags are only read if the ring was made. Otherwise io_uring may be forbidden, or the pointer
 * to the flags bad. */
#define NS_URING_MAKE(name, flags) WRAPPER(name, , if ((int)result >= 0) makes(flags))
#include "base/calls.def"
