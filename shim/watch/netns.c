/* SPDX-License-Identifier: MIT */
/* See owners.h. This process never enters another namespace: a child does, which shares its
 * descriptors. Not async-signal-safe. */
#include "watch/owners.h"

#include "process/scope.h"
#include "watch/diag.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Namespaces keep their descriptors; reading /proc needs so many others for a moment. */
enum { LEFT_FOR_PROC = 16 };

void ns_netns_raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int open_sockets(struct ns_netns *netns)
{
    netns->fd = ns_diag_open();
    netns->list_fd = ns_diag_open();
    return netns->list_fd < 0 ? netns->list_fd : netns->fd < 0 ? netns->fd : 0;
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

struct entry {
    int network, user;
    struct ns_netns *netns;
    int error;
};

/* In the child, which shares its memory and descriptors with this process. */
static int open_inside(void *argument)
{
    struct entry *entry = argument;
    entry->error = enter(entry->network, entry->user);
    if (!entry->error)
        entry->error = open_sockets(entry->netns);
    return 0;
}

/* Get netlink sockets that a child makes in the namespace; they stay bound to it. */
static int open_there(int network, int user, struct ns_netns *netns)
{
    static _Alignas(16) char stack[64 << 10];
    struct entry entry = {network, user, netns, -EAGAIN}; /* if the child is killed, try again */
    pid_t child = clone(open_inside, stack + sizeof stack,
                        CLONE_FILES | CLONE_VM | CLONE_VFORK | SIGCHLD, &entry);
    if (child < 0)
        return -errno;
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
    return entry.error;
}

static int open_netns(int directory, struct ns_netns *netns)
{
    struct stat own;
    if (stat("/proc/self/ns/net", &own) == 0 && own.st_dev == netns->device &&
        own.st_ino == netns->inode)
        return open_sockets(netns);
    NS_AUTO_CLOSE int network = openat(directory, "ns/net", O_RDONLY | O_CLOEXEC);
    if (network < 0)
        return -errno;
    NS_AUTO_CLOSE int user = openat(directory, "ns/user", O_RDONLY | O_CLOEXEC);
    return open_there(network, user, netns);
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
    *netns = (struct ns_netns){
        .device = there->st_dev, .inode = there->st_ino, .fd = -EPERM, .list_fd = -EPERM};
    int error = open_netns(directory, netns);
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
