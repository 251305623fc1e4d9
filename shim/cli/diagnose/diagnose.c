/* SPDX-License-Identifier: MIT */
/* Owns `nagleshim diagnose` from its words to its exit status: what is started, which reports are
 * written, and what the status says. Standard output stays the program's own. Not
 * async-signal-safe. */
#include "cli/diagnose/diagnose.h"

#include "cli/child.h"
#include "cli/cli.h"
#include "cli/diagnose/diagnosis_policy.h"
#include "cli/diagnose/diagnosis_report.h"
#include "cli/diagnose/diagnosis_words.h"
#include "cli/outfile.h"
#include "cli/output.h"
#include "cli/process/proc.h"
#include "cli/process/program.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define SAY(...) ns_say("diagnose", __VA_ARGS__)

enum { WIDTH_LEAST = 60, WIDTH_MOST = 110 };

/* 0: it is no terminal. */
static int columns(void)
{
    struct winsize size;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return 0;
    return size.ws_col < WIDTH_LEAST  ? WIDTH_LEAST
           : size.ws_col > WIDTH_MOST ? WIDTH_MOST
                                      : size.ws_col;
}

/* The words of the program, or what else was looked at; to be freed. */
static char *describe(const struct ns_diagnose_options *options)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);

    if (!stream)
        return NULL;
    if (options->all)
        fputs("every process", stream);
    else if (options->pid)
        fprintf(stream, "process %d", options->pid);
    for (char **word = options->program; word && *word; word++)
        fprintf(stream, "%s%s", word == options->program ? "" : " ", *word);
    fclose(stream);
    return ns_sanitize(text);
}

/* What rows of that grade, or a worse one, have lost. */
static double lost_ms(const struct ns_diagnosis *diagnosis, enum ns_grade grade)
{
    double sum = 0;

    for (size_t i = 0; i < diagnosis->n_rows; i++)
        if (diagnosis->rows[i].verdict.grade >= grade)
            sum += ns_diagnosis_lost_ms(&diagnosis->rows[i]);
    return sum;
}

/* What the diagnosis alone says. */
static int status_of(const struct ns_diagnose_options *options,
                     const struct ns_diagnosis *diagnosis)
{
    if (!options->fail_on)
        return NS_EXIT_YES;
    if (diagnosis->grade >= options->fail_on &&
        lost_ms(diagnosis, options->fail_on) > options->max_lost_ms)
        return NS_EXIT_NO;
    if (diagnosis->grade == NS_GRADE_CANNOT_TELL)
        return diagnosis->denied && diagnosis->n_rows == 0 ? NS_EXIT_DENIED : NS_EXIT_ERROR;
    return NS_EXIT_YES;
}

struct outputs {
    struct ns_outfile json, page, policy;
};

static void drop_outputs(struct outputs *outputs)
{
    ns_outfile_drop(&outputs->json);
    ns_outfile_drop(&outputs->page);
    ns_outfile_drop(&outputs->policy);
}

static bool open_outputs(struct outputs *outputs, const struct ns_diagnose_options *options)
{
    outputs->page.fd = outputs->policy.fd = -1;
    if (ns_outfile_open(&outputs->json, "diagnose", options->json) &&
        ns_outfile_open(&outputs->page, "diagnose", options->page) &&
        ns_outfile_open(&outputs->policy, "diagnose", options->policy)) {
        if (!ns_outfile_is_same(&outputs->json, &outputs->page) &&
            !ns_outfile_is_same(&outputs->json, &outputs->policy) &&
            !ns_outfile_is_same(&outputs->page, &outputs->policy))
            return true;
        SAY("--json, --report and --policy: each needs a file of its own");
    }
    drop_outputs(outputs);
    return false;
}

static bool write_policy(struct outputs *outputs, const struct ns_diagnosis *diagnosis,
                         struct ns_diagnosis_report *report)
{
    char *text;
    bool ok;

    if (outputs->policy.fd < 0)
        return true;
    if (!report->policy) {
        ns_outfile_drop(&outputs->policy);
        return true;
    }
    text = ns_diagnosis_policy(diagnosis, true);
    ok = ns_outfile_write(&outputs->policy, text);
    free(text);
    report->written = ok ? outputs->policy.name : NULL;
    return ok;
}

static bool write_page(struct outputs *outputs, struct ns_diagnosis_report *report)
{
    FILE *stream;
    bool ok = outputs->page.fd < 0;

    stream = ns_outfile_begin(&outputs->page);
    if (!stream)
        return ok;
    ns_diagnosis_print_html(stream, report);
    ok = ns_outfile_end(&outputs->page, stream);
    report->page = ok && strcmp(outputs->page.name, "-") != 0 ? outputs->page.name : NULL;
    return ok;
}

/* The last of all, since it has what was said, and the status. */
static bool write_json(struct outputs *outputs, const struct ns_diagnosis_report *report,
                       int status)
{
    char *text;
    bool ok;

    if (outputs->json.fd < 0)
        return true;
    ns_diagnosis_fill_json(ns_output_object(), report);
    text = ns_output_take(status);
    ok = ns_outfile_write(&outputs->json, text);
    free(text);
    return ok;
}

/* The status to exit with. Where that is not the program's, its own is told. */
static int add_status(const struct ns_diagnose_options *options, int of_program, int status)
{
    if (of_program == 0)
        return status;
    if (!options->fail_on)
        return status == NS_EXIT_YES ? of_program : status;
    SAY("the program itself ended with status %d", of_program);
    return status == NS_EXIT_YES ? NS_EXIT_ERROR : status;
}

/* Returns the status to exit with. */
static int tell(const struct ns_diagnose_options *options, struct outputs *outputs,
                const struct ns_diagnosis *diagnosis, const struct ns_diagnose_end *end)
{
    int status = status_of(options, diagnosis);
    bool written;
    char command[PATH_MAX];
    struct ns_diagnosis_means means;
    char *subject = describe(options), *policy = ns_diagnosis_policy(diagnosis, false), *next;
    struct ns_diagnosis_report report = {
        .diagnosis = diagnosis,
        .subject = subject ? subject : "",
        .policy = policy,
        .n_notes = end->n_notes,
    };

    written = write_policy(outputs, diagnosis, &report);
    ns_program_self(command, sizeof(command));
    means = (struct ns_diagnosis_means){
        .command = command,
        .program = options->program,
        .file = report.written && strcmp(report.written, "-") != 0 ? report.written : NULL,
    };
    next = ns_diagnosis_next(diagnosis, &means);
    report.next = next;
    for (unsigned i = 0; i < end->n_notes; i++)
        report.notes[i] = end->notes[i];
    written = write_page(outputs, &report) && written;
    ns_diagnosis_print_text(stderr, &report, columns());
    if (options->policy && !policy)
        fprintf(stderr, "policy: there is nothing to write to '%s'\n", options->policy);
    if (!end->running)
        status = add_status(options, end->status, status);
    if (!written)
        status = NS_EXIT_ERROR;
    if (!write_json(outputs, &report, end->running ? -1 : status))
        status = NS_EXIT_ERROR;
    free(subject);
    free(policy);
    free(next);
    return status;
}

/* The report has been given, and the program goes on: as long as it does, so do we. */
static void stay(struct ns_child *child, int signals)
{
    struct pollfd poll_ = {.fd = signals, .events = POLLIN};

    while (!ns_child_has_ended(child)) {
        poll(&poll_, 1, -1);
        ns_child_take_signals(signals, child);
    }
}

/* With the program as a child that waits to be released. */
static int run(const struct ns_diagnose_options *options, struct outputs *outputs, int signals)
{
    static struct ns_observation observation;
    static struct ns_diagnosis diagnosis;
    struct ns_diagnose_end end = {0};
    struct ns_child child, *started = options->program ? &child : NULL;
    int error = 0, status;

    if (started) {
        bool inside = ns_observe_begin(options, &observation, &end);
        struct ns_child_options wish = {
            .argv = options->program,
            .environment = inside ? observation.environment : NULL,
        };

        error = ns_child_fork(started, &wish);
    }
    if (error) {
        SAY("cannot start a process: %s", strerror(-error));
        ns_observe_end(&observation);
        drop_outputs(outputs);
        return NS_EXIT_RUN_FAILED;
    }
    ns_diagnose_watch(options, started, signals, &diagnosis, &end);
    if (end.failure) {
        ns_observe_end(&observation);
        drop_outputs(outputs);
        return end.failure;
    }
    ns_observe_collect(&observation, &diagnosis, &end);
    ns_observe_end(&observation);
    ns_diagnosis_finish(&diagnosis);
    status = tell(options, outputs, &diagnosis, &end);
    if (end.running) {
        stay(started, signals);
        status = add_status(options, child.status, status);
    }
    for (unsigned i = 0; i < end.n_notes; i++)
        free(end.notes[i]);
    ns_diagnosis_release(&diagnosis);
    return status;
}

int ns_diagnose_main(int argc, char **argv)
{
    struct ns_diagnose_options options;
    struct outputs outputs;
    int signals;

    if (!ns_diagnose_take_options(argc, argv, &options))
        return NS_EXIT_ERROR;
    if (options.help) {
        ns_help_print("diagnose");
        return NS_EXIT_YES;
    }
    if (!open_outputs(&outputs, &options))
        return NS_EXIT_ERROR;
    signals = ns_child_signals();
    if (signals < 0) {
        SAY("cannot take signals: %s", strerror(-signals));
        drop_outputs(&outputs);
        return NS_EXIT_ERROR;
    }
    return run(&options, &outputs, signals);
}
