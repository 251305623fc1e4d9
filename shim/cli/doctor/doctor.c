/* SPDX-License-Identifier: MIT */
/* Owns the command line of `nagleshim doctor`, and what --pid and --all print about processes,
 * which examine.c judges. */
#include "cli/doctor/doctor.h"

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/program/program.h"
#include "cli/verbs.h"
#include "cure/group.h"
#include "process/scope.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void print_process(const struct ns_proc *proc)
{
    ns_output_fact("process", "%d, %s", proc->process, proc->exe[0] ? proc->exe : proc->state.name);
    if (proc->seccomp)
        ns_output_fact("seccomp", "%s",
                       proc->seccomp == 1 ? "strict mode"
                                          : "a filter is active, which must allow setsockopt");
}

static void print_library(const struct ns_examination *examination)
{
    const struct ns_facts *facts = &examination->facts;
    const struct ns_loaded *loaded = &facts->loaded;
    ns_output_fact("library", "%s%s%s", loaded->path, loaded->library[0] ? ", version " : "",
                   loaded->library);
    if (!facts->entry[0] || facts->is_of_file)
        ns_output_fact(
            "LD_PRELOAD", "%s",
            facts->has_lost_preload
                ? "not known, as the process has overwritten its environment"
                : "did not name it when the process was started (/etc/ld.so.preload may)");
}

static void print_rules(const struct ns_facts *facts)
{
    for (unsigned i = 0; i < facts->n_rules; i++) {
        const struct ns_examined_rule *rule = &facts->rules[i];
        const char *send = ns_send_name((enum ns_send)rule->send);
        const char *ack = ns_ack_name((enum ns_ack)rule->ack);
        ns_output_fact(
            ns_rule_title(&(struct ns_rule){.name = (char *)rule->name, .index = rule->index}),
            "send %s, ack %s; used for %s", send ? send : "unknown", ack ? ack : "unknown",
            ns_count(rule->sockets, "socket"));
    }
}

static void add_rules(const struct ns_facts *facts, cJSON *rules)
{
    for (unsigned i = 0; i < facts->n_rules; i++) {
        const struct ns_examined_rule *rule = &facts->rules[i];
        cJSON *entry = ns_output_item(rules);
        cJSON_AddNumberToObject(entry, "number", rule->index + 1);
        ns_output_text(entry, "name", *rule->name ? rule->name : NULL);
        ns_output_text(entry, "send", ns_send_name((enum ns_send)rule->send));
        ns_output_text(entry, "ack", ns_ack_name((enum ns_ack)rule->ack));
        cJSON_AddNumberToObject(entry, "sockets", rule->sockets);
    }
}

static void print_counters(const struct ns_stats *stats)
{
    const char *line = "";
#define NS_COUNTER(name, text)                                                                     \
    line = ns_words("%s%s%s %" PRIu64, line, *line ? ", " : "", text, stats->name);
    NS_COUNTERS(NS_COUNTER)
#undef NS_COUNTER
    ns_output_fact("so far", "%s", line);
}

/* The counters as numbers, by their names in status.h. */
static void add_counters(cJSON *object, const struct ns_loaded *loaded)
{
    cJSON *counters = loaded->has_stats ? cJSON_AddObjectToObject(object, "counters")
                                        : cJSON_AddNullToObject(object, "counters");
#define NS_COUNTER(name, text) cJSON_AddNumberToObject(counters, #name, (double)loaded->stats.name);
    NS_COUNTERS(NS_COUNTER)
#undef NS_COUNTER
}

/* The process in the list "processes". */
static void add_entry(const struct ns_examination *examination)
{
    const struct ns_proc *proc = &examination->facts.proc;
    const struct ns_loaded *loaded = &examination->facts.loaded;
    const struct ns_findings *findings = &examination->findings;
    cJSON *entry = ns_output_entry("processes");
    cJSON_AddNumberToObject(entry, "pid", proc->process);
    ns_output_text(entry, "name", examination->facts.name);
    ns_output_text(entry, "exe", proc->exe[0] ? proc->exe : NULL);
    cJSON_AddNumberToObject(entry, "user", proc->user);
    cJSON_AddBoolToObject(entry, "elsewhere", examination->facts.lives_elsewhere);
    cJSON_AddNumberToObject(entry, "sockets", examination->facts.sockets);
    ns_output_text(entry, "works", ns_findings_works(findings));
    ns_output_text(entry, "library", ns_shim_name(loaded->shim));
    ns_output_text(entry, "library_file", loaded->path[0] ? loaded->path : NULL);
    ns_output_text(entry, "version", loaded->library[0] ? loaded->library : NULL);
    ns_output_text(entry, "policy",
                   examination->facts.policy[0] ? examination->facts.policy : NULL);
    add_counters(entry, loaded);
    add_rules(&examination->facts, cJSON_AddArrayToObject(entry, "rules"));
    ns_findings_fill(findings, entry);
}

/* The library is there, and its status was read. */
static void print_status(const struct ns_examination *examination)
{
    const struct ns_status *status = &examination->facts.loaded.status;
    if (examination->facts.policy[0])
        ns_output_fact("policy", "%s, %s", examination->facts.policy,
                       ns_count(status->n_rules, "rule"));
    else if (examination->facts.has_policy)
        ns_output_fact("policy", "built in");
    if (status->state != NS_STATUS_ACTIVE)
        return;
    print_rules(&examination->facts);
    if (examination->facts.loaded.has_stats)
        print_counters(&examination->facts.loaded.stats);
    ns_output_fact("TCP sockets", "%u", examination->facts.sockets);
}

static void print_group(const char *name)
{
    struct ns_groups groups = {0};
    ns_groups_find_cured(&groups);
    const struct ns_group *group = ns_groups_of(&groups, name);
    if (group)
        ns_output_fact("cured by the kernel",
                       "connections of the control group %s ('nagleshim cure')", group->path);
}

static int print(const struct ns_examination *examination)
{
    const struct ns_loaded *loaded = &examination->facts.loaded;
    const char *works = ns_findings_works(&examination->findings);
    print_process(&examination->facts.proc);
    if (loaded->path[0] == '\0')
        ns_findings_print_loader(examination->facts.elf.interpreter);
    else
        print_library(examination);
    if (loaded->has_status)
        print_status(examination);
    print_group(examination->facts.origin.group);
    add_entry(examination);
    ns_findings_print(&examination->findings);
    const char *verdict = *works == 'y'   ? "the library works in process"
                          : *works == 'n' ? "the library does not work in process"
                                          : "it is unknown whether the library works in process";
    int status =
        ns_findings_conclude(works, ns_words("%s %d", verdict, examination->facts.proc.process));
    bool is_denied = status == NS_EXIT_ERROR && ns_proc_is_denied(loaded->error);
    return is_denied ? NS_EXIT_DENIED : status;
}

/* How many processes there are of each kind; the names are members of "counts". */
enum {
    WORKS,
    LACKS,
    UNKNOWN,
    STARTING, /* the last one in the table */
    OTHERS,   /* without TCP sockets and without the library */
    DENIED,   /* could not be read */
    STUCK,    /* in the kernel */
    KINDS
};
static const char *const kinds[KINDS] = {"working", "not",    "unknown", "starting",
                                         "others",  "denied", "stuck"};

static void print_row(const struct ns_examination *examination)
{
    const struct ns_findings *findings = &examination->findings;
    const struct ns_finding *verdict = ns_findings_verdict(findings);
    const int left = 15 - ns_output_places(examination->facts.name);
    ns_print(stdout, "%7d %s%*s %3u %-8s ", examination->facts.proc.process,
             examination->facts.name, left > 0 ? left : 0, "", examination->facts.sockets,
             ns_shim_name(examination->facts.loaded.shim));
    if (!verdict)
        ns_print(stdout, "policy %s",
                 examination->facts.policy[0]    ? examination->facts.policy
                 : examination->facts.has_policy ? "built in"
                                                 : "unknown");
    for (unsigned i = 0; i < findings->n; i++)
        ns_print(stdout, "%s%s", i == 0 && verdict ? "" : "; ", findings->list[i].text);
    ns_print(stdout, "\n");
}

static void list(unsigned census[KINDS], struct ns_examination *examination)
{
    const struct ns_finding *verdict = ns_findings_verdict(&examination->findings);
    bool is_first = census[WORKS] + census[LACKS] + census[UNKNOWN] + census[STARTING] == 0;
    if (is_first && !ns_output_object())
        ns_print(stdout, "    PID PROGRAM         TCP LIBRARY  WHAT IT DOES, OR WHY NOT\n");
    census[!verdict                                             ? WORKS
           : examination->facts.loaded.shim == NS_SHIM_STARTING ? STARTING
           : verdict->kind == NS_FINDING_REASON                 ? LACKS
                                                                : UNKNOWN]++;
    if (ns_output_object())
        add_entry(examination);
    else
        print_row(examination);
}

/* Counts the process, and lists it if it was chosen, or has TCP sockets or the library. Returns the
 * exit status of a chosen one that could not be read. One that has ended meanwhile is left out. */
static int visit(unsigned census[KINDS], pid_t pid, bool is_chosen)
{
    static struct ns_examination examination;
    const struct ns_facts *facts = &examination.facts;
    const int error = ns_examine(&examination, pid, is_chosen);
    const bool is_denied = ns_proc_is_denied(error);
    int status = NS_EXIT_YES;
    if (error == -ESRCH)
        return status;
    if (error && is_chosen)
        status = ns_process_say_error(pid, error);
    else if (error == -ETIMEDOUT)
        ns_output_fact("stuck", "process %d (%s): " NS_PROC_STUCK, pid, facts->name);
    else if (error && !is_denied)
        ns_output_fact("not read", "process %d (%s): %s", pid, facts->name, strerror(-error));
    if (error)
        census[is_denied ? DENIED : STUCK]++;
    else if (is_chosen || facts->sockets > 0 || facts->loaded.path[0])
        list(census, &examination);
    else
        census[OTHERS] += !facts->proc.state.is_kernel_thread;
    ns_words_forget();
    return status;
}

static int conclude(const unsigned census[KINDS], bool failed)
{
    unsigned all = census[WORKS] + census[LACKS] + census[UNKNOWN];
    failed |= census[DENIED] + census[STUCK] > 0;
    if (all == 0 && (census[STARTING] || failed)) {
        int status = ns_findings_conclude(
            "unknown",
            census[STARTING] ? "the processes with TCP sockets or the library are starting"
            : census[OTHERS] ? "no process that could be read has TCP sockets or the library"
                             : "no process could be read");
        return census[DENIED] ? NS_EXIT_DENIED : status;
    }
    if (all == 0)
        return ns_findings_conclude("yes", "no process has TCP sockets or the library");
    return ns_findings_conclude(
        census[WORKS] == all ? "yes" : "no",
        ns_words("the library works in %u of %u processes that have TCP sockets or the library",
                 census[WORKS], all));
}

/* In a table: these processes, or all. */
static int show_table(const pid_t *pids)
{
    const bool is_chosen = *pids;
    unsigned census[KINDS] = {0};
    int failed = NS_EXIT_YES, status;
    ns_output_expect("processes");
    pids = is_chosen ? pids : ns_proc_all();
    if (!pids || !*pids)
        return NS_FAIL("/proc is not mounted or cannot be read");
    for (; *pids; pids++)
        if ((is_chosen || *pids != getpid()) && (status = visit(census, *pids, is_chosen)))
            failed = status;
    cJSON *counts = cJSON_AddObjectToObject(ns_output_object(), "counts");
    for (unsigned i = 0; i < KINDS; i++)
        cJSON_AddNumberToObject(counts, kinds[i], census[i]);
    if (census[OTHERS] > 0)
        ns_output_fact("not listed", "%u without TCP sockets and without the library",
                       census[OTHERS]);
    if (census[DENIED] > 0 && !is_chosen)
        ns_output_fact("not readable", "%u: %s", census[DENIED], ns_process_denied(-EACCES));
    status = conclude(census, is_chosen);
    return failed ? failed : status;
}

/* One that --unit, --cgroup or --port has chosen may have ended meanwhile. */
static int show_process(const pid_t *pids)
{
    static struct ns_examination examination;
    const int error = ns_examine(&examination, *pids, true);
    if (error == -ESRCH && !ns_option_named("pid"))
        return show_table(pids);
    return error ? ns_process_say_error(*pids, error) : print(&examination);
}

int ns_doctor_main(void)
{
    const bool all = ns_option_text(NS_ALL);
    const pid_t *pids;
    int status = ns_select(&pids);
    if (status != NS_EXIT_YES)
        return status;
    if ((ns_operands.n > 0) + (*pids != 0) + all != 1)
        return NS_FAIL(
            "name one of a program, --pid, --unit, --cgroup, --port and --all; see 'nagleshim "
            "doctor --help'");
    if (all || (*pids && pids[1]))
        return show_table(pids);
    return *pids ? show_process(pids) : ns_doctor_program();
}
