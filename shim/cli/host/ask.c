/* SPDX-License-Identifier: MIT */
/* Owns the questions about a unit: to systemctl, or, in an image, to the unit's files. systemd
 * alone knows how quotes, specifiers and the order of drop-ins work; this file must not imitate
 * that. It changes nothing. Not async-signal-safe. */
#include "cli/host/unit.h"

#include "base/path.h"
#include "cli/cli.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define SAY(...) ns_say("host", __VA_ARGS__)
#define VARIABLE "LD_PRELOAD"

static const char asked[] = "-p LoadState -p Environment -p UnsetEnvironment -p EnvironmentFiles "
                            "-p RootDirectory -p RootImage -p TemporaryFileSystem -p NoExecPaths";

/* The word of a list as systemctl prints it: words with blanks in them are in double quotes. NULL
 * at the end; *length is without the quotes. */
static const char *next_word(const char **list, size_t *length)
{
    const char *word = *list + strspn(*list, " ");
    bool is_quoted = *word == '"';

    word += is_quoted;
    *length = 0;
    while (word[*length] != '\0' && word[*length] != (is_quoted ? '"' : ' '))
        *length += word[*length] == '\\' && word[*length + 1] != '\0' ? 2 : 1;
    *list = word + *length + (is_quoted && word[*length] == '"');
    return *length > 0 || is_quoted ? word : NULL;
}

static void take_environment(struct ns_unit *unit, const char *list)
{
    const size_t name = strlen(VARIABLE "=");
    const char *word;
    size_t length;

    while ((word = next_word(&list, &length))) {
        if (length < name || strncmp(word, VARIABLE "=", name) != 0)
            continue;
        unit->has_preload = true;
        snprintf(unit->preload, sizeof unit->preload, "%.*s", (int)(length - name), word + name);
        if (strpbrk(unit->preload, "\"\\%") || length - name >= sizeof unit->preload)
            snprintf(unit->blocked, sizeof unit->blocked,
                     "its " VARIABLE
                     " has quotes, backslashes or %%, or is too long; add the library "
                     "there");
    }
}

static void take_unset(struct ns_unit *unit, const char *list)
{
    const char *word;
    size_t length;

    while ((word = next_word(&list, &length)))
        if (length == strlen(VARIABLE) && strncmp(word, VARIABLE, length) == 0)
            snprintf(unit->blocked, sizeof unit->blocked, "its UnsetEnvironment= has " VARIABLE);
}

/* The text of a file, to be freed; NULL if it cannot be read. */
static char *read_text(const char *path)
{
    char real[PATH_MAX], *text = NULL;

    if (realpath(path, real))
        ns_file_read(real, &text, NULL);
    return text;
}

/* Does a line that is not a comment have this word? */
static bool mentions(const char *text, const char *word)
{
    for (const char *at = text; (at = strstr(at, word)); at++) {
        const char *line = at;

        while (line > text && line[-1] != '\n')
            line--;
        line += strspn(line, " \t");
        if (*line != '#' && *line != ';')
            return true;
    }
    return false;
}

/* "/etc/default/app* (ignore_errors=yes)". The file is read after every Environment=, so that a
 * drop-in cannot change what it sets. */
static void take_environment_file(struct ns_unit *unit, char *value)
{
    char *end = strstr(value, " (ignore_errors=");
    glob_t found;

    if (end)
        *end = '\0';
    if (glob(value, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char *text = read_text(found.gl_pathv[i]);

        if (text && mentions(text, VARIABLE))
            snprintf(unit->blocked, sizeof unit->blocked,
                     "its EnvironmentFile %s sets " VARIABLE "; add the library there",
                     found.gl_pathv[i]);
        free(text);
    }
    globfree(&found);
}

static void take_property(struct ns_unit *unit, const char *name, char *value)
{
    if (strcmp(name, "LoadState") == 0)
        snprintf(unit->load_state, sizeof unit->load_state, "%s", value);
    else if (strcmp(name, "Environment") == 0)
        take_environment(unit, value);
    else if (strcmp(name, "UnsetEnvironment") == 0)
        take_unset(unit, value);
    else if (strcmp(name, "EnvironmentFiles") == 0)
        take_environment_file(unit, value);
    else if (strcmp(name, "NoExecPaths") == 0)
        unit->has_noexec = *value != '\0';
    else if (*value != '\0') /* RootDirectory, RootImage, TemporaryFileSystem */
        unit->hides_files = true;
}

bool ns_unit_ask(const char *name, struct ns_unit *unit)
{
    char command[NAME_MAX + sizeof asked + 64], *line = NULL;
    size_t size = 0;

    *unit = (struct ns_unit){.has_preload = false};
    /* No name has a quote, see ns_host_unit_name. */
    if (name)
        snprintf(command, sizeof command, "systemctl show %s -- '%s'", asked, name);
    else
        snprintf(command, sizeof command, "systemctl show -p Environment");
    FILE *stream = popen(command, "re");
    while (stream && getline(&line, &size, stream) > 0) {
        char *sign = strchr(line, '=');

        if (!sign)
            continue;
        *sign++ = '\0';
        sign[strcspn(sign, "\n")] = '\0';
        take_property(unit, line, sign);
    }
    free(line);
    int status = stream ? pclose(stream) : -1;
    if (status != 0)
        SAY("'%s' failed with status %d", command, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    return status == 0;
}

static void search_file(const char *path, struct ns_unit *unit)
{
    char *text = read_text(path);

    if (!text)
        return;
    snprintf(unit->load_state, sizeof unit->load_state, "loaded");
    if (mentions(text, VARIABLE))
        snprintf(unit->blocked, sizeof unit->blocked, "%s mentions " VARIABLE, path);
    if (mentions(text, "RootDirectory=") || mentions(text, "RootImage=") ||
        mentions(text, "TemporaryFileSystem="))
        unit->hides_files = true;
    if (mentions(text, "NoExecPaths="))
        unit->has_noexec = true;
    free(text);
}

static void search_place(const char *place, const char *name, struct ns_unit *unit)
{
    char path[PATH_MAX];
    glob_t found;

    snprintf(path, sizeof path, "%s/systemd/system/%s", place, name);
    search_file(path, unit);
    snprintf(path, sizeof path, "%s/systemd/system/%s.d/*.conf", place, name);
    if (glob(path, GLOB_NOESCAPE, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (strcmp(ns_path_base(found.gl_pathv[i]), NS_HOST_DROPIN) != 0)
            search_file(found.gl_pathv[i], unit);
    globfree(&found);
}

void ns_unit_search(const char *name, struct ns_unit *unit)
{
    static const char *const places[] = {"/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"};
    const char *at = strchr(name, '@');
    char template[NAME_MAX] = "service"; /* drop-ins in service.d are for every service */

    if (at)
        snprintf(template, sizeof template, "%.*s.service", (int)(at - name) + 1, name);
    *unit = (struct ns_unit){.has_preload = false};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        search_place(places[i], name, unit);
        search_place(places[i], template, unit);
    }
}
