/* SPDX-License-Identifier: MIT */
/* Owns what `nagleshim doctor PROGRAM` finds about a program that does not run. It must not run it,
 * and must not judge by other means than cli/program and the library's own search for a policy. */
#include "cli/doctor/doctor.h"

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/program/program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REASON(...) ns_findings_add(&findings, NS_FINDING_REASON, NULL, ns_words(__VA_ARGS__))

static struct ns_findings findings;
static bool has_sockets = true; /* as far as can be seen */

/* NS_EXIT_YES if there is a program to judge. */
static int find_program(const char *word, const struct ns_reach *reach)
{
    struct stat st;
    if (reach->program[0] == '\0') {
        int error = strchr(word, '/') && stat(word, &st) != 0 ? errno : ENOENT;
        if (strchr(word, '/') || *word == '\0')
            ns_say("'%s': %s", word, strerror(error));
        else
            ns_program_say_not_found(word);
        return error == EACCES ? NS_EXIT_DENIED : NS_EXIT_ERROR;
    }
    if (!ns_subject_is_program(reach, false))
        return NS_EXIT_ERROR;
    if (reach->verdict == NS_REACH_UNKNOWN && access(reach->program, R_OK) != 0) {
        ns_say("cannot read '%s', which may only be executed: %s", reach->program, strerror(errno));
        return errno == EACCES ? NS_EXIT_DENIED : NS_EXIT_ERROR;
    }
    return NS_EXIT_YES;
}

static void judge_file(const struct ns_reach *reach)
{
    const char *reason = ns_reach_reason(reach->verdict);
    if (reach->is_script)
        ns_output_fact("program", "%s, a script for %s", reach->program,
                       reach->file[0] ? reach->file : "an unknown interpreter");
    else
        ns_output_fact("program", "%s", reach->program);
    ns_findings_print_loader(reach->loader);
    if (reason && reach->is_script)
        REASON("its interpreter %s %s", reach->file, reason);
    else if (reason)
        REASON("it %s", reason);
    else if (reach->verdict == NS_REACH_UNKNOWN)
        REASON("it cannot run: its interpreter %s is missing", reach->file);
    else if (reach->loader[0] && access(reach->loader, F_OK) != 0)
        REASON("it cannot run: its loader %s is missing", reach->loader);
}

/* Does the program or a library that it loads at its start call libc for sockets? */
static bool makes_sockets(const char *program, const char *library)
{
    const char *place = NULL;
    char path[PATH_MAX];
    bool found = ns_elf_path_makes_sockets(program);
    while (!found && ns_trial_next_file(&place, library, path))
        found = ns_elf_path_makes_sockets(path);
    return found;
}

/* Would the program's loader load the library? */
static void judge_loading(const struct ns_reach *reach, const char *library, bool is_preloaded)
{
    const char *reason;
    if (reach->verdict != NS_REACH_YES)
        return;
    switch (ns_trial_load(reach->loader, reach->file, library, is_preloaded, &reason)) {
    case NS_TRIAL_LOADED:
        ns_output_fact("trial", "the program's loader accepts the library");
        has_sockets = makes_sockets(reach->file, library);
        break;
    case NS_TRIAL_REFUSED:
        REASON("the library would not load: the loader says of %s: %s", library, reason);
        break;
    case NS_TRIAL_UNTRIED:
        ns_output_fact("trial", "not possible: %s", reason);
        break;
    }
}

/* Is the library preloaded here? It is if it is named, whether or not it loads. */
static bool judge_library(const struct ns_reach *reach)
{
    const char *list = getenv("LD_PRELOAD"), *libc = ns_reach_libc(reach->loader), *source = NULL;
    const char *missing = NULL;
    char library[PATH_MAX];
    if (list && ns_preload_find(list, library))
        source = "LD_PRELOAD";
    else if (libc && strcmp(libc, "glibc") == 0 &&
             ns_preload_find_in_file(NS_PRELOAD_FILE, library))
        source = NS_PRELOAD_FILE;
    else
        ns_output_fact("LD_PRELOAD", "does not name the library here; 'nagleshim run' adds it");
    if (!source)
        missing = ns_preload_locate(NS_LIBRARY_NAME, reach->narrow, library);
    if (missing) {
        REASON("%s", missing);
    } else {
        ns_output_fact("library", "%s%s%s", library, source ? ", from " : "", source ? source : "");
        judge_loading(reach, library, source);
    }
    if (ns_environment_off())
        REASON("%s", ns_environment_off());
    return source;
}

static void judge_rules(const struct ns_policy *policy, const struct ns_process *process)
{
    unsigned n = 0;
    for (size_t i = 0; policy->enabled && i < policy->n_rules; i++) {
        const struct ns_rule *rule = &policy->rules[i];
        if (!ns_match_process(rule, process))
            continue;
        n++;
        ns_output_fact(ns_rule_title(rule), "send %s, ack %s", ns_send_name(rule->send),
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
    if (ns_subject_find_policy(subject, NULL, &found))
        judge_rules(found.policy, &subject->process);
    else
        REASON("its policy is broken or cannot be read");
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
    judge_policy(&subject);
    ns_environment_judge(true);
    ns_findings_print(&findings);
    cJSON_AddBoolToObject(ns_output_object(), "preloaded", is_preloaded);
    if (ns_findings_verdict(&findings))
        return ns_findings_conclude("no", "the library would do nothing for this program");
    return ns_findings_conclude(
        "yes",
        !has_sockets
            ? "the library can be loaded; nothing in the program calls libc's socket, connect or "
              "accept: it may load a library or start a program that does, or make its own system "
              "calls, which only 'nagleshim cure' and the other end reach"
        : is_preloaded ? "the library reaches this program"
                       : "the library can reach this program; it is not preloaded here "
                         "('nagleshim run' does it)");
}
