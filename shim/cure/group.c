/* SPDX-License-Identifier: MIT */
/* See group.h. Owns the names in NS_GROUP_PINS: "marks" for the map, and for each group a directory
 * with the number of the group, which has a name for each link. */
#include "cure/group.h"

#include "base/path.h"
#include "cure/bpf.h"
#include "cure/code.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define MARKS NS_GROUP_PINS "/marks"

/* The root's, which is not visible in a cgroup namespace (fs/kernfs/mount.c). */
enum { ROOT_INODE = 1 };

static const struct {
    const char *name;
    enum bpf_prog_type type;
    enum bpf_attach_type attach;
} programs[NS_GROUP_PROGRAMS] = {
    {"connections", BPF_PROG_TYPE_SOCK_OPS, BPF_CGROUP_SOCK_OPS},
    {"options", BPF_PROG_TYPE_CGROUP_SOCKOPT, BPF_CGROUP_SETSOCKOPT},
};

/* --- Groups and their directories ------------------------------------------------------------ */

static int add(struct ns_groups *groups, const char *path, uint64_t id)
{
    struct ns_group *larger = realloc(groups->at, (groups->n + 1) * sizeof *larger);
    if (!larger)
        return -ENOMEM;
    groups->at = larger;
    larger += groups->n++;
    *larger = (struct ns_group){.id = id, .links = {-1, -1}};
    snprintf(larger->path, sizeof larger->path, "%s", path);
    return 0;
}

static int add_directory(struct ns_groups *groups, const char *path)
{
    struct stat st;
    struct statfs fs;
    if (stat(path, &st) != 0 || statfs(path, &fs) != 0)
        return -errno;
    if (!S_ISDIR(st.st_mode) || (unsigned long)fs.f_type != CGROUP2_SUPER_MAGIC)
        return -ENOENT;
    return add(groups, path, st.st_ino);
}

/* Where the cgroup2 file system is mounted: "" if it is not. */
static const char *root_path(void)
{
    static char path[PATH_MAX];
    char line[2 * PATH_MAX], type[64];
    FILE *stream = fopen("/proc/self/mountinfo", "re");
    *path = '\0';
    while (stream && fgets(line, sizeof line, stream)) {
        const char *rest = strstr(line, " - ");
        if (rest && sscanf(rest, " - %63s", type) == 1 && strcmp(type, "cgroup2") == 0 &&
            sscanf(line, "%*s %*s %*s %*s %4095s", path) == 1)
            break;
        *path = '\0';
    }
    if (stream)
        fclose(stream);
    return path;
}

/* Calls visit for a directory and those below it; not for those below one where it returns true. */
static void walk(const char *path, bool (*visit)(void *context, const char *path), void *context)
{
    char below[PATH_MAX];
    const struct dirent *entry;
    DIR *dir = visit(context, path) ? NULL : opendir(path);
    while (dir && (entry = readdir(dir)))
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.' &&
            (size_t)snprintf(below, sizeof below, "%s/%s", path, entry->d_name) < sizeof below)
            walk(below, visit, context);
    if (dir)
        closedir(dir);
}

struct search {
    struct ns_groups *groups;
    const char *root, *word;
    bool anywhere;
    int error;
};

/* systemd and Kubernetes write the dashes of an id as underscores in the names of slices. */
static bool has_word(const char *name, const struct search *search)
{
    char other[NAME_MAX + 1];
    size_t length = strlen(search->word);
    if (!search->anywhere)
        return strncmp(name, search->word, length) == 0 &&
               (name[length] == '\0' || strcmp(name + length, ".service") == 0);
    snprintf(other, sizeof other, "%s", search->word);
    for (char *at = other; *at; at++)
        *at = *at == '-' ? '_' : *at;
    return strstr(name, search->word) || strstr(name, other);
}

static bool take_with_word(void *context, const char *path)
{
    struct search *search = context;
    if (strcmp(path, search->root) == 0 || !has_word(ns_path_base(path), search))
        return false;
    search->error = add_directory(search->groups, path);
    return true;
}

int ns_groups_find(struct ns_groups *groups, const char *word, bool anywhere)
{
    const char *root = root_path();
    struct search search = {groups, root, word, anywhere, *word ? -ENOENT : -EINVAL};
    if (*root == '\0')
        return -ENODEV;
    if (anywhere && strchr(word, '/'))
        return add_directory(groups, word);
    if (*word)
        walk(root, take_with_word, &search);
    return search.error;
}

int ns_groups_find_root(struct ns_groups *groups)
{
    const char *root = root_path();
    struct stat st;
    if (*root && (stat(root, &st) != 0 || st.st_ino != ROOT_INODE))
        return -EXDEV;
    return *root ? add_directory(groups, root) : -ENODEV;
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
    DIR *dir = opendir(NS_GROUP_PINS);
    const struct dirent *entry;
    int error = dir || errno == ENOENT ? 0 : -errno;
    while (!error && dir && (entry = readdir(dir))) {
        char *end;
        uint64_t id = strtoull(entry->d_name, &end, 10);
        if (id && *end == '\0')
            error = add(groups, "", id);
    }
    if (dir)
        closedir(dir);
    if (groups->n && *root_path())
        walk(root_path(), take_path, groups);
    return error;
}

const struct ns_group *ns_groups_of(const struct ns_groups *groups, pid_t pid)
{
    const char *root = root_path();
    const size_t length = strlen(root);
    char path[2 * PATH_MAX], line[PATH_MAX + 8] = "";
    struct stat st;
    snprintf(path, sizeof path, "/proc/%d/cgroup", pid);
    FILE *stream = fopen(path, "re");
    while (stream && fgets(line, sizeof line, stream) && strncmp(line, "0::/", 4) != 0)
        *line = '\0';
    if (stream)
        fclose(stream);
    line[strcspn(line, "\n")] = '\0';
    snprintf(path, sizeof path, "%s%s", root, *line ? line + 3 : "");
    for (char *end = path + strlen(path); *line && end >= path + length; end = strrchr(path, '/')) {
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
    FILE *stream = fopen(file, "re");
    while (stream && fscanf(stream, "%d", &pid) == 1)
        if (pid > 0) /* 0: it is not in this command's PID namespace */
            ns_owners_add(context, pid);
    if (stream)
        fclose(stream);
    return false;
}

void ns_groups_add_processes(const struct ns_groups *groups, struct ns_owners *owners)
{
    for (size_t i = 0; i < groups->n; i++)
        if (*groups->at[i].path)
            walk(groups->at[i].path, add_processes_of, owners);
}

void ns_groups_release(struct ns_groups *groups)
{
    for (size_t i = 0; i < groups->n; i++)
        for (int n = 0; n < NS_GROUP_PROGRAMS; n++)
            if (groups->at[i].links[n] >= 0)
                close(groups->at[i].links[n]);
    free(groups->at);
    *groups = (struct ns_groups){0};
}

/* --- Their programs -------------------------------------------------------------------------- */

/* The descriptors of the map and of the programs. */
struct loaded {
    int marks, programs[NS_GROUP_PROGRAMS];
};

static int load(const struct ns_policy *policy, struct loaded *loaded)
{
    const struct rlimit most = {RLIM_INFINITY, RLIM_INFINITY};
    struct ns_code *code = malloc(sizeof *code);
    setrlimit(RLIMIT_MEMLOCK, &most); /* it counts programs before Linux 5.11 */
    int marks = ns_bpf_open(MARKS), error;
    loaded->marks = marks = marks >= 0 ? marks : ns_bpf_marks();
    if (!code || marks < 0) {
        free(code);
        return marks < 0 ? marks : -ENOMEM;
    }
    error = ns_code_connections(code, policy, marks);
    for (int n = 0; n < NS_GROUP_PROGRAMS && !error; n++) {
        if (n > 0)
            ns_code_options(code, marks, true);
        loaded->programs[n] = ns_bpf_load(programs[n].type, programs[n].attach, code->at, code->n);
        if (n > 0 && loaded->programs[n] == -EINVAL) {
            ns_code_options(code, marks, false);
            loaded->programs[n] =
                ns_bpf_load(programs[n].type, programs[n].attach, code->at, code->n);
        }
        error = loaded->programs[n] < 0 ? loaded->programs[n] : 0;
    }
    free(code);
    return error;
}

static const char *name_of(const struct ns_group *group, const char *link)
{
    static char path[128];
    snprintf(path, sizeof path, NS_GROUP_PINS "/%" PRIu64 "%s%s", group->id, *link ? "/" : "",
             link);
    return path;
}

/* Runs one program in a group. One that is kept is replaced by one that is to be kept. */
static int run(struct ns_group *group, int n, int program, bool keep)
{
    const char *name = name_of(group, programs[n].name);
    int link = keep ? ns_bpf_open(name) : -ENOENT;
    int error = link >= 0 ? ns_bpf_replace(link, program) : 0;
    if (link < 0) {
        int directory = open(group->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        link = directory < 0 ? -errno : ns_bpf_link(program, directory, programs[n].attach);
        error = link < 0 ? link : keep ? ns_bpf_pin(link, name) : 0;
        if (directory >= 0)
            close(directory);
    }
    if (!error && !keep)
        group->links[n] = link;
    else if (link >= 0)
        close(link);
    return error;
}

static int make_directory(const char *path)
{
    return mkdir(path, 0700) == 0 || errno == EEXIST ? 0 : -errno;
}

/* Makes the names' directories. -ENXIO: there is no BPF file system. */
static int make_directories(const struct ns_groups *groups, int marks)
{
    struct statfs fs;
    if (statfs(NS_GROUP_BPF, &fs) != 0 || (unsigned long)fs.f_type != BPF_FS_MAGIC)
        return -ENXIO;
    int error = make_directory(NS_GROUP_PINS);
    if (!error && access(MARKS, F_OK) != 0)
        error = ns_bpf_pin(marks, MARKS);
    for (size_t i = 0; i < groups->n && !error; i++)
        error = make_directory(name_of(&groups->at[i], ""));
    return error;
}

/* Removes what is left of groups without a program for connections. */
static void tidy(const struct ns_groups *groups)
{
    struct ns_groups left = {0};
    for (size_t i = 0; i < groups->n; i++) {
        if (access(name_of(&groups->at[i], programs[0].name), F_OK) == 0)
            continue;
        unlink(name_of(&groups->at[i], programs[1].name));
        rmdir(name_of(&groups->at[i], ""));
    }
    if (ns_groups_find_kept(&left) == 0 && left.n == 0) {
        unlink(MARKS);
        rmdir(NS_GROUP_PINS);
    }
    ns_groups_release(&left);
}

int ns_groups_cure(struct ns_groups *groups, const struct ns_policy *policy, bool keep, bool is_dry)
{
    struct loaded loaded = {-1, {-1, -1}};
    int error = load(policy, &loaded);
    if (!error && keep && !is_dry)
        error = make_directories(groups, loaded.marks);
    for (size_t i = 0; i < groups->n && !is_dry; i++)
        for (int n = NS_GROUP_PROGRAMS - 1; n >= 0 && !error; n--)
            error = run(&groups->at[i], n, loaded.programs[n], keep);
    for (int n = 0; n < NS_GROUP_PROGRAMS; n++)
        if (loaded.programs[n] >= 0)
            close(loaded.programs[n]);
    if (loaded.marks >= 0)
        close(loaded.marks);
    if (error)
        tidy(groups);
    return error;
}

void ns_groups_remove(const struct ns_groups *groups, bool finally)
{
    for (size_t i = 0; i < groups->n && !finally; i++)
        unlink(name_of(&groups->at[i], programs[0].name));
    if (finally)
        tidy(groups);
}

bool ns_group_change(int fd, int nodelay, unsigned mark)
{
    const struct ns_code_call call = {nodelay, NS_KERNEL_MAGIC, mark};
    return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &call, sizeof call) != 0 && errno == EPERM;
}
