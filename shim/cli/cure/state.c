/* SPDX-License-Identifier: MIT */
/* Owns the file with the changes that `nagleshim cure` has made and --undo takes back. It is in
 * /run, which a boot empties: socket cookies are unique only until then. Not async-signal-safe. */
#include "cli/cure/cure.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "cured"
#define NEW_NAME "cured.new"

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
    if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && flock(fd, LOCK_EX) == 0)
        return fd;
    close(fd);
    return -EACCES;
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
