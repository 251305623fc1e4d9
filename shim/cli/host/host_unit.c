/* SPDX-License-Identifier: MIT */
/* Owns the reading of a systemd unit as far as its LD_PRELOAD goes, and the text of the drop-in
 * that joins the library to it. It reads files and asks no service manager: a system that is being
 * put together runs none. It must not write. Not async-signal-safe. */
#include "cli/host/host_unit.h"

#include "base/path.h"
#include "cli/cli.h"
#include "cli/process/preload.h"
#include "cli/process/proc.h"

#include "policy/find.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAY(...) ns_say("host", __VA_ARGS__)

enum { DROPINS_MOST = 256 };

/* Where units lie: of files of one name the first is taken (systemd.unit(5)). */
const char *const ns_unit_places[] = {
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/run/systemd/generator.early",
    NS_HOST_UNITS,
    "/run/systemd/system",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/run/systemd/generator.late",
    NULL,
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

bool ns_host_unit_name(const char *word, char name[NAME_MAX])
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789:-_.\\@";
    static const char *const others[] = {".socket", ".timer", ".target", ".slice",     ".scope",
                                         ".mount",  ".path",  ".swap",   ".automount", ".device"};
    const char *dot = strrchr(word, '.');
    bool has_type = dot && strcmp(dot, ".service") == 0;
    int n = snprintf(name, NAME_MAX, "%s%s", word, has_type ? "" : ".service");

    if (word[0] == '\0' || strchr(".-", word[0]) || word[strspn(word, allowed)] != '\0' || n < 0 ||
        n >= NAME_MAX - 8) {
        snprintf(name, NAME_MAX, "%s", word);
        ns_sanitize(name);
        SAY("'%s' is no name of a unit", name);
        return false;
    }
    for (size_t i = 0; dot && i < COUNT(others); i++) {
        if (strcmp(dot, others[i]) != 0)
            continue;
        SAY("'%s' is not a service: name the service that it starts", word);
        return false;
    }
    return true;
}

const char *ns_unit_dropin_directory(const char *unit, unsigned number, char name[NAME_MAX])
{
    const char *at = strchr(unit, '@');
    size_t length = strlen(unit) - strlen(".service");

    if (number-- == 0) {
        snprintf(name, NAME_MAX, "%s.d", unit);
        return name;
    }
    if (at && number-- == 0) { /* its template's */
        snprintf(name, NAME_MAX, "%.*s.service.d", (int)(at - unit) + 1, unit);
        return name;
    }
    for (length = at ? (size_t)(at - unit) : length; length > 0; length--) {
        if (unit[length - 1] != '-' || length == strlen(unit) - strlen(".service"))
            continue;
        if (number-- == 0) {
            snprintf(name, NAME_MAX, "%.*s.service.d", (int)length, unit);
            return name;
        }
    }
    snprintf(name, NAME_MAX, "service.d");
    return number == 0 ? name : NULL;
}

struct dropins {
    char *paths[DROPINS_MOST];
    unsigned n;
};

static void add_dropin(void *context, const char *directory, const char *name)
{
    struct dropins *dropins = context;
    char path[PATH_MAX];
    size_t length = strlen(name);

    if (name[0] == '.' || length < 6 || strcmp(name + length - 5, ".conf") != 0 ||
        strcmp(name, NS_HOST_DROPIN) == 0 || dropins->n == DROPINS_MOST)
        return;
    for (unsigned i = 0; i < dropins->n; i++) /* a nearer one of that name hides it */
        if (strcmp(ns_path_base(dropins->paths[i]), name) == 0)
            return;
    if (snprintf(path, sizeof(path), "%s/%s", directory, name) >= (int)sizeof(path))
        return;
    dropins->paths[dropins->n] = strdup(path);
    dropins->n += dropins->paths[dropins->n] != NULL;
}

static void list_dropins(const struct ns_unit *unit, struct dropins *dropins)
{
    char name[NAME_MAX], path[PATH_MAX];

    for (unsigned i = 0; ns_unit_dropin_directory(unit->name, i, name); i++) {
        for (size_t place = 0; ns_unit_places[place]; place++) {
            snprintf(path, sizeof(path), "%s/%s", ns_unit_places[place], name);
            ns_host_entries(unit->host, path, add_dropin, dropins);
        }
    }
}

static int compare(const void *left, const void *right)
{
    return strcmp(ns_path_base(*(char *const *)left), ns_path_base(*(char *const *)right));
}

static void take_dropins(struct ns_unit *unit, struct dropins *dropins)
{
    qsort(dropins->paths, dropins->n, sizeof(dropins->paths[0]), compare);
    for (unsigned i = 0; i < dropins->n; i++) {
        char *text = ns_host_text(unit->host, dropins->paths[i]);
        bool is_late = strcmp(ns_path_base(dropins->paths[i]), NS_HOST_DROPIN) > 0;

        if (text)
            ns_unit_take_text(unit, text, dropins->paths[i], is_late);
        free(text);
        free(dropins->paths[i]);
    }
}

static void read_dropins(struct ns_unit *unit)
{
    struct dropins dropins = {.n = 0};

    list_dropins(unit, &dropins);
    take_dropins(unit, &dropins);
}

bool ns_unit_is_prefix(const char *name)
{
    size_t length = strlen(name) - strlen(".service");

    return length > 0 && name[length - 1] == '-';
}

bool ns_unit_is_template(const char *name)
{
    size_t length = strlen(name) - strlen(".service");

    return length > 0 && name[length - 1] == '@';
}

bool ns_host_is_for(const char *name, const char *unit)
{
    size_t length = strlen(name) - strlen(".service");
    bool is_many = ns_unit_is_prefix(name) || ns_unit_is_template(name);

    return strcmp(name, unit) == 0 || (is_many && strncmp(name, unit, length) == 0);
}

/* What systemd sets for every service, unless the service sets it itself. */
static void read_manager(struct ns_unit *unit)
{
    static const char *const directories[] = {"/etc/systemd", "/run/systemd",
                                              "/usr/local/lib/systemd", "/usr/lib/systemd",
                                              "/lib/systemd"};
    struct dropins dropins = {.n = 0};
    char path[PATH_MAX], *text = NULL;

    for (size_t i = 0; i < COUNT(directories); i++) {
        snprintf(path, sizeof(path), "%s/system.conf", directories[i]);
        if (!text && (text = ns_host_text(unit->host, path)))
            ns_unit_take_text(unit, text, path, false);
        snprintf(path, sizeof(path), "%s/system.conf.d", directories[i]);
        ns_host_entries(unit->host, path, add_dropin, &dropins);
    }
    free(text);
    take_dropins(unit, &dropins);
    unit->manager_preload = unit->preload;
    unit->preload = NULL;
}

/* Is this file a link that makes it no unit of its own? */
static bool is_other(struct ns_unit *unit, const char *path, const char *name, const char *template)
{
    char own[PATH_MAX], target[PATH_MAX];
    ssize_t n =
        ns_host_path(unit->host, path, own) ? readlink(own, target, sizeof(target) - 1) : -1;

    if (n <= 0)
        return false;
    target[n] = '\0';
    if (strcmp(target, "/dev/null") == 0)
        ns_unit_block(unit, "it is masked");
    else if (strcmp(ns_path_base(target), name) != 0 && strcmp(ns_path_base(target), template) != 0)
        ns_unit_block(unit, "it is another name of %s: name that", ns_path_base(target));
    else
        return false;
    return true;
}

/* The unit's own file, or its template's. */
static void read_fragment(struct ns_unit *unit)
{
    const char *at = strchr(unit->name, '@');
    char template[NAME_MAX] = "", path[PATH_MAX];

    if (at)
        snprintf(template, sizeof(template), "%.*s.service", (int)(at - unit->name) + 1,
                 unit->name);
    for (size_t i = 0; i < 2 * (COUNT(ns_unit_places) - 1); i++) {
        const char *name = i < COUNT(ns_unit_places) - 1 ? unit->name : template;
        char *text;

        snprintf(path, sizeof(path), "%s/%s", ns_unit_places[i % (COUNT(ns_unit_places) - 1)],
                 name);
        if (*name == '\0')
            continue;
        if (is_other(unit, path, name, template))
            return;
        text = ns_host_text(unit->host, path);
        unit->is_there = text != NULL;
        if (text)
            ns_unit_take_text(unit, text, path, false);
        free(text);
        if (unit->is_there)
            return;
    }
    ns_unit_block(unit, "there is no such unit");
}

static char *write_text(const struct ns_unit *unit, const char *list)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);

    if (!stream)
        return NULL;
    fprintf(stream,
            "# Written by nagleshim host; 'nagleshim host disable --unit %s' takes it away.\n"
            "[Service]\n"
            "Environment=\"LD_PRELOAD=%s\"\n",
            unit->name, list);
    if (unit->has_root || unit->has_cover) /* what is missing there is left out */
        fprintf(stream, "BindReadOnlyPaths=-%s -%s\n", unit->host->library, NS_POLICY_DIR_DEFAULT);
    if (unit->has_noexec)
        fprintf(stream, "ExecPaths=-%s\n", unit->host->library);
    return fclose(stream) == 0 ? text : NULL;
}

void ns_host_dropin_entry(const char *text, char entry[PATH_MAX])
{
    const char *list = strstr(text, "LD_PRELOAD=");
    char copy[PATH_MAX];

    *entry = '\0';
    if (!list)
        return;
    list += strlen("LD_PRELOAD=");
    snprintf(copy, sizeof(copy), "%.*s", (int)strcspn(list, "\"\n"), list);
    ns_preload_find(copy, entry);
}

char *ns_unit_dropin(const struct ns_host *host, const char *name, struct ns_unit *unit)
{
    char *list, *text = NULL;
    const char *before;

    *unit = (struct ns_unit){.host = host, .name = name};
    read_manager(unit);
    if (!ns_unit_is_prefix(name))
        read_fragment(unit);
    read_dropins(unit);
    ns_unit_judge_files(unit);
    before = unit->preload ? unit->preload : unit->manager_preload;
    if (before && strpbrk(before, "\"\\\n"))
        ns_unit_block(unit, "its LD_PRELOAD has a quote or a backslash");
    list = ns_preload_join(before, host->library);
    if (list && !unit->blocked[0])
        text = write_text(unit, list);
    free(list);
    free(unit->preload);
    free(unit->manager_preload);
    ns_unit_forget_files(unit);
    return text;
}
