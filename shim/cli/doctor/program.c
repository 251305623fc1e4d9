/* SPDX-License-Identifier: MIT */
/* Owns what `nagleshim doctor PROGRAM` and `explain PROGRAM` find about a program that does not
 * run. It must not run it, and must not judge by other means than cli/program and the library's own
 * search for a policy. */
#include "cli/doctor/doctor.h"

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/program/program.h"
#include "cli/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REASON(...) ns_findings_add(&findings, NS_FINDING_REASON, NULL, ns_words(__VA_ARGS__))

static struct ns_findings findings;
static bool has_sockets = true; /* as far as can be seen */
static bool is_preloaded;       /* the library is named here */

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
    if (stat(reach->program, &st) == 0 && !S_ISREG(st.st_mode))
        return NS_FAIL("'%s' is %s, not a program", reach->program,
                       S_ISDIR(st.st_mode) ? "a directory" : "a special file");
    if (access(reach->program, X_OK) != 0)
        return NS_FAIL("'%s' is not executable: %s", reach->program, strerror(errno));
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
    if (reason)
        ns_findings_add(&findings, NS_FINDING_REASON, ns_reach_cause(reach->verdict),
                        reach->is_script ? ns_words("its interpreter %s %s", reach->file, reason)
                                         : ns_words("it %s", reason));
    else if (reach->verdict == NS_REACH_UNKNOWN)
        REASON(reach->file[0] ? "it cannot run: its interpreter %s is %s"
                              : "it cannot run: its first line names no interpreter",
               reach->file, reach->by_env ? "not in PATH" : "missing");
    else if (reach->loader[0] && access(reach->loader, F_OK) != 0)
        REASON("it cannot run: its loader %s is missing", reach->loader);
}

/* What a program without sockets of its own may need, too. */
static bool may_make_sockets(const char *name, size_t length)
{
    return !ns_reach_libc(name) && strncmp(name, "libc.", 5) != 0 &&
           strncmp(name, "libpthread.", 11) != 0 && length > 0;
}

/* Does the program's file call libc for sockets, or need a library that may? */
static bool makes_sockets(const char *program)
{
    char name[NAME_MAX + 1];
    return ns_elf_path_makes_sockets(program) ||
           ns_elf_path_needs(program, may_make_sockets, name, sizeof name);
}

/* The loader is not asked: it may be any file, and reads the program's, which may be hostile. */
static void judge_loading(const struct ns_reach *reach, const char *library)
{
    const char *libc = ns_reach_libc(reach->loader), *unfit = NULL;
    char path[PATH_MAX];
    if (reach->verdict != NS_REACH_YES)
        return;
    if (!ns_preload_is_searched(library))
        unfit = ns_elf_path_unfit(library, reach->narrow);
    else if (libc && strcmp(libc, "glibc") == 0 && !getenv("LD_LIBRARY_PATH") &&
             ns_preload_search(library, reach->narrow, path) == 0)
        unfit = "is in no directory that the loader searches";
    if (unfit)
        REASON("the library would not load: %s %s", library, unfit);
    has_sockets = makes_sockets(reach->file);
}

/* Is the library preloaded here? It is if it is named, whether or not it loads. */
static bool judge_library(const struct ns_reach *reach)
{
    char library[PATH_MAX];
    const char *source = ns_reach_source(reach, library), *missing = NULL;
    if (!source) {
        ns_output_fact("LD_PRELOAD", "does not name the library here; 'nagleshim run' adds it");
        missing = ns_preload_locate(NS_LIBRARY_NAME, reach->narrow, library);
    }
    if (missing) {
        REASON("%s", missing);
    } else {
        ns_output_fact(
            "library", "%s%s%s%s", library, source ? ", from " : "", source ? source : "",
            ns_preload_is_searched(library) ? ", which the program's loader searches for" : "");
        judge_loading(reach, library);
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

int ns_inspect_program(struct ns_subject *subject, bool by_name)
{
    char *word = ns_operands.words[0];
    ns_output_expect("tried");
    ns_subject_describe(subject, word, ns_operands.words + 1, ns_operands.n - 1);
    if (by_name && *word && subject->reach.program[0] == '\0') {
        ns_output_fact("program", "%s, which is not found: only its name is matched", word);
        return NS_EXIT_YES;
    }
    int status = find_program(word, &subject->reach);
    if (status != NS_EXIT_YES)
        return status;
    judge_file(&subject->reach);
    is_preloaded = judge_library(&subject->reach);
    return NS_EXIT_YES;
}

void ns_inspect_end(void)
{
    ns_environment_judge();
    ns_findings_print(&findings);
}

int ns_doctor_program(void)
{
    static struct ns_subject subject;
    static struct ns_policy_found found;
    int status = ns_inspect_program(&subject, false);
    if (status != NS_EXIT_YES)
        return status;
    if (ns_subject_find_policy(&subject, NULL, &found))
        judge_rules(found.policy, &subject.process);
    else
        REASON("its policy is broken or cannot be read");
    ns_inspect_end();
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
