/* SPDX-License-Identifier: MIT */
/* The exported syscall(): system calls that a program makes by number. numbers.def lists those that
 * matter. As async-signal-safe as the calls themselves. */
#include "calls/calls.h"
#include "socket/option.h"

#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* --- before: with the call's arguments --- */

static void nothing(const long a[6])
{
    (void)a;
}

static void closes(const long a[6])
{
    if (!ns_has_other_fds())
        ns_socket_closing((int)a[0]);
}

static void replaces(const long a[6])
{
    if (!ns_has_other_fds())
        ns_before_replacing((int)a[0], (int)a[1]);
}

static void closes_range(const long a[6])
{
    ns_before_close_range((unsigned)a[0], (unsigned)a[1], (int)a[2]);
}

static void accepts(const long a[6])
{
    ns_before_accept((int)a[0]);
}

static void connects(const long a[6])
{
    ns_before_connect((int)a[0], (const struct sockaddr *)a[1], (socklen_t)a[2]);
}

static void listens(const long a[6])
{
    ns_before_listen((int)a[0]);
}

static void writes(const long a[6])
{
    ns_handover_unseen((int)a[0]);
}

static void splices(const long a[6])
{
    ns_handover_unseen((int)a[2]);
}

static void may_wait_for_futex(const long a[6])
{
    if (ns_futex_waits((int)a[1]))
        ns_before_wait();
}

static void may_wait_for_ring(const long a[6])
{
    if (a[2]) /* min_complete */
        ns_before_wait();
}

static void forks(const long a[6])
{
    (void)a;
    ns_before_clone(0, false);
}

static void clones(const long a[6])
{
    ns_before_clone((unsigned long)a[0], false);
}

static void execs(const long a[6])
{
    (void)a;
    ns_before_exec();
}

static void ends(const long a[6])
{
    (void)a;
    ns_before_end();
}

static void may_filter(const long a[6])
{
    if (ns_sets_filter(a[0] == SECCOMP_SET_MODE_STRICT, a[0] == SECCOMP_SET_MODE_FILTER, a[2]))
        ns_before_filter();
}

/* --- after a successful call: with its arguments and its result --- */

static void no_more(const long a[6], long result)
{
    (void)a;
    (void)result;
}

static void makes_socket(const long a[6], long result)
{
    ns_socket_created((int)result, (int)a[0], (int)a[1], (int)a[2]);
}

static void accepted(const long a[6], long result)
{
    ns_socket_accepted((int)a[0], (int)result, 0);
}

static void accepted4(const long a[6], long result)
{
    ns_socket_accepted((int)a[0], (int)result, (int)a[3]);
}

static void controls(const long a[6], long result)
{
    ns_after_fcntl((int)a[0], (int)a[1], a[2], (int)result);
}

/* ns_socket_use is not called here, because it may read the option itself. */
static void answers(const long a[6], long result)
{
    const struct ns_conn *conn = ns_fd_conn((int)a[0]);
    (void)result;
    if (conn && NS_GET(conn, kind) > NS_CONN_ASK)
        ns_option_answer(conn, (int)a[1], (int)a[2], (void *)a[3], (const socklen_t *)a[4]);
}

static void receives_message(const long a[6], long result)
{
    const struct msghdr *message = (const struct msghdr *)a[1];
    (void)result;
    if ((uint32_t)message->msg_controllen && !ns_fd_conn((int)a[0]))
        ns_rights_received(message);
}

static void duplicates(const long a[6], long result)
{
    ns_handover_duplicated((int)a[0], (int)result);
}

static void receives(const long a[6], long result)
{
    (void)a;
    ns_socket_arrived((int)result, true);
}

/* From now on something may write to any socket unseen. */
static void writes_anywhere(const long a[6], long result)
{
    (void)a;
    (void)result;
    ns_handover_all_unseen();
}

static void may_be_child(const long a[6], long result)
{
    (void)a;
    if (result == 0)
        ns_in_child();
}

static void may_be_clone(const long a[6], long result)
{
    if (!((unsigned long)a[0] & CLONE_VM))
        may_be_child(a, result);
}

struct number {
    void (*before)(const long a[6]);
    void (*after)(const long a[6], long result);
};

/* The hooks of a number. */
static struct number meaning(long number)
{
    switch (number) {
#define NS_NUMBER(name, before, after)                                                             \
    case SYS_##name:                                                                               \
        return (struct number){before, after};
#define NS_NUMBER_OF_CALL(name, call)
#include "calls/numbers.def"
#undef NS_NUMBER
#undef NS_NUMBER_OF_CALL
    default:
        return (struct number){nothing, no_more};
    }
}

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
#undef NS_NUMBER
#undef NS_NUMBER_OF_CALL
    default:
        break;
    }
    struct number means = meaning(number);
    means.before(a);
    result = NS_REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (result >= 0 && !ns_has_other_fds())
        means.after(a, result);
    return result;
}
