/* SPDX-License-Identifier: MIT */
/* Owns the count of a process's TCP sockets: the inodes of its descriptors, looked up in the TCP
 * tables of its network namespace. A machine has few namespaces and perhaps very many sockets, so
 * each namespace is read once. Not async-signal-safe. */
#include "cli/process/proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A socket, or a network namespace that was read. Inodes of sockets are unique across namespaces.
 */
struct node {
    uint64_t inode;
    pid_t counted; /* the process for which it was counted last */
};

static int compare(const void *left, const void *right)
{
    uint64_t a = ((const struct node *)left)->inode, b = ((const struct node *)right)->inode;

    return (a > b) - (a < b);
}

/* Returns false if the tree had it already, or without memory. */
static bool add(void **tree, uint64_t inode)
{
    struct node *node = calloc(1, sizeof *node), **found;

    if (!node)
        return false;
    node->inode = inode;
    found = tsearch(node, tree, compare);
    if (found && *found == node)
        return true;
    free(node);
    return false;
}

static void read_table(const struct ns_proc *proc, const char *name, struct ns_sockets *sockets)
{
    char line[512];
    uint64_t inode;
    FILE *stream = ns_proc_stream(proc, name);

    /* proc(5): sl local remote st queues timer retransmits uid timeout inode; 0: without a file */
    while (stream && fgets(line, sizeof line, stream))
        if (sscanf(line, " %*s %*s %*s %*x %*s %*s %*s %*s %*s %" SCNu64, &inode) == 1 && inode)
            add(&sockets->sockets, inode);
    if (stream)
        fclose(stream);
}

unsigned ns_proc_sockets(const struct ns_proc *proc, struct ns_sockets *sockets)
{
    int fd = openat(proc->dir, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    struct stat st;
    unsigned count = 0;

    sockets->has_ring = false;
    if (!dir && fd >= 0)
        close(fd);
    if (!dir)
        return 0;
    if (fstatat(proc->dir, "ns/net", &st, 0) == 0 && add(&sockets->namespaces, st.st_ino)) {
        read_table(proc, "net/tcp", sockets);
        read_table(proc, "net/tcp6", sockets);
    }
    while ((entry = readdir(dir))) {
        char target[64];
        struct node key, **found = NULL;
        ssize_t n = readlinkat(fd, entry->d_name, target, sizeof target - 1);

        target[n > 0 ? n : 0] = '\0';
        sockets->has_ring |= strcmp(target, "anon_inode:[io_uring]") == 0;
        if (sscanf(target, "socket:[%" SCNu64 "]", &key.inode) == 1)
            found = tfind(&key, &sockets->sockets, compare);
        if (found && (*found)->counted != proc->pid) {
            (*found)->counted = proc->pid;
            count++;
        }
    }
    closedir(dir);
    return count;
}

void ns_proc_sockets_end(struct ns_sockets *sockets)
{
    tdestroy(sockets->sockets, free);
    tdestroy(sockets->namespaces, free);
    *sockets = (struct ns_sockets){0};
}
