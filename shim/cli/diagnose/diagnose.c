/* SPDX-License-Identifier: MIT */
/* Owns `nagleshim diagnose`: takes its options, starts the program, has it watched, writes the
 * reports and chooses the exit status. Standard output belongs to the program. */
#include "cli/diagnose/diagnose.h"

#include "cli/child.h"
#include "cli/cli.h"
#include "cli/verbs.h"
#include "process/scope.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The exit status for the diagnosis alone. */
static int status_of(const struct ns_diagnose_options *options,
                     const struct ns_diagnosis *diagnosis)
{
    double lost_ms = 0;
    if (!options->fail_on)
        return NS_EXIT_YES;
    for (size_t i = 0; i < diagnosis->n_rows; i++)
        if (diagnosis->rows[i]->counts && diagnosis->rows[i]->verdict.grade >= options->fail_on)
            lost_ms += diagnosis->rows[i]->conclusion.lost_ms;
    if (diagnosis->grade >= options->fail_on && lost_ms > options->max_lost_ms)
        return NS_EXIT_NO;
    if (diagnosis->grade == NS_GRADE_CANNOT_TELL)
        return diagnosis->denied && diagnosis->n_rows == 0 ? NS_EXIT_DENIED : NS_EXIT_ERROR;
    return NS_EXIT_YES;
}

/* Combine it with the program's status, and report the one that the exit status hides. */
static int add_status(const struct ns_diagnose_options *options, int of_program, int status)
{
    if (of_program == 0)
        return status;
    if (!options->fail_on)
        return status == NS_EXIT_YES ? of_program : status;
    ns_say("the program itself ended with status %d", of_program);
    return status == NS_EXIT_YES ? NS_EXIT_ERROR : status;
}

static bool write_policy(struct ns_outfile *file, struct ns_report *report)
{
    if (!report->policy)
        return true;
    NS_AUTO_FREE char *text = ns_output_json(report->policy);
    bool ok = ns_outfile_write(file, text);
    report->policy_file = ok ? file->name : NULL;
    return ok;
}

/* Last of all, since the object has the messages and the status; status < 0: the program is still
 * running. Returns false if something could not be written. */
static bool write_json(struct ns_diagnose_options *options, const struct ns_report *report,
                       int status)
{
    struct ns_outfile *page = &options->page;
    if (!ns_output_object())
        return true;
    ns_report_fill_json(report);
    NS_AUTO_FREE char *json = ns_output_take(status);
    NS_AUTO_FREE char *html = page->name ? ns_report_page(json) : NULL;
    bool ok = ns_outfile_write(page, html);
    if (page->name && ok && !ns_outfile_is_stdout(page))
        ns_print(stderr, "page: %s\n", page->name);
    return ns_outfile_write(&options->json, json) && ok;
}

/* Write all reports. Returns the exit status. */
static int report_all(struct ns_diagnose_options *options, const struct ns_diagnosis *diagnosis,
                      const struct ns_child *child)
{
    bool running = child && !child->ended;
    int status = status_of(options, diagnosis);
    struct ns_report report = {
        .diagnosis = diagnosis,
        .command = program_invocation_name,
        .program = options->program,
        .pid = *options->pids && options->pids[1] ? -1 : *options->pids,
        .policy = ns_diagnosis_policy(diagnosis),
    };
    bool written = write_policy(&options->policy, &report);
    ns_report_advise(&report);
    ns_report_print(&report, ns_output_columns(stderr));
    if (options->policy.name && !report.policy)
        ns_print(stderr, "policy: '%s' is not written, as there is nothing to cure\n",
                 options->policy.name);
    if (child && !running)
        status = add_status(options, child->status, status);
    if (!written)
        status = NS_EXIT_ERROR;
    if (!write_json(options, &report, running ? -1 : status))
        status = NS_EXIT_ERROR;
    cJSON_Delete(report.policy);
    return status;
}

static int diagnose(struct ns_diagnose_options *options, struct ns_child *child,
                    struct ns_diagnosis *diagnosis)
{
    int failure = ns_diagnose_watch(options, child, diagnosis);
    bool running = child && !child->ended;
    if (failure)
        return failure;
    ns_observe_collect(diagnosis);
    ns_diagnosis_finish(diagnosis);
    if (running)
        NS_NOTE(diagnosis, "%s is still running, and this command waits for its end; ^C ends both",
                options->program[0]);
    int status = report_all(options, diagnosis, child);
    for (; running && !ns_child_has_ended(child); ns_child_take_signals(child))
        ns_child_wait(UINT64_MAX);
    return running ? add_status(options, child->status, status) : status;
}

static int run(struct ns_diagnose_options *options)
{
    static struct ns_diagnosis diagnosis; /* the end of the command releases it */
    struct ns_child child;
    if (!ns_child_signals())
        return NS_EXIT_ERROR;
    if (!options->program)
        return diagnose(options, NULL, &diagnosis);
    const struct ns_child_options wanted = {
        .argv = options->program,
        .environment = ns_observe_begin(options, &diagnosis),
        .to_stderr = ns_outfile_is_stdout(&options->json) || ns_outfile_is_stdout(&options->page) ||
                     ns_outfile_is_stdout(&options->policy),
    };
    int error = ns_child_fork(&child, &wanted);
    if (!error)
        return diagnose(options, &child, &diagnosis);
    ns_say("cannot start a process: %s", strerror(-error));
    return NS_EXIT_RUN_FAILED;
}

static bool is_clear(const struct ns_diagnose_options *options)
{
    int subjects = (options->program != NULL) + (*options->pids != 0) + options->all;
    if (subjects == 0)
        return NS_REFUSE("name a program, --pid, --unit, --cgroup, --port or --all; see 'nagleshim "
                         "diagnose --help'");
    if (subjects > 1)
        return NS_REFUSE("a program, running processes and --all: only one of them can be watched");
    if (options->experiment && (!options->program || options->outside))
        return NS_REFUSE("--experiment needs a program to start, and excludes --outside");
    return true;
}

/* Returns an exit status. */
static int take_options(struct ns_diagnose_options *options)
{
    const char *grade = ns_option_text(NS_DIAGNOSE_FAIL_ON);
    *options = (struct ns_diagnose_options){
        .program = ns_operands.n > 0 ? ns_operands.words : NULL,
        .all = ns_option_text(NS_ALL),
        .seconds = ns_option_number(NS_DIAGNOSE_FOR, 0),
        .max_lost_ms = ns_option_number(NS_DIAGNOSE_MAX_LOST_MS, -1),
        .json.name = ns_option_text(NS_JSON),
        .page.name = ns_option_text(NS_DIAGNOSE_HTML),
        .policy = {.name = ns_option_text(NS_DIAGNOSE_WRITE_POLICY), .is_shared = true},
        .experiment = ns_option_text(NS_DIAGNOSE_EXPERIMENT),
        .outside = ns_option_text(NS_DIAGNOSE_OUTSIDE),
    };
    /* Without --fail-on, --max-lost-ms counts likely stalls as well. */
    if (grade || options->max_lost_ms >= 0)
        options->fail_on =
            grade && strcmp(grade, "proven") == 0 ? NS_GRADE_PROVEN : NS_GRADE_LIKELY;
    int status = ns_select(&options->pids);
    return status != NS_EXIT_YES ? status : is_clear(options) ? NS_EXIT_YES : NS_EXIT_ERROR;
}

int ns_diagnose_main(void)
{
    struct ns_diagnose_options options;
    int status = take_options(&options);
    if (status != NS_EXIT_YES)
        return status;
    if (options.page.name && !ns_output_object()) /* main makes it for --json */
        ns_output_start(false);
    return ns_outfile_open(&options.json) && ns_outfile_open(&options.page) &&
                   ns_outfile_open(&options.policy)
               ? run(&options)
               : NS_EXIT_ERROR;
}
