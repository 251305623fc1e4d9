/* SPDX-License-Identifier: MIT */
/* Owns what `nagleshim doctor PROGRAM` finds about a program that does not run. It must not run it,
 * and must not judge by other means than reach.h, trial.h and the shim's own search for a policy.
 * Not async-signal-safe. */
#include "cli/doctor/doctor.h"

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/policy/effect.h"
#include "cli/process/environment.h"
#include "cli/process/loaded.h"
#include "cli/process/preload.h"
#include "cli/process/subject.h"
#include "cli/process/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SAY(...) ns_say("doctor", __VA_ARGS__)
#define FACT(...) ns_output_fact("facts", __VA_ARGS__)
#define REASON(...) ns_findings_add(&findings, NS_FINDING_REASON, __VA_ARGS__)
#define WARNING(...) ns_findings_add(&findings, NS_FINDING_WARNING, __VA_ARGS__)

static struct ns_findings findings;

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
        SAY("cannot read '%s', which may only be executed: %s", reach->program, strerror(errno));
        return errno == EACCES ? NS_EXIT_DENIED : NS_EXIT_ERROR;
    }
    return NS_EXIT_YES;
}

static void judge_file(const struct ns_reach *reach)
{
    const char *reason = ns_reach_reason(reach->verdict);

    if (reach->is_script)
        FACT("program", "%s, a script for %s", reach->program,
             reach->file[0] ? reach->file : "an unknown interpreter");
    else
        FACT("program", "%s", reach->program);
    ns_doctor_print_loader(reach->loader);
    if (reason && reach->is_script)
        REASON("its interpreter %s %s", reach->file, reason);
    else if (reason)
        REASON("it %s", reason);
    else if (reach->verdict == NS_REACH_UNKNOWN)
        REASON("it cannot run: its interpreter %s is missing", reach->file);
    else if (reach->loader[0] && access(reach->loader, F_OK) != 0)
        REASON("it cannot run: its loader %s is missing", reach->loader);
}

/* Would the library in this file load into the program? */
static void judge_loading(const struct ns_reach *reach, const char *library)
{
    char reason[512];

    if (ns_elf_path_is_unfit(library, reason, sizeof reason)) {
        REASON("the library would not load: %s %s; install it again", library, reason);
        return;
    }
    if (reach->verdict != NS_REACH_YES)
        return;
    switch (ns_trial_load(reach->loader, reach->file, library, reason, sizeof reason)) {
    case NS_TRIAL_LOADED:
        FACT("trial", "the program's loader accepts the library");
        break;
    case NS_TRIAL_REFUSED:
        REASON("the library would not load: the loader says of %s: %s", library, reason);
        break;
    case NS_TRIAL_UNTRIED:
        FACT("trial", "not possible: %s", reason);
        break;
    }
}

/* The path of the library in this command's own memory: where the loader found a name without a
 * slash. False if it is not there. */
static bool find_here(char path[PATH_MAX])
{
    static struct ns_loaded loaded;
    struct ns_proc proc;

    if (ns_proc_open(getpid(), &proc) != 0)
        return false;
    bool found = ns_loaded_find(&proc, &loaded) == 0 && loaded.state != NS_LOADED_NO;
    ns_proc_close(&proc);
    snprintf(path, PATH_MAX, "%s", loaded.path);
    return found;
}

/* source, which is LD_PRELOAD or the name of a file, names the library by entry. */
static void judge_entry(const struct ns_reach *reach, char entry[PATH_MAX], const char *source)
{
    if (!strchr(entry, '/') && !find_here(entry)) {
        REASON("%s names " NS_LIBRARY_NAME " without a path, and the loader does not find it; "
               "write its absolute path",
               source);
        return;
    }
    FACT("library", "%s, from %s", entry, source);
    judge_loading(reach, entry);
}

/* The library that belongs to this command, if no other is preloaded here. */
static void judge_own_library(const struct ns_reach *reach)
{
    char path[PATH_MAX];
    int error = ns_preload_locate(path);

    FACT("LD_PRELOAD", "does not name the library here; 'nagleshim run' adds it");
    if (error == -EINVAL)
        REASON("the library's path has a space, a colon or a dollar sign, which LD_PRELOAD cannot "
               "have");
    else if (error)
        REASON(NS_LIBRARY_NAME " is not beside this command, in ../lib or in " NS_LIBDIR);
    else
        FACT("library", "%s", path);
    if (!error)
        judge_loading(reach, path);
}

/* Is the library preloaded here? It is if it is named, whether or not it loads. */
static bool judge_library(const struct ns_reach *reach)
{
    const char *list = getenv("LD_PRELOAD"), *libc = ns_reach_libc(reach->loader), *source = NULL;
    char entry[PATH_MAX], off[128];

    if (list && ns_preload_find(list, entry))
        source = "LD_PRELOAD";
    else if (libc && strcmp(libc, "glibc") == 0 &&
             ns_doctor_read_preload_file(open(NS_DOCTOR_PRELOAD_FILE, O_RDONLY | O_CLOEXEC), entry))
        source = NS_DOCTOR_PRELOAD_FILE;
    if (source)
        judge_entry(reach, entry, source);
    else
        judge_own_library(reach);
    if (ns_environment_off(off, sizeof off))
        REASON("%s", off);
    return source != NULL;
}

static void add_warning(const char *text)
{
    WARNING("%s", text);
}

static void judge_rules(const struct ns_policy *policy, const struct ns_process *process)
{
    unsigned n = 0;
    char name[160];

    for (size_t i = 0; policy->enabled && i < policy->n_rules; i++) {
        const struct ns_rule *rule = &policy->rules[i];

        if (!ns_match_process(rule, process))
            continue;
        n++;
        FACT(ns_effect_name(rule, name, sizeof name), "send %s, ack %s", ns_send_name(rule->send),
             ns_ack_name(rule->ack));
    }
    if (!policy->enabled)
        REASON("its policy says \"enabled\": false");
    else if (n == 0)
        REASON("no rule of its policy matches this program");
}

static void judge_policy(const struct ns_subject *subject)
{
    static struct ns_policy_found found;

    if (ns_subject_find_policy(subject, "doctor", NULL, &found))
        judge_rules(found.policy, &subject->process);
    else
        REASON("its policy is broken or cannot be read");
    if (found.origin != NS_POLICY_BUILTIN)
        ns_policy_free((struct ns_policy *)found.policy);
}

int ns_doctor_program(char **words, unsigned n)
{
    static struct ns_subject subject;

    ns_output_expect("tried");
    ns_subject_describe(&subject, words[0], words + 1, n - 1);
    int status = find_program(words[0], &subject.reach);
    if (status != NS_EXIT_YES)
        return status;
    judge_file(&subject.reach);
    bool is_preloaded = judge_library(&subject.reach);
    ns_environment_judge(add_warning);
    judge_policy(&subject);
    ns_findings_print(&findings);
    if (ns_output_is_json())
        cJSON_AddBoolToObject(ns_output_object(), "preloaded", is_preloaded);
    if (ns_findings_verdict(&findings)) {
        ns_findings_conclude("no", "the shim would do nothing for this program");
        return NS_EXIT_NO;
    }
    ns_findings_conclude("yes", "%s",
                         is_preloaded ? "the shim reaches this program"
                                      : "the shim can reach this program; it is not preloaded here "
                                        "('nagleshim run' does it)");
    return NS_EXIT_YES;
}
