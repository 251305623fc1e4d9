/* SPDX-License-Identifier: MIT */
/* Reads of stdio, which enter the kernel inside libc. Until the process has a stream of a
 * connection, an exported function is one load and a jump to libc's. Must never touch a stream. */
#define __NO_INLINE__ 1 /* glibc's headers would define getline and fread_unlocked, too */
#include "calls/calls.h"
#include "traffic/push.h"

/* Start-up is done, and there is no stream of a connection: each exported function is a jump. */
static _Atomic bool passes;

void ns_stdio_start(void)
{
    atomic_store(&passes, true);
}

void ns_stdio_reads(int fd)
{
    if (ns_socket_managed(fd, false) &&
        ns_real_has(NS_CALL_gnu_get_libc_version)) /* otherwise it is another struct FILE */
        atomic_store(&passes, false);
}

/* Such a read may wait for several segments in one call. With TCP_QUICKACK=1 the kernel
 * acknowledges each one at once, until the next write (tcp_cleanup_rbuf, net/ipv4/tcp.c). */
static void before(const FILE *stream)
{
    if (!ns_fd_is_open(0) || stream->_IO_read_ptr < stream->_IO_read_end)
        return;
    struct ns_conn *conn = ns_socket_managed(stream->_fileno, false);
    if (!conn)
        return;
    ns_before_wait();
    ns_acknowledge_from_now_on(stream->_fileno, conn, true);
}

#define NS_CALL(...)
#define NS_STREAM(type, name, parameters, arguments, stream, failure)                              \
    __attribute__((noinline)) static type slow_##name parameters                                   \
    {                                                                                              \
        before(stream);                                                                            \
        return NS_REAL(name) arguments;                                                            \
    }                                                                                              \
    NS_EXPORT type name parameters                                                                 \
    {                                                                                              \
        return __builtin_expect(atomic_load_explicit(&passes, memory_order_relaxed), 1)            \
                   ? NS_NEXT(name) arguments                                                       \
                   : slow_##name arguments;                                                        \
    }
#include "base/calls.def"
