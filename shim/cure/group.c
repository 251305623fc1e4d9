/* SPDX-License-Identifier: MIT */
/* See group.h. Owns the names in NS_GROUP_PINS: for each group a directory with the number of the
 * group, which has a name for each link. */
#include "cure/group.h"

#include "base/path.h"
#include "conn/delack.h"
#include "cure/code.h"
#include "process/scope.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/bpf.h>
#include <linux/magic.h>
#include <mntent.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

static const struct {
    const char *name;
    enum bpf_prog_type type;
    enum bpf_attach_type attach;
} programs[NS_GROUP_PROGRAMS] = {
    {"connections", BPF_PROG_TYPE_SOCK_OPS, BPF_CGROUP_SOCK_OPS},
    {"options", BPF_PROG_TYPE_CGROUP_SOCKOPT, BPF_CGROUP_SETSOCKOPT},
};

/* --- Groups and their directories ------------------------------------------------------------ */

static void add(struct ns_groups *groups, const char *path, uint64_t id)
{
    NS_GROW(groups->at, groups->n);
    struct ns_group *group = &groups->at[groups->n++];
    *group = (struct ns_group){.id = id};
    snprintf(group->path, sizeof group->path, "%s", path);
}

static int add_directory(struct ns_groups *groups, const char *path)
{
    struct stat st;
    struct statfs fs;
    if (stat(path, &st) != 0 || statfs(path, &fs) != 0)
        return -errno;
    if (!S_ISDIR(st.st_mode) || (unsigned long)fs.f_type != CGROUP2_SUPER_MAGIC)
        return -ENOENT;
    add(groups, path, st.st_ino);
    return 0;
}

/* Where the cgroup2 file system is mounted, with its root if that is visible. 0; -EXDEV: the root
 * is not visible in this cgroup namespace; -ENODEV: it is mounted nowhere, and path is "". */
static int find_root(char path[PATH_MAX])
{
    FILE *stream = setmntent("/proc/self/mounts", "re");
    const struct mntent *mount;
    struct stat st = {0};
    *path = '\0';
    while (stream && st.st_ino != NS_GROUP_ROOT && (mount = getmntent(stream)))
        if (strcmp(mount->mnt_type, "cgroup2") == 0 && stat(mount->mnt_dir, &st) == 0 &&
            (!*path || st.st_ino == NS_GROUP_ROOT))
            snprintf(path, PATH_MAX, "%s", mount->mnt_dir);
    if (stream)
        endmntent(stream);
    return st.st_ino == NS_GROUP_ROOT ? 0 : *path ? -EXDEV : -ENODEV;
}

/* Calls visit for a directory and those below it; not for those below one where it returns true. */
static void walk(const char *path, bool (*visit)(void *context, const char *path), void *context)
{
    char below[PATH_MAX];
    const struct dirent *entry;
    NS_AUTO_CLOSEDIR DIR *dir = visit(context, path) ? NULL : opendir(path);
    while (dir && (entry = readdir(dir)))
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.' &&
            (size_t)snprintf(below, sizeof below, "%s/%s", path, entry->d_name) < sizeof below)
            walk(below, visit, context);
}

bool ns_group_is_of_unit(const char *name, const char *unit)
{
    const size_t length = strlen(unit);
    return strncmp(name, unit, length) == 0 &&
           (name[length] == '\0' || strcmp(name + length, ".service") == 0);
}

/* systemd and Kubernetes write the dashes of an id as underscores in the names of slices. */
static bool has_word(const char *name, const char *word)
{
    char other[NAME_MAX + 1];
    snprintf(other, sizeof other, "%s", word);
    for (char *at = other; *at; at++)
        *at = *at == '-' ? '_' : *at;
    return strstr(name, word) || strstr(name, other);
}

struct search {
    struct ns_groups *groups;
    const char *root, *word;
    bool (*matches)(const char *name, const char *word);
    int error;
};

static bool take_with_word(void *context, const char *path)
{
    struct search *search = context;
    if (strcmp(path, search->root) == 0 || !search->matches(ns_path_base(path), search->word))
        return false;
    search->error = add_directory(search->groups, path);
    return true;
}

int ns_groups_find(struct ns_groups *groups, const char *word, bool is_unit)
{
    char root[PATH_MAX];
    struct search search = {groups, root, word, is_unit ? ns_group_is_of_unit : has_word, -ENOENT};
    if (find_root(root) == -ENODEV)
        return -ENODEV;
    if (!is_unit && strchr(word, '/'))
        return add_directory(groups, word);
    walk(root, take_with_word, &search);
    return search.error;
}

int ns_groups_find_root(struct ns_groups *groups)
{
    char root[PATH_MAX];
    int error = find_root(root);
    return error ? error : add_directory(groups, root);
}

static bool take_path(void *context, const char *path)
{
    struct ns_groups *groups = context;
    struct stat st;
    for (size_t i = 0; stat(path, &st) == 0 && i < groups->n; i++)
        if (groups->at[i].id == st.st_ino)
            snprintf(groups->at[i].path, sizeof groups->at[i].path, "%s", path);
    return false;
}

int ns_groups_find_kept(struct ns_groups *groups)
{
    NS_AUTO_CLOSEDIR DIR *dir = opendir(NS_GROUP_PINS);
    char root[PATH_MAX];
    const struct dirent *entry;
    int error = dir || errno == ENOENT ? 0 : -errno;
    while (dir && (entry = readdir(dir))) {
        char *end;
        uint64_t id = strtoull(entry->d_name, &end, 10);
        if (id && *end == '\0')
            add(groups, "", id);
    }
    if (groups->n && find_root(root) != -ENODEV)
        walk(root, take_path, groups);
    return error;
}

bool ns_group_path(pid_t pid, char *path, size_t size)
{
    char file[64], line[PATH_MAX + 8] = "", root[PATH_MAX];
    bool found = false;
    snprintf(file, sizeof file, "/proc/%d/cgroup", pid);
    NS_AUTO_FCLOSE FILE *stream = fopen(file, "re");
    while (stream && !found && fgets(line, sizeof line, stream))
        found = strncmp(line, "0::/", 4) == 0;
    line[strcspn(line, "\n")] = '\0';
    return found && find_root(root) != -ENODEV &&
           (size_t)snprintf(path, size, "%s%s", root, line + 3) < size;
}

const struct ns_group *ns_groups_of(const struct ns_groups *groups, pid_t pid)
{
    char path[2 * PATH_MAX];
    struct stat st;
    if (!ns_group_path(pid, path, sizeof path))
        return NULL;
    for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
        *end = '\0';
        for (size_t i = 0; i < groups->n && stat(path, &st) == 0; i++)
            if (groups->at[i].id == st.st_ino)
                return &groups->at[i];
    }
    return NULL;
}

static bool add_processes_of(void *context, const char *path)
{
    char file[PATH_MAX + 16];
    int pid;
    snprintf(file, sizeof file, "%s/cgroup.procs", path);
    NS_AUTO_FCLOSE FILE *stream = fopen(file, "re");
    while (stream && fscanf(stream, "%d", &pid) == 1)
        if (pid > 0) /* 0: it is not in this command's PID namespace */
            ns_owners_add(context, pid);
    return false;
}

void ns_groups_add_processes(const struct ns_groups *groups, struct ns_owners *owners)
{
    for (size_t i = 0; i < groups->n; i++)
        if (*groups->at[i].path)
            walk(groups->at[i].path, add_processes_of, owners);
}

/* --- Their programs -------------------------------------------------------------------------- */

/* Returns a descriptor, which is close-on-exec, or 0, or -errno. */
static int bpf(enum bpf_cmd command, union bpf_attr attr)
{
    long result = syscall(SYS_bpf, command, &attr, sizeof attr);
    return result < 0 ? -errno : (int)result;
}

/* The kernel reads a pointer as 64 bits. */
static uint64_t address(const void *pointer)
{
    return (uintptr_t)pointer;
}

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
        ns_code_options(&code);
    if (!program)
        program = bpf(BPF_PROG_LOAD, (union bpf_attr){.prog_type = programs[n].type,
                                                      .expected_attach_type = programs[n].attach,
                                                      .insns = address(code.at),
                                                      .insn_cnt = (uint32_t)code.n,
                                                      .license = address("MIT"),
                                                      .prog_name = "nagleshim"});
    /* The verifier's error looks like that of a file. */
    return program == -EACCES ? -EINVAL : program;
}

/* The path of a link's name, or of its group's directory. */
static const char *name_of(uint64_t group, const char *link)
{
    static char path[128];
    snprintf(path, sizeof path, NS_GROUP_PINS "/%" PRIu64 "%s%s", group, *link ? "/" : "", link);
    return path;
}

static int open_link(uint64_t group, int n)
{
    const char *path = name_of(group, programs[n].name);
    return bpf(BPF_OBJ_GET, (union bpf_attr){.pathname = address(path)});
}

/* Links a program to a group, beside those of others. */
static int make_link(const struct ns_group *group, int n, int program)
{
    NS_AUTO_CLOSE int directory = open(group->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return -errno;
    int link =
        bpf(BPF_LINK_CREATE, (union bpf_attr){.link_create = {.prog_fd = (uint32_t)program,
                                                              .target_fd = (uint32_t)directory,
                                                              .attach_type = programs[n].attach}});
    return link == -EPERM ? -EBUSY : link;
}

/* Gives a link a name, with which it outlives this process. */
static int keep_link(const struct ns_group *group, int n, int link)
{
    if (mkdir(name_of(group->id, ""), 0700) != 0 && errno != EEXIST)
        return -errno;
    const char *path = name_of(group->id, programs[n].name);
    return bpf(BPF_OBJ_PIN, (union bpf_attr){.pathname = address(path), .bpf_fd = (uint32_t)link});
}

/* Runs one program in a group. One that is kept is replaced by one that is to be kept. Otherwise it
 * runs as long as this process has the descriptor of its link. */
static int run(const struct ns_group *group, int n, int program, bool keep)
{
    int link = keep ? open_link(group->id, n) : -ENOENT, error = 0;
    if (link >= 0)
        error = bpf(BPF_LINK_UPDATE,
                    (union bpf_attr){.link_update = {.link_fd = (uint32_t)link,
                                                     .new_prog_fd = (uint32_t)program}});
    else if ((link = make_link(group, n, program)) < 0)
        error = link;
    else if (keep)
        error = keep_link(group, n, link);
    if (keep && link >= 0)
        close(link);
    return error;
}

int ns_groups_lock(bool is_dry)
{
    struct statfs fs;
    struct stat mine, now;
    if (statfs(NS_GROUP_BPF, &fs) != 0 || (unsigned long)fs.f_type != BPF_FS_MAGIC)
        return -ENXIO;
    while (!is_dry) {
        if (mkdir(NS_GROUP_PINS, 0700) != 0 && errno != EEXIST)
            return -errno;
        /* Not the file system's own directory: every user may open that. */
        int fd = open(NS_GROUP_PINS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0 || flock(fd, LOCK_EX) != 0 || fstat(fd, &mine) != 0)
            return -errno;
        if (stat(NS_GROUP_PINS, &now) == 0 && now.st_ino == mine.st_ino)
            break;
        close(fd); /* an undo has removed it */
    }
    return 0;
}

/* Removes a program's link, and with the last one the directories, of which one has the lock. */
static void remove_link(uint64_t group, int n)
{
    NS_AUTO_CLOSE int link = open_link(group, n);
    unlink(name_of(group, programs[n].name));
    if (link >= 0) /* without, the kernel ends it some time later */
        bpf(BPF_LINK_DETACH, (union bpf_attr){.link_detach = {.link_fd = (uint32_t)link}});
    if (n < NS_GROUP_PROGRAMS - 1)
        return;
    rmdir(name_of(group, ""));
    rmdir(NS_GROUP_PINS);
}

void ns_groups_remove(const struct ns_groups *groups, bool finally)
{
    for (size_t i = 0; i < groups->n; i++)
        remove_link(groups->at[i].id, finally);
}

/* Removes the names of groups that are gone, and what a cure has left that failed. */
static void tidy(void)
{
    struct ns_groups kept = {0};
    char root[PATH_MAX];
    const bool sees_all = find_root(root) == 0;
    ns_groups_find_kept(&kept);
    for (size_t i = 0; i < kept.n; i++)
        if ((sees_all && !*kept.at[i].path) ||
            access(name_of(kept.at[i].id, programs[0].name), F_OK) != 0)
            for (int n = 0; n < NS_GROUP_PROGRAMS; n++)
                remove_link(kept.at[i].id, n);
    rmdir(NS_GROUP_PINS);
}

int ns_groups_cure(struct ns_groups *groups, const struct ns_policy *policy, bool keep, bool is_dry)
{
    int loaded[NS_GROUP_PROGRAMS], error = 0;
    for (int n = 0; n < NS_GROUP_PROGRAMS; n++)
        loaded[n] = load(n, policy);
    if (loaded[0] < 0)
        error = loaded[0];
    /* Without the second one before Linux 5.15, which sets no TCP_NODELAY on new connections. */
    for (size_t i = 0; i < groups->n && !is_dry; i++)
        for (int n = NS_GROUP_PROGRAMS - 1; n >= 0 && !error; n--)
            error = loaded[n] == -EINVAL ? 0 : run(&groups->at[i], n, loaded[n], keep);
    for (int n = 0; n < NS_GROUP_PROGRAMS; n++)
        if (loaded[n] >= 0)
            close(loaded[n]);
    if (keep)
        tidy();
    return error;
}

int ns_group_least_delack(void)
{
    struct timespec tick;
    clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
    return (int)(2 * tick.tv_nsec / 1000);
}

int ns_socket_least_delack(void)
{
    NS_AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int limit = ns_group_least_delack();
    socklen_t size = sizeof limit;
    if (setsockopt(fd, IPPROTO_TCP, NS_DELACK_OPTION, &limit, size) != 0 ||
        getsockopt(fd, IPPROTO_TCP, NS_DELACK_OPTION, &limit, &size) != 0)
        limit = -1;
    return limit;
}

bool ns_group_limit(int fd, int delack)
{
    return setsockopt(fd, IPPROTO_TCP, NS_CODE_OPTION, &delack, sizeof delack) == 0;
}
