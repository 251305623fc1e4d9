/* SPDX-License-Identifier: MIT */
/* Owns the drop-ins of services: all that are named are written and take effect, or none is. It
 * must not imitate systemd, which alone knows how quotes, specifiers and the order of drop-ins
 * work: it asks systemctl. */
#include "cli/host/host.h"

#include "cli/cli.h"
#include "cli/file.h"
#include "cli/output.h"
#include "cli/program/program.h"
#include "policy/find.h"
#include "process/scope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNITS "/etc/systemd/system/"
#define DROPIN ".d/zz-nagleshim.conf"
#define VARIABLE "LD_PRELOAD="
#define MARK "# Written by nagleshim host;" /* the beginning of every drop-in */

/* What systemd, or the files of an image, say about a service. */
struct unit {
    char load_state[32];    /* systemd's LoadState: "loaded", "not-found", "masked" ... */
    char preload[PATH_MAX]; /* its LD_PRELOAD; "": it sets none */
    bool hides_files;       /* it has a root of its own, or hides directories */
    struct ns_filter filter;
    /* These take precedence over Environment= in a drop-in: */
    bool unsets;         /* UnsetEnvironment= has LD_PRELOAD */
    char file[PATH_MAX]; /* an EnvironmentFile= that sets LD_PRELOAD; "": none */
};

bool ns_host_unit_path(const char *word, char path[PATH_MAX])
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789:-_.\\@";
    const char *dot = strrchr(word, '.');
    bool has_type = dot && strcmp(dot, ".service") == 0;
    size_t length = has_type ? (size_t)(dot - word) : strlen(word);
    if (length == 0 || length > NAME_MAX - 16 || strchr(".-", *word) ||
        word[strspn(word, allowed)] != '\0')
        return NS_REFUSE("'%s' is not the name of a unit", word);
    if (strchr("@-", word[length - 1]))
        return NS_REFUSE("'%s' stands for several services: name each one, an instance as %s1 for "
                         "example",
                         word, word);
    return snprintf(path, PATH_MAX, UNITS "%.*s.service" DROPIN, (int)length, word) > 0;
}

/* The name of the unit that the path of a drop-in is for, until the next call. */
static const char *unit_of(const char *path)
{
    static char name[NAME_MAX + 1];
    snprintf(name, sizeof name, "%.*s", (int)(strlen(path) - strlen(UNITS DROPIN)),
             path + strlen(UNITS));
    return name;
}

static bool reload(const struct ns_host *host)
{
    if (host->is_image || access("/run/systemd/system", F_OK) != 0 ||
        system("systemctl daemon-reload >&2") == 0)
        return true;
    return NS_REFUSE("'systemctl daemon-reload' failed");
}

/* From a list as systemctl prints it: words with blanks in them are in double quotes. */
static void take_environment(struct unit *unit, const char *list)
{
    for (const char *at = list; (at = strstr(at, VARIABLE)); at++) {
        const char *value = at + strlen(VARIABLE);
        if (at == list || strchr(" \"", at[-1]))
            snprintf(unit->preload, sizeof unit->preload, "%.*s",
                     (int)strcspn(value, at > list && at[-1] == '"' ? "\"" : " "), value);
    }
}

/* Is the word in a line that is not a comment? first: as its first word. */
static bool mentions(const char *text, const char *word, bool first)
{
    for (size_t length; *text; text += length + (text[length] == '\n')) {
        text += strspn(text, " \t");
        length = strcspn(text, "\n");
        const char *at = memmem(text, length, word, strlen(word));
        if (at && !strchr("#;", *text) && (at == text || !first))
            return true;
    }
    return false;
}

/* systemctl prints one line for each EnvironmentFile=, "/etc/default/app* (ignore_errors=yes)". */
static void take_environment_files(struct unit *unit, char *value)
{
    char *end = strstr(value, " (ignore_errors=");
    NS_AUTO_GLOB glob_t found = {0};
    if (end)
        *end = '\0';
    glob(value, 0, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        NS_AUTO_FREE char *text = ns_file_read(found.gl_pathv[i]);
        if (text && mentions(text, VARIABLE, true))
            snprintf(unit->file, sizeof unit->file, "%s", found.gl_pathv[i]);
    }
}

static void take_property(struct unit *unit, const char *name, char *value)
{
    if (strcmp(name, "LoadState") == 0)
        snprintf(unit->load_state, sizeof unit->load_state, "%s", value);
    else if (strcmp(name, "Environment") == 0)
        take_environment(unit, value);
    else if (strcmp(name, "EnvironmentFiles") == 0)
        take_environment_files(unit, value);
    else if (strcmp(name, "UnsetEnvironment") == 0)
        for (char *word = strtok(value, " "); word; word = strtok(NULL, " "))
            unit->unsets = unit->unsets || strcmp(word, "LD_PRELOAD") == 0;
    else if (strcmp(name, "SystemCallFilter") == 0)
        ns_filter_take(&unit->filter, value);
    else if (strcmp(name, "SystemCallErrorNumber") == 0)
        ns_filter_take_error(&unit->filter, value);
    else if (*value != '\0') /* RootDirectory, RootImage, TemporaryFileSystem */
        unit->hides_files = true;
}

/* Asks systemctl for the settings of a service; of systemd itself if name is "". False, and the
 * reason is printed, if systemctl fails. */
static bool ask(const char *name, struct unit *unit)
{
    char command[NAME_MAX + 256];
    NS_AUTO_FREE char *line = NULL;
    size_t size = 0;
    /* No name has a quote, see ns_host_unit_path. */
    snprintf(command, sizeof command,
             "systemctl show -p LoadState -p Environment -p EnvironmentFiles -p UnsetEnvironment "
             "-p RootDirectory -p RootImage -p TemporaryFileSystem -p SystemCallFilter "
             "-p SystemCallErrorNumber%s%s%s",
             *name ? " -- '" : "", name, *name ? "'" : "");
    FILE *stream = popen(command, "re");
    while (stream && getline(&line, &size, stream) > 0) {
        char *sign = strchr(line, '=');
        if (!sign)
            continue;
        *sign = '\0';
        sign[1 + strcspn(sign + 1, "\n")] = '\0';
        take_property(unit, line, sign + 1);
    }
    if (stream && pclose(stream) == 0)
        return true;
    return NS_REFUSE("'%s' failed", command);
}

/* Finds the unit files and drop-ins of an image for a service. app@1.service gets the files of
 * app@.service, too, and every service those in service.d. */
static void find_files(const char *name, glob_t *found)
{
    static const char *const places[] = {"/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"};
    const char *at = strchr(name, '@');
    char template[NAME_MAX + 16], pattern[PATH_MAX];
    const char *const names[] = {name, template, "service"};
    snprintf(template, sizeof template, "%.*s.service", at ? (int)(at - name) + 1 : 0, name);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
            snprintf(pattern, sizeof pattern, "%s/systemd/system/%s", places[i], names[k]);
            glob(pattern, GLOB_APPEND | GLOB_NOESCAPE, NULL, found);
            strcat(pattern, ".d/*.conf");
            glob(pattern, GLOB_APPEND | GLOB_NOESCAPE, NULL, found);
        }
}

/* The same for an image, whose files are searched for the names of the settings alone. False, and
 * the reason is printed, if one of them mentions LD_PRELOAD. */
static bool search(const char *name, struct unit *unit)
{
    bool is_clear = true, is_noted = false; /* /lib may be /usr/lib */
    NS_AUTO_GLOB glob_t found = {0};
    find_files(name, &found);
    if (found.gl_pathc == 0)
        ns_say("warning: %s: the image has no such unit", name);
    for (size_t i = 0; i < found.gl_pathc && is_clear; i++) {
        NS_AUTO_FREE char *text =
            strstr(found.gl_pathv[i], DROPIN) ? NULL : ns_file_read(found.gl_pathv[i]);
        is_clear = !text || !mentions(text, "LD_PRELOAD", false);
        if (!is_clear)
            ns_say("%s: %s mentions LD_PRELOAD; change that file instead", name, found.gl_pathv[i]);
        if (text && (mentions(text, "RootDirectory=", true) || mentions(text, "RootImage=", true) ||
                     mentions(text, "TemporaryFileSystem=", true)))
            unit->hides_files = true;
        if (!is_clear || !text || is_noted || !mentions(text, "SystemCallFilter", true))
            continue;
        is_noted = true;
        ns_say("note: %s: %s sets SystemCallFilter=, which is not examined in an image; "
               "nagleshim-host(1) lists the calls that it must allow",
               name, found.gl_pathv[i]);
    }
    return is_clear;
}

static char *write_text(const struct ns_host *host, const char *name, const struct unit *unit)
{
    const char *mounts = "";
    if (unit->hides_files) /* "-": a missing file is skipped */
        mounts = ns_words("BindReadOnlyPaths=-%s -" NS_POLICY_DIR_DEFAULT "\n", host->library);
    return ns_words(MARK " 'nagleshim host disable --unit %s' removes it.\n"
                         "[Service]\n"
                         "Environment=\"" VARIABLE "%s\"\n%s",
                    name, ns_preload_join(unit->preload, host->library), mounts);
}

/* Makes the text of a drop-in. False, and the reason is printed, if the unit cannot have one. */
static bool prepare(const struct ns_host *host, struct ns_change *change)
{
    static struct ns_dropin dropin;
    struct unit unit = {.hides_files = false};
    const char *name = unit_of(change->path);
    if (access(change->path, F_OK) == 0 && !ns_dropin_read(change->path, &dropin))
        return NS_REFUSE("%s: this command did not write it; nothing was changed", change->path);
    if (host->is_image ? !search(name, &unit) : !ask(name, &unit))
        return false;
    if (!host->is_image && strcmp(unit.load_state, "loaded") != 0)
        return NS_REFUSE("%s: systemctl reports LoadState=%s; only a loaded unit can be changed",
                         name, unit.load_state);
    if (!ns_filter_permits(&unit.filter, name))
        return false;
    /* What systemd preloads into every service (DefaultEnvironment=) stays. */
    if (!host->is_image && !unit.preload[0] && !ask("", &unit))
        return false;
    if (strpbrk(unit.preload, "\"\\%"))
        return NS_REFUSE("%s: its LD_PRELOAD has quotes, backslashes or %%; add the library there",
                         name);
    change->text = write_text(host, name, &unit);
    return true;
}

/* Is it our library that the unit's LD_PRELOAD names, as systemd sees it now? */
static bool takes_effect(const struct ns_host *host, const char *path)
{
    struct unit unit = {.hides_files = false};
    const char *name = unit_of(path);
    char entry[PATH_MAX] = "";
    if (host->is_image)
        return true;
    if (!ask(name, &unit))
        return false;
    if (!unit.unsets && !unit.file[0] && ns_preload_find(unit.preload, entry) &&
        strcmp(entry, host->library) == 0)
        return true;
    if (unit.unsets)
        return NS_REFUSE("%s: its UnsetEnvironment= removes LD_PRELOAD", name);
    if (unit.file[0])
        return NS_REFUSE(
            "%s: its EnvironmentFile %s sets LD_PRELOAD; the library must be named there", name,
            unit.file);
    return NS_REFUSE(
        "%s: its LD_PRELOAD is '%s' even with the drop-in: a drop-in that is read later sets "
        "it, see 'systemctl cat %s'",
        name, unit.preload, name);
}

static void undo(const struct ns_host *host, struct ns_change *changes, unsigned n)
{
    bool undone = true;
    for (unsigned i = 0; i < n; i++)
        undone = ns_change_undo(&changes[i]) && undone;
    undone = reload(host) && undone;
    ns_say("%s", undone ? "nothing was changed"
                        : "not everything could be restored: see 'nagleshim host status'");
}

static void report(const struct ns_host *host, const struct ns_change *change)
{
    const char *name = unit_of(change->path);
    if (!change->done)
        ns_output_line("%s has the library already", name);
    else if (host->is_image)
        ns_output_line("%s will have the library at its next start", name);
    else
        ns_output_line("%s will have the library at its next start: systemctl restart '%s'", name,
                       name);
}

/* Writes all drop-ins and checks that systemd uses them; undoes everything if one fails. */
static int carry_out(const struct ns_host *host, struct ns_change *changes, unsigned n)
{
    int status = NS_EXIT_YES;
    for (unsigned i = 0; i < n && status == NS_EXIT_YES; i++)
        status = ns_change_make(&changes[i]);
    if (status == NS_EXIT_YES && !reload(host))
        status = NS_EXIT_ERROR;
    for (unsigned i = 0; i < n && status == NS_EXIT_YES; i++)
        if (!takes_effect(host, changes[i].path))
            status = NS_EXIT_ERROR;
    if (status != NS_EXIT_YES)
        undo(host, changes, n);
    for (unsigned i = 0; i < n && status == NS_EXIT_YES; i++)
        report(host, &changes[i]);
    return status;
}

int ns_host_units_enable(const struct ns_host *host)
{
    const unsigned n = host->units->n;
    struct ns_change *changes = ns_allocate(n, sizeof *changes); /* nothing is changed yet */
    bool good = ns_host_judge_library(host);
    for (unsigned i = 0; i < n && good; i++)
        good =
            ns_host_unit_path(host->units->words[i], changes[i].path) && prepare(host, &changes[i]);
    return good ? carry_out(host, changes, n) : NS_EXIT_ERROR;
}

bool ns_dropin_read(const char *path, struct ns_dropin *dropin)
{
    NS_AUTO_FREE char *text = ns_file_read(path);
    bool is_ours = text && strncmp(text, MARK, strlen(MARK)) == 0;
    char *list = is_ours ? strstr(text, VARIABLE) : NULL;
    snprintf(dropin->unit, sizeof dropin->unit, "%s", unit_of(path));
    dropin->library[0] = '\0';
    if (list) {
        list[strcspn(list, "\"\n")] = '\0';
        ns_preload_find(list + strlen(VARIABLE), dropin->library);
    }
    return is_ours;
}

/* Removes a drop-in, if it names the library that is meant. An exit status. */
static int disable(const struct ns_host *host, const char *path, bool is_named, bool *changed)
{
    struct ns_change change = {.text = NULL};
    struct ns_dropin dropin;
    bool exists = ns_dropin_read(path, &dropin);
    if (!exists || !ns_host_is_meant(host, dropin.library, strlen(dropin.library))) {
        if (is_named)
            ns_output_line("%s is not enabled%s%s", dropin.unit, host->only ? " with " : "",
                           host->only ? host->only : "");
        return NS_EXIT_YES;
    }
    snprintf(change.path, sizeof change.path, "%s", path);
    int status = ns_change_make(&change);
    if (status == NS_EXIT_YES) {
        *changed = true;
        ns_output_line("%s will not have the library at its next start", dropin.unit);
    }
    return status;
}

int ns_host_units_disable(const struct ns_host *host, bool *changed)
{
    int status = NS_EXIT_YES, one;
    char path[PATH_MAX];
    NS_AUTO_GLOB glob_t found = {0};
    for (unsigned i = 0; i < host->units->n; i++) {
        ns_host_unit_path(host->units->words[i], path);
        one = disable(host, path, true, changed);
        status = one > status ? one : status;
    }
    if (host->units->n == 0)
        glob(NS_DROPINS, 0, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        one = disable(host, found.gl_pathv[i], false, changed);
        status = one > status ? one : status;
    }
    if (*changed && !reload(host))
        status = NS_EXIT_ERROR;
    return status;
}
