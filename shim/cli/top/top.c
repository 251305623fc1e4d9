/* SPDX-License-Identifier: MIT */
/* Owns the options of `nagleshim top` and its loop: samples when they are due, and a table every
 * few seconds. Not async-signal-safe. */
#include "cli/top/top.h"

#include "cli/cli.h"
#include "cli/verbs.h"
#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAY(...) ns_say("top", __VA_ARGS__)
#define SECOND 1000000000U

enum { IDLE_MOST = 20 }; /* further rows without traffic are not printed as lines */

struct options {
    bool once, every;
    double interval;
    pid_t pid;
    const char *prometheus;
};

static volatile sig_atomic_t asked_to_end, asked_to_stop, resized;

static void note_signal(int number)
{
    if (number == SIGWINCH)
        resized = 1;
    else if (number == SIGTSTP)
        asked_to_stop = 1;
    else
        asked_to_end++;
}

static bool parse_interval(const char *text, double *seconds)
{
    char *end;

    *seconds = strtod(text, &end);
    /* No sign, no "inf", no hexadecimal number. */
    return strspn(text, "0123456789.") == strlen(text) && end != text && *end == '\0' &&
           *seconds >= 0.5 && *seconds <= 3600;
}

/* Returns -1 to go on, or an exit status. */
static int read_options(int argc, char **argv, struct options *options)
{
    int option;

    while ((option = ns_verbs_next_option("top", argc, argv)) != -1) {
        if (option == NS_TOP_HELP) {
            ns_help_print("top");
            return NS_EXIT_YES;
        }
        if (option == NS_TOP_ONCE) {
            options->once = true;
        } else if (option == NS_TOP_EVERY) {
            options->every = true;
        } else if (option == NS_TOP_PROMETHEUS) {
            options->prometheus = optarg;
        } else if (option == NS_TOP_INTERVAL) {
            if (!parse_interval(optarg, &options->interval)) {
                SAY("--interval must be seconds from 0.5 to 3600, not '%s'", optarg);
                return NS_EXIT_ERROR;
            }
        } else if (option == NS_TOP_PID) {
            if (!ns_take_pid("top", &options->pid))
                return NS_EXIT_ERROR;
        } else {
            ns_say_option("top", argv, option);
            return NS_EXIT_ERROR;
        }
    }
    if (optind < argc) {
        SAY("'%s': nothing may follow; see 'nagleshim top --help'", argv[optind]);
        return NS_EXIT_ERROR;
    }
    if (options->prometheus && !options->once) {
        SAY("--prometheus needs --once");
        return NS_EXIT_ERROR;
    }
    return -1;
}

static int say_error(int error, const struct options *options)
{
    if (error == -ESRCH)
        SAY("there is no process %d", options->pid);
    else if (error == -EACCES || error == -EPERM)
        SAY("permission denied: process %d is another user's, or protected; run this command as "
            "that "
            "user, or as root",
            options->pid);
    else if (error == -EPROTONOSUPPORT)
        SAY("this kernel has no INET_DIAG for TCP (the module tcp_diag)");
    else
        SAY("cannot list connections: %s", strerror(-error));
    return error == -EACCES || error == -EPERM ? NS_EXIT_DENIED : NS_EXIT_ERROR;
}

/* Sleep until this time, a key, or a signal. */
static void wait_until(uint64_t then, bool keys)
{
    struct pollfd in = {.fd = keys ? STDIN_FILENO : -1, .events = POLLIN};
    uint64_t now = ns_clock_now(CLOCK_MONOTONIC);
    uint64_t left = then > now ? then - now : 0;
    struct timespec timeout = {(time_t)(left / SECOND), (long)(left % SECOND)};

    ppoll(&in, 1, &timeout, NULL);
}

/* Take the samples that are due now, and sleep until the next or until end. 0 or -errno. */
static int take_samples(struct ns_top *top, uint64_t end, bool keys)
{
    uint64_t next;
    int error =
        ns_watch_look(top->watch, ns_clock_now(CLOCK_MONOTONIC), &next, ns_top_take_hold, top);

    if (!error)
        wait_until(next < end ? next : end, keys);
    return error;
}

/* Rows with traffic, and a few of the others. */
static void print_table(const struct ns_top *top, bool every)
{
    const sig_atomic_t asked = asked_to_end; /* a signal meanwhile: the table is too long */
    struct ns_top_cells cells;
    struct ns_table table;
    size_t left = 0;
    char line[512];

    ns_top_columns(top, 0, &table);
    ns_top_cells(NULL, &cells);
    for (unsigned i = 0; i < NS_TOP_SUMMARY_LINES; i++)
        puts(ns_top_summary(top, i, line, sizeof line));
    putchar('\n');
    ns_table_row(&table, cells.columns, cells.last);
    for (size_t i = 0; i < top->n_rows && asked_to_end == asked; i++) {
        if (every || i < IDLE_MOST || top->rows[i]->busy || top->rows[i]->holds_rate > 0) {
            ns_top_cells(top->rows[i], &cells);
            ns_table_row(&table, cells.columns, cells.last);
        } else {
            left++;
        }
    }
    if (left)
        printf("and %zu more rows without traffic ('--every' prints them)\n", left);
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

static int show_lines(struct ns_top *top, const struct options *options)
{
    do {
        uint64_t end = after(options->interval);

        while (!asked_to_end && ns_clock_now(CLOCK_MONOTONIC) < end) {
            int error = take_samples(top, end, false);

            if (error)
                return say_error(error, options);
        }
        ns_top_refresh(top, ns_clock_now(CLOCK_MONOTONIC));
        if (options->prometheus)
            return write_prometheus(top, options->prometheus);
        print_table(top, options->every);
        if (!options->once)
            putchar('\n');
        /* The reader of the lines or the process may have ended. */
        if (fflush(stdout) != 0 || is_over(options))
            break;
    } while (!options->once && !asked_to_end);
    return NS_EXIT_YES;
}

/* ^Z: leave the terminal to the shell, and take it again when this process continues. */
static void stop(void)
{
    asked_to_stop = 0;
    ns_top_close();
    raise(SIGSTOP);
    ns_top_open();
}

static int show_screen(struct ns_top *top, const struct options *options)
{
    struct ns_top_view view = {.interval = options->interval};
    uint64_t refresh = after(0.5); /* the first table comes soon */
    enum ns_top_typed typed = NS_TOP_DRAW;
    int error = 0;

    while (!error && !asked_to_end && typed != NS_TOP_QUIT) {
        if (asked_to_stop)
            stop();
        if (typed == NS_TOP_REFRESH || ns_clock_now(CLOCK_MONOTONIC) >= refresh) {
            ns_top_refresh(top, ns_clock_now(CLOCK_MONOTONIC));
            view.over = is_over(options);
            refresh = after(view.interval);
            typed = NS_TOP_DRAW;
        }
        if (typed == NS_TOP_DRAW || resized) {
            resized = 0;
            ns_top_draw(top, &view);
        }
        error = take_samples(top, refresh, true);
        typed = ns_top_read_keys(top, &view);
    }
    ns_top_close();
    return error ? say_error(error, options) : NS_EXIT_YES;
}

/* Signals that nohup or a shell has set to be ignored stay ignored. */
static void catch_signals(const int *signals, size_t n)
{
    struct sigaction action = {.sa_handler = note_signal}, before;

    for (size_t i = 0; i < n; i++)
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
}

int ns_top_main(int argc, char **argv)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP}, of_terminal[] = {SIGTSTP, SIGWINCH};
    struct options options = {.interval = 2};
    struct ns_top top = {.begin = ns_clock_now(CLOCK_MONOTONIC)};
    int status = read_options(argc, argv, &options);

    if (status >= 0)
        return status;
    struct ns_watch_options watch = {
        .pids = &options.pid, .n_pids = 1, .children = true, .all = options.pid == 0};
    int error = ns_watch_open(&watch, &top.watch);
    if (error)
        return say_error(error, &options);
    catch_signals(ending, 3);
    if (!options.once && ns_top_open()) {
        catch_signals(of_terminal, 2);
        status = show_screen(&top, &options);
    } else {
        status = show_lines(&top, &options);
    }
    ns_top_release(&top);
    ns_watch_close(top.watch);
    return status;
}
