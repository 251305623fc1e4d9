/* SPDX-License-Identifier: MIT */
/* See netns.h. This process never enters another namespace: a child does, and passes the sockets
 * back. Not async-signal-safe. */
#include "watch/netns.h"

#include "watch/diag.h"
#include "watch/fd_limit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ASK, LIST, SOCKETS };

static int open_sockets(int sockets[SOCKETS])
{
    for (int i = 0; i < SOCKETS; i++)
        if ((sockets[i] = ns_diag_open()) < 0)
            return sockets[i];
    return 0;
}

static int send_sockets(int over, const int sockets[SOCKETS])
{
    char byte = 0;
    struct iovec part = {&byte, 1};
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(SOCKETS * sizeof(int))] = {0};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);

    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(SOCKETS * sizeof(int));
    memcpy(CMSG_DATA(head), sockets, SOCKETS * sizeof(int));
    return sendmsg(over, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* -EPIPE: the child ended without sending them. */
static int receive_sockets(int over, int sockets[SOCKETS])
{
    char byte;
    size_t n;
    struct iovec part = {&byte, 1};
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(SOCKETS * sizeof(int))];
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    const struct cmsghdr *head;

    if (recvmsg(over, &message, MSG_CMSG_CLOEXEC) <= 0)
        return -EPIPE;
    head = CMSG_FIRSTHDR(&message);
    n = head ? (head->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
    if (head)
        memcpy(sockets, CMSG_DATA(head), n * sizeof(int));
    if (n == SOCKETS)
        return 0;
    /* There were no descriptors for the others. */
    while (n > 0)
        close(sockets[--n]);
    return -EMFILE;
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

/* In the child. Returns its exit status: 0 or an errno. */
static int open_and_send(int network, int user, int over)
{
    int sockets[SOCKETS];
    int error = enter(network, user);

    if (!error)
        error = open_sockets(sockets);
    if (!error)
        error = send_sockets(over, sockets);
    return -error;
}

/* Get netlink sockets that a child makes in the namespace; they stay bound to it. */
static int open_there(int network, int user, int sockets[SOCKETS])
{
    int pair[2], error, status = 0;
    pid_t child;

    /* Not SOCK_DGRAM, with which the end of the child would go unnoticed. */
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return -errno;
    child = fork();
    if (child == 0)
        _exit(open_and_send(network, user, pair[1]));
    error = child < 0 ? -errno : 0;
    close(pair[1]);
    if (!error)
        error = receive_sockets(pair[0], sockets);
    close(pair[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    /* If the child was killed, try again. */
    if (error == -EPIPE)
        error = WIFEXITED(status) && WEXITSTATUS(status) ? -WEXITSTATUS(status) : -EAGAIN;
    return error;
}

static int open_netns(int directory, const struct stat *there, int sockets[SOCKETS])
{
    struct stat own;
    int network, user, error;

    if (stat("/proc/self/ns/net", &own) == 0 && own.st_dev == there->st_dev &&
        own.st_ino == there->st_ino)
        return open_sockets(sockets);
    network = openat(directory, "ns/net", O_RDONLY | O_CLOEXEC);
    if (network < 0)
        return -errno;
    user = openat(directory, "ns/user", O_RDONLY | O_CLOEXEC);
    error = open_there(network, user, sockets);
    close(network);
    if (user >= 0)
        close(user);
    return error;
}

static int add_netns(struct ns_netns ***namespaces, size_t *n_namespaces, int directory,
                     const struct stat *there, struct ns_netns **found)
{
    struct ns_netns **larger = realloc(*namespaces, (*n_namespaces + 1) * sizeof **namespaces);
    struct ns_netns *netns;
    int sockets[SOCKETS], error;

    if (!larger)
        return -ENOMEM;
    *namespaces = larger;
    netns = calloc(1, sizeof *netns);
    error = netns ? open_netns(directory, there, sockets) : -ENOMEM;
    if (!error && !ns_fd_limit_is_left(sockets[LIST])) {
        close(sockets[ASK]);
        close(sockets[LIST]);
        error = -EMFILE;
    }
    /* A namespace that may not be entered is kept, so that it is not tried again. Other errors are
     * about the process, which may be ending, or will pass. */
    if (error && error != -EPERM) {
        free(netns);
        return error;
    }
    netns->device = there->st_dev;
    netns->inode = there->st_ino;
    netns->fd = error ? error : sockets[ASK];
    netns->list_fd = error ? error : sockets[LIST];
    larger[(*n_namespaces)++] = *found = netns;
    return 0;
}

int ns_netns_find(struct ns_netns ***namespaces, size_t *n_namespaces, int directory,
                  uint32_t round, struct ns_netns **found)
{
    struct stat there;
    int error;

    *found = NULL;
    if (fstatat(directory, "ns/net", &there, 0) != 0)
        return -errno;
    for (size_t i = 0; i < *n_namespaces && !*found; i++)
        if ((*namespaces)[i]->inode == there.st_ino && (*namespaces)[i]->device == there.st_dev)
            *found = (*namespaces)[i];
    error = *found ? 0 : add_netns(namespaces, n_namespaces, directory, &there, found);
    if (error)
        return error;
    (*found)->round = round;
    return (*found)->fd < 0 ? (*found)->fd : 0;
}

static void end_netns(struct ns_netns *netns)
{
    if (netns->fd >= 0) {
        close(netns->fd);
        close(netns->list_fd);
    }
    free(netns);
}

void ns_netns_drop_unused(struct ns_netns **namespaces, size_t *n_namespaces, uint32_t round)
{
    size_t kept = 0;

    for (size_t i = 0; i < *n_namespaces; i++)
        if (round - namespaces[i]->round > 1)
            end_netns(namespaces[i]);
        else
            namespaces[kept++] = namespaces[i];
    *n_namespaces = kept;
}

void ns_netns_release(struct ns_netns **namespaces, size_t n_namespaces)
{
    for (size_t i = 0; i < n_namespaces; i++)
        end_netns(namespaces[i]);
    free(namespaces);
}
