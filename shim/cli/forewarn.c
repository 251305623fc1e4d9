/* SPDX-License-Identifier: MIT */
/* Owns what `nagleshim run` warns of. It must change nothing, neither environment nor files, and
 * leave no descriptor open. Not async-signal-safe. */
#include "cli/forewarn.h"

#include "cli/cli.h"
#include "cli/effect.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WARN(...) ns_say("run", "warning: " __VA_ARGS__)

extern char **environ;

enum {
    NAME_MOST = 40,    /* longer ones are no misspelling */
    DISTANCE_MOST = 3, /* letters that differ */
    FILES_MOST = 5,    /* broken files of a directory that are named */
};

static const char *const variables[] = {
#define NS_VARIABLE(name, text) #name,
#include "cli/variables.def"
#undef NS_VARIABLE
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* How many letters must be put in, taken out or replaced to make one word of the other; their case
 * does not count. */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[NAME_MOST + 1];
    size_t width = strlen(b);

    for (unsigned j = 0; j <= width; j++)
        row[j] = j;
    for (unsigned i = 1; a[i - 1] != '\0'; i++) {
        unsigned diagonal = row[0];

        row[0] = i;
        for (unsigned j = 1; j <= width; j++) {
            unsigned same = tolower(a[i - 1]) == tolower(b[j - 1]) ? 0 : 1;
            unsigned best = diagonal + same;

            diagonal = row[j];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
        }
    }
    return row[width];
}

/* One that is as near as a misspelling, or that the name goes on from (NAGLESHIM_LOG_LEVEL); NULL
 * if none is. */
static const char *nearest(const char *name, unsigned *how_near)
{
    const char *found = NULL, *begun = NULL;

    *how_near = DISTANCE_MOST + 1;
    for (size_t i = 0; i < COUNT(variables); i++) {
        unsigned here = distance(name, variables[i]);
        size_t length = strlen(variables[i]);

        if (here < *how_near) {
            *how_near = here;
            found = variables[i];
        }
        if (strncmp(name, variables[i], length) == 0 && name[length] == '_')
            begun = variables[i];
    }
    return *how_near < DISTANCE_MOST || !begun ? found : begun;
}

static void warn_of_variable(const char *entry)
{
    char name[NAME_MOST + 1];
    size_t length = strcspn(entry, "=");
    const char *meant;
    unsigned how_near;

    if (length > NAME_MOST)
        return;
    memcpy(name, entry, length);
    name[length] = '\0';
    meant = nearest(name, &how_near);
    if (meant && how_near > 0)
        WARN("%s is set, which nothing reads; is %s meant?", name, meant);
    else if (meant && strcmp(name, meant) != 0)
        WARN("%s is set, which nothing reads; it is written %s", name, meant);
}

static void warn_of_log_level(void)
{
    const char *level = getenv("NAGLESHIM_LOG");
    char known[64];

    if (level && *level && !ns_words_find(NS_WORDS_LOG, level, NULL))
        WARN("NAGLESHIM_LOG is '%s', which is no level: %s are", level,
             ns_words_join(NS_WORDS_LOG, known, sizeof(known)));
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

static void warn_of_log_file(void)
{
    const char *file = getenv("NAGLESHIM_LOG_FILE");
    int error = file && *file ? try_log_file(file) : 0;

    if (error)
        WARN("NAGLESHIM_LOG_FILE '%s' cannot be written, and what the shim logs is lost: %s", file,
             strerror(error));
}

void ns_forewarn_of_environment(void)
{
    for (char **entry = environ; *entry; entry++)
        warn_of_variable(*entry);
    warn_of_log_level();
    warn_of_log_file();
}

static void warn_of_rule(void *context, const struct ns_rule *rule, const char *text)
{
    char name[160];

    WARN("%s: %s: %s", (const char *)context, ns_effect_name(rule, name, sizeof(name)), text);
}

static bool is_for(const struct ns_policy *policy, const struct ns_process *process)
{
    for (size_t i = 0; i < policy->n_rules; i++)
        if (ns_match_process(&policy->rules[i], process))
            return true;
    return false;
}

static void judge_policy(struct ns_policy_found *found, const struct ns_process *process)
{
    char text[PATH_MAX + sizeof(found->where.message) + 32];

    if (!found->policy) {
        WARN("the shim will stand aside, its policy is broken or cannot be read: %s",
             ns_policy_error_text(found, text, sizeof(text)));
        return;
    }
    ns_policy_unused_rules(found->policy, warn_of_rule, found->path);
    if (!found->policy->enabled)
        WARN("%s: \"enabled\" is false: the shim leaves every socket alone", found->path);
    else if (!is_for(found->policy, process))
        WARN("%s: no rule is for this program: the shim leaves every socket alone", found->path);
}

static int is_policy_file(const struct dirent *entry)
{
    return fnmatch("*.json", entry->d_name, FNM_PERIOD) == 0;
}

/* Policies of other programs: nobody hears of a broken one, as the shim says nothing there. */
static void judge_directory(const char *directory, const char *taken)
{
    static struct ns_policy_found found;
    char path[PATH_MAX], text[PATH_MAX + sizeof(found.where.message) + 32];
    struct dirent **entries;
    int n = scandir(directory, &entries, is_policy_file, alphasort);
    unsigned broken = 0;

    for (int i = 0; i < n; i++) {
        int length = snprintf(path, sizeof(path), "%s/%s", directory, entries[i]->d_name);

        free(entries[i]);
        if (length < 0 || (size_t)length >= sizeof(path) || strcmp(path, taken) == 0)
            continue;
        ns_policy_read(path, &found);
        if (found.error == -EINVAL && ++broken <= FILES_MOST)
            WARN("the policy of another program is broken: %s",
                 ns_policy_error_text(&found, text, sizeof(text)));
        ns_policy_free((struct ns_policy *)found.policy);
    }
    if (broken > FILES_MOST)
        WARN("%u more policies in %s are broken; see 'nagleshim check'", broken - FILES_MOST,
             directory);
    if (n >= 0)
        free(entries);
}

void ns_forewarn_of_policy(const struct ns_subject *subject)
{
    static struct ns_policy_found found;
    const struct ns_policy_request request = {
        .policy = getenv("NAGLESHIM_POLICY"),
        .policy_dir = getenv("NAGLESHIM_POLICY_DIR"),
        .argv0 = subject->process.argv0,
        .exe = subject->process.exe,
    };
    const char *directory =
        request.policy_dir && *request.policy_dir ? request.policy_dir : NS_POLICY_DIR_DEFAULT;

    ns_policy_find(&request, &found, NULL, NULL);
    if (found.origin != NS_POLICY_BUILTIN)
        judge_policy(&found, &subject->process);
    if (found.origin == NS_POLICY_BUILTIN || found.origin == NS_POLICY_IN_DIRECTORY)
        judge_directory(directory, found.path);
    if (found.origin != NS_POLICY_BUILTIN)
        ns_policy_free((struct ns_policy *)found.policy);
}
