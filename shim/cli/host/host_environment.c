/* SPDX-License-Identifier: MIT */
/* Owns the judgement of a unit's EnvironmentFile=: which files it means, and whether one sets
 * LD_PRELOAD, as systemd reads them. Not async-signal-safe. */
#include "cli/host/host_unit.h"

#include "base/path.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a specifier stands for (systemd.unit(5)), in *text; how much of it. -1: it is not understood
 * here; -2: each unit of several has another. */
static int expand_one(const struct ns_unit *unit, char specifier, const char **text)
{
    static const char *const places[] = {"E/etc",     "t/run", "S/var/lib", "C/var/cache",
                                         "L/var/log", "T/tmp", "V/var/tmp", "%%",
                                         "h/root",    "uroot", "U0"};
    const char *name = unit->name, *at = strchr(name, '@');
    int length = (int)(strlen(name) - strlen(".service")), prefix = at ? (int)(at - name) : length;

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (places[i][0] == specifier) {
            *text = places[i] + 1;
            return (int)strlen(*text);
        }
    if (!strchr("nNpPiI", specifier))
        return -1;
    if (ns_unit_is_prefix(name) || (ns_unit_is_template(name) && !strchr("pP", specifier)))
        return -2;
    *text = name;
    if (specifier == 'n')
        return (int)strlen(name);
    if (specifier == 'N')
        return length;
    if (strchr("iI", specifier)) {
        *text = at ? at + 1 : name + length;
        prefix = (int)(name + length - *text);
    }
    /* P and I take escapes back. */
    return strchr("PI", specifier) && strcspn(*text, "-\\") < (size_t)prefix ? -1 : prefix;
}

/* 0, or as expand_one. */
static int expand(const struct ns_unit *unit, const char *value, char path[PATH_MAX])
{
    size_t used = 0;

    for (; *value != '\0'; value++) {
        const char *text = value;
        int length = *value != '%' ? 1 : *++value == '\0' ? -1 : expand_one(unit, *value, &text);

        if (length < 0)
            return length;
        if (used + (size_t)length >= PATH_MAX)
            return -1;
        memcpy(path + used, text, (size_t)length);
        used += (size_t)length;
    }
    path[used] = '\0';
    return 0;
}

/* A line is KEY=VALUE, with blanks around each. */
static bool sets_preload(const char *text)
{
    static const char variable[] = "LD_PRELOAD";

    for (const char *line = text; *line != '\0'; line += strcspn(line, "\r\n")) {
        line += strspn(line, " \t\r\n");
        if (strncmp(line, variable, sizeof(variable) - 1) == 0 &&
            line[sizeof(variable) - 1 + strspn(line + sizeof(variable) - 1, " \t")] == '=')
            return true;
    }
    return false;
}

static void judge_file(struct ns_unit *unit, const char *path)
{
    char *text = ns_host_text(unit->host, path);

    if (text && sets_preload(text))
        ns_unit_block(unit,
                      "its EnvironmentFile %s sets LD_PRELOAD, which no drop-in can change: "
                      "write the library there",
                      path);
    free(text);
}

struct pattern {
    struct ns_unit *unit;
    const char *base;
};

static void judge_match(void *context, const char *directory, const char *name)
{
    const struct pattern *pattern = context;
    char path[PATH_MAX];

    if (fnmatch(pattern->base, name, FNM_PERIOD) == 0 &&
        snprintf(path, sizeof(path), "%s/%s", directory, name) < (int)sizeof(path))
        judge_file(pattern->unit, path);
}

static void judge_value(struct ns_unit *unit, const char *value)
{
    static const char wild[] = "*?[";
    char path[PATH_MAX], *base;
    int error;

    value += *value == '-';
    error = expand(unit, value, path);
    if (error == -2)
        return; /* the units that there are of it are judged one by one */
    base = error ? NULL : (char *)ns_path_base(path);
    if (error || (strpbrk(path, wild) && strpbrk(path, wild) < base)) {
        ns_unit_block(
            unit, "its EnvironmentFile %s cannot be told from here: it may set LD_PRELOAD", value);
        return;
    }
    if (!strpbrk(path, wild) || base == path) {
        judge_file(unit, path);
        return;
    }
    base[-1] = '\0';
    ns_host_entries(unit->host, *path ? path : "/", judge_match,
                    &(struct pattern){.unit = unit, .base = base});
}

void ns_unit_judge_files(struct ns_unit *unit)
{
    for (unsigned i = 0; i < unit->n_files; i++)
        judge_value(unit, unit->files[i]);
}
