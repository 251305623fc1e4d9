/* SPDX-License-Identifier: MIT */
/* Owns the sockets of other processes that this one has for a moment, by pidfd_getfd(2), and their
 * options. It must never read, write or shut down one of them. */
#include "cure/code.h"
#include "base/raw_syscall.h"
#include "conn/conn.h"
#include "cure/cure.h"
#include "process/scope.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* By the kernel's own calls: if the library is loaded into this command, too, as by ld.so.preload,
 * its setsockopt and getsockopt take the socket for one of this program. 0 or -errno. */
static int read_option(int fd, int level, int option, void *value, socklen_t *size)
{
    return (int)ns_raw_syscall(SYS_getsockopt, fd, level, option, (long)value, (long)size, 0);
}

static int get(int fd, int option)
{
    int value;
    socklen_t size = sizeof value;
    return read_option(fd, IPPROTO_TCP, option, &value, &size) == 0 ? value : -1;
}

/* The second word tells the BPF programs of code.h that the call is not by the program. */
static int set(int fd, int option, int value)
{
    const int words[2] = {value, NS_KERNEL_MAGIC};
    const socklen_t size = option == TCP_NODELAY ? sizeof words : sizeof value;
    return (int)ns_raw_syscall(SYS_setsockopt, fd, IPPROTO_TCP, option, (long)words, (long)size, 0);
}

int ns_socket_least_delack(void)
{
    NS_AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int error = set(fd, NS_DELACK_OPTION, ns_group_least_delack());
    return error ? -1 : get(fd, NS_DELACK_OPTION);
}

int ns_cure_open_process(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd >= 0)
        return fd;
    /* What a thread's id gets: EINVAL, and ENOENT since Linux 6.15. */
    return errno == EINVAL || errno == ENOENT ? -ESRCH : -errno;
}

/* Duplicates descriptor fd of a process into this one, for some microseconds: as long as it is open
 * here, a close by the process does not end the connection. -ENOENT: it is another socket by now;
 * -EPERM: not permitted; -ESRCH, -EBADF: it is gone. */
static int borrow(pid_t pid, int fd, uint64_t cookie)
{
    NS_AUTO_CLOSE int process = ns_cure_open_process(pid);
    uint64_t found;
    socklen_t size = sizeof found;
    if (process < 0)
        return process;
    int borrowed = (int)syscall(SYS_pidfd_getfd, process, fd, 0);
    if (borrowed < 0)
        return -errno;
    if (read_option(borrowed, SOL_SOCKET, SO_COOKIE, &found, &size) == 0 && found == cookie)
        return borrowed;
    close(borrowed);
    return -ENOENT;
}

/* Has a connection inherited its mark? Then its SYN was saved. A value that is too short leaves it
 * there (do_tcp_getsockopt, net/ipv4/tcp.c). */
static bool is_inherited(int fd)
{
    enum { SAVED_SYN = 28 }; /* TCP_SAVED_SYN, linux/tcp.h */
    char byte;
    socklen_t size = sizeof byte;
    return read_option(fd, IPPROTO_TCP, SAVED_SYN, &byte, &size) == -EINVAL && size > 1;
}

static struct ns_cure_values get_values(int fd)
{
    int mark = get(fd, NS_MARK_OPTION);
    if (mark == NS_MARK_OWN_0 && is_inherited(fd))
        mark = NS_MARK_OWN_1;
    return (struct ns_cure_values){get(fd, TCP_NODELAY), get(fd, NS_DELACK_OPTION), mark};
}

/* 0 or -errno. */
static int set_values(int fd, const struct ns_cure_values *values)
{
    int error = values->mark > NS_MARK_NONE ? set(fd, NS_MARK_OPTION, values->mark) : 0;
    if (!error && values->nodelay >= 0)
        error = set(fd, TCP_NODELAY, values->nodelay);
    if (!error && values->delack >= 0 && set(fd, NS_CODE_OPTION, values->delack) != 0)
        error = set(fd, NS_DELACK_OPTION, values->delack);
    if (!error && values->mark == NS_MARK_NONE) /* last: an undo that is killed can be repeated */
        error = set(fd, NS_MARK_OPTION, NS_MARK_NONE);
    return error;
}

/* All of them or none, also if the command is killed: the mark of a listener without TCP_NODELAY
 * would seem to be its program's. */
static int set_all(int fd, const struct ns_cure_values *values, const struct ns_cure_values *now)
{
    prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
    const int error = set_values(fd, values);
    if (error && values->mark >= 0) {
        set(fd, TCP_NODELAY, now->nodelay);
        set(fd, NS_MARK_OPTION, now->mark);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    return error;
}

/* What a socket is to have. Outside a group, the program's own TCP_NODELAY needs no mark. A
 * listener with a TCP_SAVE_SYN of its own keeps its TCP_NODELAY. */
static struct ns_cure_values wanted(const struct ns_cure_change *change,
                                    const struct ns_cure_values *now)
{
    const bool listens = change->listens, in_group = change->in_group && !listens;
    const int options = change->options < 0 ? 0 : change->options;
    const bool marked = listens ? now->mark == NS_MARK_OWN_0 : now->mark != NS_MARK_NONE;
    const bool is_cured = now->nodelay == 1 && marked;
    const bool saves_syns = listens && !is_cured && now->mark; /* its program asked for it */
    const int own = is_cured ? now->mark == NS_MARK_OWN_1 : now->nodelay;
    const bool sets = options & NS_CODE_NODELAY && (in_group || own == 0) && !saves_syns;
    const bool limits = options & NS_CODE_DELACK;
    const bool unmarks = is_cured || (!listens && (in_group || now->mark == NS_MARK_OWN_0));
    struct ns_cure_values then = {sets ? 1 : own, -1, unmarks ? NS_MARK_NONE : now->mark};
    if (sets)
        then.mark = own ? NS_MARK_OWN_1 : NS_MARK_OWN_0;
    /* The limit is not known before Linux 6.15. */
    if (now->delack < 0 ? in_group : limits != (now->delack == change->least_delack))
        then.delack = limits ? ns_group_least_delack() : NS_CURE_DELACK_DEFAULT_US;
    then.nodelay = then.nodelay == now->nodelay ? -1 : then.nodelay;
    then.mark = then.mark == now->mark ? -1 : then.mark;
    return then;
}

/* Of these values, those that are not spared. The mark is TCP_NODELAY's. */
static struct ns_cure_values unspared(const struct ns_cure_change *change,
                                      struct ns_cure_values values)
{
    if (change->spares & NS_CODE_NODELAY)
        values.nodelay = values.mark = -1;
    if (change->spares & NS_CODE_DELACK)
        values.delack = -1;
    return values;
}

static bool is_none(const struct ns_cure_values *values)
{
    return values->nodelay < 0 && values->delack < 0 && values->mark < 0;
}

/* Returns the result, or -errno. */
static int change_socket(struct ns_cure_change *change)
{
    NS_AUTO_CLOSE int fd = borrow(change->pid, change->fd, change->cookie);
    if (fd == -ENOENT || fd == -ESRCH || fd == -EBADF)
        return -EAGAIN;
    if (fd < 0)
        return fd == -EPERM || fd == -EACCES ? NS_CURE_DENIED : fd;
    const bool has_rule = change->options >= 0;
    const struct ns_cure_values now = get_values(fd);
    change->in_group |= change->maybe_in && set(fd, NS_CODE_OPTION, 0) == 0;
    if (change->in_group && change->listens && change->accepts)
        return NS_CURE_ACCEPTS;
    if (!has_rule && !change->in_group && !change->undo)
        return NS_CURE_NO_RULE;
    if (now.mark < 0)
        return has_rule ? NS_CURE_MPTCP : NS_CURE_NO_RULE;
    const struct ns_cure_values all = wanted(change, &now),
                                then = change->then =
                                    change->in_group ? unspared(change, all) : all;
    if (is_none(&then) && !is_none(&all))
        return NS_CURE_EARLIER;
    const int error = change->dry_run ? 0 : set_all(fd, &then, &now);
    if (error)
        return error;
    /* Before Linux 6.15 a limit is removed that was perhaps never set. */
    const bool is_guess = !has_rule && !change->undo && now.delack < 0;
    if (then.nodelay >= 0 || (then.delack >= 0 && !is_guess))
        return NS_CURE_CHANGED;
    if (!has_rule)
        return NS_CURE_NO_RULE;
    return change->options & NS_CODE_DELACK && change->least_delack < 0 ? NS_CURE_HALF
                                                                        : NS_CURE_UNCHANGED;
}

void ns_cure_change(void *data, int unused)
{
    struct ns_cure_change *change = data;
    (void)unused;
    const int result = change_socket(change);
    change->error = result < 0 && result != -EAGAIN ? result : 0;
    change->result = change->error ? NS_CURE_FAILED : result;
}
