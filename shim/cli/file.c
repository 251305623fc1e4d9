/* SPDX-License-Identifier: MIT */
/* See file.h. Owns every file that the command writes: beside the old one, which it then replaces,
 * so that a reader finds the old file or the new one. It must not write through a link, or into a
 * file, that another user has put in its place. */
#include "cli/file.h"

#include "base/path.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "process/open.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIRECTORY_MODE = 0755 };

/* The error of the first directory that cannot be made. */
static int make_directories(const char *path)
{
    char directory[PATH_MAX];
    int error = 0;
    snprintf(directory, sizeof directory, "%s", path);
    for (char *slash = directory; (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        if (mkdir(directory, DIRECTORY_MODE) != 0 && errno != EEXIST && error == 0)
            error = errno;
        *slash = '/';
    }
    return error;
}

/* The directory of a file that is gone, unless it has other files. Keeps errno. */
static void remove_directory(const char *path)
{
    char directory[PATH_MAX];
    int error = errno;
    snprintf(directory, sizeof directory, "%s", path);
    rmdir(dirname(directory));
    errno = error;
}

bool ns_file_remove(const char *path)
{
    bool removed = unlink(path) == 0 || errno == ENOENT;
    remove_directory(path);
    return removed;
}

/* Writes and closes. A network file system may report a full disk when a file is closed. */
static bool fill(int fd, const void *data, size_t size, bool is_durable)
{
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    bool good = file && fwrite(data, 1, size, file) == size && fflush(file) == 0 &&
                (!is_durable || fsync(fd) == 0);
    return file && fclose(file) == 0 && good;
}

/* A result that is mounted by itself, as in a container, cannot be replaced: it is written in
 * place. A file of the system, which is durable, never is: a loader could read a part of it.
 * Neither systemd nor a loader reads a file with the name of the temporary one. */
static bool replace(const char *path, const void *data, size_t size, mode_t mode, bool is_durable)
{
    char temporary[PATH_MAX + 24];
    /* Beside the file, whose own name may have no room for a suffix. */
    snprintf(temporary, sizeof temporary, "%.*s.nagleshim.XXXXXX", (int)(ns_path_base(path) - path),
             path);
    int fd = mkostemp(temporary, O_CLOEXEC);
    bool good = fd >= 0 && fchmod(fd, mode) == 0;
    good = fill(fd, data, size, is_durable) && good;
    if (good && rename(temporary, path) != 0)
        good = errno == EBUSY && !is_durable &&
               fill(open(path, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC), data, size, false);
    int error = errno;
    if (fd >= 0)
        unlink(temporary); /* a rename has left none */
    errno = error;
    return good;
}

bool ns_file_replace(const char *path, const char *text, mode_t mode)
{
    return replace(path, text, strlen(text), mode, false);
}

bool ns_file_make(const char *path, const void *data, size_t size)
{
    int unmade = make_directories(path);
    bool good = replace(path, data, size, NS_FILE_SHARED, true);
    if (!good && errno == ENOENT && unmade)
        errno = unmade;
    if (!good)
        remove_directory(path);
    return good;
}

int ns_change_make(struct ns_change *change)
{
    struct stat st;
    bool is_link = lstat(change->path, &st) == 0 && S_ISLNK(st.st_mode);
    errno = 0;
    change->old = ns_file_read(change->path);
    if (!is_link && change->old && change->text && strcmp(change->old, change->text) == 0)
        return NS_EXIT_YES;
    if (is_link || (!change->old && errno != ENOENT))
        errno = EINVAL;
    else
        change->done = change->text ? ns_file_make(change->path, change->text, strlen(change->text))
                                    : ns_file_remove(change->path);
    if (change->done)
        return NS_EXIT_YES;
    int error = errno;
    ns_say("%s cannot be %s: %s", change->path, change->text ? "written" : "removed",
           error == EINVAL ? "it is not a regular file, or is too large" : strerror(error));
    return error == EACCES || error == EPERM ? NS_EXIT_DENIED : NS_EXIT_ERROR;
}

bool ns_change_undo(struct ns_change *change)
{
    if (change->done)
        change->done = !(change->old ? ns_file_make(change->path, change->old, strlen(change->old))
                                     : ns_file_remove(change->path));
    return !change->done;
}

static const char *directory_of(const char *path)
{
    return dirname(ns_words("%s", path));
}

/* Two names for one file have the same key; NULL: a device, which takes any number of results. */
static const char *key_of(const char *name)
{
    struct stat st;
    if ((strcmp(name, "-") == 0 ? fstat(STDOUT_FILENO, &st) : stat(name, &st)) == 0)
        return S_ISCHR(st.st_mode) ? NULL : ns_words("%ju %ju", st.st_dev, st.st_ino);
    return stat(directory_of(name), &st) != 0
               ? NULL
               : ns_words("%ju %ju %s", st.st_dev, st.st_ino, ns_path_base(name));
}

bool ns_outfile_claim(const char *name)
{
    static const char *claimed[4];
    static unsigned n;
    const char *key = key_of(name);
    for (unsigned i = 0; key && i < n; i++)
        if (strcmp(claimed[i], key) == 0)
            return NS_REFUSE("'%s' is named by two options; name a file of its own for each", name);
    if (key)
        claimed[n++] = key;
    return true;
}

static bool is_same(const struct stat *one, const struct stat *other)
{
    return one->st_dev == other->st_dev && one->st_ino == other->st_ino;
}

static bool is_stdout(const struct stat *st)
{
    struct stat out;
    return fstat(STDOUT_FILENO, &out) == 0 && is_same(st, &out);
}

/* 0 or an error. Standard output by another name is not opened again: a second descriptor would
 * write over the first one's output. */
static int open_place(struct ns_outfile *file, const char *path, const struct stat *st)
{
    const bool is_out = is_stdout(st);
    file->fd = is_out ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
                      : open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    file->in_place = S_ISREG(st->st_mode) && !is_out;
    return file->fd < 0 ? errno : 0;
}

/* 0 or an error. Opened is what cannot be replaced: no regular file, one that its name does not
 * lead to, such as a removed one in /proc/self/fd, and one in a directory that may not be written
 * to. */
static int find_place(struct ns_outfile *file)
{
    struct stat st, at;
    if (stat(directory_of(file->name), &at) != 0)
        return errno;
    bool is_there = lstat(file->name, &st) == 0;
    /* As fs.protected_symlinks and fs.protected_fifos have it, which may be off. A regular file
     * could not be replaced. */
    bool is_others = is_there && at.st_mode & S_ISVTX && st.st_uid != geteuid();
    if (is_others && (!S_ISREG(st.st_mode) || (geteuid() != 0 && at.st_uid != geteuid())))
        return EACCES;
    /* Its owner can put a link there at any time, which only a rename does not follow. */
    bool is_own = is_there && !is_others;
    if (is_own && stat(file->name, &st) != 0) /* a link that leads nowhere */
        return errno;
    if (!is_own)
        snprintf(file->path, sizeof file->path, "%s", file->name);
    else if (!S_ISREG(st.st_mode) || !realpath(file->name, file->path) ||
             stat(file->path, &at) != 0 || !is_same(&at, &st) || is_stdout(&st))
        return open_place(file, file->name, &st);
    if (faccessat(AT_FDCWD, directory_of(file->path), W_OK | X_OK, AT_EACCESS) == 0)
        return 0;
    int error = errno;
    return is_own && open_place(file, file->path, &st) == 0 ? 0 : error;
}

static bool say_failure(const struct ns_outfile *file, int error)
{
    return NS_REFUSE("cannot write '%s': %s", file->name, strerror(error));
}

bool ns_outfile_is_stdout(const struct ns_outfile *file)
{
    return file->name && strcmp(file->name, "-") == 0;
}

bool ns_outfile_open(struct ns_outfile *file)
{
    int error = 0;
    file->fd = -1;
    file->in_place = false;
    if (!file->name)
        return true;
    if (!ns_outfile_is_stdout(file))
        error = find_place(file);
    else if ((fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) == O_RDONLY)
        error = EBADF;
    else if ((file->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)) < 0)
        error = errno;
    return error ? say_failure(file, error) : ns_outfile_claim(file->name);
}

bool ns_outfile_write(struct ns_outfile *file, const char *text)
{
    if (!file->name)
        return true;
    const char *lines = ns_words("%s\n", text);
    bool good = file->fd < 0 ? ns_file_replace(file->path, lines,
                                               file->is_shared ? NS_FILE_SHARED : NS_FILE_PRIVATE)
                             : (!file->in_place || ftruncate(file->fd, 0) == 0) &&
                                   fill(file->fd, lines, strlen(lines), false);
    return good || say_failure(file, errno);
}
