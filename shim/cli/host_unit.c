/* SPDX-License-Identifier: MIT */
/* Owns the reading of a systemd unit as far as its LD_PRELOAD goes, and the text of the drop-in
 * that joins the library to it. It reads files and asks no service manager: a system that is being
 * put together runs none. It must not write. Not async-signal-safe. */
#include "cli/host.h"

#include "base/path.h"
#include "cli/cli.h"
#include "cli/preload.h"
#include "cli/proc.h"

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

enum { FILE_MOST = 256 * 1024, DROPINS_MOST = 256 };

/* Where units lie: of files of one name the first is taken (systemd.unit(5)). */
static const char *const places[] = {
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
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct unit {
    const struct ns_host *host;
    const char *name;
    char *preload;         /* what it sets; NULL: nothing */
    char *manager_preload; /* what systemd sets for all; NULL: nothing */
    bool has_root, has_cover, has_noexec;
    char blocked[1024]; /* why a drop-in would be in vain; "": it would not */
};

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
        ns_proc_tame(name);
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

__attribute__((format(printf, 2, 3))) static void block(struct unit *unit, const char *format, ...)
{
    va_list arguments;

    if (unit->blocked[0])
        return;
    va_start(arguments, format);
    vsnprintf(unit->blocked, sizeof(unit->blocked), format, arguments);
    va_end(arguments);
}

/* The text of a file of the system, whose links stay in it; allocated, NULL if it cannot be read.
 */
static char *read_there(const struct ns_host *host, const char *path)
{
    int fd = ns_host_open(host, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    char *text = fd < 0 ? NULL : malloc(FILE_MOST + 1);
    size_t used = 0;
    ssize_t n = 1;

    while (text && n > 0 && used < FILE_MOST) {
        n = read(fd, text + used, FILE_MOST - used);
        used += n > 0 ? (size_t)n : 0;
    }
    if (text)
        text[used] = '\0';
    if (fd >= 0)
        close(fd);
    return text;
}

/* The next word of a value, without its quotes, in place; NULL past the last. */
static char *next_word(char **rest)
{
    char *at = *rest + strspn(*rest, " \t"), *word = at, *to = at;
    char quote = '\0';

    if (*at == '\0')
        return NULL;
    for (; *at != '\0' && (quote || !strchr(" \t", *at)); at++) {
        if (quote ? *at == quote : *at == '"' || *at == '\'')
            quote = quote ? '\0' : *at;
        else
            *to++ = *at;
    }
    *rest = at + (*at != '\0');
    *to = '\0';
    return word;
}

static void take_environment(struct unit *unit, char *value, const char *file, bool is_late)
{
    static const char variable[] = "LD_PRELOAD=";
    char *word;

    if (*value == '\0') {
        free(unit->preload);
        unit->preload = NULL;
        if (is_late)
            block(unit, "%s, which is read after the drop-in, empties Environment=", file);
        return;
    }
    if (strstr(value, variable) && strchr(value, '\\'))
        block(unit, "%s sets LD_PRELOAD with a backslash, which is not understood here", file);
    while ((word = next_word(&value))) {
        if (strncmp(word, variable, sizeof(variable) - 1) != 0)
            continue;
        free(unit->preload);
        unit->preload = strdup(word + sizeof(variable) - 1);
        if (is_late)
            block(unit, "%s, which is read after the drop-in, sets LD_PRELOAD", file);
    }
}

/* EnvironmentFile= is read when the service starts, and goes before every Environment=. */
static void take_environment_file(struct unit *unit, const char *value)
{
    const char *path = value + (*value == '-');
    char *text = *path == '/' && !strpbrk(path, "*?[%") ? read_there(unit->host, path) : NULL;

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += strspn(line, " \t\n");
        if (strncmp(line, "LD_PRELOAD=", 11) == 0)
            block(unit,
                  "its EnvironmentFile %s sets LD_PRELOAD, which no drop-in can change: "
                  "write the library there",
                  path);
    }
    free(text);
}

static bool has_word(char *value, const char *wanted)
{
    char *word;
    bool has = false;

    while ((word = next_word(&value)))
        has = has || strcmp(word, wanted) == 0;
    return has;
}

static void take_setting(struct unit *unit, const char *key, char *value, const char *file,
                         bool is_late)
{
    if (strcmp(key, "DefaultEnvironment") == 0)
        take_environment(unit, value, file, false);
    else if (strcmp(key, "Environment") == 0)
        take_environment(unit, value, file, is_late);
    else if (strcmp(key, "EnvironmentFile") == 0)
        take_environment_file(unit, value);
    else if (strcmp(key, "UnsetEnvironment") == 0 && has_word(value, "LD_PRELOAD"))
        block(unit, "%s unsets LD_PRELOAD", file);
    else if (strcmp(key, "RootDirectory") == 0 || strcmp(key, "RootImage") == 0)
        unit->has_root = *value != '\0';
    else if (strcmp(key, "TemporaryFileSystem") == 0) /* hides what it is mounted over */
        unit->has_cover = *value != '\0';
    else if (strcmp(key, "NoExecPaths") == 0)
        unit->has_noexec = *value != '\0';
}

/* Sections with the settings above; each has its own of them. */
static bool is_section(const char *line)
{
    return strncmp(line, "[Service]", 9) == 0 || strncmp(line, "[Manager]", 9) == 0;
}

/* A line that ends in a backslash goes on in the next one. */
static void join_lines(char *text)
{
    for (char *at = text; (at = strstr(at, "\\\n"));)
        at[0] = at[1] = ' ';
}

static void take_file(struct unit *unit, char *text, const char *file, bool is_late)
{
    bool is_read = false;
    char *rest = NULL;

    join_lines(text);
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *key = line + strspn(line, " \t"), *sign = strchr(key, '='), *value, *end;

        if (*key == '[')
            is_read = is_section(key);
        if (*key == '[' || *key == '#' || *key == ';' || !sign || !is_read)
            continue;
        value = sign + 1 + strspn(sign + 1, " \t");
        for (end = sign; end > key && strchr(" \t", end[-1]);)
            end--;
        *end = '\0';
        for (end = value + strlen(value); end > value && strchr(" \t\r", end[-1]);)
            *--end = '\0';
        take_setting(unit, key, value, file, is_late);
    }
}

/* A name of a directory of drop-ins that goes for this unit; number 0 is its own. NULL past the
 * last. */
static const char *dropin_directory(const char *unit, unsigned number, char name[NAME_MAX])
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

static void add_dropin(struct dropins *dropins, const char *directory, const char *name)
{
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

static void list_directory(const struct ns_host *host, const char *path, struct dropins *dropins)
{
    int fd = ns_host_open(host, path, O_RDONLY | O_DIRECTORY);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        add_dropin(dropins, path, entry->d_name);
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
}

static void list_dropins(const struct unit *unit, struct dropins *dropins)
{
    char name[NAME_MAX], path[PATH_MAX];

    for (unsigned i = 0; dropin_directory(unit->name, i, name); i++) {
        for (size_t place = 0; place < COUNT(places); place++) {
            snprintf(path, sizeof(path), "%s/%s", places[place], name);
            list_directory(unit->host, path, dropins);
        }
    }
}

static int compare(const void *left, const void *right)
{
    return strcmp(ns_path_base(*(char *const *)left), ns_path_base(*(char *const *)right));
}

static void take_dropins(struct unit *unit, struct dropins *dropins)
{
    qsort(dropins->paths, dropins->n, sizeof(dropins->paths[0]), compare);
    for (unsigned i = 0; i < dropins->n; i++) {
        char *text = read_there(unit->host, dropins->paths[i]);
        bool is_late = strcmp(ns_path_base(dropins->paths[i]), NS_HOST_DROPIN) > 0;

        if (text)
            take_file(unit, text, dropins->paths[i], is_late);
        free(text);
        free(dropins->paths[i]);
    }
}

static void read_dropins(struct unit *unit)
{
    struct dropins dropins = {.n = 0};

    list_dropins(unit, &dropins);
    take_dropins(unit, &dropins);
}

/* What systemd sets for every service, unless the service sets it itself. */
static void read_manager(struct unit *unit)
{
    static const char *const directories[] = {"/etc/systemd", "/run/systemd",
                                              "/usr/local/lib/systemd", "/usr/lib/systemd",
                                              "/lib/systemd"};
    struct dropins dropins = {.n = 0};
    char path[PATH_MAX], *text = NULL;

    for (size_t i = 0; i < COUNT(directories); i++) {
        snprintf(path, sizeof(path), "%s/system.conf", directories[i]);
        if (!text && (text = read_there(unit->host, path)))
            take_file(unit, text, path, false);
        snprintf(path, sizeof(path), "%s/system.conf.d", directories[i]);
        list_directory(unit->host, path, &dropins);
    }
    free(text);
    take_dropins(unit, &dropins);
    unit->manager_preload = unit->preload;
    unit->preload = NULL;
}

/* The unit's own file, or its template's. */
static bool read_fragment(struct unit *unit)
{
    const char *at = strchr(unit->name, '@');
    char template[NAME_MAX] = "", path[PATH_MAX], own[PATH_MAX], target[PATH_MAX];

    if (at)
        snprintf(template, sizeof(template), "%.*s.service", (int)(at - unit->name) + 1,
                 unit->name);
    for (size_t i = 0; i < 2 * COUNT(places); i++) {
        const char *name = i < COUNT(places) ? unit->name : template;
        char *text;
        ssize_t n;

        snprintf(path, sizeof(path), "%s/%s", places[i % COUNT(places)], name);
        if (*name == '\0' || !ns_host_path(unit->host, path, own))
            continue;
        n = readlink(own, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = '\0';
        if (strcmp(target, "/dev/null") == 0)
            block(unit, "it is masked");
        else if (n > 0 && strcmp(ns_path_base(target), name) != 0 &&
                 strcmp(ns_path_base(target), template) != 0)
            block(unit, "it is another name of %s: name that", ns_path_base(target));
        text = read_there(unit->host, path);
        if (text)
            take_file(unit, text, path, false);
        free(text);
        if (text || n > 0)
            return true;
    }
    return false;
}

static char *write_text(const struct unit *unit, const char *list)
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

char *ns_host_dropin(const struct ns_host *host, const char *name)
{
    struct unit unit = {.host = host, .name = name};
    size_t length = strlen(name) - strlen(".service");
    bool is_prefix = length > 0 && name[length - 1] == '-';
    char *list = NULL, *text = NULL;
    const char *before;

    read_manager(&unit);
    if (!read_fragment(&unit) && !is_prefix) {
        SAY("there is no unit %s", name);
    } else {
        read_dropins(&unit);
        before = unit.preload ? unit.preload : unit.manager_preload;
        if (before && strpbrk(before, "\"\\\n"))
            block(&unit, "its LD_PRELOAD has a quote or a backslash");
        list = ns_preload_join(before, host->library);
        if (unit.blocked[0])
            SAY("%s: %s", name, unit.blocked);
        else if (list)
            text = write_text(&unit, list);
    }
    free(list);
    free(unit.preload);
    free(unit.manager_preload);
    return text;
}
