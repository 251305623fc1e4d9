/* SPDX-License-Identifier: MIT */
/* Owns the options of `nagleshim top` and its loop: samples when they are due, and a table every
 * few seconds. Not async-signal-safe. */
#include "cli/top/top.h"

#include "cli/cli.h"
#include "cli/diagnose/rows.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define SAY(...) ns_say("top", __VA_ARGS__)
#define SECOND 1000000000U

/* Escape sequences of ECMA-48, which every terminal in use understands. */
#define FIRST_LINE "\033[H"
#define CLEAR_SCREEN "\033[2J"
#define CLEAR_LINE "\033[K"
#define CLEAR_BELOW "\033[J"

enum {
    IDLE_MOST = 20, /* further rows without traffic are not printed */
    HEAD_LINES = NS_TOP_SUMMARY_LINES + 2,
};

struct options {
    bool once, every, json;
    double interval;
    pid_t pid;
    const char *prometheus;
};

static volatile sig_atomic_t asked_to_end;

static void note_signal(int number)
{
    (void)number;
    asked_to_end++;
}

static bool read_options(int argc, char **argv, struct options *options)
{
    const struct ns_target targets[] = {{NS_TOP_ONCE, &options->once, 0, 0},
                                        {NS_TOP_EVERY, &options->every, 0, 0},
                                        {NS_TOP_JSON, &options->json, 0, 0},
                                        {NS_TOP_PROMETHEUS, &options->prometheus, 0, 0},
                                        {NS_TOP_INTERVAL, &options->interval, 0.5, 3600},
                                        {NS_TOP_PID, &options->pid, 0, 0},
                                        {0}};

    if (!ns_verbs_read("top", argc, argv, targets))
        return false;
    options->once = options->once || options->json;
    if (options->prometheus && options->json)
        SAY("--json and --prometheus cannot be used together");
    else if (options->prometheus && !options->once)
        SAY("--prometheus needs --once");
    else
        return true;
    return false;
}

/* Sleep until this time or a signal. */
static void wait_until(uint64_t then)
{
    uint64_t now = ns_clock_now(CLOCK_MONOTONIC);
    uint64_t left = then > now ? then - now : 0;
    struct timespec timeout = {(time_t)(left / SECOND), (long)(left % SECOND)};

    ppoll(NULL, 0, &timeout, NULL);
}

/* Take the samples that are due now, and sleep until the next or until end. 0 or -errno. */
static int take_samples(struct ns_top *top, uint64_t end)
{
    uint64_t next;
    int error =
        ns_watch_look(top->watch, ns_clock_now(CLOCK_MONOTONIC), &next, ns_top_take_hold, top);

    if (!error)
        wait_until(next < end ? next : end);
    return error;
}

/* Is standard output a terminal that can place its cursor? */
static bool is_screen(void)
{
    const char *type = getenv("TERM");

    return isatty(STDOUT_FILENO) && type && *type && strcmp(type, "dumb") != 0;
}

/* A line that is cut to the width of the screen ends in a mark. */
static void print_line(const char *text, unsigned columns)
{
    bool cut = columns && ns_top_places(text) > columns;

    if (columns)
        printf("%.*s%s" CLEAR_LINE "\n", (int)ns_top_bytes(text, columns - cut), text,
               cut ? NS_TOP_CUT : "");
    else
        puts(text);
}

static void print_row(const struct ns_table *table, const struct ns_top_row *row)
{
    char line[512];

    ns_top_line(table, row, line, sizeof line);
    print_line(line, table->line);
}

/* Rows with traffic, and a few of the others; on a screen those that fit. */
static void print_table(const struct ns_top *top, bool every, bool screen)
{
    const sig_atomic_t asked = asked_to_end; /* a signal meanwhile: the table is too long */
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    struct ns_table table;
    size_t most = SIZE_MAX, left = 0;
    char line[512];

    if (screen) {
        ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
        most = size.ws_row > HEAD_LINES + 1 ? size.ws_row - HEAD_LINES - 1 : 1;
        fputs(FIRST_LINE, stdout);
    }
    ns_top_columns(top, screen ? size.ws_col : 0, &table);
    for (unsigned i = 0; i < NS_TOP_SUMMARY_LINES; i++)
        print_line(ns_top_summary(top, i, line, sizeof line), table.line);
    print_line("", table.line);
    print_row(&table, NULL);
    for (size_t i = 0; i < top->n_rows && i < most && asked_to_end == asked; i++) {
        if (!ns_top_is_shown(top->rows[i]))
            break;
        if (every || i < IDLE_MOST || top->rows[i]->busy || top->rows[i]->holds_rate > 0)
            print_row(&table, top->rows[i]);
        else
            left++;
    }
    if (left && !screen)
        printf("and %zu more rows without traffic ('--every' prints them)\n", left);
    if (screen)
        fputs(CLEAR_BELOW, stdout);
}

static uint64_t after(double seconds)
{
    return ns_clock_now(CLOCK_MONOTONIC) + (uint64_t)(seconds * SECOND);
}

static bool is_over(const struct options *options)
{
    return options->pid && kill(options->pid, 0) != 0 && errno == ESRCH;
}

static int write_prometheus(const struct ns_top *top, const char *path)
{
    int error = ns_top_write_prometheus(top, path);

    if (error)
        SAY("cannot write '%s': %s", path, strerror(-error));
    return error ? NS_EXIT_ERROR : NS_EXIT_YES;
}

static int show(struct ns_top *top, const struct options *options)
{
    bool screen = !options->once && is_screen();

    if (screen)
        fputs(CLEAR_SCREEN, stdout);
    do {
        uint64_t end = after(options->interval);

        while (!asked_to_end && ns_clock_now(CLOCK_MONOTONIC) < end) {
            int error = take_samples(top, end);

            if (error)
                return ns_diagnosed_say_error("top", options->pid, error);
        }
        ns_top_refresh(top, ns_clock_now(CLOCK_MONOTONIC));
        if (options->prometheus)
            return write_prometheus(top, options->prometheus);
        if (options->json)
            return ns_top_fill_json(top), NS_EXIT_YES;
        print_table(top, options->every, screen);
        if (!options->once && !screen)
            putchar('\n');
        /* The reader of the lines or the process may have ended. */
        if (fflush(stdout) != 0 || is_over(options))
            break;
    } while (!options->once && !asked_to_end);
    return NS_EXIT_YES;
}

/* Signals that nohup or a shell has set to be ignored stay ignored. */
static void catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = note_signal}, before;

    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
}

int ns_top_main(int argc, char **argv)
{
    struct options options = {.interval = 2};
    static struct ns_top top;

    if (!read_options(argc, argv, &options))
        return NS_EXIT_ERROR;
    top.begin = ns_clock_now(CLOCK_MONOTONIC);
    struct ns_watch_options watch = {.pids = &options.pid,
                                     .n_pids = 1,
                                     .children = true,
                                     .all = options.pid == 0,
                                     .peers = options.pid != 0};
    int error = ns_watch_open(&watch, &top.watch);
    if (error)
        return ns_diagnosed_say_error("top", options.pid, error);
    catch_signals();
    int status = show(&top, &options);
    ns_top_release(&top);
    ns_watch_close(top.watch);
    return status;
}
