/* SPDX-License-Identifier: MIT */
/* Owns `nagleshim check`: it reads policies as the library does and prints what is wrong with them.
 * The errors are those of policy.h. Only the names of files are judged here. */
#include "base/path.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/policy/check.h"
#include "cli/program/program.h"
#include "cli/verbs.h"
#include "policy/find.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The file that is checked. */
struct check {
    const char *name;
    cJSON *errors, *warnings; /* of its entry in "files"; NULL in the text form */
    unsigned n_errors;
};

static void say_error(void *context, const struct ns_policy_error *error)
{
    struct check *check = context;
    check->n_errors++;
    if (ns_output_object()) {
        cJSON *entry = ns_output_item(check->errors);
        ns_output_number(entry, "line", error->line);
        ns_output_number(entry, "column", error->line ? error->column : 0);
        ns_output_text(entry, "text", error->message);
    } else if (error->line) {
        ns_print(stderr, "%s:%u:%u: %s\n", check->name, error->line, error->column, error->message);
    } else {
        ns_print(stderr, "%s: %s\n", check->name, error->message);
    }
}

/* rule: NULL if it is about the whole policy. */
static void say_warning(void *context, const struct ns_rule *rule, const char *text)
{
    struct check *check = context;
    if (ns_output_object()) {
        cJSON *entry = ns_output_item(check->warnings);
        ns_output_number(entry, "number", rule ? rule->index + 1 : 0);
        ns_output_text(entry, "name", rule ? rule->name : NULL);
        ns_output_text(entry, "text", text);
    } else {
        ns_print(stderr, "%s: warning: %s%s%s\n", check->name, rule ? ns_rule_title(rule) : "",
                 rule ? ": " : "", text);
    }
}

/* A file of a directory, for programs that are called like it: which rules name others? The name
 * may be that of a link: sh to dash, here or elsewhere python3 to python3.11. */
static void warn_of_others(struct check *check, const struct ns_policy *policy, const char *file)
{
    static struct ns_subject subject;
    size_t length = strlen(file) - strlen(".json");
    char *program = ns_words("%.*s", (int)length, file);
    ns_subject_describe(&subject, program, NULL, 0);
    for (size_t i = 0; i < policy->n_rules && strcmp(program, "default") != 0; i++) {
        const struct ns_rule names = {.process = policy->rules[i].process};
        char **word = policy->rules[i].process;
        while (word && *word && fnmatch(ns_path_base(*word), program, 0) != 0 &&
               strncmp(ns_path_base(*word), program, strnlen(ns_path_base(*word), length)) != 0)
            word++;
        if (word && !*word && !ns_match_process(&names, &subject.process))
            say_warning(
                check, &policy->rules[i],
                ns_words("\"process\" is not %s, the program that reads this file", program));
    }
}

/* Warns of a file of a directory that no program reads, because of its name. */
static void warn_of_name(const char *path, const char *file)
{
    static const char *const rows[][2] = {
        {"!(*.json*)", "only files in .json are read, for example nginx.json"}, /* not .json.old */
        {"*.service.json", "the name is a unit's; did you mean the program's, without .service?"},
        {NS_CHECK_SCRIPT ".json", "a script gets its interpreter's file, such as python3.json"},
        {"[A-Z]*.json", "PATH has no such program; did you mean a name in small letters?"},
    };
    static struct ns_reach reach;
    size_t i = 0, n = sizeof rows / sizeof rows[0];
    while (i < n && fnmatch(rows[i][0], file, FNM_EXTMATCH) != 0)
        i++;
    if (i == n - 1)
        ns_reach_inspect(ns_words("%.*s", (int)strlen(file) - (int)strlen(".json"), file), &reach);
    if (i < n - 1 || (i == n - 1 && reach.program[0] == '\0'))
        ns_say("warning: %s: %s", path, rows[i][1]);
}

/* Add its entry to "files". */
static cJSON *begin(struct check *check, const char *name)
{
    cJSON *entry = ns_output_entry("files");
    check->name = ns_words("%s", name);
    check->errors = cJSON_AddArrayToObject(entry, "errors");
    check->warnings = cJSON_AddArrayToObject(entry, "warnings");
    check->n_errors = 0;
    return entry;
}

static void complete(cJSON *entry, const struct check *check, const struct ns_policy_found *found)
{
    ns_output_text(entry, "file", found->origin == NS_POLICY_BUILTIN ? NULL : found->path);
    cJSON_AddBoolToObject(entry, "valid", found->policy != NULL);
    if (found->policy) {
        cJSON_AddNumberToObject(entry, "n_rules", (double)found->policy->n_rules);
        cJSON_AddBoolToObject(entry, "enabled", found->policy->enabled);
    } else {
        cJSON_AddBoolToObject(entry, "more", check->n_errors >= NS_POLICY_ERRORS_MOST);
    }
}

/* file NULL: the policy that NAGLESHIM_POLICY names. Returns the exit status. */
static int check_file(const char *file, enum ns_policy_origin origin)
{
    static struct ns_policy_found found;
    static struct check check;
    const struct ns_policy_errors all = {say_error, &check};
    const struct ns_policy_request request = {.policy = getenv("NAGLESHIM_POLICY"), .all = &all};
    const char *name = file ? file : request.policy;
    cJSON *entry = begin(&check, name[strspn(name, " \t\r\n")] == '{' && !file ? "NAGLESHIM_POLICY"
                                 : *name                                       ? name
                                                                               : "''");
    if (file)
        ns_policy_read(origin, file, &found, &all);
    else
        ns_policy_find(&request, &found);
    const struct ns_policy *policy = found.policy;
    if (!policy && check.n_errors == 0)
        say_error(&check, &found.where);
    complete(entry, &check, &found);
    if (check.n_errors >= NS_POLICY_ERRORS_MOST && !ns_output_object())
        ns_print(stderr, "%s: there may be more errors; only the first %d are printed\n",
                 check.name, NS_POLICY_ERRORS_MOST);
    if (policy)
        ns_output_line("%s: valid, %s%s", check.name, ns_count(policy->n_rules, "rule"),
                       policy->enabled ? "" : ", not enabled: every socket is left alone");
    if (policy) {
        ns_check_warn(policy, &(struct ns_check_listener){say_warning, &check});
        if (origin == NS_POLICY_IN_DIRECTORY)
            warn_of_others(&check, policy, ns_path_base(file));
        ns_policy_free((struct ns_policy *)policy);
        return NS_EXIT_YES;
    }
    return found.error == -EINVAL ? NS_EXIT_NO : NS_EXIT_ERROR;
}

static void say_builtin(const char *list)
{
    const struct ns_rule *rule = &ns_policy_builtin()->rules[0];
    static struct check check;
    complete(begin(&check, ""), &check, &(struct ns_policy_found){.policy = ns_policy_builtin()});
    ns_output_line("no default.json in %s: programs without a file of their own get the built-in "
                   "policy (send %s, ack %s, every TCP socket)",
                   list, ns_send_name(rule->send), ns_ack_name(rule->ack));
}

static int is_visible(const struct dirent *entry)
{
    bool is_json = fnmatch("*.json", entry->d_name, 0) == 0;
    return entry->d_name[0] != '.' && (is_json || entry->d_type != DT_DIR);
}

/* Checks every policy in directories, sorted by name. A missing directory is only an error if
 * is_option: the library's search skips it. */
static int check_directories(const char *list, bool is_option)
{
    int worst = NS_EXIT_YES, status;
    bool has_default = false, failed = false;
    const char *rest = list, *at;
    size_t length;
    while (ns_policy_next_directory(&rest, &at, &length)) {
        const char *directory = ns_words("%.*s", (int)length, at);
        struct dirent **entries;
        int n = scandir(directory, &entries, is_visible, alphasort);
        if (n < 0 && (is_option || (errno != ENOENT && errno != ENOTDIR))) {
            ns_say("the directory '%s': %s", directory, strerror(errno));
            failed = true;
        }
        for (int i = 0; i < n; i++) {
            const char *path = ns_words("%s/%s", directory, entries[i]->d_name);
            warn_of_name(path, entries[i]->d_name);
            status = NS_EXIT_YES;
            if (fnmatch("*.json", entries[i]->d_name, 0) == 0)
                status = check_file(path, NS_POLICY_IN_DIRECTORY);
            worst = status > worst ? status : worst;
            has_default = has_default || strcmp(entries[i]->d_name, "default.json") == 0;
        }
    }
    if (!has_default && !failed)
        say_builtin(list);
    return failed ? NS_EXIT_ERROR : worst;
}

/* Every policy that a program could get from this environment. */
static int check_here(void)
{
    const char *named = getenv("NAGLESHIM_POLICY"), *list = getenv("NAGLESHIM_POLICY_DIR");
    if (ns_environment_off())
        ns_say("warning: %s", ns_environment_off());
    ns_environment_judge();
    if (named && *named)
        return check_file(NULL, NS_POLICY_NAMED);
    return check_directories(list && *list ? list : NS_POLICY_DIR_DEFAULT, false);
}

int ns_check_main(void)
{
    const char *list = ns_option_text(NS_CHECK_DIR);
    int worst = NS_EXIT_YES;
    if (list && ns_operands.n > 0)
        return NS_FAIL("'%s': a file and --dir cannot be used together", ns_operands.words[0]);
    if (list)
        return check_directories(list, true);
    if (ns_operands.n == 0)
        return check_here();
    for (unsigned i = 0; i < ns_operands.n; i++) {
        int status = check_file(ns_operands.words[i], NS_POLICY_NAMED);
        worst = status > worst ? status : worst;
    }
    return worst;
}
