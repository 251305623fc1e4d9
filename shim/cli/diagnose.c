/* SPDX-License-Identifier: MIT */
/* Owns `nagleshim diagnose` from its words to its exit status: what is started, which reports are
 * written, and what the status says. Standard output stays the program's own. Not
 * async-signal-safe. */
#include "cli/diagnose.h"

#include "cli/child.h"
#include "cli/cli.h"
#include "cli/diagnosis_policy.h"
#include "cli/program.h"
#include "cli/diagnosis_report.h"
#include "cli/diagnosis_words.h"
#include "cli/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define SAY(...) ns_say("diagnose", __VA_ARGS__)

enum { WIDTH_LEAST = 60, WIDTH_MOST = 110 };

/* A file to write at the end. It is opened at the beginning: whoever has watched for an hour wants
 * no message then. */
struct output {
    const char *name;
    int fd; /* -1: not asked for */
    bool made;
};

static bool open_output(struct output *output, const char *name)
{
    *output = (struct output){.name = name, .fd = -1};
    if (!name)
        return true;
    errno = EBADF;
    if (strcmp(name, "-") != 0) {
        output->fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0666);
        output->made = output->fd >= 0;
        if (!output->made && errno == EEXIST)
            output->fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
    } else if ((fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) != O_RDONLY) {
        output->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    }
    if (output->fd < 0)
        SAY("cannot write '%s': %s", name, strerror(errno));
    return output->fd >= 0;
}

/* What is there from an earlier time goes only now. */
static FILE *begin_output(struct output *output)
{
    struct stat st;
    FILE *stream = NULL;

    if (output->fd < 0)
        return NULL;
    if (strcmp(output->name, "-") == 0 || fstat(output->fd, &st) != 0 || !S_ISREG(st.st_mode) ||
        ftruncate(output->fd, 0) == 0)
        stream = fdopen(output->fd, "w");
    if (!stream)
        SAY("cannot write '%s': %s", output->name, strerror(errno));
    return stream;
}

static bool end_output(struct output *output, FILE *stream)
{
    bool ok = !ferror(stream);

    output->fd = -1;
    if (fclose(stream) == 0 && ok)
        return true;
    SAY("cannot write '%s': %s", output->name, strerror(errno));
    if (output->made)
        unlink(output->name);
    return false;
}

/* Nothing is written after all: no empty file stays behind. */
static void drop_output(struct output *output)
{
    if (output->fd >= 0)
        close(output->fd);
    if (output->made)
        unlink(output->name);
    output->fd = -1;
}

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
    return ns_proc_tame(text);
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

static int status_of(const struct ns_diagnose_options *options,
                     const struct ns_diagnosis *diagnosis, const struct ns_diagnose_end *end)
{
    if (!options->fail_on)
        return options->program ? end->status : NS_EXIT_YES;
    if (diagnosis->grade >= options->fail_on &&
        lost_ms(diagnosis, options->fail_on) > options->max_lost_ms)
        return NS_EXIT_NO;
    if (diagnosis->grade == NS_GRADE_CANNOT_TELL)
        return diagnosis->denied && diagnosis->n_rows == 0 ? NS_EXIT_DENIED : NS_EXIT_ERROR;
    return NS_EXIT_YES;
}

static bool write_policy(struct output *output, const struct ns_diagnosis *diagnosis)
{
    char *text = ns_diagnosis_policy(diagnosis, true);
    FILE *stream = text ? begin_output(output) : NULL;

    if (stream)
        fprintf(stream, "%s\n", text);
    free(text);
    return stream && end_output(output, stream);
}

struct outputs {
    struct output json, page, policy;
};

static void drop_outputs(struct outputs *outputs)
{
    drop_output(&outputs->json);
    drop_output(&outputs->page);
    drop_output(&outputs->policy);
}

static bool write_files(struct outputs *outputs, struct ns_diagnosis_report *report)
{
    FILE *stream = begin_output(&outputs->page);
    bool ok = outputs->page.fd < 0;

    if (stream) {
        ns_diagnosis_print_html(stream, report);
        ok = end_output(&outputs->page, stream);
        report->page = ok && strcmp(outputs->page.name, "-") != 0 ? outputs->page.name : NULL;
    }
    if (outputs->json.fd >= 0) {
        char *text = ns_diagnosis_write_json(report);

        stream = begin_output(&outputs->json);
        if (stream)
            fprintf(stream, "%s\n", text ? text : "null");
        ok = stream && end_output(&outputs->json, stream) && ok;
        free(text);
    }
    return ok;
}

/* Returns the status to exit with. */
static int tell(const struct ns_diagnose_options *options, struct outputs *outputs,
                const struct ns_diagnosis *diagnosis, const struct ns_diagnose_end *end)
{
    int status = status_of(options, diagnosis, end);
    bool failed = false;
    char command[PATH_MAX];
    struct ns_diagnosis_means means;
    char *subject = describe(options), *policy = ns_diagnosis_policy(diagnosis, false), *next;
    struct ns_diagnosis_report report = {
        .diagnosis = diagnosis,
        .subject = subject ? subject : "",
        .policy = policy,
        .status = end->running ? -1 : status,
        .n_notes = end->n_notes,
    };

    if (options->policy && !policy)
        drop_output(&outputs->policy);
    else if (options->policy && write_policy(&outputs->policy, diagnosis))
        report.written = options->policy;
    else if (options->policy)
        failed = true;
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
    if (!write_files(outputs, &report) || failed)
        status = NS_EXIT_ERROR;
    ns_diagnosis_print_text(stderr, &report, columns());
    if (options->policy && !policy)
        fprintf(stderr, "policy: there is nothing to write to '%s'\n", options->policy);
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
        struct ns_child_wish wish = {
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
        if (!options->fail_on)
            status = child.status;
    }
    if (options->fail_on && status == NS_EXIT_YES && started && child.status != 0) {
        SAY("the program itself ended with status %d", child.status);
        status = NS_EXIT_ERROR;
    }
    for (unsigned i = 0; i < end.n_notes; i++)
        free(end.notes[i]);
    ns_diagnosis_release(&diagnosis);
    return status;
}

static bool open_outputs(struct outputs *outputs, const struct ns_diagnose_options *options)
{
    outputs->page.fd = outputs->policy.fd = -1;
    outputs->page.made = outputs->policy.made = false;
    if (open_output(&outputs->json, options->json) && open_output(&outputs->page, options->page) &&
        open_output(&outputs->policy, options->policy))
        return true;
    drop_outputs(outputs);
    return false;
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
        return NS_EXIT_ERROR;
    }
    return run(&options, &outputs, signals);
}
