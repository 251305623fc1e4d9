/* SPDX-License-Identifier: MIT */
/* Owns the drop-ins of services: all that are named take effect, or none is left. It must not
 * imitate systemd, which alone knows how quotes, specifiers and the order of drop-ins work: it asks
 * systemctl, and a unit that needs more than one line has a text to paste. */
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

/* What systemd says about a service. */
struct unit {
    char load_state[32];    /* systemd's LoadState: "loaded", "not-found", "masked" ... */
    char preload[PATH_MAX]; /* its LD_PRELOAD, or that of every service; "": neither */
    const char *forbidden;  /* calls of the library that its SystemCallFilter= forbids; "": none */
    bool hides_files;       /* it has a root of its own, or hides directories */
    const char *binds;      /* what is shown to it nevertheless */
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

static bool reload(void)
{
    if (access(NS_SYSTEMD_RUNS, F_OK) != 0 || system("systemctl daemon-reload >&2") == 0)
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

/* Does a line of the file begin with the name of the variable? */
static bool sets_preload(const char *path)
{
    NS_AUTO_FREE char *text = ns_file_read(path);
    for (const char *at = text; at; at = strchr(at, '\n')) {
        at += strspn(at, " \t\n");
        if (strncmp(at, VARIABLE, strlen(VARIABLE)) == 0)
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
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (sets_preload(found.gl_pathv[i]))
            snprintf(unit->file, sizeof unit->file, "%s", found.gl_pathv[i]);
}

/* The calls of the library that a SystemCallFilter= forbids; calls without which no program starts
 * are not listed. The filter is there before the library, which cannot ask about it: a forbidden
 * call may kill the program. list: as systemctl prints it, after "~" the calls that are forbidden,
 * otherwise those that are allowed, but for "name:error". */
static const char *forbidden_by(const char *list)
{
    static const char *const calls[] = {
        "clock_gettime", "fcntl", "getpeername", "getpid",         "getsockname",
        "getsockopt",    "ioctl", "lseek",       "ppoll",          "readlinkat",
        "recvfrom",      "statx", "setsockopt",  "rt_sigprocmask",
    };
    const bool denies = *list == '~';
    const char *text = "";
    for (size_t i = 0; *list && i < sizeof calls / sizeof *calls; i++) {
        const size_t length = strlen(calls[i]);
        bool listed = false;
        for (const char *at = list + denies; *at && !listed; at += strspn(at, " ")) {
            listed = strncmp(at, calls[i], length) == 0 && strchr(denies ? " :" : " ", at[length]);
            at += strcspn(at, " ");
        }
        if (listed == denies)
            text = ns_words("%s%s%s", text, *text ? " " : "", calls[i]);
    }
    return text;
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
        unit->forbidden = forbidden_by(value);
    else if (strncmp(name, "Bind", 4) == 0)
        unit->binds = ns_words("%s %s", unit->binds, value);
    else if (*value != '\0') /* RootDirectory, RootImage, TemporaryFileSystem */
        unit->hides_files = true;
}

/* Asks systemctl for the settings of a service, and first for what systemd preloads into every
 * service. False, and the reason is printed, if systemctl fails. */
static bool ask(const char *name, struct unit *unit)
{
    NS_AUTO_FREE char *line = NULL;
    size_t size = 0;
    *unit = (struct unit){.forbidden = "", .binds = ""};
    /* No name has a quote, see ns_host_unit_path. */
    const char *command = ns_words(
        "systemctl show -p Environment && systemctl show -p LoadState -p Environment "
        "-p EnvironmentFiles -p UnsetEnvironment -p RootDirectory -p RootImage "
        "-p TemporaryFileSystem -p BindPaths -p BindReadOnlyPaths -p SystemCallFilter -- '%s'",
        name);
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

/* Why a drop-in would have no effect, or not this one; NULL: it has one. */
static const char *unfit(const struct unit *unit)
{
    if (strcmp(unit->load_state, "loaded") != 0)
        return ns_words("systemctl reports LoadState=%s; only a loaded unit can be changed",
                        unit->load_state);
    if (unit->unsets)
        return "its UnsetEnvironment= removes LD_PRELOAD";
    if (unit->file[0])
        return ns_words("its EnvironmentFile %s sets LD_PRELOAD; the library must be named there",
                        unit->file);
    /* systemctl shows them as a drop-in would have to quote them, and not as ld.so gets them. */
    if (strpbrk(unit->preload, "\"\\%"))
        return "its LD_PRELOAD has quotes, backslashes or %; add the library there";
    return NULL;
}

/* Makes the text of a drop-in. False, and the reason is printed, if the unit cannot have one, or if
 * its administrator has to decide: then the text that it would need is printed, too. */
static bool prepare(const char *library, struct ns_change *change)
{
    static struct ns_dropin dropin;
    struct unit unit;
    const char *name = unit_of(change->path);
    const bool exists = access(change->path, F_OK) == 0;
    if (exists && !ns_dropin_read(change->path, &dropin))
        return NS_REFUSE("%s: this command did not write it; nothing was changed", change->path);
    if (!ask(name, &unit))
        return false;
    const char *reason = unfit(&unit);
    if (reason)
        return NS_REFUSE("%s: %s", name, reason);
    const char *preload = ns_preload_join(unit.preload, library);
    char *text = ns_words("[Service]\nEnvironment=\"" VARIABLE "%s\"\n", preload);
    const bool has_library = strcmp(preload, unit.preload) == 0;
    if (!has_library && strcmp(preload, library) != 0)
        reason = "it has another LD_PRELOAD";
    if (unit.hides_files) { /* "-": a missing file is skipped */
        if (!strstr(unit.binds, library))
            reason = "RootDirectory=, RootImage= or TemporaryFileSystem= hides files from it";
        text = ns_words("%sBindReadOnlyPaths=-%s -" NS_POLICY_DIR_DEFAULT "\n", text, library);
    }
    if (*unit.forbidden) {
        reason = "its SystemCallFilter= forbids calls that the library makes";
        text = ns_words("%sSystemCallFilter=%s\n", text, unit.forbidden);
    }
    if (reason) {
        ns_say("%s: %s; nothing was changed. If that is right for it, type \"systemctl edit '%s'\" "
               "and add:",
               name, reason, name);
        ns_print_lines(stderr, text);
        return false;
    }
    if (has_library && !exists) /* as its administrator has written */
        return true;
    change->text = ns_words(MARK " 'nagleshim host disable --unit %s' removes it.\n%s", name, text);
    return true;
}

/* Does systemd preload the library, now that the drop-in is there? A later drop-in may reset it. */
static bool takes_effect(const char *library, const char *path)
{
    struct unit unit;
    char entry[PATH_MAX] = "";
    const char *name = unit_of(path);
    if (!ask(name, &unit))
        return false;
    if (ns_preload_find(unit.preload, entry) && strcmp(entry, library) == 0)
        return true;
    return NS_REFUSE("%s: its LD_PRELOAD is '%s' even with the drop-in: a drop-in that is read "
                     "later sets it, see 'systemctl cat %s'",
                     name, unit.preload, name);
}

static void undo(struct ns_change *changes, unsigned n)
{
    bool undone = true;
    for (unsigned i = 0; i < n; i++)
        undone = ns_change_undo(&changes[i]) && undone;
    undone = reload() && undone;
    ns_say("%s", undone ? "nothing was changed"
                        : "not everything could be restored: see 'nagleshim host status'");
}

static void report(const struct ns_change *change)
{
    const char *name = unit_of(change->path);
    if (!change->done)
        ns_output_line("%s has the library already", name);
    else
        ns_output_line("%s will have the library at its next start: systemctl restart '%s'", name,
                       name);
}

/* Writes all drop-ins; undoes everything if one cannot be written. */
static int carry_out(const char *library, struct ns_change *changes, unsigned n)
{
    int status = NS_EXIT_YES;
    for (unsigned i = 0; i < n && status == NS_EXIT_YES; i++)
        status = changes[i].text ? ns_change_make(&changes[i]) : NS_EXIT_YES;
    if (status == NS_EXIT_YES && !reload())
        status = NS_EXIT_ERROR;
    for (unsigned i = 0; i < n && status == NS_EXIT_YES; i++)
        status = takes_effect(library, changes[i].path) ? NS_EXIT_YES : NS_EXIT_ERROR;
    if (status != NS_EXIT_YES)
        undo(changes, n);
    for (unsigned i = 0; i < n && status == NS_EXIT_YES; i++)
        report(&changes[i]);
    return status;
}

int ns_host_units_enable(const char *library, const struct ns_list *units)
{
    const unsigned n = units->n;
    struct ns_change *changes = ns_allocate(n, sizeof *changes); /* nothing is changed yet */
    bool good = ns_host_judge_library(library);
    for (unsigned i = 0; i < n && good; i++)
        good = ns_host_unit_path(units->words[i], changes[i].path) && prepare(library, &changes[i]);
    return good ? carry_out(library, changes, n) : NS_EXIT_ERROR;
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
static int disable(const char *only, const char *path, bool is_named, bool *changed)
{
    struct ns_change change = {.text = NULL};
    struct ns_dropin dropin;
    bool exists = ns_dropin_read(path, &dropin);
    if (!exists || !ns_host_is_meant(only, dropin.library, strlen(dropin.library))) {
        if (is_named)
            ns_output_line("%s is not enabled%s%s", dropin.unit, only ? " with " : "",
                           only ? only : "");
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

int ns_host_units_disable(const char *only, const struct ns_list *units, bool *changed)
{
    int status = NS_EXIT_YES, one;
    char path[PATH_MAX];
    NS_AUTO_GLOB glob_t found = {0};
    for (unsigned i = 0; i < units->n; i++) {
        ns_host_unit_path(units->words[i], path);
        one = disable(only, path, true, changed);
        status = one > status ? one : status;
    }
    if (units->n == 0)
        glob(NS_DROPINS, 0, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        one = disable(only, found.gl_pathv[i], false, changed);
        status = one > status ? one : status;
    }
    if (*changed && !reload())
        status = NS_EXIT_ERROR;
    return status;
}
