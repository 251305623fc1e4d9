/* SPDX-License-Identifier: MIT */
/* Reads of stdio, which enter the kernel inside libc. Until the process has a stream of a
 * connection, an exported function is one load and a jump to libc's. Must never touch a stream. */
#define __NO_INLINE__ 1 /* glibc's headers would define getline and fread_unlocked, too */
#include "calls/calls.h"
#include "traffic/in.h"

/* Start-up is done, and there is no stream of a connection: each exported function is a jump. */
static _Atomic bool passes;

void ns_stdio_start(void)
{
    atomic_store(&passes, true);
}

void ns_stdio_reads(int fd)
{
    const struct ns_conn *conn = ns_fd_conn(fd); /* it may be connected later */
    if (conn && ns_conn_is_tracked(conn) &&
        ns_real_has(NS_CALL_gnu_get_libc_version)) /* otherwise it is another struct FILE */
        atomic_store(&passes, false);
}

/* Such a read may wait for several segments in one call. Returns its connection; NULL: it has none,
 * or its data is in the stream's buffer. */
static struct ns_conn *before(const FILE *stream)
{
    if (!ns_fd_has_place(0) || stream->_IO_read_ptr < stream->_IO_read_end)
        return NULL;
    struct ns_conn *conn = ns_socket_managed(stream->_fileno, false);
    if (conn) {
        if (!(NS_GET(conn, no_batch) & NS_UNSEEN)) /* dup2() has put it under the stream */
            ns_handover_unseen(stream->_fileno);
        ns_before_wait();
        ns_in_begin_whole(stream->_fileno, conn);
    }
    return conn;
}

#define NS_CALL(...)
#define NS_STREAM(type, name, parameters, arguments, stream, failure)                              \
    __attribute__((noinline)) static type slow_##name parameters                                   \
    {                                                                                              \
        struct ns_conn *conn = before(stream);                                                     \
        type result = NS_REAL(name) arguments;                                                     \
        if (conn)                                                                                  \
            ns_in_end_whole(stream->_fileno, conn);                                                \
        return result;                                                                             \
    }                                                                                              \
    NS_EXPORT type name parameters                                                                 \
    {                                                                                              \
        return __builtin_expect(atomic_load_explicit(&passes, memory_order_relaxed), 1)            \
                   ? NS_NEXT(name) arguments                                                       \
                   : slow_##name arguments;                                                        \
    }
#include "base/calls.def"
