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

static int send_descriptor(int over, int fd)
{
    char byte = 0;
    struct iovec part = {&byte, 1};
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);

    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &fd, sizeof(fd));
    return sendmsg(over, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int receive_descriptor(int over)
{
    char byte;
    struct iovec part = {&byte, 1};
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int))];
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    const struct cmsghdr *head;
    int fd;

    if (recvmsg(over, &message, MSG_CMSG_CLOEXEC) <= 0)
        return -EACCES;
    head = CMSG_FIRSTHDR(&message);
    if (!head || head->cmsg_type != SCM_RIGHTS)
        return -EACCES;
    memcpy(&fd, CMSG_DATA(head), sizeof(fd));
    return fd;
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

/* A socket for netlink that a child has made in there; it stays there whoever has it. */
static int open_there(int network, int user)
{
    int pair[2], fd, status;
    pid_t child;

    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) != 0)
        return -errno;
    child = fork();
    if (child == 0) {
        fd = enter(network, user);
        if (fd == 0)
            fd = ns_diag_open();
        _exit(fd < 0 || send_descriptor(pair[1], fd) < 0);
    }
    close(pair[1]);
    fd = child < 0 ? -errno : receive_descriptor(pair[0]);
    close(pair[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return fd;
}

static int open_space(int directory, uint64_t inode)
{
    struct stat own;
    int network, user, fd;

    if (stat("/proc/self/ns/net", &own) == 0 && own.st_ino == inode)
        return ns_diag_open();
    network = openat(directory, "ns/net", O_RDONLY | O_CLOEXEC);
    if (network < 0)
        return -errno;
    user = openat(directory, "ns/user", O_RDONLY | O_CLOEXEC);
    fd = open_there(network, user);
    close(network);
    if (user >= 0)
        close(user);
    return fd;
}

int ns_space_find(struct ns_space ***spaces, size_t *n_spaces, int directory,
                  struct ns_space **found)
{
    struct ns_space **larger, *space;
    struct stat there;

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
    /* One that could not be entered stays in the list, so that it is not tried over and over. */
    space->inode = there.st_ino;
    space->fd = open_space(directory, there.st_ino);
    (*spaces)[(*n_spaces)++] = *found = space;
    return space->fd < 0 ? space->fd : 0;
}

void ns_space_release(struct ns_space **spaces, size_t n_spaces)
{
    for (size_t i = 0; i < n_spaces; i++) {
        if (spaces[i]->fd >= 0)
            close(spaces[i]->fd);
        free(spaces[i]);
    }
    free(spaces);
}
