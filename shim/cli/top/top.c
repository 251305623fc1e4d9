/* SPDX-License-Identifier: MIT */
/* Owns the options of `nagleshim top` and its loop: samples when they are due, and a table every
 * few seconds. */
#include "cli/top/top.h"

#include "cli/child.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "base/clock.h"
#include "process/reader.h"
#include "watch/diag.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECOND 1000000000U

static bool once;
static const char *metrics; /* the file of --prometheus, or NULL */

static volatile sig_atomic_t asked_to_end;

static void note_signal(int number)
{
    asked_to_end = number;
}

static bool is_asked_to_end(void)
{
    return asked_to_end;
}

/* Take samples until the end of the interval, or of the command. 0 or -errno. */
static int sample(struct ns_top *top, uint64_t end, bool screen)
{
    uint64_t now = ns_clock_now(CLOCK_MONOTONIC), next;
    for (; !asked_to_end && now < end; now = ns_clock_now(CLOCK_MONOTONIC)) {
        int error = ns_watch_look(top->watch, now, &next);
        if (error && !ns_diag_may_pass(error))
            return error;
        ns_child_wait(next < end ? next : end);
        enum ns_key key = screen ? ns_screen_key() : NS_KEY_NONE;
        asked_to_end = asked_to_end || key == NS_KEY_END;
        if (key == NS_KEY_DRAW)
            ns_screen_draw(top);
    }
    return 0;
}

/* Returns an exit status. */
static int print(const struct ns_top *top, bool screen)
{
    if (metrics)
        return ns_metrics_write(top, metrics);
    if (ns_output_object()) {
        ns_top_fill_json(top);
    } else if (screen) {
        ns_screen_draw(top);
    } else {
        ns_top_print(stdout, top, SIZE_MAX);
        ns_print(stdout, once ? "" : "\n");
    }
    return NS_EXIT_YES;
}

static const char *unfinished; /* the file of --prometheus */

/* At the end. Old numbers would look as if nothing stalled. */
static void remove_metrics(void)
{
    if (unfinished)
        unlink(unfinished);
}

static int show(struct ns_top *top)
{
    const double interval = ns_option_number(NS_TOP_INTERVAL, metrics ? 15 : 2);
    bool screen = !once && !metrics && ns_output_is_screen(stdout);
    bool is_file = metrics && strcmp(metrics, "-") != 0;
    struct stat st;
    if (is_file && lstat(metrics, &st) == 0 && !S_ISREG(st.st_mode)) /* it will be replaced */
        return NS_FAIL("--prometheus must be a regular file or -, not '%s'", metrics);
    /* A file that cannot be written is reported before the first interval. */
    int status = is_file ? ns_metrics_write(NULL, metrics) : NS_EXIT_YES, error = 0;
    if (status != NS_EXIT_YES)
        return status;
    unfinished = is_file ? metrics : NULL;
    atexit(remove_metrics);
    if (screen)
        ns_screen_begin();
    do {
        uint64_t now = ns_clock_now(CLOCK_MONOTONIC);
        error = sample(top, now + (uint64_t)(interval * SECOND), screen);
        if (error)
            break;
        ns_top_refresh(top, ns_clock_now(CLOCK_MONOTONIC));
        status = print(top, screen);
        /* The reader of the lines or the processes may have ended, or a disk may be full. */
        if (fflush(stdout) != 0 || ferror(stdout) || ns_proc_are_gone(ns_option_pids()))
            break;
    } while (!once && !asked_to_end && status == NS_EXIT_YES);
    if (once && !error)
        unfinished = NULL;
    return error ? ns_process_say_error(0, error) : status;
}

/* A signal interrupts a write to a pipe that is full. What nohup ignores stays ignored. */
static void catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP};
    struct sigaction action = {.sa_handler = note_signal}, before;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    ns_reader_until(is_asked_to_end);
}

int ns_top_main(void)
{
    static struct ns_top top; /* the end of the command releases it */
    once = ns_option_text(NS_TOP_ONCE) || ns_output_object();
    metrics = ns_option_text(NS_TOP_PROMETHEUS);
    if (ns_output_object() && metrics)
        return NS_FAIL("--json and --prometheus cannot be used together");
    top.begin = ns_clock_now(CLOCK_MONOTONIC);
    const pid_t *pids;
    int status = ns_select(&pids);
    if (status != NS_EXIT_YES)
        return status;
    int error = ns_watch_open(&pids, ns_top_take_hold, &top, &top.watch);
    if (error)
        return ns_process_say_error(*pids, error);
    struct ns_state self;
    if (ns_state_of(getpid(), &self) == 0)
        top.newest = top.newer = self.start;
    top.counts = metrics;
    catch_signals();
    return show(&top);
}
