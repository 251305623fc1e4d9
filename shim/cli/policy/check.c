/* SPDX-License-Identifier: MIT */
/* Owns `nagleshim check`: it reads policies as the shim does and says what is wrong with them. It
 * must have no opinion of its own: errors and warnings are those of policy.h. Not
 * async-signal-safe. */
#include "cli/cli.h"

#include "cli/policy/directory.h"
#include "cli/process/effect.h"
#include "cli/process/environment.h"
#include "cli/output.h"
#include "cli/process/proc.h"
#include "cli/verbs.h"

#include "policy/find.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* What is being checked: the mistakes of one source, and where they go. */
struct check {
    const struct ns_policy_found *found;
    char name[PATH_MAX]; /* of the file, as a terminal may have it */
    const char *list;    /* the directories that it is in one of; NULL: it was named */
    cJSON *entry;        /* NULL: text */
    struct ns_policy_error errors[NS_POLICY_ERRORS_MOST];
    unsigned n_errors;
};

static void keep_error(void *context, const struct ns_policy_error *error)
{
    struct check *check = context;

    if (check->n_errors < NS_POLICY_ERRORS_MOST)
        check->errors[check->n_errors++] = *error;
}

/* The reader tells last what is missing; its place is at the beginning. */
static int compare(const void *first, const void *second)
{
    const struct ns_policy_error *a = first, *b = second;

    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    return a->column < b->column ? -1 : a->column > b->column;
}

static cJSON *add_entry(cJSON *to, const char *list)
{
    cJSON *entry = to ? cJSON_CreateObject() : NULL;

    if (entry)
        cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(to, list), entry);
    return entry;
}

static void tell_warning(struct check *check, const struct ns_rule *rule, const char *text)
{
    cJSON *entry = add_entry(check->entry, "warnings");
    char name[160] = "";

    if (entry && rule)
        cJSON_AddNumberToObject(entry, "rule", rule->index + 1);
    else if (entry)
        cJSON_AddNullToObject(entry, "rule");
    ns_output_text(entry, "name", rule ? rule->name : NULL);
    ns_output_text(entry, "message", text);
    if (check->entry)
        return;
    if (rule) {
        ns_effect_name(rule, name, sizeof(name) - 2);
        strcat(name, ": ");
    }
    fprintf(stderr, "%s: warning: %s%s\n", check->name, name, text);
}

static void warn(void *context, const struct ns_rule *rule, const char *text)
{
    tell_warning(context, rule, text);
}

static void warn_of_environment(void *context, const char *text)
{
    (void)context;
    ns_say("check", "warning: %s", text);
}

/* Whoever can write to the file or to its directory decides what the programs of others do. The
 * sticky bit keeps files from being replaced. */
static void warn_of_writers(struct check *check)
{
    char directory[PATH_MAX], text[64];
    struct stat st;
    const char *slash = strrchr(check->found->path, '/');

    if (stat(check->found->path, &st) == 0 && (st.st_mode & S_IWOTH)) {
        snprintf(text, sizeof text, "every user can change it (mode %04o)", st.st_mode & 07777);
        tell_warning(check, NULL, text);
    }
    snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - check->found->path) + 1 : 1,
             slash ? check->found->path : ".");
    if (stat(directory, &st) == 0 && (st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX))
        tell_warning(check, NULL, "every user can replace it: its directory is writable for all");
}

static void tell_error(const struct check *check, const struct ns_policy_error *error)
{
    cJSON *entry = add_entry(check->entry, "errors");

    if (entry && error->line) {
        cJSON_AddNumberToObject(entry, "line", error->line);
        cJSON_AddNumberToObject(entry, "column", error->column);
    } else if (entry) {
        cJSON_AddNullToObject(entry, "line");
        cJSON_AddNullToObject(entry, "column");
    }
    ns_output_text(entry, "message", error->message);
    if (check->entry)
        return;
    if (error->line)
        fprintf(stderr, "%s:%u:%u: %s\n", check->name, error->line, error->column, error->message);
    else
        fprintf(stderr, "%s: %s\n", check->name, error->message);
}

static int tell_errors(struct check *check)
{
    const struct ns_policy_found *found = check->found;
    bool is_full = check->n_errors == NS_POLICY_ERRORS_MOST;

    if (check->n_errors == 0)
        tell_error(check, &found->where);
    qsort(check->errors, check->n_errors, sizeof(check->errors[0]), compare);
    for (unsigned i = 0; i < check->n_errors; i++)
        tell_error(check, &check->errors[i]);
    if (check->entry)
        cJSON_AddBoolToObject(check->entry, "more", is_full);
    else if (is_full)
        fprintf(stderr, "%s: there may be more mistakes; the first %d are told\n", check->name,
                NS_POLICY_ERRORS_MOST);
    return found->error == -EINVAL ? NS_EXIT_NO : NS_EXIT_ERROR;
}

static void begin_entry(struct check *check)
{
    static const char *const origins[] = {
        [NS_POLICY_BUILTIN] = "built-in",
        [NS_POLICY_INLINE] = "environment",
        [NS_POLICY_NAMED] = "file",
        [NS_POLICY_IN_DIRECTORY] = "directory",
    };
    const struct ns_policy_found *found = check->found;
    cJSON *entry = ns_output_entry("files");

    snprintf(check->name, sizeof(check->name), "%s", found->path[0] ? found->path : "''");
    ns_sanitize(check->name);
    check->entry = entry;
    ns_output_text(entry, "file", found->origin == NS_POLICY_BUILTIN ? NULL : found->path);
    ns_output_text(entry, "origin", origins[found->origin]);
    if (!entry)
        return;
    cJSON_AddBoolToObject(entry, "valid", found->policy != NULL);
    if (found->policy) {
        cJSON_AddNumberToObject(entry, "rules", (double)found->policy->n_rules);
        cJSON_AddBoolToObject(entry, "enabled", found->policy->enabled);
    }
    cJSON_AddArrayToObject(entry, "errors");
    cJSON_AddArrayToObject(entry, "warnings");
}

/* In a list of directories the first file that is there counts. */
static void warn_of_hidden(struct check *check)
{
    char why[PATH_MAX + 128], text[sizeof(why) + 32];

    if (!check->list || !ns_directory_hides(check->list, check->found->path, why, sizeof(why)))
        return;
    snprintf(text, sizeof(text), "no program gets it: %s", why);
    tell_warning(check, NULL, ns_sanitize(text));
}

static int report(struct check *check)
{
    const struct ns_policy_found *found = check->found;
    const struct ns_policy *policy = found->policy;

    begin_entry(check);
    warn_of_hidden(check);
    if (!policy)
        return tell_errors(check);
    ns_policy_warnings(policy, warn, check);
    if (found->origin != NS_POLICY_INLINE && strcmp(found->path, "-") != 0)
        warn_of_writers(check);
    ns_output_line("%s: valid, %zu rule%s%s", check->name, policy->n_rules,
                   policy->n_rules == 1 ? "" : "s",
                   policy->enabled ? "" : ", not enabled: every socket is left alone");
    return NS_EXIT_YES;
}

/* list: the directories in one of which it was found; NULL if it was named. */
static int check_file(const char *file, const char *list)
{
    static struct ns_policy_found found;
    static struct check check;
    const struct ns_policy_errors all = {keep_error, &check};
    int status;

    check = (struct check){.found = &found, .list = list};
    ns_policy_read_as(list ? NS_POLICY_IN_DIRECTORY : NS_POLICY_NAMED, file, &found, &all);
    status = report(&check);
    ns_policy_free((struct ns_policy *)found.policy);
    return status;
}

/* The policy that NAGLESHIM_POLICY names, which is every program's. */
static int check_named(void)
{
    static struct ns_policy_found found;
    static struct check check = {.found = &found};
    const struct ns_policy_errors all = {keep_error, &check};
    const struct ns_policy_request request = {.policy = getenv("NAGLESHIM_POLICY"), .all = &all};
    int status;

    ns_policy_find(&request, &found, NULL, NULL);
    status = report(&check);
    ns_policy_free((struct ns_policy *)found.policy);
    return status;
}

struct directory {
    const char *list;
    int worst;
    bool has_default;
};

static void check_in_directory(void *context, const char *path)
{
    struct directory *directory = context;
    int status = check_file(path, directory->list);

    directory->worst = status > directory->worst ? status : directory->worst;
    directory->has_default |= strcmp(strrchr(path, '/'), "/default.json") == 0;
}

static void say_builtin(const char *directory)
{
    static struct ns_policy_found found = {.origin = NS_POLICY_BUILTIN};
    struct check check = {.found = &found};
    const struct ns_rule *rule = &ns_policy_builtin()->rules[0];

    found.policy = ns_policy_builtin();
    begin_entry(&check);
    ns_output_line("no default.json in %s: programs without a file of their own get the built-in "
                   "policy (send %s, ack %s, every TCP socket)",
                   directory, ns_send_name(rule->send), ns_ack_name(rule->ack));
}

/* Says which directories of the list cannot be looked into. Of those that the environment names one
 * may well be missing: the search passes it over. */
static bool can_look(const char *list, bool is_option)
{
    struct ns_policy_directories directories = ns_policy_directories(list);
    const char *at;
    size_t length;
    bool can = true;

    while (ns_policy_next_directory(&directories, &at, &length)) {
        char path[PATH_MAX];
        int error;

        snprintf(path, sizeof(path), "%.*s", (int)length, at);
        error = ns_directory_judge(path);
        if (!error || (!is_option && (error == ENOENT || error == ENOTDIR)))
            continue;
        ns_say("check", "%s '%s': %s", is_option ? "--dir" : "the directory", path,
               strerror(error));
        can = false;
    }
    return can;
}

static int check_directories(const char *list, bool all_seen)
{
    struct directory directory = {.list = list, .worst = all_seen ? NS_EXIT_YES : NS_EXIT_ERROR};

    ns_directory_each(list, check_in_directory, &directory);
    if (!directory.has_default && all_seen)
        say_builtin(list);
    return directory.worst;
}

/* Every policy that a program could get from this environment. */
static int check_here(void)
{
    const char *named = getenv("NAGLESHIM_POLICY"), *list = ns_environment_policies();
    char off[128];

    if (ns_environment_off(off, sizeof(off)))
        ns_say("check", "warning: %s", off);
    ns_environment_judge(false, warn_of_environment, NULL);
    if (named && *named)
        return check_named();
    return check_directories(list, can_look(list, false));
}

/* The directories that the command line names, which were meant to be there. */
static int check_named_directories(const char *list)
{
    /* In the environment it would be the built-in directory; here somebody's variable was empty. */
    if (ns_directory_has_empty(list)) {
        ns_say("check", "--dir needs a directory, not ''%s%s%s", *list ? " as in '" : "", list,
               *list ? "'" : "");
        return NS_EXIT_ERROR;
    }
    return can_look(list, true) ? check_directories(list, true) : NS_EXIT_ERROR;
}

int ns_check_main(int argc, char **argv)
{
    int option, worst = NS_EXIT_YES;
    const char *list = NULL;

    ns_output_expect("files");
    while ((option = ns_verbs_next_option("check", argc, argv)) != -1) {
        if (option == NS_CHECK_HELP) {
            ns_help_print("check");
            return NS_EXIT_YES;
        }
        if (option == NS_CHECK_DIR)
            list = optarg;
        if (option == NS_CHECK_JSON || option == NS_CHECK_DIR)
            continue;
        ns_say_option("check", argv, option);
        return NS_EXIT_ERROR;
    }
    if (list && optind < argc) {
        ns_say("check", "'%s': a file and --dir cannot be used together", argv[optind]);
        return NS_EXIT_ERROR;
    }
    if (list)
        return check_named_directories(list);
    if (optind >= argc)
        return check_here();
    for (int i = optind; i < argc; i++) {
        int status = check_file(argv[i], NULL);

        worst = status > worst ? status : worst;
    }
    return worst;
}
