/* SPDX-License-Identifier: MIT */
/* Owns `nagleshim check`: it reads policies as the shim does and prints what is wrong with them.
 * The errors and warnings are those of policy.h; only the access rights are judged here. Not
 * async-signal-safe. */
#include "cli/cli.h"

#include "cli/output.h"
#include "cli/policy/directory.h"
#include "cli/policy/effect.h"
#include "cli/process/environment.h"
#include "cli/verbs.h"

#include "policy/find.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* One source of a policy, and its errors. */
struct check {
    const struct ns_policy_found *found;
    char name[PATH_MAX]; /* the file, sanitized */
    const char *list;    /* the directories that were searched; NULL: the file was named */
    cJSON *entry;        /* NULL without --json */
    struct ns_policy_error errors[NS_POLICY_ERRORS_MOST];
    unsigned n_errors;
};

static void keep_error(void *context, const struct ns_policy_error *error)
{
    struct check *check = context;

    if (check->n_errors < NS_POLICY_ERRORS_MOST)
        check->errors[check->n_errors++] = *error;
}

/* The reader reports missing keys last; their place is at the beginning. */
static int compare(const void *first, const void *second)
{
    const struct ns_policy_error *a = first, *b = second;

    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    return a->column < b->column ? -1 : a->column > b->column;
}

static cJSON *add_entry(cJSON *to, const char *list)
{
    cJSON *entry = cJSON_CreateObject();

    cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(to, list), entry);
    return entry;
}

/* 0 is null. */
static void add_number(cJSON *entry, const char *name, unsigned number)
{
    cJSON_AddItemToObject(entry, name, number ? cJSON_CreateNumber(number) : cJSON_CreateNull());
}

static void say_warning(void *context, const struct ns_rule *rule, const char *text)
{
    struct check *check = context;
    char name[160] = "";

    if (check->entry) {
        cJSON *entry = add_entry(check->entry, "warnings");

        add_number(entry, "rule", rule ? rule->index + 1 : 0);
        ns_output_text(entry, "name", rule ? rule->name : NULL);
        ns_output_text(entry, "message", text);
        return;
    }
    if (rule)
        ns_effect_name(rule, name, sizeof name);
    fprintf(stderr, "%s: warning: %s%s%s\n", check->name, name, rule ? ": " : "", text);
}

static void say_error(const struct check *check, const struct ns_policy_error *error)
{
    if (check->entry) {
        cJSON *entry = add_entry(check->entry, "errors");

        add_number(entry, "line", error->line);
        add_number(entry, "column", error->line ? error->column : 0);
        ns_output_text(entry, "message", error->message);
    } else if (error->line) {
        fprintf(stderr, "%s:%u:%u: %s\n", check->name, error->line, error->column, error->message);
    } else {
        fprintf(stderr, "%s: %s\n", check->name, error->message);
    }
}

static int say_errors(struct check *check)
{
    const struct ns_policy_found *found = check->found;
    bool is_full = check->n_errors == NS_POLICY_ERRORS_MOST;

    if (check->n_errors == 0)
        say_error(check, &found->where);
    qsort(check->errors, check->n_errors, sizeof check->errors[0], compare);
    for (unsigned i = 0; i < check->n_errors; i++)
        say_error(check, &check->errors[i]);
    if (check->entry)
        cJSON_AddBoolToObject(check->entry, "more", is_full);
    else if (is_full)
        fprintf(stderr, "%s: there may be more errors; only the first %d are printed\n",
                check->name, NS_POLICY_ERRORS_MOST);
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

    snprintf(check->name, sizeof check->name, "%s", found->path[0] ? found->path : "''");
    ns_sanitize(check->name);
    check->entry = entry;
    if (!entry)
        return;
    ns_output_text(entry, "file", found->origin == NS_POLICY_BUILTIN ? NULL : found->path);
    ns_output_text(entry, "origin", origins[found->origin]);
    cJSON_AddBoolToObject(entry, "valid", found->policy != NULL);
    if (found->policy) {
        cJSON_AddNumberToObject(entry, "rules", (double)found->policy->n_rules);
        cJSON_AddBoolToObject(entry, "enabled", found->policy->enabled);
    }
    cJSON_AddArrayToObject(entry, "errors");
    cJSON_AddArrayToObject(entry, "warnings");
}

/* The search takes the first file that it finds, so a file may hide others of the list. */
static void warn_of_hidden(struct check *check)
{
    char why[PATH_MAX + 128], text[sizeof why + 32];

    if (!check->list || !ns_directory_hides(check->list, check->found->path, why, sizeof why))
        return;
    snprintf(text, sizeof text, "no program gets this file: %s", why);
    say_warning(check, NULL, ns_sanitize(text));
}

/* Whoever can write to the file or to its directory controls other users' programs. The sticky bit
 * keeps files from being replaced. */
static void warn_of_writers(struct check *check)
{
    const char *path = check->found->path, *slash = strrchr(path, '/');
    char directory[PATH_MAX], text[64];
    struct stat st;

    if (check->found->origin == NS_POLICY_INLINE || strcmp(path, "-") == 0)
        return;
    if (stat(path, &st) == 0 && (st.st_mode & S_IWOTH)) {
        snprintf(text, sizeof text, "every user can change it (mode %04o)", st.st_mode & 07777);
        say_warning(check, NULL, text);
    }
    snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - path) + 1 : 1,
             slash ? path : ".");
    if (stat(directory, &st) == 0 && (st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX))
        say_warning(check, NULL,
                    "every user can replace it, because all may write to its directory");
}

/* Prints what was found, and frees the policy. Returns the exit status. */
static int report(struct check *check)
{
    const struct ns_policy *policy = check->found->policy;

    begin_entry(check);
    warn_of_hidden(check);
    if (!policy)
        return say_errors(check);
    ns_policy_warnings(policy, say_warning, check);
    warn_of_writers(check);
    ns_output_line("%s: valid, %zu rule%s%s", check->name, policy->n_rules,
                   policy->n_rules == 1 ? "" : "s",
                   policy->enabled ? "" : ", not enabled: every socket is left alone");
    ns_policy_free((struct ns_policy *)policy);
    return NS_EXIT_YES;
}

/* file NULL: the policy that NAGLESHIM_POLICY names. list: the directories in which the file was
 * found; NULL if it was named. */
static int check_file(const char *file, const char *list)
{
    static struct ns_policy_found found;
    static struct check check;
    const struct ns_policy_errors all = {keep_error, &check};
    const struct ns_policy_request request = {.policy = getenv("NAGLESHIM_POLICY"), .all = &all};

    check = (struct check){.found = &found, .list = list};
    if (file)
        ns_policy_read_as(list ? NS_POLICY_IN_DIRECTORY : NS_POLICY_NAMED, file, &found, &all);
    else
        ns_policy_find(&request, &found, NULL, NULL);
    return report(&check);
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

static void say_builtin(const char *list)
{
    const struct ns_rule *rule = &ns_policy_builtin()->rules[0];
    const struct ns_policy_found found = {.origin = NS_POLICY_BUILTIN,
                                          .policy = ns_policy_builtin()};

    begin_entry(&(struct check){.found = &found});
    ns_output_line("no default.json in %s: programs without a file of their own get the built-in "
                   "policy (send %s, ack %s, every TCP socket)",
                   list, ns_send_name(rule->send), ns_ack_name(rule->ack));
}

/* False, after a message, if a directory of the list cannot be read. The search skips a missing
 * directory, so that is only an error for the value of --dir. */
static bool can_read(const char *list, bool is_option)
{
    struct ns_policy_directories directories = ns_policy_directories(list);
    const char *at;
    size_t length;
    bool can = true;

    while (ns_policy_next_directory(&directories, &at, &length)) {
        char path[PATH_MAX];

        snprintf(path, sizeof path, "%.*s", (int)length, at);
        int error = ns_directory_judge(path);
        if (!error || (!is_option && (error == ENOENT || error == ENOTDIR)))
            continue;
        ns_say("check", "%s '%s': %s", is_option ? "--dir" : "the directory", path,
               strerror(error));
        can = false;
    }
    return can;
}

static int check_directories(const char *list, bool all_read)
{
    struct directory directory = {.list = list, .worst = all_read ? NS_EXIT_YES : NS_EXIT_ERROR};

    ns_directory_each(list, check_in_directory, &directory);
    if (!directory.has_default && all_read)
        say_builtin(list);
    return directory.worst;
}

static void warn_of_environment(const char *text)
{
    ns_say("check", "warning: %s", text);
}

/* Every policy that a program could get from this environment. */
static int check_here(void)
{
    const char *named = getenv("NAGLESHIM_POLICY"), *list = ns_environment_policies();
    char off[128];

    if (ns_environment_off(off, sizeof off))
        ns_say("check", "warning: %s", off);
    ns_environment_judge(warn_of_environment);
    if (named && *named)
        return check_file(NULL, NULL);
    return check_directories(list, can_read(list, false));
}

/* --dir */
static int check_named_directories(const char *list)
{
    /* The environment's empty entry is the built-in directory; here it is probably a mistake. */
    if (ns_directory_has_empty(list)) {
        ns_say("check", "--dir needs a directory, not ''%s%s%s", *list ? " as in '" : "", list,
               *list ? "'" : "");
        return NS_EXIT_ERROR;
    }
    return can_read(list, true) ? check_directories(list, true) : NS_EXIT_ERROR;
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
