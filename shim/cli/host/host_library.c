/* SPDX-License-Identifier: MIT */
/* Owns the judgement whether the library may be preloaded into what a system starts. What would
 * keep programs from starting, or let others run code in them, is refused, and nothing is changed
 * here. Not async-signal-safe. */
#include "cli/host/host.h"

#include "cli/cli.h"
#include "cli/process/elf.h"
#include "cli/process/preload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SAY(...) ns_say("host", __VA_ARGS__)

enum { LINKS_MOST = 40 }; /* as the kernel's */

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

/* The path without links, as the system sees it. A descriptor with O_PATH, or -errno. */
static int find(const struct ns_host *host, const char *library, char path[PATH_MAX])
{
    char own[PATH_MAX];
    int fd = ns_host_open(host, library, O_PATH);
    int error = fd < 0 ? fd : ns_host_real(host, library, own);

    if (error) {
        SAY("%s%s: %s%s", host->root, library, strerror(-error),
            host->root[0] && error == -ENOENT ? "; --library FILE names the one in the system"
                                              : "");
    } else if (strncmp(own, host->root, strlen(host->root)) != 0) {
        SAY("%s%s: its path cannot be told", host->root, library);
        error = -EINVAL;
    }
    if (!error)
        snprintf(path, PATH_MAX, "%s", own + strlen(host->root));
    else if (fd >= 0)
        close(fd);
    return error ? error : fd;
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

/* Every directory above a path up to the root of the system. */
static bool judge_directories(const struct ns_host *host, const char *path)
{
    char own[PATH_MAX];
    size_t root = strlen(host->root);

    if (!ns_host_path(host, path, own))
        return false;
    for (;;) {
        char *slash = strrchr(own + root, '/');

        if (!slash || own[root + 1] == '\0')
            return true;
        slash[slash == own + root] = '\0'; /* the root itself keeps its slash */
        if (!judge_owner(host, own))
            return false;
    }
}

static bool judge_owners(const struct ns_host *host, const char *path)
{
    char own[PATH_MAX];

    return ns_host_path(host, path, own) && judge_owner(host, own) && judge_directories(host, path);
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

/* Put where the link at path[0..length) leads to in the place of it. False if it is none. */
static bool follow(const struct ns_host *host, char path[PATH_MAX], size_t length)
{
    char own[PATH_MAX], link[PATH_MAX], target[PATH_MAX], next[PATH_MAX];
    size_t directory = length;
    ssize_t n;
    int used;

    snprintf(link, sizeof(link), "%.*s", (int)length, path);
    n = ns_host_path(host, link, own) ? readlink(own, target, sizeof(target) - 1) : -1;
    if (n <= 0)
        return false;
    target[n] = '\0';
    while (directory > 0 && path[directory - 1] != '/')
        directory--;
    used = snprintf(next, sizeof(next), "%.*s%s%s", *target == '/' ? 0 : (int)directory, path,
                    target, path + length);
    if (used < 0 || used >= PATH_MAX)
        return false;
    strcpy(path, next);
    return true;
}

/* Every link on the way to the library: it stays in the path that is written, so that it must lie
 * where the library might. */
static bool judge_way(const struct ns_host *host, const char *library, bool at_boot)
{
    char path[PATH_MAX], own[PATH_MAX], link[PATH_MAX];
    size_t length = 1;

    snprintf(path, sizeof(path), "%s", library);
    for (int links = 0; links < LINKS_MOST && path[length] != '\0';) {
        bool good;
        int fd;

        length += strcspn(path + length, "/");
        snprintf(link, sizeof(link), "%.*s", (int)length, path);
        if (!follow(host, path, length)) {
            length += path[length] == '/';
            continue;
        }
        fd = ns_host_path(host, link, own) ? open(own, O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1;
        good = fd >= 0 && judge_place(link) && judge_directories(host, link) &&
               judge_mount(host, fd, link, at_boot);
        if (fd >= 0)
            close(fd);
        if (!good)
            return false;
        length = 1;
        links++;
    }
    return true;
}

int ns_host_library(struct ns_host *host, const char *library, bool at_boot)
{
    char own[PATH_MAX], path[PATH_MAX];
    int fd = find(host, library, path);
    bool good;

    if (fd < 0)
        return ns_host_exit(fd);
    good = judge_place(library) && judge_place(path) && ns_host_path(host, path, own) &&
           judge_file(own) && judge_owners(host, path) && judge_mount(host, fd, path, at_boot) &&
           judge_way(host, library, at_boot);
    close(fd);
    snprintf(host->library, sizeof(host->library), "%s", library);
    return good && ns_host_programs(host, at_boot) ? ns_host_trial(host, true) : NS_EXIT_ERROR;
}
