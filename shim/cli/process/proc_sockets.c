/* SPDX-License-Identifier: MIT */
/* Owns the count of a process's TCP sockets as the kernel knows them: the numbers of its socket
 * descriptors, looked up in its own network namespace's tables. A machine with many processes has
 * few such namespaces and perhaps very many sockets, so that each table is read once. Not
 * async-signal-safe. */
#include "cli/process/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct inodes {
    uint64_t *numbers;
    size_t n, room;
};

struct ns_socket_table {
    dev_t device; /* which network namespace */
    ino_t inode;
    struct inodes inodes;
};

static bool add(struct inodes *inodes, uint64_t number)
{
    if (inodes->n == inodes->room) {
        size_t room = inodes->room ? inodes->room * 2 : 64;
        uint64_t *larger = realloc(inodes->numbers, room * sizeof(*larger));

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

/* In order, each once: several descriptors may be of one socket. */
static void arrange(struct inodes *inodes)
{
    size_t unique = 0;

    if (inodes->n == 0)
        return;
    qsort(inodes->numbers, inodes->n, sizeof(*inodes->numbers), compare);
    for (size_t i = 0; i < inodes->n; i++)
        if (unique == 0 || inodes->numbers[i] != inodes->numbers[unique - 1])
            inodes->numbers[unique++] = inodes->numbers[i];
    inodes->n = unique;
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
        ssize_t n = readlinkat(fd, entry->d_name, target, sizeof(target) - 1);

        target[n > 0 ? n : 0] = '\0';
        if (sscanf(target, "socket:[%" SCNu64 "]", &number) == 1 && !add(inodes, number))
            break;
    }
    closedir(dir);
    arrange(inodes);
    return 0;
}

static void read_table(const struct ns_proc *proc, const char *table, struct inodes *inodes)
{
    char line[512];
    int fd = openat(proc->dir, table, O_RDONLY | O_CLOEXEC);
    FILE *stream = fd < 0 ? NULL : fdopen(fd, "r");

    if (!stream) {
        if (fd >= 0)
            close(fd);
        return;
    }
    while (fgets(line, sizeof(line), stream)) {
        uint64_t number;

        /* proc(5): sl local remote st queues timer retransmits uid timeout inode; 0: nobody's */
        if (sscanf(line, " %*s %*s %*s %*x %*s %*s %*s %*s %*s %" SCNu64, &number) == 1 &&
            number != 0 && !add(inodes, number))
            break;
    }
    fclose(stream);
}

/* The sockets of the process's network namespace; NULL where that cannot be told. */
static const struct inodes *table_of(const struct ns_proc *proc, struct ns_sockets *sockets)
{
    struct ns_socket_table *table;
    struct stat st;

    if (fstatat(proc->dir, "ns/net", &st, 0) != 0)
        return NULL;
    for (size_t i = 0; i < sockets->n; i++) {
        table = &sockets->tables[i];
        if (table->device == st.st_dev && table->inode == st.st_ino)
            return &table->inodes;
    }
    table = realloc(sockets->tables, (sockets->n + 1) * sizeof(*table));
    if (!table)
        return NULL;
    sockets->tables = table;
    table = &sockets->tables[sockets->n++];
    *table = (struct ns_socket_table){.device = st.st_dev, .inode = st.st_ino};
    read_table(proc, "net/tcp", &table->inodes);
    read_table(proc, "net/tcp6", &table->inodes);
    arrange(&table->inodes);
    return &table->inodes;
}

int ns_proc_sockets(const struct ns_proc *proc, struct ns_sockets *sockets, unsigned *count)
{
    struct inodes own = {0};
    const struct inodes *all;
    int error = list_sockets(proc, &own);

    *count = 0;
    all = !error && own.n > 0 ? table_of(proc, sockets) : NULL;
    for (size_t i = 0; all && all->n > 0 && i < own.n; i++)
        *count +=
            bsearch(&own.numbers[i], all->numbers, all->n, sizeof(*all->numbers), compare) != NULL;
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
