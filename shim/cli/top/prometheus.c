/* SPDX-License-Identifier: MIT */
/* Owns the file of `nagleshim top --once --prometheus`, in node_exporter's text format. The number
 * of series is bounded: the worst groups have their own, the others are summed up. Not
 * async-signal-safe. */
#include "cli/top/top.h"

#include "cli/diagnose/sentences.h"
#include "cli/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GROUPS_MOST = 50 };

enum { CONNECTIONS, SHIM_CONNECTIONS, HOLDS, LOST, SERIES };

static const struct {
    const char *name, *text;
} series[SERIES] = {
    {"connections", "TCP connections."},
    {"shim_connections", "TCP connections of processes in which nagleshim works."},
    {"holds_per_second",
     "How often per second Nagle's algorithm held bytes while the program waited."},
    {"lost_seconds_per_second", "Seconds per second that programs lost by these holds."},
};

/* All rows with the same process name, role and service. */
struct group {
    const char *name, *role;
    char service[64];
    double values[SERIES];
};

/* The group of a row. The last one is for rows beyond the first groups. */
static struct group *find_group(struct group *groups, size_t *n_groups,
                                const struct ns_top_row *row)
{
    const char *role = ns_role_name(row->role);
    char service[64];

    role = role ? role : "";
    /* A server may listen on all addresses. */
    if (row->role == NS_ROLE_SERVER)
        snprintf(service, sizeof service, ":%u", row->service.port);
    else
        ns_words_address(&row->service, service, sizeof service);
    for (size_t i = 0; i < *n_groups; i++)
        if (strcmp(groups[i].name, row->process->name) == 0 && strcmp(groups[i].role, role) == 0 &&
            strcmp(groups[i].service, service) == 0)
            return &groups[i];
    if (*n_groups == GROUPS_MOST)
        return &groups[GROUPS_MOST];
    groups[*n_groups] = (struct group){.name = row->process->name, .role = role};
    memcpy(groups[*n_groups].service, service, sizeof service);
    return &groups[(*n_groups)++];
}

/* The value of a label. Names are UTF-8 without control characters. */
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

static void write_series(FILE *file, const struct group *groups, size_t n_groups, unsigned number)
{
    write_head(file, series[number].name, series[number].text);
    for (size_t i = 0; i <= n_groups; i++) {
        const struct group *group = &groups[i == n_groups ? GROUPS_MOST : i];

        if (group->values[CONNECTIONS] <= 0 && group->values[HOLDS] <= 0)
            continue;
        fprintf(file, "nagleshim_%s{process=\"", series[number].name);
        write_label(file, group->name);
        fprintf(file, "\",role=\"%s\",service=\"", group->role);
        write_label(file, group->service);
        fprintf(file, "\"} %.9g\n", group->values[number]);
    }
}

static void write_watch(FILE *file, const struct ns_top *top)
{
    const struct ns_watch_tally *since = &top->since;
    const struct {
        const char *name, *text;
        double value;
    } values[] = {
        {"seconds", "Length of the interval.", top->seconds},
        {"looks", "Samples of connections in it.", (double)since->looks},
        {"rounds_missed", "Rounds of samples that were late.", (double)since->missed},
        {"connections_forgotten", "Connections that were too short or too many to be sampled.",
         (double)since->forgotten},
        {"processes_denied", "Processes that could not be examined.", (double)since->denied},
    };

    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char name[64];

        snprintf(name, sizeof name, "watch_%s", values[i].name);
        write_head(file, name, values[i].text);
        fprintf(file, "nagleshim_%s %.9g\n", name, values[i].value);
    }
}

static void write_all(FILE *file, const struct ns_top *top)
{
    static struct group groups[GROUPS_MOST + 1];
    size_t n_groups = 0;

    groups[GROUPS_MOST] = (struct group){.name = "other", .role = ""};
    for (size_t i = 0; i < top->n_rows && ns_top_is_shown(top->rows[i]); i++) {
        const struct ns_top_row *row = top->rows[i];
        struct group *group = find_group(groups, &n_groups, row);

        group->values[CONNECTIONS] += row->connections;
        if (row->process->shim == NS_SHIM_WORKS)
            group->values[SHIM_CONNECTIONS] += row->connections;
        group->values[HOLDS] += row->holds_rate;
        if (!row->held_by) /* counted at the end that holds */
            group->values[LOST] += row->lost_rate / 1000;
    }
    for (unsigned i = 0; i < SERIES; i++)
        write_series(file, groups, n_groups, i);
    write_watch(file, top);
}

int ns_top_write_prometheus(const struct ns_top *top, const char *path)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    struct stat st;
    bool exists = stat(path, &st) == 0;
    int error = 0;

    if (!stream)
        return -ENOMEM;
    write_all(stream, top);
    if (fclose(stream) != 0) {
        error = -ENOMEM;
    } else if (strcmp(path, "-") == 0) {
        fputs(text, stdout);
    } else if (exists && !S_ISREG(st.st_mode)) { /* a device or a pipe, such as /dev/stdout */
        int fd = open(path, O_WRONLY | O_CLOEXEC);

        error = fd < 0 || dprintf(fd, "%s", text) < 0 ? -errno : 0;
        if (fd >= 0)
            close(fd);
    } else { /* node_exporter is another user, and does not read the temporary file */
        error = ns_outfile_replace(path, text, exists ? st.st_mode & 0777 : 0644);
    }
    free(text);
    return error;
}
