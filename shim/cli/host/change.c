/* SPDX-License-Identifier: MIT */
/* Owns which entries `nagleshim host` changes, and how it changes a file: as a whole or not at all,
 * and so that the change can be undone. A program that starts meanwhile finds the old file or the
 * new one. */
#include "cli/host/host.h"

#include "cli/cli.h"
#include "cli/program/program.h"
#include "process/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MODE = 0644, DIRECTORY_MODE = 0755 };

bool ns_host_is_meant(const struct ns_host *host, const char *entry, size_t length)
{
    char path[PATH_MAX], real[PATH_MAX], meant[PATH_MAX];
    if (!ns_preload_is_the_library(entry, length) || length >= sizeof path)
        return false;
    snprintf(path, sizeof path, "%.*s", (int)length, entry);
    if (!host->only || strcmp(path, host->only) == 0)
        return true;
    if (*path != '/') /* the loader searches for it */
        return ns_host_is_found(path, host->only);
    return realpath(path, real) && realpath(host->only, meant) && strcmp(real, meant) == 0;
}

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

/* Renames a temporary file. Neither systemd nor a loader reads one of that name. */
bool ns_file_replace(const char *path, const void *data, size_t size)
{
    char temporary[PATH_MAX + 8];
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    int fd = mkostemp(temporary, O_CLOEXEC);
    NS_AUTO_FCLOSE FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    bool good = file && fwrite(data, 1, size, file) == size && fflush(file) == 0 &&
                fchmod(fd, MODE) == 0 && fsync(fd) == 0 && rename(temporary, path) == 0;
    int error = errno;
    if (fd >= 0 && !good)
        unlink(temporary);
    errno = error;
    return good;
}

bool ns_file_make(const char *path, const void *data, size_t size)
{
    int unmade = make_directories(path);
    bool good = ns_file_replace(path, data, size);
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
