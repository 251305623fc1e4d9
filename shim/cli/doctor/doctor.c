/* SPDX-License-Identifier: MIT */
/* Owns the command line of `nagleshim doctor`, and what it says of a program that does not run. It
 * must not run it, nor judge by other means than reach.h and the shim's own search. Not
 * async-signal-safe. */
#include "cli/doctor/doctor.h"

#include "cli/cli.h"
#include "cli/process/effect.h"
#include "cli/process/environment.h"
#include "cli/process/preload.h"
#include "cli/output.h"
#include "cli/process/subject.h"
#include "cli/process/trial.h"
#include "cli/process/trust.h"
#include "cli/verbs.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SAY(...) ns_say("doctor", __VA_ARGS__)
#define FACT(...) ns_output_fact("facts", __VA_ARGS__)

/* NS_EXIT_YES if there is a program to judge. */
static int find_program(const char *word, const struct ns_reach *reach)
{
    struct stat st;

    if (reach->program[0] == '\0') {
        int error = strchr(word, '/') && stat(word, &st) != 0 ? errno : ENOENT;

        if (strchr(word, '/') || *word == '\0')
            SAY("'%s': %s", word, strerror(error));
        else
            SAY("cannot find '%s' in PATH", word);
        return error == EACCES ? NS_EXIT_DENIED : NS_EXIT_ERROR;
    }
    if (!ns_subject_is_program(reach, "doctor", false))
        return NS_EXIT_ERROR;
    if (reach->verdict == NS_REACH_UNKNOWN && access(reach->program, R_OK) != 0) {
        SAY("'%s' may be run but not read, so that nothing can be told: %s", reach->program,
            strerror(errno));
        return errno == EACCES ? NS_EXIT_DENIED : NS_EXIT_ERROR;
    }
    return NS_EXIT_YES;
}

static void add_warning(void *context, const char *text)
{
    ns_findings_warning(context, "%s", text);
}

static void judge_file(const struct ns_reach *reach, struct ns_findings *findings)
{
    const char *reason = ns_reach_reason(reach->verdict);
    const char *libc = ns_reach_libc(reach->loader);

    if (reach->is_script)
        FACT("program", "%s, a script that %s runs", reach->program,
             reach->file[0] ? reach->file : "nobody");
    else
        FACT("program", "%s", reach->program);
    if (reach->loader[0])
        FACT("loader", "%s%s%s%s", reach->loader, libc ? " (" : "", libc ? libc : "",
             libc ? ")" : "");
    if (reason && reach->is_script)
        ns_findings_reason(findings, "its interpreter %s %s", reach->file, reason);
    else if (reason)
        ns_findings_reason(findings, "it %s", reason);
    else if (reach->verdict == NS_REACH_UNKNOWN)
        ns_findings_reason(findings, "it cannot run: its interpreter %s is missing", reach->file);
    else if (reach->loader[0] && access(reach->loader, F_OK) != 0)
        ns_findings_reason(findings, "it cannot run: its loader %s is missing", reach->loader);
    if (reach->is_bun)
        ns_findings_warning(findings, "%s %s", reach->is_script ? reach->file : "it", NS_REACH_BUN);
}

/* Does the library in this file load, as far as its bytes tell, and where the program's loader
 * tries it? */
static void judge_loading(const struct ns_reach *reach, const char *library,
                          struct ns_findings *findings)
{
    char reason[512];

    if (ns_elf_path_is_unfit(library, reason, sizeof(reason))) {
        ns_findings_reason(findings, "the library would not load: %s %s; install it again", library,
                           reason);
        return;
    }
    if (reach->verdict != NS_REACH_YES)
        return;
    switch (ns_trial_load(reach->loader, reach->file, library, reason, sizeof(reason))) {
    case NS_TRIAL_LOADED:
        FACT("trial", "the loader takes the library for this program");
        break;
    case NS_TRIAL_REFUSED:
        ns_findings_reason(findings, "the library would not load: the loader says of %s: %s",
                           library, reason);
        break;
    case NS_TRIAL_UNTRIED:
        FACT("trial", "none: %s", reason);
        break;
    }
}

/* The library that belongs to this command, if LD_PRELOAD names no other. */
static bool find_library(char path[PATH_MAX], struct ns_findings *findings)
{
    int error = ns_preload_locate(path);

    if (error == -ENOENT)
        ns_findings_reason(findings, NS_LIBRARY_NAME
                           " is neither beside this command, nor in ../lib, nor in " NS_LIBDIR);
    else
        FACT("library", "%s", path);
    if (error == -EINVAL)
        ns_findings_reason(findings,
                           "the library's path has a space, a colon or a dollar sign, which "
                           "LD_PRELOAD cannot have");
    return error == 0;
}

/* What an entry of LD_PRELOAD, or of the file that source names, stands for. Adds a reason if the
 * loader does not find it. */
static void judge_entry(const struct ns_reach *reach, const char *entry, const char *source,
                        struct ns_findings *findings)
{
    char own[PATH_MAX] = "/.../" NS_LIBRARY_NAME, path[PATH_MAX], reason[512];

    if (strchr(entry, '/') && access(entry, R_OK) == 0) {
        FACT("library", "%s, which %s names here", entry, source);
        judge_loading(reach, entry, findings);
        return;
    }
    if (strchr(entry, '/')) {
        ns_findings_reason(findings, "%s names %s: %s", source, entry, strerror(errno));
        return;
    }
    if (reach->verdict != NS_REACH_YES)
        return;
    switch (ns_trial_find(reach->loader, reach->file, entry, path, reason, sizeof(reason))) {
    case NS_TRIAL_LOADED:
        FACT("library", "%s, which the loader finds by the name in %s here", path, source);
        judge_loading(reach, path, findings);
        break;
    case NS_TRIAL_REFUSED:
        ns_preload_locate(own);
        ns_findings_reason(findings,
                           "%s names %s, which the loader does not find; write its absolute path: "
                           "LD_PRELOAD=%s",
                           source, entry, own);
        break;
    case NS_TRIAL_UNTRIED:
        ns_findings_warning(findings,
                            "%s names %s, and whether the loader finds it cannot be told: %s",
                            source, entry, reason);
        break;
    }
}

/* The file of names that glibc's loader preloads into every program. */
#define PRELOAD_FILE "/etc/ld.so.preload"

static bool find_in_preload_file(const char *libc, char entry[PATH_MAX])
{
    char text[4096];
    FILE *stream = libc && strcmp(libc, "glibc") == 0 ? fopen(PRELOAD_FILE, "re") : NULL;
    size_t n;

    if (!stream)
        return false;
    n = fread(text, 1, sizeof(text) - 1, stream);
    fclose(stream);
    text[n] = '\0';
    return ns_preload_find_in_file(text, entry);
}

/* Returns whether the library is preloaded here: named, though perhaps in vain. */
static bool judge_library(const struct ns_reach *reach, struct ns_findings *findings)
{
    const char *list = getenv("LD_PRELOAD");
    char path[PATH_MAX], entry[PATH_MAX], off[128];
    bool is_named = list && ns_preload_find(list, entry);
    bool is_in_file = !is_named && find_in_preload_file(ns_reach_libc(reach->loader), entry);

    if (is_named || is_in_file) {
        judge_entry(reach, entry, is_named ? "LD_PRELOAD" : PRELOAD_FILE, findings);
    } else {
        FACT("LD_PRELOAD", "does not name the library here; 'nagleshim run' adds it");
        if (find_library(path, findings))
            judge_loading(reach, path, findings);
    }
    if (ns_environment_off(off, sizeof(off)))
        ns_findings_reason(findings, "%s", off);
    return is_named || is_in_file;
}

static void warn_distrust(void *context, const char *text)
{
    void *const *both = context;

    ns_findings_warning(both[0], "%s %s", (const char *)both[1], text);
}

static void print_rules(const struct ns_policy *policy, const struct ns_process *process,
                        struct ns_findings *findings)
{
    unsigned n = 0;
    char name[160];

    for (size_t i = 0; policy->enabled && i < policy->n_rules; i++) {
        const struct ns_rule *rule = &policy->rules[i];

        if (!ns_match_process(rule, process))
            continue;
        n++;
        FACT(ns_effect_name(rule, name, sizeof(name)), "send %s, ack %s", ns_send_name(rule->send),
             ns_ack_name(rule->ack));
    }
    if (!policy->enabled)
        ns_findings_reason(findings, "its policy says \"enabled\": false");
    else if (n == 0)
        ns_findings_reason(findings, "no rule of its policy is for this program");
}

static void judge_policy(const struct ns_subject *subject, struct ns_findings *findings)
{
    static struct ns_policy_found found;
    void *both[] = {findings, found.path};

    if (!ns_subject_find_policy(subject, "doctor", NULL, &found))
        ns_findings_reason(findings, "its policy is broken or cannot be read");
    else
        print_rules(found.policy, &subject->process, findings);
    if (found.origin == NS_POLICY_NAMED || found.origin == NS_POLICY_IN_DIRECTORY)
        ns_trust_judge_path(found.path, geteuid(), warn_distrust, both);
    if (found.origin != NS_POLICY_BUILTIN)
        ns_policy_free((struct ns_policy *)found.policy);
}

int ns_doctor_program(char **words, unsigned n)
{
    static struct ns_subject subject;
    static struct ns_findings findings;
    bool is_preloaded;
    int status;

    ns_subject_describe(&subject, words[0], words + 1, n - 1);
    status = find_program(words[0], &subject.reach);
    if (status != NS_EXIT_YES)
        return status;
    judge_file(&subject.reach, &findings);
    is_preloaded = judge_library(&subject.reach, &findings);
    ns_environment_judge(false, add_warning, &findings);
    judge_policy(&subject, &findings);
    ns_findings_print(&findings);
    if (ns_output_is_json())
        cJSON_AddBoolToObject(ns_output_object(), "preloaded", is_preloaded);
    if (ns_findings_have_reason(&findings)) {
        ns_findings_conclude("no", "the shim would do nothing for this program");
        return NS_EXIT_NO;
    }
    if (is_preloaded)
        ns_findings_conclude("yes", "the shim reaches this program");
    else
        ns_findings_conclude("yes", "the shim can reach this program; it is not preloaded here "
                                    "('nagleshim run' does it)");
    return NS_EXIT_YES;
}

struct wish {
    pid_t pid;
    bool all, every, help;
};

static int parse(int argc, char **argv, struct wish *wish)
{
    int option;

    while ((option = ns_verbs_next_option("doctor", argc, argv)) != -1) {
        switch (option) {
        case NS_DOCTOR_HELP:
            wish->help = true;
            return NS_EXIT_YES;
        case NS_DOCTOR_JSON:
            break;
        case NS_DOCTOR_ALL:
            wish->all = true;
            break;
        case NS_DOCTOR_EVERY:
            wish->every = true;
            break;
        case NS_DOCTOR_PID:
            if (!ns_take_pid("doctor", &wish->pid))
                return NS_EXIT_ERROR;
            break;
        default:
            ns_say_option("doctor", argv, option);
            return NS_EXIT_ERROR;
        }
    }
    return NS_EXIT_YES;
}

/* A program, one process or all: one of them. */
static bool is_clear(int argc, char **argv, const struct wish *wish)
{
    const char *other = wish->all ? "--all" : "--pid";

    if ((wish->pid || wish->all) && optind < argc)
        SAY("'%s': a program and %s cannot be used together", argv[optind], other);
    else if (wish->pid && wish->all)
        SAY("--pid and --all cannot be used together");
    else if (wish->every && !wish->all)
        SAY("--every is for --all alone");
    else if (!wish->pid && !wish->all && optind >= argc)
        SAY("no program is named, and no --pid or --all; see 'nagleshim doctor --help'");
    else
        return true;
    return false;
}

int ns_doctor_main(int argc, char **argv)
{
    struct wish wish = {0};
    int status;

    ns_output_expect("facts");
    status = parse(argc, argv, &wish);
    if (wish.help) {
        ns_help_print("doctor");
        return NS_EXIT_YES;
    }
    if (!wish.all)
        ns_output_expect("tried");
    if (status != NS_EXIT_YES)
        return status;
    if (!is_clear(argc, argv, &wish))
        return NS_EXIT_ERROR;
    if (wish.all)
        return ns_doctor_all(wish.every);
    if (wish.pid)
        return ns_doctor_process(wish.pid);
    return ns_doctor_program(argv + optind, (unsigned)(argc - optind));
}
