/* SPDX-License-Identifier: MIT */
/* Owns the file with the changes that `nagleshim cure` has made and --undo takes back. It is in
 * /run, which a boot empties: socket cookies are unique only until then. */
#include "cure/cure.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "cured"
#define NEW_NAME "cured.new"
#define LOCK_NAME "cured.lock"

static int lock = -1; /* another file than the directory, which every user may lock */

/* systemd names the directory of a unit with RuntimeDirectory=; an ordinary user has a directory of
 * his own (XDG Base Directory Specification). */
static const char *directory_path(void)
{
    static char path[PATH_MAX];
    const char *given = getenv("RUNTIME_DIRECTORY"), *own = getenv("XDG_RUNTIME_DIR");
    if (given && *given == '/')
        return given;
    snprintf(path, sizeof path, "%s/nagleshim",
             geteuid() != 0 && own && *own == '/' ? own : "/run");
    return path;
}

const char *ns_cure_state_path(void)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/" NAME, directory_path());
    return path;
}

int ns_cure_state_lock(void)
{
    const char *path = directory_path();
    struct stat st;
    int fd;
    if (mkdir(path, 0755) != 0 && errno != EEXIST)
        return -errno;
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    /* Another user's directory could contain anything. */
    int error = fstat(fd, &st) == 0 && st.st_uid == geteuid() ? 0 : -EACCES;
    if (!error) {
        lock = openat(fd, LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        error = lock < 0 || flock(lock, LOCK_EX) != 0 ? -errno : 0;
    }
    if (!error)
        return fd;
    ns_cure_state_unlock(fd);
    return error;
}

void ns_cure_state_unlock(int directory)
{
    if (directory >= 0)
        close(directory);
    if (lock >= 0)
        close(lock);
    lock = -1;
}

static int print_record(int fd, const struct ns_cure_record *record)
{
    char line[256];
    int n = snprintf(line, sizeof line, "%" PRIu64 " %lu %u %d %d %d %d\n", record->cookie,
                     record->netns, record->listener_port, record->before.nodelay,
                     record->before.delack, record->after.nodelay, record->after.delack);
    ssize_t written = write(fd, line, (size_t)n);
    if (written == n)
        return 0;
    return written < 0 ? -errno : -ENOSPC;
}

int ns_cure_state_add(int directory, const struct ns_cure_record *record)
{
    int fd = openat(directory, NAME, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    int error = fd < 0 ? -errno : print_record(fd, record);
    if (fd >= 0)
        close(fd);
    return error;
}

int ns_cure_compare(const void *one, const void *other)
{
    const struct ns_cure_record *a = one, *b = other;
    if (!a->listener_port != !b->listener_port)
        return a->listener_port ? -1 : 1;
    return a->cookie < b->cookie ? -1 : a->cookie > b->cookie;
}

/* A socket may have been changed by several runs, with other policies. */
static size_t merge(struct ns_cure_record *records, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        struct ns_cure_record *last = kept ? &records[kept - 1] : NULL;
        if (!last || ns_cure_compare(last, &records[i]) != 0) {
            records[kept++] = records[i];
            continue;
        }
        if (last->after.nodelay < 0) {
            last->before.nodelay = records[i].before.nodelay;
            last->after.nodelay = records[i].after.nodelay;
        }
        if (last->after.delack < 0) {
            last->before.delack = records[i].before.delack;
            last->after.delack = records[i].after.delack;
        }
    }
    return kept;
}

int ns_cure_state_read(int directory, struct ns_cure_record **records, size_t *n)
{
    int fd = openat(directory, NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    FILE *stream = fd < 0 ? NULL : fdopen(fd, "r");
    struct ns_cure_record record = {0}, *larger;
    char line[256];
    int error = 0;
    *records = NULL;
    *n = 0;
    if (!stream)
        return errno == ENOENT ? 0 : -errno;
    while (!error && fgets(line, sizeof line, stream)) {
        if (sscanf(line, "%" SCNu64 " %lu %u %d %d %d %d", &record.cookie, &record.netns,
                   &record.listener_port, &record.before.nodelay, &record.before.delack,
                   &record.after.nodelay, &record.after.delack) != 7)
            continue; /* the disk was full */
        if (*n % 256 == 0) {
            larger = realloc(*records, (*n + 256) * sizeof record);
            *records = larger ? larger : *records;
            error = larger ? 0 : -ENOMEM;
        }
        if (!error)
            (*records)[(*n)++] = record;
    }
    fclose(stream);
    if (*n > 0)
        qsort(*records, *n, sizeof record, ns_cure_compare);
    *n = merge(*records, *n);
    return error;
}

int ns_cure_state_write(int directory, const struct ns_cure_record *records, size_t n)
{
    int fd =
        openat(directory, NEW_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    int error = fd < 0 ? -errno : 0;
    for (size_t i = 0; i < n && !error; i++)
        error = print_record(fd, &records[i]);
    if (fd >= 0)
        close(fd);
    if (!error && renameat(directory, NEW_NAME, directory, NAME) != 0)
        error = -errno;
    return error;
}
