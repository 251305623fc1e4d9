/* SPDX-License-Identifier: MIT */
/* Owns the reading of the text of a systemd unit, drop-in or system.conf, as far as LD_PRELOAD and
 * what hides the library go. It must not open files. Not async-signal-safe. */
#include "cli/host/host_unit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ns_unit_block(struct ns_unit *unit, const char *format, ...)
{
    va_list arguments;

    if (unit->blocked[0])
        return;
    va_start(arguments, format);
    vsnprintf(unit->blocked, sizeof(unit->blocked), format, arguments);
    va_end(arguments);
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

static void take_environment(struct ns_unit *unit, char *value, const char *file, bool is_late)
{
    static const char variable[] = "LD_PRELOAD=";
    char *word;

    if (*value == '\0') {
        free(unit->preload);
        unit->preload = NULL;
        if (is_late)
            ns_unit_block(unit, "%s, which is read after the drop-in, empties Environment=", file);
        return;
    }
    if (strstr(value, variable) && strchr(value, '\\'))
        ns_unit_block(unit, "%s sets LD_PRELOAD with a backslash, which is not understood here",
                      file);
    while ((word = next_word(&value))) {
        if (strncmp(word, variable, sizeof(variable) - 1) != 0)
            continue;
        free(unit->preload);
        unit->preload = strdup(word + sizeof(variable) - 1);
        if (is_late)
            ns_unit_block(unit, "%s, which is read after the drop-in, sets LD_PRELOAD", file);
    }
}

/* Where the value is empty, as much as was set before is not. */
static void take_environment_file(struct ns_unit *unit, const char *value)
{
    if (*value == '\0')
        ns_unit_forget_files(unit);
    else if (unit->n_files == NS_UNIT_FILES_MOST)
        ns_unit_block(unit, "it has more than %d EnvironmentFile", NS_UNIT_FILES_MOST);
    else if ((unit->files[unit->n_files] = strdup(value)))
        unit->n_files++;
}

void ns_unit_forget_files(struct ns_unit *unit)
{
    while (unit->n_files > 0)
        free(unit->files[--unit->n_files]);
}

static bool has_word(char *value, const char *wanted)
{
    char *word;
    bool has = false;

    while ((word = next_word(&value)))
        has = has || strcmp(word, wanted) == 0;
    return has;
}

static void take_setting(struct ns_unit *unit, const char *key, char *value, const char *file,
                         bool is_late)
{
    if (strcmp(key, "DefaultEnvironment") == 0)
        take_environment(unit, value, file, false);
    else if (strcmp(key, "Environment") == 0)
        take_environment(unit, value, file, is_late);
    else if (strcmp(key, "EnvironmentFile") == 0)
        take_environment_file(unit, value);
    else if (strcmp(key, "UnsetEnvironment") == 0 && has_word(value, "LD_PRELOAD"))
        ns_unit_block(unit, "%s unsets LD_PRELOAD", file);
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

void ns_unit_take_text(struct ns_unit *unit, char *text, const char *file, bool is_late)
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
