/* SPDX-License-Identifier: MIT */
/* Owns the judgement whether the library may be preloaded into what a system starts. A library that
 * would keep programs from starting, or through which others could run code in them, is refused.
 * Changes nothing. Not async-signal-safe. */
#include "cli/host/host.h"

#include "cli/cli.h"
#include "cli/process/elf.h"
#include "cli/process/preload.h"
#include "cli/process/reach.h"
#include "cli/process/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SAY(...) ns_say("host", __VA_ARGS__)

enum { LINKS_MOST = 40 }; /* as the kernel's */

static const char program[] = "/bin/true"; /* to try the library with */

/* Directories that are missing early at boot, hidden from services, or writable by everybody. */
static bool judge_place(const char *path)
{
    static const char *const places[] = {"/home", "/root", "/tmp", "/var/tmp", "/run",
                                         "/dev",  "/proc", "/sys", "/mnt",     "/media"};

    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        size_t length = strlen(places[i]);

        if (strncmp(path, places[i], length) != 0 || path[length] != '/')
            continue;
        SAY("%s is below %s, which not every program can see at every time; install the library "
            "below /usr or /opt",
            path, places[i]);
        return false;
    }
    return true;
}

/* Could another user than root put something else here? A link has no mode of its own. */
static bool judge_owner(const char *path, const struct stat *st)
{
    mode_t needed = S_ISREG(st->st_mode) ? S_IROTH : S_ISDIR(st->st_mode) ? S_IXOTH : 0;

    if (st->st_uid != 0) {
        SAY("%s belongs to user %u, who could run code in every program; it must belong to root",
            path, st->st_uid);
        return false;
    }
    if (!S_ISLNK(st->st_mode) && (st->st_mode & (S_IWGRP | S_IWOTH))) {
        SAY("%s can be changed by other users than root (mode %04o), who could run code in every "
            "program",
            path, st->st_mode & 07777);
        return false;
    }
    if ((st->st_mode & needed) != needed) {
        SAY("%s is not readable for every user (mode %04o)", path, st->st_mode & 07777);
        return false;
    }
    return true;
}

/* Is the directory in the file system of / or of /usr, which are mounted before the first program
 * starts? Only directories are asked: a file in an overlay has another device number. */
static bool judge_mount(const char *path, const struct stat *st)
{
    struct stat root, usr;

    if (!S_ISDIR(st->st_mode) || (stat("/", &root) == 0 && st->st_dev == root.st_dev) ||
        (stat("/usr", &usr) == 0 && st->st_dev == usr.st_dev))
        return true;
    SAY("%s is a file system of its own, which is not mounted when the first programs start; "
        "install the library on that of / or /usr",
        path);
    return false;
}

/* Replaces the link path[0..length) by its target. */
static bool follow(char path[PATH_MAX], size_t length)
{
    char link[PATH_MAX], target[PATH_MAX], next[PATH_MAX];

    snprintf(link, sizeof link, "%.*s", (int)length, path);
    ssize_t n = readlink(link, target, sizeof target - 1);
    if (n <= 0)
        return false;
    target[n] = '\0';
    size_t directory = *target == '/' ? 0 : (size_t)(strrchr(link, '/') - link) + 1;
    int used = snprintf(next, sizeof next, "%.*s%s%s", (int)directory, path, target, path + length);
    if (used >= PATH_MAX)
        return false;
    memcpy(path, next, (size_t)used + 1);
    return true;
}

/* Judges each directory, each link and the file on the way to the library, as the kernel walks it.
 */
static bool judge_way(const char *library, bool for_every_program)
{
    char path[PATH_MAX], part[PATH_MAX];
    struct stat st;
    int links = 0;

    snprintf(path, sizeof path, "%s", library);
    for (size_t length = 1;; length += strcspn(path + length, "/")) {
        snprintf(part, sizeof part, "%.*s", (int)length, path);
        if (lstat(part, &st) != 0) {
            SAY("%s: %s", part, strerror(errno));
            return false;
        }
        if (!judge_owner(part, &st) || (for_every_program && !judge_mount(part, &st)))
            return false;
        if (S_ISLNK(st.st_mode)) {
            if (++links > LINKS_MOST || !follow(path, length) || !judge_place(path))
                return false;
            length = 1;
            continue;
        }
        if (path[length] == '\0')
            return true;
        length += length > 1;
    }
}

static bool judge_file(const char *library)
{
    char reason[512], path[PATH_MAX];
    struct statvfs fs;

    if (strpbrk(library, NS_PRELOAD_SEPARATORS "$#%\"\\"))
        SAY("'%s' contains a character that is not possible in LD_PRELOAD or in a unit", library);
    else if (!realpath(library, path))
        SAY("%s: %s", library, strerror(errno));
    else if (ns_elf_path_is_unfit(path, reason, sizeof reason))
        SAY("%s %s; install it again", path, reason);
    else if (statvfs(path, &fs) == 0 && (fs.f_flag & ST_NOEXEC))
        SAY("%s is on a file system that is mounted noexec: no program could load it", path);
    else
        return judge_place(library) && judge_place(path);
    return false;
}

/* The loader of the system's programs; false if the library cannot be tried. */
static bool find_loader(bool for_every_program, char loader[PATH_MAX])
{
    static struct ns_elf elf;
    int fd = open(program, O_RDONLY | O_CLOEXEC);
    bool readable = fd >= 0 && ns_elf_inspect(fd, &elf) == 0;
    const char *libc = readable ? ns_reach_libc(elf.interpreter) : NULL;

    if (fd >= 0)
        close(fd);
    snprintf(loader, PATH_MAX, "%s", elf.interpreter);
    if (!readable)
        SAY("%s cannot be read, so that the library cannot be tried", program);
    else if (for_every_program && libc && strcmp(libc, "musl") == 0)
        SAY("this system's libc is musl, whose loader does not read " NS_HOST_PRELOAD);
    else
        return true;
    return false;
}

int ns_host_judge_library(const struct ns_host *host, bool for_every_program)
{
    char loader[PATH_MAX], reason[1024];

    if (!judge_file(host->library) || !judge_way(host->library, for_every_program) ||
        !find_loader(for_every_program, loader))
        return NS_EXIT_ERROR;
    if (!ns_trial_start(program, NULL, reason, sizeof reason))
        SAY("%s %s; this happens without the library: correct " NS_HOST_PRELOAD " first", program,
            reason);
    else if (!ns_trial_start(program, host->library, reason, sizeof reason))
        SAY("%s, started with the library, %s", program, reason);
    else if (ns_trial_load(loader, program, host->library, reason, sizeof reason) !=
             NS_TRIAL_LOADED)
        SAY("%s, started with the library, does not load it: %s", program, reason);
    else
        return NS_EXIT_YES;
    return NS_EXIT_ERROR;
}
