/* SPDX-License-Identifier: MIT */
/* Owns the count of a process's TCP sockets as the kernel knows them: the numbers of its socket
 * descriptors, looked up in its own network namespace's tables. Not async-signal-safe. */
#include "cli/proc.h"

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

static int list_sockets(const struct ns_proc *proc, struct inodes *inodes)
{
    int fd = openat(proc->dir, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    size_t unique = 0;

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
    if (inodes->n == 0)
        return 0;
    qsort(inodes->numbers, inodes->n, sizeof(*inodes->numbers), compare);
    for (size_t i = 0; i < inodes->n; i++) /* descriptors of one socket */
        if (unique == 0 || inodes->numbers[i] != inodes->numbers[unique - 1])
            inodes->numbers[unique++] = inodes->numbers[i];
    inodes->n = unique;
    return 0;
}

static void look_up(const struct ns_proc *proc, const char *table, const struct inodes *inodes,
                    unsigned *count)
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

        /* proc(5): sl local remote st queues timer retransmits uid timeout inode */
        if (sscanf(line, " %*s %*s %*s %*x %*s %*s %*s %*s %*s %" SCNu64, &number) == 1 &&
            bsearch(&number, inodes->numbers, inodes->n, sizeof(number), compare))
            (*count)++;
    }
    fclose(stream);
}

int ns_proc_sockets(const struct ns_proc *proc, unsigned *count)
{
    struct inodes inodes = {0};
    int error = list_sockets(proc, &inodes);

    *count = 0;
    if (!error && inodes.n > 0) {
        look_up(proc, "net/tcp", &inodes, count);
        look_up(proc, "net/tcp6", &inodes, count);
    }
    free(inodes.numbers);
    return error;
}
