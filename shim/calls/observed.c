/* SPDX-License-Identifier: MIT */
/* The calls of a process that is observed: each stands between the exported function and the C
 * library, in the table of real.h, and looks before and after. They are put there only where a rule
 * observes, so that nobody else executes an instruction for them. Each makes the call as it was
 * asked, once. As async-signal-safe as the calls themselves. */
#include "calls/observed.h"

#include "calls/calls.h"
#include "conn/recorder.h"
#include "traffic/observe.h"

#include <stdarg.h>
#include <sys/syscall.h>

/* What was in the table before. */
static struct ns_real below;

/* --- what the rows of each kind look at --- */

#define NS_OBSERVED_WRITE(type, name, parameters, arguments, fd, bytes)                            \
    static type observed_##name parameters                                                         \
    {                                                                                              \
        struct ns_conn *conn = ns_observed(fd);                                                    \
        if (!conn)                                                                                 \
            return below.name arguments;                                                           \
        ns_observe_write(fd, conn);                                                                \
        type result = below.name arguments;                                                        \
        if (result > 0 && ns_fd_names(fd, conn))                                                   \
            ns_observe_wrote(fd, conn, bytes);                                                     \
        return result;                                                                             \
    }

static size_t bytes_of(const struct mmsghdr *messages, int count)
{
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += messages[i].msg_len;
    return bytes;
}

/* Does a call on fd wait where there is nothing? Of what is no TCP socket nobody knows, and then no
 * answer is waited for. */
static bool may_wait(int fd, int flags)
{
    struct ns_conn *conn = ns_fd_conn(fd);
    return conn && !NS_GET(conn, nonblock) && !(flags & (MSG_DONTWAIT | MSG_ERRQUEUE));
}

#define NS_OBSERVED_READ(type, name, parameters, arguments, fd, flags)                             \
    static type observed_##name parameters                                                         \
    {                                                                                              \
        struct ns_conn *conn = ns_observed(fd);                                                    \
        bool waits = may_wait(fd, flags);                                                          \
        if (waits)                                                                                 \
            ns_observe_wait(conn);                                                                 \
        type result = below.name arguments;                                                        \
        if (waits)                                                                                 \
            ns_observe_woke(result > 0 ? conn : NULL);                                             \
        if (conn && result > 0 && !((flags) & (MSG_PEEK | MSG_ERRQUEUE)) && ns_fd_names(fd, conn)) \
            ns_observe_read(fd, conn);                                                             \
        return result;                                                                             \
    }

#define NS_OBSERVED_WAIT(type, name, parameters, arguments, when)                                  \
    static type observed_##name parameters                                                         \
    {                                                                                              \
        if (!(when))                                                                               \
            return below.name arguments;                                                           \
        ns_observe_wait(NULL);                                                                     \
        type result = below.name arguments;                                                        \
        ns_observe_woke(NULL);                                                                     \
        return result;                                                                             \
    }

#define NS_OBSERVED_PRIVILEGES(name, parameters, arguments)                                        \
    static int observed_##name parameters                                                          \
    {                                                                                              \
        ns_recorder_make();                                                                        \
        return below.name arguments;                                                               \
    }

#define NS_OBSERVED_BY_HAND(name)

#include "calls/observed.def"

/* --- by hand --- */

/* One of the two is a pipe. */
static ssize_t observed_splice(int from, off64_t *from_offset, int to, off64_t *to_offset,
                               size_t size, unsigned flags)
{
    struct ns_conn *source = ns_observed(from), *target = ns_observed(to);
    bool waits = may_wait(from, 0) && !(flags & SPLICE_F_NONBLOCK);
    if (target)
        ns_observe_write(to, target);
    if (waits)
        ns_observe_wait(source);
    ssize_t result = below.splice(from, from_offset, to, to_offset, size, flags);
    if (waits)
        ns_observe_woke(NULL);
    if (target && result > 0 && ns_fd_names(to, target))
        ns_observe_wrote(to, target, (size_t)result);
    if (source && result > 0 && ns_fd_names(from, source))
        ns_observe_read(from, source);
    return result;
}

/* How Rust and others wait for their threads. */
static long observed_syscall(long number, ...)
{
    long a[6];
    va_list arguments;
    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(arguments, long);
    va_end(arguments);
    bool waits = number == SYS_futex && ns_futex_waits((int)a[1]);
    if (waits)
        ns_observe_wait(NULL);
    long result = below.syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (waits)
        ns_observe_woke(NULL);
    return result;
}

/* --- into the table --- */

static void put_between(void)
{
/* A call of a library that is not loaded yet stays as it is, and is looked up when it is made. */
#define NS_OBSERVED_BY_HAND(name)                                                                  \
    if (ns_real.name && ns_real.name != observed_##name) {                                         \
        below.name = ns_real.name;                                                                 \
        __atomic_store_n(&ns_real.name, observed_##name, __ATOMIC_RELEASE);                        \
    }
#define NS_OBSERVED_WRITE(type, name, ...) NS_OBSERVED_BY_HAND(name)
#define NS_OBSERVED_READ NS_OBSERVED_WRITE
#define NS_OBSERVED_WAIT NS_OBSERVED_WRITE
#define NS_OBSERVED_PRIVILEGES(name, ...) NS_OBSERVED_BY_HAND(name)
#include "calls/observed.def"
}

void ns_observed_open(void)
{
    put_between();
    ns_real_on_load(put_between);
}
