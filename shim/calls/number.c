/* SPDX-License-Identifier: MIT */
/* The exported syscall(): system calls that a program makes by number. numbers.def lists those that
 * matter. As async-signal-safe as the calls themselves. */
#include "calls/calls.h"
#include "conn/kernel.h"

#include <linux/net.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>

#ifdef SYS_socketcall
/* socketcall(2) of i386 and s390x: one number for all socket calls, with the arguments in memory.
 * a becomes the arguments of the call that does the same; the result is that call's number. */
static long number_of(long number, long a[6])
{
    static const uint16_t numbers[] = {
        [SYS_SOCKET] = SYS_socket,         [SYS_CONNECT] = SYS_connect,
        [SYS_LISTEN] = SYS_listen,         [SYS_ACCEPT] = SYS_accept4,
        [SYS_ACCEPT4] = SYS_accept4,       [SYS_SEND] = SYS_sendto,
        [SYS_SENDTO] = SYS_sendto,         [SYS_SENDMSG] = SYS_sendmsg,
        [SYS_SENDMMSG] = SYS_sendmmsg,     [SYS_RECVMSG] = SYS_recvmsg,
        [SYS_SETSOCKOPT] = SYS_setsockopt, [SYS_GETSOCKOPT] = SYS_getsockopt,
    };
    uintptr_t known = (uintptr_t)&known;
    unsigned long call = (unsigned long)a[0];
    const long *packed = (const long *)a[1];
    if (number != SYS_socketcall || call >= sizeof numbers / sizeof *numbers || !numbers[call] ||
        !ns_kernel_can_read(packed, 6 * sizeof *packed, &known))
        return number;
    memcpy(a, packed, 6 * sizeof *packed);
    if (call == SYS_ACCEPT) /* has no flags */
        a[3] = 0;
    return numbers[call];
}
#else
#define number_of(number, a) (number)
#endif

#ifdef __s390x__
enum { FLAGS = 1 }; /* clone()'s, after its stack (CLONE_BACKWARDS2, kernel/fork.c) */
#else
enum { FLAGS = 0 };
#endif

/* Before a call, and when it is done. */
#define NS_NUMBER_OF_CALL(name, call)
static void hook(bool done, long number, const long a[6], long result)
{
    int fd = (int)a[0];
    switch (number) {
#define NS_NUMBER(name, before, after)                                                             \
    case SYS_##name:                                                                               \
        if (done) {                                                                                \
            after;                                                                                 \
        } else {                                                                                   \
            before;                                                                                \
        }                                                                                          \
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
    NS_GATHER(long, a, 6, number);
    long result, made = number, b[6];
    memcpy(b, a, sizeof b);
    number = number_of(number, a);
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
    hook(false, number, a, 0);
    result = NS_REAL(syscall)(made, b[0], b[1], b[2], b[3], b[4], b[5]);
    if (result >= 0 && !ns_has_other_fds())
        hook(true, number, a, result);
    return result;
}
