/* SPDX-License-Identifier: MIT */
/* Owns how `nagleshim host` changes a file: whole, or not at all, and so that it can be undone. A
 * program that starts meanwhile finds the old file or the new one. Not async-signal-safe. */
#include "cli/host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIZE_MOST = 256 * 1024, MODE = 0644, DIRECTORY_MODE = 0755 };

/* Always the same, so that what was left half-way is found again. */
static const char beside[] = ".nagleshim";

static int read_fd(int fd, char **text, struct stat *st)
{
    size_t used = 0;
    ssize_t n = 1;

    if (fstat(fd, st) != 0)
        return -errno;
    if (!S_ISREG(st->st_mode) || st->st_size > SIZE_MOST)
        return -EINVAL;
    *text = malloc(SIZE_MOST + 1);
    if (!*text)
        return -ENOMEM;
    while (n > 0 && used < SIZE_MOST) {
        n = read(fd, *text + used, SIZE_MOST - used);
        used += n > 0 ? (size_t)n : 0;
    }
    if (n < 0) {
        int error = errno;

        free(*text);
        *text = NULL;
        return -error;
    }
    (*text)[used] = '\0';
    return 0;
}

static int read_file(const char *path, char **text, struct stat *st)
{
    /* Not through a link, which may lead out of the system, nor into a FIFO. */
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    int error;

    *text = NULL;
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : errno == ELOOP ? -EINVAL : -errno;
    error = read_fd(fd, text, st);
    close(fd);
    return error;
}

int ns_host_read(const char *path, char **text)
{
    struct stat st;

    return read_file(path, text, &st);
}

static void directory_of(const char *path, char directory[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    size_t length = slash > path ? (size_t)(slash - path) : 1;

    memmove(directory, path, length); /* which may be the same */
    directory[length] = '\0';
}

static int sync_directory(const char *directory)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = fd < 0 || fsync(fd) != 0 ? -errno : 0;

    if (fd >= 0)
        close(fd);
    return error == -EINVAL ? 0 : error; /* a file system that has no such thing */
}

static int write_all(int fd, const char *text, size_t left)
{
    while (left > 0) {
        ssize_t n = write(fd, text, left);

        if (n < 0 && errno != EINTR)
            return -errno;
        text += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static bool beside_path(const char *path, char temporary[PATH_MAX])
{
    int n = snprintf(temporary, PATH_MAX, "%s%s", path, beside);

    return n > 0 && n < PATH_MAX;
}

static int fill(int fd, const struct ns_change *change, const char *text, size_t size)
{
    int error = write_all(fd, text, size);

    if (!error &&
        (fchmod(fd, change->mode) != 0 ||
         (geteuid() == 0 && fchown(fd, change->user, change->group) != 0) || fsync(fd) != 0))
        error = -errno;
    if (close(fd) != 0 && !error)
        error = -errno;
    return error;
}

/* Beside it first, and then in its place: *replaced. */
static int replace(const struct ns_change *change, const char *text, size_t size, bool *replaced)
{
    char temporary[PATH_MAX], directory[PATH_MAX];
    int fd, error;

    *replaced = false;
    if (!beside_path(change->path, temporary))
        return -ENAMETOOLONG;
    unlink(temporary);
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    error = fill(fd, change, text, size);
    if (!error && rename(temporary, change->path) != 0)
        error = -errno;
    if (error) {
        unlink(temporary);
        return error;
    }
    *replaced = true;
    directory_of(change->path, directory);
    return sync_directory(directory);
}

bool ns_change_is_left(const char *path)
{
    char temporary[PATH_MAX];
    struct stat st;

    return beside_path(path, temporary) && lstat(temporary, &st) == 0;
}

bool ns_change_sweep(const char *path)
{
    char temporary[PATH_MAX];

    return beside_path(path, temporary) && unlink(temporary) == 0;
}

static int remove_file(const char *path, bool *removed)
{
    char directory[PATH_MAX];

    *removed = unlink(path) == 0;
    if (!*removed)
        return -errno;
    directory_of(path, directory);
    return sync_directory(directory);
}

static int set(struct ns_change *change, const char *text)
{
    if (text)
        return replace(change, text, strlen(text), &change->done);
    return change->old ? remove_file(change->path, &change->done) : 0;
}

/* The directory of a path, and those above it that are missing; for everybody to look into,
 * whatever the umask is. */
static int make_directory_of(const char *path, unsigned *made)
{
    char directory[PATH_MAX];
    int error = 0;

    directory_of(path, directory);
    if (mkdir(directory, DIRECTORY_MODE) != 0)
        error = -errno;
    if (error == -ENOENT && directory[1] != '\0') {
        error = make_directory_of(directory, made);
        if (!error && mkdir(directory, DIRECTORY_MODE) != 0)
            error = -errno;
    }
    if (error)
        return error == -EEXIST ? 0 : error;
    ++*made;
    return chmod(directory, DIRECTORY_MODE) == 0 ? 0 : -errno;
}

/* From the lowest up; of one that could not be made those above it. */
static void remove_made_directories(const struct ns_change *change)
{
    char directory[PATH_MAX];
    unsigned left = change->made_directories;

    snprintf(directory, sizeof(directory), "%s", change->path);
    while (left > 0) {
        directory_of(directory, directory);
        if (rmdir(directory) == 0)
            left--;
        else if (errno != ENOENT)
            return;
    }
}

int ns_change_make(struct ns_change *change, const char *path, const char *text)
{
    struct stat st = {0};
    int error;

    *change = (struct ns_change){.mode = MODE};
    snprintf(change->path, sizeof(change->path), "%s", path);
    error = read_file(path, &change->old, &st);
    if (error)
        return error;
    if (change->old) {
        change->old_size = strlen(change->old);
        change->mode = st.st_mode & 07777;
        change->user = st.st_uid;
        change->group = st.st_gid;
    }
    if (text && change->old && strcmp(text, change->old) == 0)
        return 0;
    error = text ? make_directory_of(path, &change->made_directories) : 0;
    if (!error)
        error = set(change, text);
    if (error)
        ns_change_undo(change);
    return error;
}

void ns_change_undo(struct ns_change *change)
{
    bool undone = true;

    if (change->done && change->old)
        replace(change, change->old, change->old_size, &undone);
    else if (change->done)
        undone = unlink(change->path) == 0 || errno == ENOENT;
    change->done = !undone;
    if (undone)
        remove_made_directories(change);
}

void ns_change_forget(struct ns_change *change)
{
    free(change->old);
    change->old = NULL;
    change->done = false;
}
