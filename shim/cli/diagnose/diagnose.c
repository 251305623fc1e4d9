/* SPDX-License-Identifier: MIT */
/* Owns `nagleshim diagnose`: takes its options, starts the program, has it watched, writes the
 * reports and chooses the exit status. Standard output belongs to the program. */
#include "cli/diagnose/diagnose.h"

#include "cli/child.h"
#include "cli/cli.h"
#include "cli/file.h"
#include "cli/verbs.h"
#include "process/scope.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static struct ns_outfile json, page, policy = {.is_shared = true};

/* The least grade that fails; 0: neither --fail-on nor --max-lost-ms was given, which counts likely
 * stalls as well. */
static enum ns_grade fails_on(void)
{
    const char *grade = ns_option_text(NS_DIAGNOSE_FAIL_ON);
    if (grade && strcmp(grade, "proven") == 0)
        return NS_GRADE_PROVEN;
    return grade || ns_option_text(NS_DIAGNOSE_MAX_LOST_MS) ? NS_GRADE_LIKELY : 0;
}

/* The exit status for the diagnosis alone. */
static int status_of(const struct ns_diagnosis *diagnosis)
{
    const enum ns_grade least = fails_on();
    double lost_ms = 0;
    if (!least)
        return NS_EXIT_YES;
    for (size_t i = 0; i < diagnosis->n_rows; i++)
        if (diagnosis->rows[i]->counts && diagnosis->rows[i]->verdict.grade >= least)
            lost_ms += diagnosis->rows[i]->conclusion.lost_ms;
    if (diagnosis->grade >= least && lost_ms > ns_option_number(NS_DIAGNOSE_MAX_LOST_MS, -1))
        return NS_EXIT_NO;
    if (diagnosis->grade == NS_GRADE_CANNOT_TELL)
        return diagnosis->denied && diagnosis->n_rows == 0 ? NS_EXIT_DENIED : NS_EXIT_ERROR;
    return NS_EXIT_YES;
}

/* Combine it with the program's status, and report the one that the exit status hides. */
static int add_status(int of_program, int status)
{
    if (of_program == 0)
        return status;
    if (!fails_on())
        return status == NS_EXIT_YES ? of_program : status;
    ns_say("the program itself ended with status %d", of_program);
    return status == NS_EXIT_YES ? NS_EXIT_ERROR : status;
}

static bool write_policy(struct ns_report *report)
{
    if (!report->policy)
        return true;
    NS_AUTO_FREE char *text = ns_output_json(report->policy);
    bool ok = ns_outfile_write(&policy, text);
    report->policy_file = ok ? policy.name : NULL;
    return ok;
}

/* Last of all, since the object has the messages and the status; status < 0: the program is still
 * running. Returns false if something could not be written. */
static bool write_json(const struct ns_report *report, int status)
{
    if (!ns_output_object())
        return true;
    ns_report_fill_json(report);
    NS_AUTO_FREE char *text = ns_output_take(status);
    NS_AUTO_FREE char *html = page.name ? ns_report_page(text) : NULL;
    bool ok = ns_outfile_write(&page, html);
    if (page.name && ok && !ns_outfile_is_stdout(&page))
        ns_print(stderr, "page: %s\n", page.name);
    return ns_outfile_write(&json, text) && ok;
}

/* Write all reports. Returns the exit status. */
static int report_all(const struct ns_diagnosis *diagnosis, const struct ns_child *child)
{
    bool running = child && !child->ended;
    int status = status_of(diagnosis);
    const pid_t *pids = ns_option_pids();
    struct ns_report report = {
        .diagnosis = diagnosis,
        .command = program_invocation_name,
        .program = child ? ns_operands.words : NULL,
        .outside = ns_option_text(NS_DIAGNOSE_OUTSIDE),
        .pid = *pids && pids[1] ? -1 : *pids,
        .policy = ns_diagnosis_policy(diagnosis),
    };
    bool written = write_policy(&report);
    ns_report_advise(&report);
    ns_report_print(&report, ns_output_columns(stderr));
    if (policy.name && !report.policy)
        ns_print(stderr, "policy: '%s' is not written, as it would end no stall\n", policy.name);
    if (child && !running)
        status = add_status(child->status, status);
    if (!written)
        status = NS_EXIT_ERROR;
    if (!write_json(&report, running ? -1 : status))
        status = NS_EXIT_ERROR;
    cJSON_Delete(report.policy);
    return status;
}

static int diagnose(struct ns_child *child, struct ns_diagnosis *diagnosis)
{
    int failure = ns_diagnose_watch(child, diagnosis);
    bool running = child && !child->ended;
    if (failure)
        return failure;
    ns_observe_collect(diagnosis);
    ns_diagnosis_finish(diagnosis);
    if (running)
        NS_NOTE(diagnosis, "%s is still running, and this command waits for its end; ^C ends both",
                ns_operands.words[0]);
    int status = report_all(diagnosis, child);
    for (; running && !ns_child_has_ended(child); ns_child_take_signals(child))
        ns_child_wait(UINT64_MAX);
    return running ? add_status(child->status, status) : status;
}

static int run(void)
{
    static struct ns_diagnosis diagnosis; /* the end of the command releases it */
    struct ns_child child;
    if (!ns_child_signals())
        return NS_EXIT_ERROR;
    if (ns_operands.n == 0) {
        signal(SIGPIPE, SIG_IGN); /* a closed pipe must not end it before its files are written */
        return diagnose(NULL, &diagnosis);
    }
    const struct ns_child_options wanted = {
        .argv = ns_operands.words,
        .environment = ns_observe_begin(&diagnosis),
        .to_stderr = ns_outfile_is_stdout(&json) || ns_outfile_is_stdout(&page) ||
                     ns_outfile_is_stdout(&policy),
    };
    const int error = ns_child_fork(&child, &wanted);
    return error ? NS_FAIL("cannot start a process: %s", strerror(-error))
                 : diagnose(&child, &diagnosis);
}

static bool is_clear(const pid_t *pids)
{
    int subjects = (ns_operands.n > 0) + (*pids != 0) + (ns_option_text(NS_ALL) != NULL);
    if (subjects == 0)
        return NS_REFUSE("name a program, --pid, --unit, --cgroup, --port or --all; see 'nagleshim "
                         "diagnose --help'");
    if (subjects > 1)
        return NS_REFUSE("a program, running processes and --all: only one of them can be watched");
    if (ns_option_text(NS_DIAGNOSE_EXPERIMENT) &&
        (ns_operands.n == 0 || ns_option_text(NS_DIAGNOSE_OUTSIDE)))
        return NS_REFUSE("--experiment needs a program to start, and excludes --outside");
    return true;
}

int ns_diagnose_main(void)
{
    const pid_t *pids;
    int status = ns_select(&pids);
    if (status != NS_EXIT_YES)
        return status;
    json.name = ns_option_text(NS_JSON);
    page.name = ns_option_text(NS_DIAGNOSE_HTML);
    policy.name = ns_option_text(NS_DIAGNOSE_WRITE_POLICY);
    if (!is_clear(pids))
        return NS_EXIT_ERROR;
    if (page.name && !ns_output_object()) /* main makes it for --json */
        ns_output_start();
    return ns_outfile_open(&json) && ns_outfile_open(&page) && ns_outfile_open(&policy)
               ? run()
               : NS_EXIT_ERROR;
}
