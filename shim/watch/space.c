/* SPDX-License-Identifier: MIT */
/* See space.h. Owns the entering of namespaces. This process must never change its own: a child
 * makes the socket and hands it over. Not async-signal-safe. */
#include "watch/space.h"

#include "watch/diag.h"

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
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);

    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(SOCKETS * sizeof(int));
    memcpy(CMSG_DATA(head), sockets, SOCKETS * sizeof(int));
    return sendmsg(over, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int receive_sockets(int over, int sockets[SOCKETS])
{
    char byte;
    struct iovec part = {&byte, 1};
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(SOCKETS * sizeof(int))];
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    const struct cmsghdr *head;

    if (recvmsg(over, &message, MSG_CMSG_CLOEXEC) <= 0)
        return -EACCES;
    head = CMSG_FIRSTHDR(&message);
    if (!head || head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(SOCKETS * sizeof(int)))
        return -EACCES;
    memcpy(sockets, CMSG_DATA(head), SOCKETS * sizeof(int));
    return 0;
}

/* Root may enter the namespace as it is; an ordinary user only by way of the user namespace that he
 * has made, as rootless containers have one. */
static int enter(int network, int user)
{
    if (setns(network, CLONE_NEWNET) == 0)
        return 0;
    if (user < 0 || setns(user, CLONE_NEWUSER) != 0 || setns(network, CLONE_NEWNET) != 0)
        return -EACCES;
    return 0;
}

/* Sockets for netlink that a child has made in there; they stay there whoever has them. */
static int open_there(int network, int user, int sockets[SOCKETS])
{
    int pair[2], error, status;
    pid_t child;

    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) != 0)
        return -errno;
    child = fork();
    if (child == 0)
        _exit(enter(network, user) != 0 || open_sockets(sockets) != 0 ||
              send_sockets(pair[1], sockets) != 0);
    error = child < 0 ? -errno : 0;
    close(pair[1]);
    if (!error)
        error = receive_sockets(pair[0], sockets);
    close(pair[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return error;
}

static int open_space(int directory, uint64_t inode, int sockets[SOCKETS])
{
    struct stat own;
    int network, user, error;

    if (stat("/proc/self/ns/net", &own) == 0 && own.st_ino == inode)
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

int ns_space_find(struct ns_space ***spaces, size_t *n_spaces, int directory,
                  struct ns_space **found)
{
    struct ns_space **larger, *space;
    struct stat there;
    int sockets[SOCKETS], error;

    if (fstatat(directory, "ns/net", &there, 0) != 0)
        return -errno;
    for (size_t i = 0; i < *n_spaces; i++)
        if ((*spaces)[i]->inode == there.st_ino) {
            *found = (*spaces)[i];
            return (*found)->fd < 0 ? (*found)->fd : 0;
        }
    larger = realloc(*spaces, (*n_spaces + 1) * sizeof(**spaces));
    if (!larger)
        return -ENOMEM;
    *spaces = larger;
    space = calloc(1, sizeof(*space));
    if (!space)
        return -ENOMEM;
    space->inode = there.st_ino;
    error = open_space(directory, there.st_ino, sockets);
    /* One that could not be entered stays in the list, so that it is not tried over and over. */
    space->fd = error ? error : sockets[ASK];
    space->list_fd = error ? error : sockets[LIST];
    (*spaces)[(*n_spaces)++] = *found = space;
    return error;
}

void ns_space_release(struct ns_space **spaces, size_t n_spaces)
{
    for (size_t i = 0; i < n_spaces; i++) {
        if (spaces[i]->fd >= 0) {
            close(spaces[i]->fd);
            close(spaces[i]->list_fd);
        }
        free(spaces[i]);
    }
    free(spaces);
}
