/* SPDX-License-Identifier: MIT */
/* Owns the checks of the environment variables. It must change neither environment nor files. */
#include "cli/program/program.h"

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "policy/find.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static const char *const variables[] = {
#define NS_VARIABLE(name, text) #name,
#include "cli/variables.def"
#undef NS_VARIABLE
};

/* The variable itself, the one that was probably meant, or NULL. */
static const char *meant_by(const char *name)
{
    const char *meant = NULL;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        bool begins = strncmp(name, variables[i], strlen(variables[i])) == 0;
        if (strcmp(name, variables[i]) == 0)
            return variables[i];
        if (ns_verbs_is_close(name, variables[i]) || (begins && !meant))
            meant = variables[i];
    }
    return meant;
}

/* The value of a variable; NULL if it is unset or empty. */
static const char *value_of(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static void judge_names(void)
{
    for (char **entry = environ; *entry; entry++) {
        const char *name = ns_words("%.*s", (int)strcspn(*entry, "="), *entry);
        const char *meant = meant_by(name);
        if (strncmp(name, "NAGLESHIM_", strlen("NAGLESHIM_")) != 0)
            continue;
        if (!meant)
            ns_say("warning: unknown variable %s; see 'nagleshim help'", name);
        else if (strcmp(name, meant) != 0)
            ns_say("warning: unknown variable %s; did you mean %s?", name, meant);
    }
}

/* The library reports nothing if it skips a directory. */
static void judge_directories(const char *list)
{
    struct stat st;
    const char *at, *rest = list;
    size_t length;
    if (!ns_policy_has_directory(list))
        ns_say("warning: NAGLESHIM_POLICY_DIR is '%s', which does not exist: every program gets "
               "the built-in policy",
               list);
    while (ns_policy_next_directory(&rest, &at, &length)) {
        const char *entry = ns_words("%.*s", (int)length, at);
        if (stat(entry, &st) == 0 && !S_ISDIR(st.st_mode))
            ns_say("warning: NAGLESHIM_POLICY_DIR has '%s', which is not a directory; "
                   "NAGLESHIM_POLICY names a file",
                   entry);
    }
}

/* May lines be added to the file, or may it be made? The library loses them otherwise. */
static void judge_log_file(const char *file)
{
    const char *slash = strrchr(file, '/');
    const char *directory = slash ? ns_words("%.*s/", (int)(slash - file), file) : ".";
    struct stat st;
    int error = 0;
    if (stat(file, &st) == 0)
        error = S_ISDIR(st.st_mode) ? EISDIR : access(file, W_OK) == 0 ? 0 : errno;
    else if (errno != ENOENT || access(directory, W_OK | X_OK) != 0)
        error = errno;
    if (error)
        ns_say("warning: NAGLESHIM_LOG_FILE is '%s', which cannot be written: %s: the log is lost",
               file, strerror(error));
}

void ns_environment_judge(void)
{
    const char *level = value_of("NAGLESHIM_LOG"), *list = value_of("NAGLESHIM_POLICY_DIR");
    const char *file = value_of("NAGLESHIM_LOG_FILE");
    judge_names();
    if (file)
        judge_log_file(file);
    if (list && !value_of("NAGLESHIM_POLICY"))
        judge_directories(list);
    if (level && ns_words_find(NS_TAKES_LOG, level) < 0)
        ns_say("warning: NAGLESHIM_LOG must be %s, not '%s'; 'error' is used",
               ns_words_join(NS_TAKES_LOG, " or "), level);
}

const char *ns_environment_off(void)
{
    const char *off = value_of("NAGLESHIM_OFF");
    return !off || strcmp(off, "0") == 0
               ? NULL
               : ns_words("NAGLESHIM_OFF is '%.40s' (neither empty nor 0), so the library is "
                          "switched off",
                          off);
}

bool ns_environment_policy_file(const char *file, char path[PATH_MAX])
{
    static struct ns_policy_found found;
    struct stat st;
    char text[PATH_MAX + sizeof found.where.message + 32];
    if (!realpath(file, path) || stat(path, &st) != 0)
        return NS_REFUSE("%s: cannot be read: %s", file, strerror(errno));
    /* The program reads the file again, and so may programs that it starts. */
    if (!S_ISREG(st.st_mode))
        return NS_REFUSE("%s: cannot be read: it is not a regular file; the JSON itself may be in "
                         "NAGLESHIM_POLICY",
                         file);
    ns_policy_read(NS_POLICY_NAMED, path, &found, NULL);
    if (!found.policy)
        ns_say("%s", ns_policy_error_text(&found, text, sizeof text));
    return found.policy != NULL;
}
