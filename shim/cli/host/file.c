/* SPDX-License-Identifier: MIT */
/* Owns how `nagleshim host` changes a file: as a whole or not at all, and so that the change can be
 * undone. A program that starts meanwhile finds the old file or the new one. Not
 * async-signal-safe. */
#include "cli/host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZE_MOST = 256 * 1024, MODE = 0644, DIRECTORY_MODE = 0755 };

static int read_open(int fd, char **text, struct stat *st)
{
    if (fstat(fd, st) != 0)
        return -errno;
    if (!S_ISREG(st->st_mode) || st->st_size > SIZE_MOST)
        return -EINVAL;
    *text = calloc(1, (size_t)st->st_size + 1);
    if (!*text)
        return -ENOMEM;
    if (pread(fd, *text, (size_t)st->st_size, 0) == st->st_size)
        return 0;
    free(*text);
    *text = NULL;
    return -EIO;
}

int ns_file_read(const char *path, char **text, struct stat *st)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat ignored;

    *text = NULL;
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : errno == ELOOP ? -EINVAL : -errno;
    int error = read_open(fd, text, st ? st : &ignored);
    close(fd);
    return error;
}

/* Always the same name, so that the next change removes what a killed command left. */
static void temporary_name(const char *path, char temporary[PATH_MAX + 16])
{
    snprintf(temporary, PATH_MAX + 16, "%s.nagleshim", path);
}

static int sync_directory_of(const char *path)
{
    char copy[PATH_MAX];

    snprintf(copy, sizeof copy, "%s", path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = fd < 0 || fsync(fd) != 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
    return error == -EINVAL ? 0 : error; /* a file system without fsync of directories */
}

/* Closes fd. */
static int fill(int fd, const struct stat *like, const char *text)
{
    FILE *stream = fdopen(fd, "w");
    bool good = stream && fputs(text, stream) >= 0 && fflush(stream) == 0 &&
                fchmod(fd, like->st_mode & 07777) == 0 &&
                (geteuid() != 0 || fchown(fd, like->st_uid, like->st_gid) == 0) && fsync(fd) == 0;
    int error = good ? 0 : -errno;

    if (stream ? fclose(stream) != 0 : close(fd) != 0)
        error = error ? error : -errno;
    return error;
}

/* Writes a temporary file and renames it: *replaced. */
static int replace(const struct ns_change *change, const char *text, bool *replaced)
{
    char temporary[PATH_MAX + 16];

    temporary_name(change->path, temporary);
    unlink(temporary);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int error = fill(fd, &change->before, text);
    if (!error && rename(temporary, change->path) != 0)
        error = -errno;
    if (error) {
        unlink(temporary);
        return error;
    }
    *replaced = true;
    return sync_directory_of(change->path);
}

static int remove_file(const char *path, bool *removed)
{
    if (unlink(path) != 0)
        return -errno;
    *removed = true;
    return sync_directory_of(path);
}

/* Makes the missing directories above a path. */
static int make_directories(const char *path)
{
    char directory[PATH_MAX];

    snprintf(directory, sizeof directory, "%s", path);
    for (char *slash = directory; (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        if (mkdir(directory, DIRECTORY_MODE) != 0 && errno != EEXIST)
            return -errno;
        *slash = '/';
    }
    return 0;
}

int ns_change_make(struct ns_change *change, const char *path, const char *text)
{
    *change = (struct ns_change){.before.st_mode = MODE};
    snprintf(change->path, sizeof change->path, "%s", path);
    int error = ns_file_read(path, &change->old, &change->before);
    if (error)
        return error;
    if (text && change->old && strcmp(text, change->old) == 0)
        return 0;
    if (text) {
        error = make_directories(path);
        if (!error)
            error = replace(change, text, &change->done);
    } else if (change->old) {
        error = remove_file(path, &change->done);
    }
    if (error)
        ns_change_undo(change);
    return error;
}

bool ns_change_undo(struct ns_change *change)
{
    bool undone = true;

    if (change->done && change->old) {
        undone = false;
        replace(change, change->old, &undone);
    } else if (change->done) {
        undone = unlink(change->path) == 0 || errno == ENOENT;
    }
    change->done = !undone;
    return undone;
}

void ns_change_forget(struct ns_change *change)
{
    free(change->old);
    *change = (struct ns_change){.old = NULL};
}
