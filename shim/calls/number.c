/* SPDX-License-Identifier: MIT */
/* The exported syscall(): system calls that a program makes by number. numbers.def lists those that
 * matter. As async-signal-safe as the calls themselves. */
#include "calls/calls.h"
#include "socket/option.h"

#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void writes(int fd)
{
    ns_socket_managed(fd, false); /* it may be inherited */
    ns_handover_unseen(fd);
}

/* ns_socket_use is not called here, because it may read the option itself. */
static void answers(const long a[6])
{
    const struct ns_conn *conn = ns_fd_conn((int)a[0]);
    if (conn && NS_GET(conn, kind) > NS_CONN_ASK)
        ns_option_answer(conn, (int)a[1], (int)a[2], (void *)a[3], (const socklen_t *)a[4]);
}

static void receives(int fd, const struct msghdr *message)
{
    if ((uint32_t)message->msg_controllen && !ns_fd_conn(fd))
        ns_rights_received(message);
}

#define NS_NUMBER_OF_CALL(name, call)
static void before(long number, const long a[6])
{
    int fd = (int)a[0];
    switch (number) {
#define NS_NUMBER(name, before, after)                                                             \
    case SYS_##name:                                                                               \
        before;                                                                                    \
        break;
#include "calls/numbers.def"
#undef NS_NUMBER
    default:
        break;
    }
}

static void after(long number, const long a[6], long result)
{
    int fd = (int)a[0];
    switch (number) {
#define NS_NUMBER(name, before, after)                                                             \
    case SYS_##name:                                                                               \
        after;                                                                                     \
        break;
#include "calls/numbers.def"
#undef NS_NUMBER
    default:
        break;
    }
}
#undef NS_NUMBER_OF_CALL

/* syscall takes up to six arguments of register size. If fewer were passed, the others are whatever
 * the registers and the stack contain, and the kernel ignores them, as with libc's own syscall. */
NS_EXPORT long syscall(long number, ...)
{
    long a[6];
    va_list arguments;
    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(arguments, long);
    va_end(arguments);
    long result;
    switch (ns_thread.by_number ? -1 : number) {
#define NS_NUMBER(name, before, after)
#define NS_NUMBER_OF_CALL(name, call)                                                              \
    case SYS_##name:                                                                               \
        ns_thread.by_number = true;                                                                \
        result = call;                                                                             \
        ns_thread.by_number = false;                                                               \
        return result;
#include "calls/numbers.def"
    default:
        break;
    }
    before(number, a);
    result = NS_REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (result >= 0 && !ns_has_other_fds())
        after(number, a, result);
    return result;
}
