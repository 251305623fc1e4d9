/* SPDX-License-Identifier: MIT */
/* Owns the judgement whether the library may be preloaded into what a system starts. What would
 * keep programs from starting, or let others run code in them, is refused, and nothing is changed
 * here. Not async-signal-safe. */
#include "cli/host.h"

#include "cli/cli.h"
#include "cli/elf.h"
#include "cli/preload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SAY(...) ns_say("host", __VA_ARGS__)

/* Not there when the first programs start, hidden from services, or everybody's. */
static const char *const passing[] = {"/home", "/root", "/tmp", "/var/tmp", "/run",
                                      "/dev",  "/proc", "/sys", "/mnt",     "/media"};

static bool is_below(const char *path, const char *directory)
{
    size_t length = strlen(directory);

    return strncmp(path, directory, length) == 0 && path[length] == '/';
}

static bool judge_place(const char *path)
{
    for (size_t i = 0; i < sizeof(passing) / sizeof(passing[0]); i++) {
        if (!is_below(path, passing[i]))
            continue;
        SAY("%s is below %s, which is not there for every program at every time; install the "
            "library below /usr or /opt",
            path, passing[i]);
        return false;
    }
    if (strpbrk(path, NS_PRELOAD_SEPARATORS "$#%\"\\")) {
        SAY("'%s' has a character that LD_PRELOAD or a unit cannot have", path);
        return false;
    }
    return true;
}

/* The path without links, as the system sees it. A descriptor with O_PATH, or -1. */
static int find(const struct ns_host *host, const char *library, char path[PATH_MAX])
{
    char link[32], own[PATH_MAX];
    int fd = ns_host_open(host, library, O_PATH);
    ssize_t n;

    if (fd < 0) {
        SAY("%s%s: %s", host->root, library, strerror(-fd));
        return -1;
    }
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, own, sizeof(own) - 1);
    own[n > 0 ? n : 0] = '\0';
    if (n <= 0 || strncmp(own, host->root, strlen(host->root)) != 0) {
        SAY("%s%s: its path cannot be told", host->root, library);
        close(fd);
        return -1;
    }
    snprintf(path, PATH_MAX, "%s", own + strlen(host->root));
    return fd;
}

/* Could another than root put something else in the place of this one? */
static bool judge_owner(const struct ns_host *host, const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0) {
        SAY("%s: %s", path, strerror(errno));
        return false;
    }
    /* A system that is being put together may belong to who does that. */
    if (st.st_uid != 0 && !(host->root[0] && st.st_uid == geteuid())) {
        SAY("%s belongs to user %u, who could run code in every program; it must be root's", path,
            st.st_uid);
        return false;
    }
    if (st.st_mode & (S_IWGRP | S_IWOTH)) {
        SAY("%s can be changed by others than root (mode %04o), who could run code in every "
            "program",
            path, st.st_mode & 07777);
        return false;
    }
    if (S_ISREG(st.st_mode) && !(st.st_mode & S_IROTH)) {
        SAY("%s cannot be read by everybody (mode %04o)", path, st.st_mode & 07777);
        return false;
    }
    if (S_ISDIR(st.st_mode) && !(st.st_mode & S_IXOTH)) {
        SAY("%s is not open to everybody (mode %04o)", path, st.st_mode & 07777);
        return false;
    }
    return true;
}

/* The file, and every directory above it up to the root of the system. */
static bool judge_owners(const struct ns_host *host, const char *path)
{
    char own[PATH_MAX];
    size_t root = strlen(host->root);

    if (!ns_host_path(host, path, own))
        return false;
    for (;;) {
        char *slash;

        if (!judge_owner(host, own))
            return false;
        slash = strrchr(own + root, '/');
        if (!slash || own[root + 1] == '\0')
            return true;
        slash[slash == own + root] = '\0'; /* the root itself keeps its slash */
    }
}

/* The number of the mount that the opened file is in; -1 if that cannot be told. The device tells
 * less: files of an overlay have that of the file system below. */
static long mount_of(int fd)
{
    char path[64], line[128];
    long number = -1;
    FILE *stream;

    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    stream = fopen(path, "re");
    while (stream && number < 0 && fgets(line, sizeof(line), stream))
        if (sscanf(line, "mnt_id: %ld", &number) != 1)
            number = -1;
    if (stream)
        fclose(stream);
    return number;
}

static long mount_at(const char *path)
{
    int fd = open(path, O_PATH | O_CLOEXEC);
    long number = fd < 0 ? -2 : mount_of(fd);

    if (fd >= 0)
        close(fd);
    return number;
}

/* Is its file system the root's or that of /usr, which are there before the first program starts?
 */
static bool judge_mount(const struct ns_host *host, int fd, const char *path, bool at_boot)
{
    char root[PATH_MAX], usr[PATH_MAX];
    long mount = mount_of(fd);
    struct statvfs fs;

    if (fstatvfs(fd, &fs) == 0 && (fs.f_flag & ST_NOEXEC)) {
        SAY("%s lies on a file system that is mounted noexec: no program could load it", path);
        return false;
    }
    if (!at_boot || !ns_host_path(host, "/", root) || !ns_host_path(host, "/usr", usr) ||
        mount_at(root) == mount || mount_at(usr) == mount)
        return true;
    SAY("%s lies on a file system of its own, which is not mounted when the first programs start; "
        "install the library on that of / or /usr",
        path);
    return false;
}

static bool judge_file(const char *own)
{
    char reason[512];

    if (!ns_elf_path_is_unfit(own, reason, sizeof(reason)))
        return true;
    SAY("%s %s; install it again", own, reason);
    return false;
}

bool ns_host_library(struct ns_host *host, const char *library, bool at_boot)
{
    char own[PATH_MAX];
    int fd;
    bool good;

    fd = find(host, library, host->library);
    if (fd < 0)
        return false;
    good = judge_place(host->library) && ns_host_path(host, host->library, own) &&
           judge_file(own) && judge_owners(host, host->library) &&
           judge_mount(host, fd, host->library, at_boot);
    close(fd);
    return good && ns_host_programs(host, at_boot) && ns_host_trial(host, true);
}
