/* SPDX-License-Identifier: MIT */
/* Owns the count of a process's TCP sockets: the inodes of its descriptors, looked up in the TCP
 * tables of its network namespace. A machine has few namespaces and perhaps very many sockets, so
 * each namespace is read once. Not async-signal-safe. */
#include "cli/process/proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Inodes of sockets are unique across namespaces. */
struct ns_socket {
    uint64_t inode;
    pid_t counted; /* the process for which it was counted last */
};

static int compare(const void *left, const void *right)
{
    uint64_t a = ((const struct ns_socket *)left)->inode;
    uint64_t b = ((const struct ns_socket *)right)->inode;

    return (a > b) - (a < b);
}

static void read_table(const struct ns_proc *proc, const char *name, struct ns_sockets *sockets)
{
    char line[512];
    uint64_t inode;
    FILE *stream = ns_proc_stream(proc, name);

    /* proc(5): sl local remote st queues timer retransmits uid timeout inode; 0: without a file */
    while (stream && fgets(line, sizeof line, stream)) {
        if (sscanf(line, " %*s %*s %*s %*x %*s %*s %*s %*s %*s %" SCNu64, &inode) != 1 || !inode)
            continue;
        if (sockets->n == sockets->room) {
            size_t room = sockets->room ? sockets->room * 2 : 64;
            struct ns_socket *larger = realloc(sockets->list, room * sizeof *larger);

            if (!larger)
                break;
            sockets->list = larger;
            sockets->room = room;
        }
        sockets->list[sockets->n++] = (struct ns_socket){.inode = inode};
    }
    if (stream)
        fclose(stream);
}

/* Read the tables of the process's network namespace, unless they were read. */
static void read_namespace(const struct ns_proc *proc, struct ns_sockets *sockets)
{
    struct stat st;

    if (fstatat(proc->dir, "ns/net", &st, 0) != 0)
        return;
    for (size_t i = 0; i < sockets->n_namespaces; i++)
        if (sockets->namespaces[i] == st.st_ino)
            return;
    ino_t *larger = realloc(sockets->namespaces, (sockets->n_namespaces + 1) * sizeof *larger);
    if (!larger)
        return;
    sockets->namespaces = larger;
    larger[sockets->n_namespaces++] = st.st_ino;
    read_table(proc, "net/tcp", sockets);
    read_table(proc, "net/tcp6", sockets);
    if (sockets->n > 0)
        qsort(sockets->list, sockets->n, sizeof *sockets->list, compare);
}

unsigned ns_proc_sockets(const struct ns_proc *proc, struct ns_sockets *sockets)
{
    int fd = openat(proc->dir, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    unsigned count = 0;

    if (!dir && fd >= 0)
        close(fd);
    if (!dir)
        return 0;
    read_namespace(proc, sockets);
    while ((entry = readdir(dir))) {
        char target[64];
        struct ns_socket key = {0}, *found = NULL;
        ssize_t n = readlinkat(fd, entry->d_name, target, sizeof target - 1);

        target[n > 0 ? n : 0] = '\0';
        if (sockets->n > 0 && sscanf(target, "socket:[%" SCNu64 "]", &key.inode) == 1)
            found = bsearch(&key, sockets->list, sockets->n, sizeof key, compare);
        if (found && found->counted != proc->pid) {
            found->counted = proc->pid;
            count++;
        }
    }
    closedir(dir);
    return count;
}

void ns_proc_sockets_end(struct ns_sockets *sockets)
{
    free(sockets->list);
    free(sockets->namespaces);
    *sockets = (struct ns_sockets){0};
}
