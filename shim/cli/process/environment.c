/* SPDX-License-Identifier: MIT */
/* Owns the checks of the environment variables. It must change neither environment nor files. Not
 * async-signal-safe. */
#include "cli/process/environment.h"

#include "cli/cli.h"

#include "policy/find.h"
#include "policy/suggest.h"

#include <errno.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

enum { NAME_MOST = 40 }; /* longer names are not taken for misspellings */

static const char *const variables[] = {
#define NS_VARIABLE(name, text) #name,
#include "cli/variables.def"
#undef NS_VARIABLE
};

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
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    to->warn(to->context, text);
}

/* Did the user probably mean another variable: one with few other letters, or one that the name
 * continues (NAGLESHIM_LOG_LEVEL)? */
static void judge_name(const struct listener *to, const char *entry)
{
    char name[NAME_MOST + 1];
    struct ns_suggest near = {.word = name};
    const char *begun = NULL;

    if (strcspn(entry, "=") > NAME_MOST)
        return;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(entry, "="), entry);
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        size_t length = strlen(variables[i]);

        ns_suggest_try(&near, variables[i]);
        if (strncmp(name, variables[i], length) == 0 && name[length] == '_')
            begun = variables[i];
    }
    const char *meant = near.known && (near.distance < 3 || !begun) ? near.known : begun;
    if (meant && strcmp(name, meant) != 0)
        warn(to, "unknown variable %s; did you mean %s?", name, meant);
}

static void judge_log_level(const struct listener *to)
{
    const char *level = getenv("NAGLESHIM_LOG");
    char known[64];

    if (level && *level && !ns_words_find(NS_WORDS_LOG, level, NULL))
        warn(to, "NAGLESHIM_LOG must be %s, not '%s'; 'error' is used",
             ns_words_join(NS_WORDS_LOG, known, sizeof known), level);
}

/* A missing file is not created: the library does that when it has something to write. */
static void judge_log_file(const struct listener *to, const char *file)
{
    char directory[PATH_MAX];

    snprintf(directory, sizeof directory, "%s", file);
    if (access(file, W_OK) != 0 &&
        (errno != ENOENT || access(dirname(directory), W_OK | X_OK) != 0))
        warn(to, "NAGLESHIM_LOG_FILE '%s' cannot be written, and the log is lost: %s", file,
             strerror(errno));
}

/* One of several directories may be missing, and so may the built-in one. A directory that this
 * user cannot look into may exist. */
static void judge_directories(const struct listener *to)
{
    const char *policy = getenv("NAGLESHIM_POLICY"), *list = getenv("NAGLESHIM_POLICY_DIR");
    struct ns_policy_directories directories = ns_policy_directories(list);
    const char *at;
    size_t length;

    if ((policy && *policy) || !list || !*list)
        return;
    while (ns_policy_next_directory(&directories, &at, &length)) {
        char path[PATH_MAX];

        snprintf(path, sizeof path, "%.*s/.", (int)length, at);
        if (access(path, F_OK) == 0 || errno == EACCES)
            return;
    }
    warn(to,
         "NAGLESHIM_POLICY_DIR '%s' names no directory that exists, so no policy is taken from it",
         list);
}

void ns_environment_judge(bool library_speaks, ns_environment_warn *report, void *context)
{
    const struct listener to = {report, context};
    const char *file = getenv("NAGLESHIM_LOG_FILE");
    bool has_file = file && *file;

    for (char **entry = environ; *entry; entry++)
        judge_name(&to, *entry);
    if (has_file)
        judge_log_file(&to, file);
    /* The library's own message goes to the file, where it may go unread. */
    if (has_file || !library_speaks)
        judge_log_level(&to);
    judge_directories(&to);
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
                 "NAGLESHIM_OFF is '%.40s' (neither empty nor 0), so the shim is switched off",
                 off);
    return is_on;
}

bool ns_environment_policy_file(const char *command, const char *file, char path[PATH_MAX])
{
    static struct ns_policy_found found;
    struct stat st;
    char text[PATH_MAX + sizeof found.where.message + 32];

    if (strcmp(file, "-") == 0) {
        ns_say(command, "'-': the policy cannot be read from standard input here; name a file");
        return false;
    }
    /* The program reads the file again, and so may programs that it starts. */
    if (stat(file, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        ns_say(command,
               "%s: cannot be read: it is not a regular file; the JSON itself may be in "
               "NAGLESHIM_POLICY",
               file);
        return false;
    }
    ns_policy_read(file, &found);
    if (!found.policy)
        ns_say(command, "%s", ns_policy_error_text(&found, text, sizeof text));
    else if (!realpath(file, path))
        ns_say(command, "%s: cannot be read: %s", file, strerror(errno));
    else
        return true;
    return false;
}
