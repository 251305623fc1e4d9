/* SPDX-License-Identifier: MIT */
/* Owns where the files of a system are that `nagleshim host` reads and changes, and that it is the
 * only one to do so. A system in a directory may have links that mean its own root: none of them
 * may lead to the system that this command runs in. Changes no file. Not async-signal-safe. */
#include "cli/host/host.h"

#include "cli/cli.h"
#include "cli/process/preload.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SAY(...) ns_say("host", __VA_ARGS__)

/* Another one may be trying a library that hangs. */
enum { LOCK_SECONDS = 30, LOCK_TRIES_A_SECOND = 20, TEXT_MOST = 256 * 1024 };

bool ns_host_path(const struct ns_host *host, const char *path, char own[PATH_MAX])
{
    int n = snprintf(own, PATH_MAX, "%s%s", host->root, path);

    return n > 0 && n < PATH_MAX;
}

int ns_host_open(const struct ns_host *host, const char *path, int flags)
{
    const struct open_how how = {.flags = (unsigned)(flags | O_CLOEXEC),
                                 .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    int root, fd, error;

    if (!host->root[0]) { /* also on kernels before openat2 */
        fd = open(path, flags | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
    }
    root = open(host->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return -errno;
    fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
    error = errno;
    close(root);
    return fd < 0 ? -error : fd;
}

static int path_of_descriptor(int fd, char own[PATH_MAX])
{
    char link[32];
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, own, PATH_MAX - 1);
    own[n > 0 ? n : 0] = '\0';
    return n < 0 ? -errno : 0;
}

/* The path of a directory that is there. */
static int directory_path(const struct ns_host *host, const char *directory, char own[PATH_MAX])
{
    int fd = ns_host_open(host, directory, O_PATH | O_DIRECTORY), error;

    if (fd < 0)
        return fd;
    error = path_of_descriptor(fd, own);
    close(fd);
    if (strcmp(own, "/") == 0)
        *own = '\0';
    return error;
}

int ns_host_resolve(const struct ns_host *host, const char *path, char own[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    char directory[PATH_MAX];
    struct stat st;
    size_t used;
    int error;

    snprintf(directory, sizeof(directory), "%.*s", slash > path ? (int)(slash - path) : 1, path);
    error = directory_path(host, directory, own);
    if (error == -ENOENT && slash > path) { /* to be made, unless it is a link to nowhere */
        error = ns_host_resolve(host, directory, own);
        if (!error && lstat(own, &st) == 0)
            error = -ENOENT;
    }
    if (error)
        return error;
    used = strlen(own);
    return snprintf(own + used, PATH_MAX - used, "%s", slash) < (int)(PATH_MAX - used)
               ? 0
               : -ENAMETOOLONG;
}

int ns_host_real(const struct ns_host *host, const char *path, char own[PATH_MAX])
{
    int fd = ns_host_open(host, path, O_PATH);
    int error = fd < 0 ? ns_host_resolve(host, path, own) : path_of_descriptor(fd, own);

    if (fd >= 0)
        close(fd);
    return error;
}

char *ns_host_text(const struct ns_host *host, const char *path)
{
    int fd = ns_host_open(host, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    char *text = fd < 0 ? NULL : malloc(TEXT_MOST + 1);
    size_t used = 0;
    ssize_t n = 1;

    while (text && n > 0 && used < TEXT_MOST) {
        n = read(fd, text + used, TEXT_MOST - used);
        used += n > 0 ? (size_t)n : 0;
    }
    if (text)
        text[used] = '\0';
    if (fd >= 0)
        close(fd);
    return text;
}

void ns_host_entries(const struct ns_host *host, const char *path,
                     void (*each)(void *context, const char *directory, const char *name),
                     void *context)
{
    int fd = ns_host_open(host, path, O_RDONLY | O_DIRECTORY);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        each(context, path, entry->d_name);
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
}

bool ns_host_is_meant(const struct ns_host *host, const char *entry, size_t length)
{
    char path[PATH_MAX], own[PATH_MAX], meant[PATH_MAX];

    if (!ns_preload_is_the_library(entry, length) || length >= sizeof(path))
        return false;
    if (!host->only)
        return true;
    snprintf(path, sizeof(path), "%.*s", (int)length, entry);
    if (strcmp(path, host->only) == 0)
        return true;
    /* A name alone is whichever the loader finds. */
    return *path == '/' && ns_host_real(host, path, own) == 0 &&
           ns_host_real(host, host->only, meant) == 0 && strcmp(own, meant) == 0;
}

bool ns_host_lock(const struct ns_host *host, bool must)
{
    const struct timespec pause = {.tv_nsec = 1000000000L / LOCK_TRIES_A_SECOND};
    char own[PATH_MAX];
    int fd = ns_host_path(host, "/etc", own) ? open(own, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    /* Kept open until the end. A file system that has no locks is no reason to do nothing. */
    for (int i = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; i++) {
        if (i == LOCK_SECONDS * LOCK_TRIES_A_SECOND) {
            SAY("%s has been locked for %d seconds, by another 'nagleshim host' perhaps; %s", own,
                LOCK_SECONDS, must ? "nothing was changed" : "going on");
            return !must;
        }
        nanosleep(&pause, NULL);
    }
    return true;
}
