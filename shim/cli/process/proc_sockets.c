/* SPDX-License-Identifier: MIT */
/* Owns the count of a process's TCP sockets: the inodes of its descriptors, looked up in the TCP
 * tables of its network namespace. A machine has few namespaces and perhaps very many sockets, so
 * each table is read once. Not async-signal-safe. */
#include "cli/process/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct inodes {
    uint64_t *numbers;
    size_t n, room;
};

struct ns_socket_table {
    dev_t device; /* of the network namespace */
    ino_t inode;
    struct inodes inodes;
};

static bool add(struct inodes *inodes, uint64_t number)
{
    if (inodes->n == inodes->room) {
        size_t room = inodes->room ? inodes->room * 2 : 64;
        uint64_t *larger = realloc(inodes->numbers, room * sizeof *larger);

        if (!larger)
            return false;
        inodes->numbers = larger;
        inodes->room = room;
    }
    inodes->numbers[inodes->n++] = number;
    return true;
}

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

static void sort(struct inodes *inodes)
{
    if (inodes->n > 0)
        qsort(inodes->numbers, inodes->n, sizeof *inodes->numbers, compare);
}

static int list_sockets(const struct ns_proc *proc, struct inodes *inodes)
{
    int fd = openat(proc->dir, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    if (!dir) {
        int error = errno;

        if (fd >= 0)
            close(fd);
        return -error;
    }
    while ((entry = readdir(dir))) {
        char target[64];
        uint64_t number;
        ssize_t n = readlinkat(fd, entry->d_name, target, sizeof target - 1);

        target[n > 0 ? n : 0] = '\0';
        if (sscanf(target, "socket:[%" SCNu64 "]", &number) == 1 && !add(inodes, number))
            break;
    }
    closedir(dir);
    sort(inodes);
    return 0;
}

static void read_table(const struct ns_proc *proc, const char *name, struct inodes *inodes)
{
    char line[512];
    uint64_t number;
    int fd = openat(proc->dir, name, O_RDONLY | O_CLOEXEC);
    FILE *stream = fd < 0 ? NULL : fdopen(fd, "r");

    if (!stream && fd >= 0)
        close(fd);
    /* proc(5): sl local remote st queues timer retransmits uid timeout inode; 0: without a file */
    while (stream && fgets(line, sizeof line, stream))
        if (sscanf(line, " %*s %*s %*s %*x %*s %*s %*s %*s %*s %" SCNu64, &number) == 1 &&
            number != 0 && !add(inodes, number))
            break;
    if (stream)
        fclose(stream);
}

/* The sockets of the process's network namespace; NULL if unknown. */
static const struct inodes *find_table(const struct ns_proc *proc, struct ns_sockets *sockets)
{
    struct stat st;

    if (fstatat(proc->dir, "ns/net", &st, 0) != 0)
        return NULL;
    for (size_t i = 0; i < sockets->n; i++)
        if (sockets->tables[i].device == st.st_dev && sockets->tables[i].inode == st.st_ino)
            return &sockets->tables[i].inodes;
    struct ns_socket_table *table = realloc(sockets->tables, (sockets->n + 1) * sizeof *table);
    if (!table)
        return NULL;
    sockets->tables = table;
    table += sockets->n++;
    *table = (struct ns_socket_table){.device = st.st_dev, .inode = st.st_ino};
    read_table(proc, "net/tcp", &table->inodes);
    read_table(proc, "net/tcp6", &table->inodes);
    sort(&table->inodes);
    return &table->inodes;
}

int ns_proc_sockets(const struct ns_proc *proc, struct ns_sockets *sockets, unsigned *count)
{
    struct inodes own = {0};
    int error = list_sockets(proc, &own);
    const struct inodes *all = !error && own.n > 0 ? find_table(proc, sockets) : NULL;

    *count = 0;
    for (size_t i = 0; all && all->n > 0 && i < own.n; i++) {
        const uint64_t *number = &own.numbers[i];
        bool is_duplicate = i > 0 && *number == number[-1]; /* another descriptor of the socket */

        *count += !is_duplicate &&
                  bsearch(number, all->numbers, all->n, sizeof *all->numbers, compare) != NULL;
    }
    free(own.numbers);
    return error;
}

void ns_proc_sockets_end(struct ns_sockets *sockets)
{
    for (size_t i = 0; i < sockets->n; i++)
        free(sockets->tables[i].inodes.numbers);
    free(sockets->tables);
    *sockets = (struct ns_sockets){0};
}
