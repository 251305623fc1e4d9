/* SPDX-License-Identifier: MIT */
/* Owns the file of `nagleshim top --once --prometheus`: node_exporter's text format. How many
 * series there are is bounded, whatever the machine does: the worst are named, the others summed.
 * Not async-signal-safe. */
#include "cli/top/top.h"

#include "cli/diagnose/sentences.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GROUPS_MOST = 50 };

/* Processes of one name, in one role, at one service. */
struct group {
    const char *name, *role;
    char service[64];
    unsigned connections, with_shim;
    double holds_rate, lost_rate;
};

/* A server's address does not matter, since it may listen on all. */
static void name_service(const struct ns_top_row *row, char *buffer, size_t size)
{
    if (row->role == NS_ROLE_SERVER)
        snprintf(buffer, size, ":%u", row->service.port);
    else
        ns_words_address(&row->service, buffer, size);
}

/* The last group is the others'. */
static struct group *find_group(struct group *groups, size_t *n_groups,
                                const struct ns_top_row *row)
{
    const char *role = ns_role_name(row->role);
    char service[64];

    role = role ? role : "";
    name_service(row, service, sizeof(service));
    for (size_t i = 0; i < *n_groups; i++)
        if (strcmp(groups[i].name, row->process->name) == 0 && strcmp(groups[i].role, role) == 0 &&
            strcmp(groups[i].service, service) == 0)
            return &groups[i];
    if (*n_groups == GROUPS_MOST)
        return &groups[GROUPS_MOST];
    groups[*n_groups] = (struct group){.name = row->process->name, .role = role};
    memcpy(groups[*n_groups].service, service, sizeof(service));
    return &groups[(*n_groups)++];
}

/* A label's value: names are tame, and so UTF-8 without an end of line. */
static void write_label(FILE *file, const char *text)
{
    for (; *text; text++) {
        if (*text == '\\' || *text == '"')
            fputc('\\', file);
        fputc(*text, file);
    }
}

static void write_head(FILE *file, const char *name, const char *text)
{
    fprintf(file, "# HELP nagleshim_%s %s\n# TYPE nagleshim_%s gauge\n", name, text, name);
}

static void write_series(FILE *file, const struct group *groups, size_t n_groups, const char *name,
                         const char *text, double (*value)(const struct group *group))
{
    write_head(file, name, text);
    for (size_t i = 0; i <= n_groups; i++) {
        const struct group *group = &groups[i == n_groups ? GROUPS_MOST : i];

        if (group->connections == 0 && group->holds_rate <= 0)
            continue;
        fprintf(file, "nagleshim_%s{process=\"", name);
        write_label(file, group->name);
        fprintf(file, "\",role=\"%s\",service=\"", group->role);
        write_label(file, group->service);
        fprintf(file, "\"} %.9g\n", value(group));
    }
}

static double connections_of(const struct group *group)
{
    return group->connections;
}

static double with_shim_of(const struct group *group)
{
    return group->with_shim;
}

static double holds_of(const struct group *group)
{
    return group->holds_rate;
}

static double lost_of(const struct group *group)
{
    return group->lost_rate / 1000;
}

static void write_single(FILE *file, const char *name, const char *text, double value)
{
    write_head(file, name, text);
    fprintf(file, "nagleshim_%s %.9g\n", name, value);
}

static void write_all(FILE *file, const struct ns_top *top, const struct group *groups,
                      size_t n_groups)
{
    const struct ns_watch_tally *since = &top->since;

    write_series(file, groups, n_groups, "connections", "TCP connections.", connections_of);
    write_series(file, groups, n_groups, "shim_connections",
                 "TCP connections of processes in which nagleshim works.", with_shim_of);
    write_series(file, groups, n_groups, "holds_per_second",
                 "How often bytes were held by Nagle's algorithm while the program waited.",
                 holds_of);
    write_series(file, groups, n_groups, "lost_seconds_per_second",
                 "How long programs waited for that.", lost_of);
    write_single(file, "watch_seconds", "How long it was watched.", top->seconds);
    write_single(file, "watch_looks", "Looks at connections in that time.", (double)since->looks);
    write_single(file, "watch_rounds_missed", "Rounds of looks that came too late.",
                 (double)since->missed);
    write_single(file, "watch_connections_forgotten",
                 "Connections that were too short or too many to be watched.",
                 (double)since->forgotten);
    write_single(file, "watch_processes_denied", "Processes that may not be looked into.",
                 (double)since->denied);
    write_single(file, "watch_processes_unread",
                 "Processes that there were no descriptors or no memory for.",
                 (double)since->unread);
}

static int write_file(const struct ns_top *top, FILE *file)
{
    struct group *groups = calloc(GROUPS_MOST + 1, sizeof(*groups));
    size_t n_groups = 0;

    if (!groups)
        return -ENOMEM;
    groups[GROUPS_MOST] = (struct group){.name = "other", .role = ""};
    for (size_t i = 0; i < top->n_rows; i++) {
        struct group *group = find_group(groups, &n_groups, top->rows[i]);

        group->connections += top->rows[i]->connections;
        group->with_shim +=
            top->rows[i]->process->shim == NS_SHIM_WORKS ? top->rows[i]->connections : 0;
        group->holds_rate += top->rows[i]->holds_rate;
        group->lost_rate += top->rows[i]->lost_rate;
    }
    write_all(file, top, groups, n_groups);
    free(groups);
    errno = 0;
    return fflush(file) != 0 || ferror(file) ? (errno ? -errno : -EIO) : 0;
}

static int write_in_one_step(const struct ns_top *top, const char *path)
{
    size_t size = strlen(path) + sizeof(".XXXXXX");
    char *temporary = malloc(size);
    struct stat before;
    /* node_exporter is another user. */
    mode_t mode = stat(path, &before) == 0 ? before.st_mode & 0777 : 0644;
    FILE *file;
    int fd, error;

    if (!temporary)
        return -ENOMEM;
    /* It does not end in .prom, so that node_exporter does not read it half written. */
    snprintf(temporary, size, "%s.XXXXXX", path);
    fd = mkstemp(temporary);
    file = fd < 0 ? NULL : fdopen(fd, "w");
    error = file ? write_file(top, file) : -errno;
    if (!error && fchmod(fileno(file), mode) != 0)
        error = -errno;
    if (file && fclose(file) != 0 && !error)
        error = -errno;
    if (!error && rename(temporary, path) != 0)
        error = -errno;
    if (error && fd >= 0)
        unlink(temporary);
    free(temporary);
    return error;
}

/* A device, or a pipe. */
static int write_in_place(const struct ns_top *top, const char *path, bool is_link)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | (is_link ? 0 : O_NOFOLLOW));
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    int error = file ? write_file(top, file) : -errno;

    if (file && fclose(file) != 0 && !error)
        error = -errno;
    if (!file && fd >= 0)
        close(fd);
    return error;
}

int ns_top_write_prometheus(const struct ns_top *top, const char *path)
{
    char target[PATH_MAX];
    struct stat st;
    bool is_there = lstat(path, &st) == 0, is_link = is_there && S_ISLNK(st.st_mode);

    if (strcmp(path, "-") == 0)
        return write_file(top, stdout);
    /* In a directory like /tmp anybody can make a link to what is not his. */
    if (is_link && st.st_uid != 0 && st.st_uid != geteuid())
        return -EACCES;
    if (is_link)
        is_there = stat(path, &st) == 0;
    /* What /dev/stdout leads to is not to be replaced by a file. */
    if (is_there && !S_ISREG(st.st_mode))
        return write_in_place(top, path, is_link);
    /* Nor is a link. */
    return write_in_one_step(top, is_link && realpath(path, target) ? target : path);
}
