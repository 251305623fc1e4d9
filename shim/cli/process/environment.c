/* SPDX-License-Identifier: MIT */
/* Owns what the command says of environment variables. It must change nothing, neither environment
 * nor files, and leave no descriptor open. Not async-signal-safe. */
#include "cli/process/environment.h"

#include "cli/cli.h"
#include "cli/policy/directory.h"

#include "policy/find.h"
#include "policy/suggest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

enum { NAME_MOST = 40 }; /* longer ones are no misspelling */

static const char *const variables[] = {
#define NS_VARIABLE(name, text) #name,
#include "cli/variables.def"
#undef NS_VARIABLE
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct listener {
    ns_environment_warn *warn;
    void *context;
};

__attribute__((format(printf, 2, 3))) static void warn(const struct listener *to,
                                                       const char *format, ...)
{
    char text[2 * PATH_MAX];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    to->warn(to->context, text);
}

/* One that is as near as a misspelling, or that the name goes on from (NAGLESHIM_LOG_LEVEL); NULL
 * if none is. */
static const char *meant_by(const char *name)
{
    struct ns_suggest near = {.word = name};
    const char *begun = NULL;

    for (size_t i = 0; i < COUNT(variables); i++) {
        size_t length = strlen(variables[i]);

        ns_suggest_try(&near, variables[i]);
        if (strncmp(name, variables[i], length) == 0 && name[length] == '_')
            begun = variables[i];
    }
    return near.known && (near.distance < 3 || !begun) ? near.known : begun;
}

static void judge_name(const struct listener *to, const char *entry)
{
    char name[NAME_MOST + 1];
    size_t length = strcspn(entry, "=");
    const char *meant;

    if (length > NAME_MOST)
        return;
    memcpy(name, entry, length);
    name[length] = '\0';
    meant = meant_by(name);
    if (meant && strcasecmp(name, meant) != 0)
        warn(to, "%s is set, which nothing reads; is %s meant?", name, meant);
    else if (meant && strcmp(name, meant) != 0)
        warn(to, "%s is set, which nothing reads; it is written %s", name, meant);
}

static void judge_log_level(const struct listener *to)
{
    const char *level = getenv("NAGLESHIM_LOG");
    char known[64];

    if (level && *level && !ns_words_find(NS_WORDS_LOG, level, NULL))
        warn(to, "NAGLESHIM_LOG must be %s, not '%s'; 'error' is used",
             ns_words_join(NS_WORDS_LOG, known, sizeof(known)), level);
}

/* 0, or the errno with which the shim will not open the file. The file is not made: the shim does
 * so when it has something to write. */
static int try_log_file(const char *file)
{
    char directory[PATH_MAX];
    const char *slash = strrchr(file, '/');
    int fd = open(file, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    if (fd >= 0) {
        close(fd);
        return 0;
    }
    if (errno != ENOENT)
        return errno;
    snprintf(directory, sizeof(directory), "%.*s", slash ? (int)(slash - file) + 1 : 1,
             slash ? file : ".");
    return access(directory, W_OK | X_OK) == 0 ? 0 : errno;
}

/* Is a log file named? */
static bool judge_log_file(const struct listener *to)
{
    const char *file = getenv("NAGLESHIM_LOG_FILE");
    int error = file && *file ? try_log_file(file) : 0;

    if (error)
        warn(to, "NAGLESHIM_LOG_FILE '%s' cannot be written, and what the shim logs is lost: %s",
             file, strerror(error));
    return file && *file;
}

enum place { MISSING, NO_DIRECTORY, DIRECTORY };

static enum place look_at(const char *path)
{
    struct stat st;

    if (stat(path, &st) == 0)
        return S_ISDIR(st.st_mode) ? DIRECTORY : NO_DIRECTORY;
    /* One that must not be looked into is no missing one: its policies cannot be read. */
    return errno == EACCES ? DIRECTORY : errno == ENOTDIR ? NO_DIRECTORY : MISSING;
}

/* The built-in directory may well be missing, and so may one of several; but something that
 * somebody names was meant to be there. */
static void judge_directories(const struct listener *to)
{
    const char *policy = getenv("NAGLESHIM_POLICY"), *list = getenv("NAGLESHIM_POLICY_DIR");
    struct ns_policy_directories directories = ns_policy_directories(list);
    const char *at;
    size_t length;
    bool any = false;

    if ((policy && *policy) || !list || !*list)
        return;
    while (ns_policy_next_directory(&directories, &at, &length)) {
        char path[PATH_MAX];
        enum place place;

        snprintf(path, sizeof(path), "%.*s", (int)length, at);
        place = look_at(path);
        any = any || place == DIRECTORY;
        if (place == NO_DIRECTORY && strchr(list, ':'))
            warn(to, "NAGLESHIM_POLICY_DIR names '%s', which is not a directory", path);
    }
    if (!any && strchr(list, ':'))
        warn(to,
             "NAGLESHIM_POLICY_DIR '%s' names no directory that is there%s, so no policy is taken "
             "from it",
             list,
             ns_directory_has_empty(list) ? " (an empty entry is " NS_POLICY_DIR_DEFAULT ")" : "");
    else if (!any)
        warn(to, "NAGLESHIM_POLICY_DIR '%s' is not a directory, so no policy is taken from it",
             list);
}

/* The shim says nothing of it but under NAGLESHIM_LOG=debug. */
static void judge_record(const struct listener *to)
{
    const char *directory = getenv("NAGLESHIM_RECORD"), *word = getenv("NAGLESHIM_EXPERIMENT");
    struct stat st;

    if (directory && *directory && *directory != '/')
        warn(to, "NAGLESHIM_RECORD '%s' must begin with /; nothing is recorded", directory);
    else if (directory && *directory && (stat(directory, &st) != 0 || !S_ISDIR(st.st_mode)))
        warn(to, "NAGLESHIM_RECORD '%s' is not a directory, so nothing is recorded", directory);
    if (word && *word && strcmp(word, "push") != 0 && strcmp(word, "acknowledge") != 0)
        warn(to, "NAGLESHIM_EXPERIMENT must be push or acknowledge, not '%s'; nothing is tried",
             word);
}

void ns_environment_judge(bool library_speaks, ns_environment_warn *report, void *context)
{
    const struct listener to = {report, context};

    for (char **entry = environ; *entry; entry++)
        judge_name(&to, *entry);
    /* In a file the library's own word may go unread. */
    if (judge_log_file(&to) || !library_speaks)
        judge_log_level(&to);
    judge_directories(&to);
    judge_record(&to);
}

const char *ns_environment_policies(void)
{
    const char *directory = getenv("NAGLESHIM_POLICY_DIR");

    return directory && *directory ? directory : NS_POLICY_DIR_DEFAULT;
}

bool ns_environment_off(char *text, size_t size)
{
    const char *off = getenv("NAGLESHIM_OFF");
    bool is_on = off && *off != '\0' && strcmp(off, "0") != 0;

    if (is_on)
        snprintf(text, size,
                 "NAGLESHIM_OFF is '%.40s' (neither empty nor 0), so the shim is "
                 "switched off",
                 off);
    return is_on;
}
