/* SPDX-License-Identifier: MIT */
/* See group.h. Owns the search for groups, below the mount of the cgroup2 file system. */
#include "cure/group.h"

#include "base/path.h"
#include "process/proc.h"
#include "process/scope.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <linux/magic.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

struct ns_group *ns_groups_add(struct ns_groups *groups, const char *path, uint64_t id)
{
    NS_GROW(groups->at, groups->n);
    struct ns_group *group = &groups->at[groups->n++];
    *group = (struct ns_group){.id = id, .links = {-1, -1}};
    snprintf(group->path, sizeof group->path, "%s", path);
    return group;
}

struct ns_group *ns_groups_with(const struct ns_groups *groups, uint64_t id)
{
    for (size_t i = 0; i < groups->n; i++)
        if (groups->at[i].id == id)
            return &groups->at[i];
    return NULL;
}

struct ns_group *ns_groups_next(const struct ns_groups *groups, const struct ns_group *last)
{
    for (size_t i = last ? (size_t)(last - groups->at) + 1 : 0; i < groups->n; i++)
        if (groups->at[i].selected)
            return &groups->at[i];
    return NULL;
}

/* The inode number of a group's directory, or 0 if it is none. */
static uint64_t id_of(const char *path)
{
    struct stat st;
    struct statfs fs;
    const bool is_group = stat(path, &st) == 0 && statfs(path, &fs) == 0 && S_ISDIR(st.st_mode) &&
                          (unsigned long)fs.f_type == CGROUP2_SUPER_MAGIC;
    return is_group ? st.st_ino : 0;
}

const struct ns_group *ns_groups_innermost(const struct ns_groups *groups, const char *path,
                                           uint64_t except)
{
    char at[2 * PATH_MAX];
    const struct ns_group *found = NULL;
    snprintf(at, sizeof at, "%s", path);
    for (char *end = at + strlen(at); end && !found; end = strrchr(at, '/')) {
        *end = '\0';
        const uint64_t id = id_of(at);
        if (id != except)
            found = ns_groups_with(groups, id);
    }
    return found;
}

static int select_directory(struct ns_groups *groups, const char *path)
{
    const uint64_t id = id_of(path);
    struct ns_group *group = ns_groups_with(groups, id);
    if (!group && id)
        group = ns_groups_add(groups, path, id);
    if (!group)
        return -ENOENT;
    group->selected = true;
    if (!*group->path) /* it could not be opened before */
        snprintf(group->path, sizeof group->path, "%s", path);
    return 0;
}

int ns_group_root(char path[PATH_MAX])
{
    FILE *stream = setmntent("/proc/self/mounts", "re");
    const struct mntent *mount;
    uint64_t id = 0;
    *path = '\0';
    while (stream && id != NS_GROUP_ROOT && (mount = getmntent(stream))) {
        /* 0: another mount hides it. */
        const uint64_t found = strcmp(mount->mnt_type, "cgroup2") == 0 ? id_of(mount->mnt_dir) : 0;
        if (found && (!id || found == NS_GROUP_ROOT)) {
            snprintf(path, PATH_MAX, "%s", mount->mnt_dir);
            id = found;
        }
    }
    if (stream)
        endmntent(stream);
    return id == NS_GROUP_ROOT ? 0 : *path ? -EXDEV : -ENODEV;
}

void ns_group_walk(const char *path, bool (*visit)(void *context, const char *path), void *context)
{
    char **paths = ns_allocate(1, sizeof *paths);
    size_t n = 1;
    paths[0] = ns_allocated(strdup(path));
    while (n > 0) {
        NS_AUTO_FREE char *at = paths[--n];
        const struct dirent *entry;
        NS_AUTO_CLOSEDIR DIR *dir = visit(context, at) ? NULL : opendir(at);
        while (dir && (entry = readdir(dir)))
            if (entry->d_type == DT_DIR && entry->d_name[0] != '.') {
                const size_t size = strlen(at) + strlen(entry->d_name) + 2;
                NS_GROW(paths, n);
                paths[n] = ns_allocate(1, size);
                snprintf(paths[n++], size, "%s/%s", at, entry->d_name);
            }
    }
    free(paths);
}

/* Is this the name of the unit's group: the unit or "UNIT.service"? */
static bool is_of_unit(const char *name, const char *unit)
{
    const size_t length = strlen(unit);
    name += *name == '_'; /* see ns_proc_past_slices */
    return strncmp(name, unit, length) == 0 &&
           (name[length] == '\0' || strcmp(name + length, ".service") == 0);
}

/* systemd and Kubernetes write the dashes of an id as underscores in the names of slices. */
static bool has_word(const char *name, const char *word)
{
    char other[NAME_MAX + 1];
    int digits = 0;
    snprintf(other, sizeof other, "%s", word);
    for (char *at = other; *at; at++) {
        *at = *at == '-' ? '_' : *at;
        digits += isxdigit((unsigned char)*at) ? 1 : *at == '_' ? 0 : -NAME_MAX;
    }
    return strcmp(name, word) == 0 ||
           (digits >= NS_GROUP_DIGITS && (strstr(name, word) || strstr(name, other)));
}

struct search {
    struct ns_groups *groups;
    const char *root, *word;
    bool is_unit;
};

/* Below the services of others a user may give groups any names; below user@UID.service they are
 * of the units of this user's own. */
static bool is_in_slices(const char *path)
{
    char mine[32];
    const char *rest = ns_proc_past_slices(path);
    snprintf(mine, sizeof mine, "user@%u.service/", geteuid());
    if (strncmp(rest, mine, strlen(mine)) == 0)
        rest = ns_proc_past_slices(rest + strlen(mine));
    return !strchr(rest, '/');
}

static bool take_with_word(void *context, const char *path)
{
    const struct search *search = context;
    const char *below = path + strlen(search->root), *name = ns_path_base(path);
    return *below &&
           (search->is_unit ? is_of_unit(name, search->word) && is_in_slices(below)
                            : has_word(name, search->word)) &&
           select_directory(search->groups, path) == 0;
}

int ns_groups_find(struct ns_groups *groups, const char *word, bool is_unit)
{
    char root[PATH_MAX];
    struct search search = {groups, root, word, is_unit};
    const int error = ns_group_root(root);
    if (error == -ENODEV || (error && !word))
        return error;
    if (!word || (!is_unit && strchr(word, '/')))
        return select_directory(groups, word ? word : root);
    ns_group_walk(root, take_with_word, &search);
    return ns_groups_next(groups, NULL) ? 0 : -ENOENT;
}

bool ns_group_path(const char *name, char *path, size_t size)
{
    static char root[PATH_MAX]; /* found once */
    return *name && (*root || ns_group_root(root) != -ENODEV) &&
           (size_t)snprintf(path, size, "%s%s", root, name) < size;
}

const struct ns_group *ns_groups_of(const struct ns_groups *groups, const char *name)
{
    char path[2 * PATH_MAX];
    if (groups->n == 0 || !ns_group_path(name, path, sizeof path))
        return NULL;
    const struct ns_group *group = ns_groups_innermost(groups, path, 0);
    while (group && group->is_ending && !group->selected)
        group = ns_groups_innermost(groups, group->path, group->id);
    return group;
}

struct members {
    struct ns_owners *owners;
    uint64_t now;
    struct ns_unseen unseen;
};

static bool add_processes_of(void *context, const char *path)
{
    struct members *members = context;
    char file[PATH_MAX + 16];
    int pid, added, error = 0;
    snprintf(file, sizeof file, "%s/cgroup.procs", path);
    NS_AUTO_FCLOSE FILE *stream = fopen(file, "re");
    while (stream && fscanf(stream, "%d", &pid) == 1)
        if (pid == 0)
            members->unseen.processes++;
        else if ((added = ns_owners_add(members->owners, pid, members->now)) && added != -ESRCH)
            error = added;
    /* A user may make its path too long, or its type threaded. */
    if ((!stream || ferror(stream)) && errno != ENOENT && errno != ENODEV)
        error = -errno;
    if (error) {
        members->unseen.groups++;
        members->unseen.error = error;
    }
    return false;
}

struct ns_unseen ns_groups_add_processes(const struct ns_groups *groups, struct ns_owners *owners)
{
    struct members members = {.owners = owners, .now = ns_state_now()};
    for (struct ns_group *group = NULL; (group = ns_groups_next(groups, group));)
        if (*group->path)
            ns_group_walk(group->path, add_processes_of, &members);
    return members.unseen;
}
