/* SPDX-License-Identifier: MIT */
/* See group.h. Owns the BPF programs in the kernel, and their names in NS_GROUP_PINS: for each
 * group a directory with the number of the group, which has a name for each link. The BPF file
 * system may be writable for everybody, so that another user can make NS_GROUP_PINS first. Names
 * are therefore used only relative to a descriptor of a directory of root's. */
#include "base/clock.h"
#include "cure/code.h"
#include "cure/group.h"
#include "process/scope.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/bpf.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define NAME "nagleshim" /* of each program in the kernel */

#define POLICY "policy" /* a symbolic link to where the policy is from, beside the names */

enum { LOCK_SECONDS = 5, LOCK_AGAIN_US = 20000, PROGRAMS_MOST = 64 /* BPF_CGROUP_MAX_PROGS */ };

static const struct {
    const char *name;
    enum bpf_prog_type type;
    enum bpf_attach_type attach;
} programs[NS_GROUP_PROGRAMS] = {
    {"connections", BPF_PROG_TYPE_SOCK_OPS, BPF_CGROUP_SOCK_OPS},
    {"options", BPF_PROG_TYPE_CGROUP_SOCKOPT, BPF_CGROUP_SETSOCKOPT},
};

/* Returns a descriptor, which is close-on-exec, or 0, or -errno. */
static int bpf(enum bpf_cmd command, union bpf_attr *attr)
{
    long result = syscall(SYS_bpf, command, attr, sizeof *attr);
    return result < 0 ? -errno : (int)result;
}
#define BPF(command, ...) bpf(command, &(union bpf_attr){__VA_ARGS__})

/* The kernel reads a pointer as 64 bits. */
static uint64_t address(const void *pointer)
{
    return (uintptr_t)pointer;
}

/* --- The names ------------------------------------------------------------------------------- */

static int pins = -1; /* the directory, and its lock */
static bool is_locked;

/* 0 or -errno; -ENOENT: without make, there is none. */
static int open_pins(bool make)
{
    struct statfs fs;
    struct stat st;
    NS_AUTO_CLOSE int above = open(NS_GROUP_BPF, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (above < 0 && errno != ENOENT && errno != ENOTDIR)
        return -errno;
    if (above < 0 || fstatfs(above, &fs) != 0 || (unsigned long)fs.f_type != BPF_FS_MAGIC)
        return -ENXIO;
    if (make && geteuid() != 0)
        return -EACCES; /* its directory would be refused */
    if (make && mkdirat(above, NAME, 0700) != 0 && errno != EEXIST)
        return -errno;
    NS_AUTO_CLOSE int fd = openat(above, NAME, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        return errno == ELOOP ? -ENOTDIR : -errno;
    if (st.st_uid != 0 || st.st_mode & (S_IWGRP | S_IWOTH))
        return -ENOTDIR;
    if (pins >= 0)
        close(pins);
    pins = fd;
    fd = -1;
    return 0;
}

int ns_groups_lock(bool is_dry)
{
    const uint64_t until = ns_clock_now(CLOCK_MONOTONIC) + LOCK_SECONDS * 1000000000ULL;
    struct stat mine, now;
    for (;;) {
        int error = open_pins(!is_dry);
        if (error || is_dry)
            return error == -ENOENT ? 0 : error;
        /* An undo may have removed it. */
        if (flock(pins, LOCK_EX | LOCK_NB) == 0) {
            if (fstat(pins, &mine) == 0 && lstat(NS_GROUP_PINS, &now) == 0 &&
                now.st_ino == mine.st_ino) {
                is_locked = true;
                return 0;
            }
        } else if (errno != EWOULDBLOCK)
            return -errno;
        if (ns_clock_now(CLOCK_MONOTONIC) > until)
            return -EWOULDBLOCK;
        usleep(LOCK_AGAIN_US);
    }
}

/* The path of a link's name, or of its group's directory. */
static const char *name_of(uint64_t group, const char *link)
{
    static char path[128];
    snprintf(path, sizeof path, "/proc/self/fd/%d/%" PRIu64 "%s%s", pins, group, *link ? "/" : "",
             link);
    return path;
}

static int open_link(uint64_t group, int n)
{
    return BPF(BPF_OBJ_GET, .pathname = address(name_of(group, programs[n].name)));
}

/* Removes a program's link, and with the last one the directories, of which one has the lock. */
static void remove_link(uint64_t group, int n)
{
    NS_AUTO_CLOSE int link = open_link(group, n);
    unlink(name_of(group, programs[n].name));
    if (link >= 0) /* without, the kernel ends it some time later */
        BPF(BPF_LINK_DETACH, .link_detach = {.link_fd = (uint32_t)link});
    if (n < NS_GROUP_PROGRAMS - 1)
        return;
    unlink(name_of(group, POLICY));
    rmdir(name_of(group, ""));
    rmdir(NS_GROUP_PINS);
}

void ns_groups_remove(struct ns_groups *groups, bool finally)
{
    for (struct ns_group *group = NULL; (group = ns_groups_next(groups, group));) {
        if (group->kept && is_locked)
            remove_link(group->id, finally);
        if (group->links[finally] >= 0)
            close(group->links[finally]);
        group->links[finally] = -1;
    }
}

/* --- What is in force ------------------------------------------------------------------------ */

/* Does the program with this number have this command's name? */
static bool is_ours(uint32_t id)
{
    struct bpf_prog_info info = {0};
    NS_AUTO_CLOSE int program = BPF(BPF_PROG_GET_FD_BY_ID, .prog_id = id);
    return program >= 0 &&
           BPF(BPF_OBJ_GET_INFO_BY_FD, .info = {.bpf_fd = (uint32_t)program,
                                                .info_len = sizeof info,
                                                .info = address(&info)}) == 0 &&
           strcmp(info.name, NAME) == 0;
}

/* The programs of this group itself, of everybody; those above it, too, with BPF_F_QUERY_EFFECTIVE
 * in *flags, which becomes how they were attached. Returns how many; 0, too, without CAP_NET_ADMIN.
 */
static uint32_t programs_of(int directory, int n, uint32_t ids[PROGRAMS_MOST], uint32_t *flags)
{
    union bpf_attr attr = {.query = {.target_fd = (uint32_t)directory,
                                     .attach_type = programs[n].attach,
                                     .query_flags = *flags,
                                     .prog_ids = address(ids),
                                     .prog_cnt = PROGRAMS_MOST}};
    const int error = bpf(BPF_PROG_QUERY, &attr);
    *flags = attr.query.attach_flags;
    return error ? 0 : attr.query.prog_cnt;
}

/* Has this group programs of this command? flags: see programs_of. Without CAP_NET_ADMIN and
 * CAP_SYS_ADMIN it is not known, and the answer is no. */
static bool is_in_force(int directory, uint32_t flags)
{
    uint32_t ids[PROGRAMS_MOST], n = programs_of(directory, 0, ids, &flags);
    while (n > 0 && !is_ours(ids[n - 1]))
        n--;
    return n > 0;
}

bool ns_group_is_cured(const char *name)
{
    char path[2 * PATH_MAX];
    NS_AUTO_CLOSE int directory = ns_group_path(name, path, sizeof path)
                                      ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                                      : -1;
    return directory >= 0 && is_in_force(directory, BPF_F_QUERY_EFFECTIVE);
}

static bool take_cured(void *context, const char *path)
{
    struct ns_groups *groups = context;
    struct stat st;
    NS_AUTO_CLOSE int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0 || fstat(directory, &st) != 0)
        return false;
    struct ns_group *group = ns_groups_with(groups, st.st_ino);
    if (group)
        snprintf(group->path, sizeof group->path, "%s", path);
    else if (is_in_force(directory, 0))
        ns_groups_add(groups, path, st.st_ino)->error = -EEXIST;
    return false;
}

/* Adds each group whose programs have names. 0, -ENOENT or another -errno: there are none. */
static int read_names(struct ns_groups *groups)
{
    const struct dirent *entry;
    int error = pins >= 0 ? 0 : open_pins(false);
    int fd = error ? -1 : openat(pins, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    NS_AUTO_CLOSEDIR DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    while (dir && (entry = readdir(dir))) {
        char *end;
        const uint64_t id = strtoull(entry->d_name, &end, 10);
        if (id && *end == '\0') {
            struct ns_group *group = ns_groups_add(groups, "", id);
            group->kept = true;
            group->is_ending = access(name_of(id, programs[0].name), F_OK) != 0 && errno == ENOENT;
            (void)!readlink(name_of(id, POLICY), group->policy, sizeof group->policy - 1);
        }
    }
    return error == -ENOENT || error == -ENXIO ? 0 : error;
}

int ns_groups_find_cured(struct ns_groups *groups)
{
    char root[PATH_MAX];
    const int error = read_names(groups);
    if (ns_group_root(root) != -ENODEV)
        ns_group_walk(root, take_cured, groups);
    return error;
}

/* Has the group ended, or was its cure ended before the first program ran? That one has no POLICY,
 * other than an undo that can be repeated. A path does not say whether its group has ended: users
 * may nest groups until it is too long. */
static bool is_over(const struct ns_group *group)
{
    struct bpf_link_info info = {0};
    NS_AUTO_CLOSE int link = open_link(group->id, group->is_ending);
    const bool is_known =
        BPF(BPF_OBJ_GET_INFO_BY_FD,
            .info = {.bpf_fd = (uint32_t)link, .info_len = sizeof info, .info = address(&info)}) ==
        0;
    return (group->is_ending && !*group->policy) || (is_known && info.cgroup.cgroup_id == 0);
}

/* Removes the names of groups that are gone, and what a cure has left that failed. */
static void tidy(void)
{
    struct ns_groups kept = {0};
    read_names(&kept);
    for (size_t i = 0; i < kept.n; i++)
        if (is_over(&kept.at[i]))
            for (int n = 0; n < NS_GROUP_PROGRAMS; n++)
                remove_link(kept.at[i].id, n);
    free(kept.at);
    rmdir(NS_GROUP_PINS);
}

/* --- A cure ---------------------------------------------------------------------------------- */

/* Loads a program. Returns its descriptor or -errno. */
static int load(int n, const struct ns_policy *policy)
{
    const struct rlimit most = {RLIM_INFINITY, RLIM_INFINITY};
    static struct ns_code code;
    int program = 0;
    setrlimit(RLIMIT_MEMLOCK, &most); /* it counts programs before Linux 5.11 */
    if (n == 0)
        program = ns_code_connections(&code, policy, ns_group_least_delack());
    else
        ns_code_options(&code, policy);
    if (!program)
        program = BPF(BPF_PROG_LOAD, .prog_type = programs[n].type,
                      .expected_attach_type = programs[n].attach, .insns = address(code.at),
                      .insn_cnt = (uint32_t)code.n, .license = address("MIT"), .prog_name = NAME);
    /* The verifier's error looks like that of a file. */
    return program == -EACCES ? -EINVAL : program;
}

/* Is there room for a program of this command? Programs of others allow one beside them, in their
 * group and below it; or they allow to be replaced below it: those do not run there any more
 * (kernel/bpf/cgroup.c). The first group with programs decides, from this one upwards. */
static int judge_others(int group, int n, bool force)
{
    uint32_t ids[PROGRAMS_MOST], flags;
    struct statfs fs;
    struct stat st = {0}, last;
    NS_AUTO_CLOSE int at = openat(group, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (bool above = false;; above = true) {
        last = st;
        flags = 0;
        if (at < 0 || fstatfs(at, &fs) != 0 || fstat(at, &st) != 0 || st.st_ino == last.st_ino ||
            (unsigned long)fs.f_type != CGROUP2_SUPER_MAGIC)
            return 0;
        const uint32_t found = programs_of(at, n, ids, &flags);
        if (found && !(flags & BPF_F_ALLOW_MULTI))
            return !above || !(flags & BPF_F_ALLOW_OVERRIDE) ? -EBUSY : force ? 0 : -EUSERS;
        if (found)
            return above || found < PROGRAMS_MOST ? 0 : -ENOSPC;
        const int up = openat(at, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = up;
    }
}

/* Runs a program in a group, beside those of others. One that is kept is replaced by one that is to
 * be kept: its link has a name. Otherwise it runs as long as this process has the link. */
static int run(struct ns_group *group, int directory, int n, int program, bool keep)
{
    NS_AUTO_CLOSE int link = keep ? open_link(group->id, n) : -ENOENT;
    if (link >= 0)
        return BPF(BPF_LINK_UPDATE,
                   .link_update = {.link_fd = (uint32_t)link, .new_prog_fd = (uint32_t)program});
    link = BPF(BPF_LINK_CREATE, .link_create = {.prog_fd = (uint32_t)program,
                                                .target_fd = (uint32_t)directory,
                                                .attach_type = programs[n].attach});
    if (link < 0)
        return link == -EPERM ? -EBUSY : link == -E2BIG ? -ENOSPC : link;
    if (keep && mkdir(name_of(group->id, ""), 0700) != 0 && errno != EEXIST)
        return -errno;
    if (keep)
        return BPF(BPF_OBJ_PIN, .pathname = address(name_of(group->id, programs[n].name)),
                   .bpf_fd = (uint32_t)link);
    group->links[n] = link;
    link = -1;
    return 0;
}

static int cure(struct ns_group *group, const int loaded[], unsigned how)
{
    struct stat st;
    int error = 0;
    NS_AUTO_CLOSE int directory = open(group->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return -errno;
    if (fstat(directory, &st) != 0 || st.st_ino != group->id)
        return -ENOENT;
    group->kept = how & NS_GROUPS_KEEP && pins >= 0 && access(name_of(group->id, ""), F_OK) == 0;
    /* The readiness probe of a cure --follow asks beside it. */
    const bool is_probe = (how & (NS_GROUPS_KEEP | NS_GROUPS_DRY)) == NS_GROUPS_DRY;
    if (!group->kept && !is_probe && is_in_force(directory, 0))
        return -EEXIST;
    for (int n = 0; n < NS_GROUP_PROGRAMS && !group->kept && !error; n++)
        error = judge_others(directory, n, how & NS_GROUPS_FORCE);
    /* Without the second one before Linux 5.15, which sets no TCP_NODELAY on new connections. */
    for (int n = NS_GROUP_PROGRAMS - 1; n >= 0 && !error && !(how & NS_GROUPS_DRY); n--)
        if (loaded[n] != -EINVAL)
            error = loaded[n] < 0 ? loaded[n]
                                  : run(group, directory, n, loaded[n], how & NS_GROUPS_KEEP);
    return error == -ENODEV ? -ENOENT : error;
}

int ns_groups_cure(struct ns_groups *groups, const struct ns_policy *policy, const char *from,
                   unsigned how)
{
    int loaded[NS_GROUP_PROGRAMS];
    for (int n = 0; n < NS_GROUP_PROGRAMS; n++)
        loaded[n] = n > 0 && loaded[0] < 0 ? loaded[0] : load(n, policy);
    for (struct ns_group *group = NULL;
         loaded[0] >= 0 && (group = ns_groups_next(groups, group));) {
        group->error = cure(group, loaded, how);
        if (group->error || how & NS_GROUPS_DRY || !(how & NS_GROUPS_KEEP))
            continue;
        unlink(name_of(group->id, POLICY));
        (void)!symlink(from, name_of(group->id, POLICY)); /* it is only shown */
    }
    for (int n = 0; n < NS_GROUP_PROGRAMS; n++)
        if (loaded[n] >= 0)
            close(loaded[n]);
    if (how & NS_GROUPS_KEEP && !(how & NS_GROUPS_DRY))
        tidy();
    return loaded[0] < 0 ? loaded[0] : 0;
}

int ns_group_least_delack(void)
{
    struct timespec tick;
    clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
    return (int)(2 * tick.tv_nsec / 1000);
}
