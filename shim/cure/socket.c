/* SPDX-License-Identifier: MIT */
/* Owns the sockets of other processes that this one has for a moment, by pidfd_getfd(2), and their
 * options. It must never read, write or shut down one of them. */
#include "cure/code.h"
#include "conn/delack.h"
#include "cure/cure.h"
#include "process/scope.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <sys/syscall.h>
#include <unistd.h>

/* TCP_DELACK_MAX of every kernel (include/net/tcp.h): a fifth of a second. */
enum { DELACK_DEFAULT_US = 200000 };

/* A value of -1: the socket or kernel has no such option, or it is not to be changed. */
struct values {
    int nodelay; /* TCP_NODELAY */
    int delack;  /* TCP_DELACK_MAX_US */
    int mark;    /* see code.h */
};

static int get(int fd, int option)
{
    int value;
    socklen_t size = sizeof value;
    return getsockopt(fd, IPPROTO_TCP, option, &value, &size) == 0 ? value : -1;
}

/* The second word tells the BPF programs of code.h that the call is not by the program. */
static int set(int fd, int option, int value)
{
    const int words[2] = {value, NS_KERNEL_MAGIC};
    const socklen_t size = option == TCP_NODELAY ? sizeof words : sizeof value;
    return setsockopt(fd, IPPROTO_TCP, option, words, size) == 0 ? 0 : -errno;
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
    if (getsockopt(borrowed, SOL_SOCKET, SO_COOKIE, &found, &size) == 0 && found == cookie)
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
    return getsockopt(fd, IPPROTO_TCP, SAVED_SYN, &byte, &size) != 0 && errno == EINVAL && size > 1;
}

static struct values get_values(int fd)
{
    int mark = get(fd, NS_MARK_OPTION);
    if (mark == NS_MARK_OWN_0 && is_inherited(fd))
        mark = NS_MARK_OWN_1;
    return (struct values){get(fd, TCP_NODELAY), get(fd, NS_DELACK_OPTION), mark};
}

/* 0 or -errno. */
static int set_values(int fd, const struct values *values)
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

/* What a socket is to have. options: those of its rule, or 0. Outside a group, the program's own
 * TCP_NODELAY needs no mark. A listener with a TCP_SAVE_SYN of its own keeps its TCP_NODELAY. */
static struct values wanted(const struct ns_cure *cure, bool listens, bool in_group,
                            unsigned options, const struct values *now)
{
    const bool marked = listens ? now->mark == NS_MARK_OWN_0 : now->mark != NS_MARK_NONE;
    const bool is_cured = now->nodelay == 1 && marked;
    const bool saves_syns = listens && !is_cured && now->mark; /* its program asked for it */
    const int own = is_cured ? now->mark == NS_MARK_OWN_1 : now->nodelay;
    const bool sets = options & NS_CODE_NODELAY && (in_group || own == 0) && !saves_syns;
    const bool limits = options & NS_CODE_DELACK;
    const bool unmarks = is_cured || (!listens && (in_group || now->mark == NS_MARK_OWN_0));
    struct values then = {sets ? 1 : own, -1, unmarks ? NS_MARK_NONE : now->mark};
    if (sets)
        then.mark = own ? NS_MARK_OWN_1 : NS_MARK_OWN_0;
    /* The limit is not known before Linux 6.17. */
    if (now->delack < 0 ? in_group : limits != (now->delack == cure->least_delack))
        then.delack = limits ? ns_group_least_delack() : DELACK_DEFAULT_US;
    then.nodelay = then.nodelay == now->nodelay ? -1 : then.nodelay;
    then.mark = then.mark == now->mark ? -1 : then.mark;
    return then;
}

static void count(const struct ns_cure *cure, bool listens, const struct values *then,
                  struct ns_cure_row *row)
{
    /* A list shows what an undo would restore as set. */
    const bool sets = cure->list || (!cure->undo && then->nodelay != 0),
               limits = cure->list || (!cure->undo && then->delack != DELACK_DEFAULT_US);
    row->listeners += listens;
    row->connections += !listens;
    *(sets ? &row->nodelay : &row->nodelay_restored) += then->nodelay >= 0;
    *(limits ? &row->delack : &row->delack_restored) += then->delack >= 0;
}

int ns_cure_change(struct ns_cure *cure, const struct ns_owned *place, uint64_t cookie,
                   bool listens, const struct ns_rule *rule, struct ns_cure_row *row)
{
    NS_AUTO_CLOSE int fd = borrow(place->pid, place->fd, cookie);
    if (fd == -ENOENT || fd == -ESRCH || fd == -EBADF)
        return -EAGAIN;
    if (fd == -EPERM || fd == -EACCES)
        return NS_CURE_DENIED;
    if (fd < 0) {
        cure->error = fd;
        return NS_CURE_FAILED;
    }
    const unsigned options = rule ? ns_code_options_of(rule) : 0;
    const struct values now = get_values(fd);
    /* A dry run asks before there are programs. */
    const bool in_group = (cure->dry_run && !cure->undo && cure->cures_new) ||
                          (cure->cured.n > 0 && set(fd, NS_CODE_OPTION, 0) == 0);
    if (in_group && listens && cure->sets_nodelay && !cure->undo)
        return NS_CURE_ACCEPTS;
    if (!rule && !in_group && !cure->undo)
        return NS_CURE_NO_RULE;
    if (now.mark < 0)
        return rule ? NS_CURE_MPTCP : NS_CURE_NO_RULE;
    const struct values then = wanted(cure, listens, in_group && !listens, options, &now);
    int error = cure->dry_run ? 0 : set_values(fd, &then);
    if (error) {
        cure->error = error;
        return NS_CURE_FAILED;
    }
    /* Before Linux 6.17 a limit is removed that was perhaps never set. */
    const bool is_guess = !rule && !cure->undo && now.delack < 0;
    if (then.nodelay >= 0 || (then.delack >= 0 && !is_guess)) {
        count(cure, listens, &then, row);
        return NS_CURE_CHANGED;
    }
    if (!rule)
        return NS_CURE_NO_RULE;
    return options & NS_CODE_DELACK && cure->least_delack < 0 ? NS_CURE_HALF : NS_CURE_UNCHANGED;
}
