/* SPDX-License-Identifier: MIT */
/* Reads of stdio from a connection, which enter the kernel inside libc. To export them would cost
 * every program that reads a file. Instead, if an object makes a stream of a connection, its calls
 * are redirected. Must never touch a stream. */
#include "base/redirect.h"
#include "base/symbol.h"
#include "calls/calls.h"
#include "traffic/push.h"

#include <stdio.h>
#include <string.h>

/* Functions that read, and which of their parameters is the stream. getc_unlocked is compiled to a
 * call of __uflow. */
#define EACH_READER(_)                                                                             \
    _(fgets, c)                                                                                    \
    _(fgets_unlocked, c)                                                                           \
    _(__fgets_chk, d)                                                                              \
    _(getline, c)                                                                                  \
    _(getdelim, d)                                                                                 \
    _(__getdelim, d)                                                                               \
    _(fread, d)                                                                                    \
    _(fread_unlocked, d)                                                                           \
    _(__fread_chk, e)                                                                              \
    _(fgetc, a)                                                                                    \
    _(getc, a)                                                                                     \
    _(_IO_getc, a)                                                                                 \
    _(__uflow, a)
#define NAME(name, stream) #name "\0"
#define INDEX(name, stream) READER_##name,
enum { EACH_READER(INDEX) READER_COUNT };
static void *readers[READER_COUNT];

/* Such a read may wait for several segments in one call. With TCP_QUICKACK=1 the kernel
 * acknowledges each one at once, until the next write (tcp_cleanup_rbuf, net/ipv4/tcp.c). */
static void before(const FILE *stream)
{
    if (stream->_IO_read_ptr < stream->_IO_read_end)
        return;
    struct ns_conn *conn = ns_socket_managed(stream->_fileno, false);
    if (!conn)
        return;
    ns_before_wait();
    ns_acknowledge_from_now_on(stream->_fileno, conn, true);
}

/* All five argument registers are passed on, also to functions with fewer parameters. */
typedef long (*function)(long, long, long, long, long);
#define READER(name, stream)                                                                       \
    static long read_by_##name(long a, long b, long c, long d, long e)                             \
    {                                                                                              \
        function call;                                                                             \
        memcpy(&call, &readers[READER_##name], sizeof call);                                       \
        before((const FILE *)stream);                                                              \
        return call(a, b, c, d, e);                                                                \
    }
EACH_READER(READER)

/* Is this the first time for this caller? Callers after the first MOST are never redirected. */
static bool is_new(const void *caller)
{
    enum { MOST = 8 };
    static const void *_Atomic callers[MOST];
    for (unsigned i = 0; i < MOST; i++) {
        const void *known = NULL;
        if (atomic_compare_exchange_strong(&callers[i], &known, caller))
            return true;
        if (known == caller)
            return false;
    }
    return false;
}

void ns_stdio_reads(int fd, const void *within)
{
    static const char names[] = EACH_READER(NAME);
#define ROW(name, stream) {#name, (void (*)(void))read_by_##name},
    const struct ns_redirection rows[] = {EACH_READER(ROW)};
    void *found[READER_COUNT] = {NULL};
    if (!ns_socket_managed(fd, false) || !is_new(within) ||
        !ns_real_optional("gnu_get_libc_version")) /* another struct FILE */
        return;
    if (!atomic_load_explicit((void *_Atomic *)&readers[READER_fgets], memory_order_acquire)) {
        ns_symbol_find(NS_SYMBOL_NEXT, names, READER_COUNT, found);
        for (unsigned i = READER_COUNT; i-- > 0;) /* fgets is the last */
            atomic_store_explicit((void *_Atomic *)&readers[i], found[i], memory_order_release);
    }
    ns_redirect_calls(within, rows, READER_COUNT);
}
