/* SPDX-License-Identifier: MIT */
/* See owners.h. This process never enters another namespace: a child does, which shares nothing
 * with it. Not async-signal-safe. */
#include "watch/owners.h"

#include "process/scope.h"
#include "watch/diag.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Namespaces keep their descriptors; reading /proc needs so many others for a moment. */
enum { LEFT_FOR_PROC = 16 };

/* Of a namespace: for single sockets, and for lists. */
enum { SOCKETS = 2, SOCKETS_SIZE = SOCKETS * sizeof(int) };

void ns_netns_raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int open_sockets(int sockets[SOCKETS])
{
    int error = 0;
    for (int i = 0; i < SOCKETS; i++)
        if ((sockets[i] = ns_diag_open()) < 0)
            error = sockets[i];
    return error;
}

/* Root may enter a namespace directly. An ordinary user must first enter his own user namespace, as
 * of a rootless container. */
static int enter(int network, int user)
{
    if (setns(network, CLONE_NEWNET) == 0)
        return 0;
    if (user < 0 || setns(user, CLONE_NEWUSER) != 0 || setns(network, CLONE_NEWNET) != 0)
        return -EPERM;
    return 0;
}

/* Sends the sockets to the other process, or receives them. 0 or -errno. */
static int pass(int end, int sockets[SOCKETS], bool sends)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(SOCKETS_SIZE)];
    } control = {.head = {.cmsg_len = CMSG_LEN(SOCKETS_SIZE),
                          .cmsg_level = SOL_SOCKET,
                          .cmsg_type = SCM_RIGHTS}};
    char byte = 0;
    struct iovec data = {&byte, sizeof byte};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    memcpy(CMSG_DATA(&control.head), sockets, SOCKETS_SIZE);
    if ((sends ? sendmsg(end, &message, 0)
               : recvmsg(end, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT)) != sizeof byte)
        return -errno;
    memcpy(sockets, CMSG_DATA(&control.head), SOCKETS_SIZE);
    return message.msg_flags & MSG_CTRUNC ? -EMFILE : 0;
}

/* In the child. Returns the exit status: 0 or an errno. Root of the other user namespace has all
 * rights over the child, and must get neither its memory nor a descriptor of the command. */
static int open_inside(int network, int user, int end)
{
    int sockets[SOCKETS];
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    dup2(network, STDIN_FILENO);
    user = dup2(user, STDOUT_FILENO);
    dup2(end, STDERR_FILENO);
    syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0); /* Linux 5.9 */
    int error = enter(STDIN_FILENO, user);
    if (!error)
        error = open_sockets(sockets);
    return -(error ? error : pass(STDERR_FILENO, sockets, true));
}

/* Get netlink sockets that a child makes in the namespace; they stay bound to it. */
static int open_there(int network, int user, int sockets[SOCKETS])
{
    int ends[2], status = 0;
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) != 0)
        return -errno;
    const pid_t child = fork();
    if (child == 0)
        _exit(open_inside(network, user, ends[1]));
    int error = child < 0 ? -errno : 0;
    close(ends[1]);
    /* It can be stopped and killed from there: try again later. */
    while (!error && (waitpid(child, &status, WUNTRACED) < 0 ? errno == EINTR : WIFSTOPPED(status)))
        kill(child, SIGKILL);
    if (!error)
        error = WIFEXITED(status) ? -WEXITSTATUS(status) : -EAGAIN;
    if (!error)
        error = pass(ends[0], sockets, false);
    close(ends[0]);
    return error;
}

static int open_netns(int directory, const struct stat *there, int sockets[SOCKETS])
{
    struct stat own;
    if (stat("/proc/self/ns/net", &own) == 0 && own.st_dev == there->st_dev &&
        own.st_ino == there->st_ino)
        return open_sockets(sockets);
    NS_AUTO_CLOSE int network = openat(directory, "ns/net", O_RDONLY | O_CLOEXEC);
    if (network < 0)
        return -errno;
    NS_AUTO_CLOSE int user = openat(directory, "ns/user", O_RDONLY | O_CLOEXEC);
    return open_there(network, user, sockets);
}

static void end_netns(struct ns_netns *netns)
{
    if (netns->fd >= 0)
        close(netns->fd);
    if (netns->list_fd >= 0)
        close(netns->list_fd);
    free(netns);
}

static int add_netns(struct ns_owners *owners, int directory, const struct stat *there)
{
    struct ns_netns *netns = ns_allocate(1, sizeof *netns);
    struct rlimit limit;
    int sockets[SOCKETS] = {-EPERM, -EPERM}, error = open_netns(directory, there, sockets);
    *netns = (struct ns_netns){
        .device = there->st_dev, .inode = there->st_ino, .fd = sockets[0], .list_fd = sockets[1]};
    if (!error && getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
        (rlim_t)netns->list_fd + LEFT_FOR_PROC >= limit.rlim_cur)
        error = -EMFILE;
    /* A namespace that may not be entered is kept, so that it is not tried again. Other errors are
     * about the process, which may be ending, or will pass. */
    if (error && error != -EPERM) {
        end_netns(netns);
        return error;
    }
    NS_GROW(owners->namespaces, owners->n_namespaces);
    owners->namespaces[owners->n_namespaces++] = netns;
    return 0;
}

int ns_netns_note(struct ns_owners *owners, int directory)
{
    struct stat there;
    size_t i = 0;
    if (fstatat(directory, "ns/net", &there, 0) != 0)
        return -errno;
    while (i < owners->n_namespaces && (owners->namespaces[i]->inode != there.st_ino ||
                                        owners->namespaces[i]->device != there.st_dev))
        i++;
    int error = i < owners->n_namespaces ? 0 : add_netns(owners, directory, &there);
    if (error)
        return error;
    owners->namespaces[i]->round = owners->stamp;
    return owners->namespaces[i]->fd < 0 ? owners->namespaces[i]->fd : 0;
}

void ns_netns_drop_unused(struct ns_owners *owners, uint32_t round)
{
    size_t kept = 0;
    for (size_t i = 0; i < owners->n_namespaces; i++)
        if ((int32_t)(round - owners->namespaces[i]->round) > 1)
            end_netns(owners->namespaces[i]);
        else
            owners->namespaces[kept++] = owners->namespaces[i];
    owners->n_namespaces = kept;
}

void ns_netns_release(struct ns_owners *owners)
{
    for (size_t i = 0; i < owners->n_namespaces; i++)
        end_netns(owners->namespaces[i]);
    owners->n_namespaces = 0;
    free(owners->namespaces);
}
