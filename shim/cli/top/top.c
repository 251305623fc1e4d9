/* SPDX-License-Identifier: MIT */
/* Owns the command line of `nagleshim top`, and its loop: looks at connections whenever they are
 * due, a table every few seconds. Not async-signal-safe. */
#include "cli/top/top.h"

#include "cli/cli.h"
#include "cli/top/screen.h"
#include "cli/verbs.h"
#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAY(...) ns_say("top", __VA_ARGS__)
#define SECOND 1000000000U

enum { IDLE_MOST = 20 }; /* rows without traffic that are printed where nobody scrolls */

struct wish {
    bool once, every;
    double interval;
    pid_t pid;
    const char *prometheus;
};

static volatile sig_atomic_t asked_to_end;

static void note_end(int number)
{
    (void)number;
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

/* -1: go on; else what to exit with. */
static int read_options(int argc, char **argv, struct wish *wish)
{
    int option;

    while ((option = ns_verbs_next_option("top", argc, argv)) != -1) {
        if (option == NS_TOP_HELP) {
            ns_help_print("top");
            return NS_EXIT_YES;
        }
        if (option == NS_TOP_ONCE) {
            wish->once = true;
        } else if (option == NS_TOP_EVERY) {
            wish->every = true;
        } else if (option == NS_TOP_PROMETHEUS) {
            wish->prometheus = optarg;
        } else if (option == NS_TOP_INTERVAL) {
            if (!parse_interval(optarg, &wish->interval)) {
                SAY("--interval must be seconds from 0.5 to 3600, not '%s'", optarg);
                return NS_EXIT_ERROR;
            }
        } else if (option == NS_TOP_PID) {
            if (!ns_take_pid("top", &wish->pid))
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
    if (wish->prometheus && !wish->once) {
        SAY("--prometheus needs --once");
        return NS_EXIT_ERROR;
    }
    return -1;
}

static int say_error(int error, const struct wish *wish)
{
    if (error == -ESRCH)
        SAY("there is no process %d", wish->pid);
    else if (error == -EACCES || error == -EPERM)
        SAY("permission denied: process %d is another user's, or protected; ask as that user, or "
            "as root",
            wish->pid);
    else if (error == -EPROTONOSUPPORT)
        SAY("this kernel has no INET_DIAG for TCP (the module tcp_diag)");
    else
        SAY("cannot look at connections: %s", strerror(-error));
    return error == -EACCES || error == -EPERM ? NS_EXIT_DENIED : NS_EXIT_ERROR;
}

/* Sleeps until then, or until a key is typed or a signal comes. */
static void wait_until(uint64_t then, bool keys)
{
    struct pollfd in = {.fd = keys ? STDIN_FILENO : -1, .events = POLLIN};
    uint64_t now = ns_clock_now(CLOCK_MONOTONIC);
    uint64_t left = then > now ? then - now : 0;
    struct timespec timeout = {(time_t)(left / SECOND), (long)(left % SECOND)};

    ppoll(&in, 1, &timeout, NULL);
}

/* Looks until that time, or a key (true), or a signal. */
static int look_until(struct ns_top *top, uint64_t end, bool keys, int *key)
{
    uint64_t now, next;

    *key = NS_KEY_NONE;
    while (!asked_to_end && (now = ns_clock_now(CLOCK_MONOTONIC)) < end) {
        int error = ns_watch_look(top->watch, now, &next, ns_top_take_hold, top);

        if (error)
            return error;
        wait_until(next < end ? next : end, keys);
        if (keys && (*key = ns_screen_key()) != NS_KEY_NONE)
            return 0;
    }
    return 0;
}

/* What is worth it: rows that had traffic, and a few of the others. */
static void print_table(const struct ns_top *top, bool every)
{
    const sig_atomic_t asked = asked_to_end; /* again while it is printed: it is too long */
    struct ns_top_cells cells;
    struct ns_table table;
    size_t left = 0;
    char line[512];

    ns_top_columns(top, &table);
    ns_top_cells(NULL, &cells);
    for (unsigned i = 0; i < NS_TOP_SUMMARY_LINES; i++)
        puts(ns_top_summary(top, i, line, sizeof(line)));
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
        printf("and %zu more without traffic ('--every' lists them)\n", left);
}

static uint64_t after(double seconds)
{
    return ns_clock_now(CLOCK_MONOTONIC) + (uint64_t)(seconds * SECOND);
}

static bool is_over(const struct wish *wish)
{
    return wish->pid && kill(wish->pid, 0) != 0 && errno == ESRCH;
}

static int show_lines(struct ns_top *top, const struct wish *wish)
{
    int error = 0, key;

    do {
        error = look_until(top, after(wish->interval), false, &key);
        if (error)
            return say_error(error, wish);
        ns_top_refresh(top, ns_clock_now(CLOCK_MONOTONIC));
        if (wish->prometheus) {
            error = ns_top_write_prometheus(top, wish->prometheus);
            if (error)
                SAY("cannot write '%s': %s", wish->prometheus, strerror(-error));
            return error ? NS_EXIT_ERROR : NS_EXIT_YES;
        }
        print_table(top, wish->every);
        if (!wish->once)
            putchar('\n');
        /* Whoever read it has gone, or its process has. */
        if (fflush(stdout) != 0 || is_over(wish))
            break;
    } while (!wish->once && !asked_to_end);
    return NS_EXIT_YES;
}

static int show_screen(struct ns_top *top, const struct wish *wish)
{
    struct ns_top_screen screen = {.interval = wish->interval};
    uint64_t refresh = after(0.5); /* the first table soon */
    int error = 0, key = NS_KEY_NONE;

    while (!error && !asked_to_end) {
        ns_top_draw(top, &screen);
        error = look_until(top, refresh, true, &key);
        if (key != NS_KEY_NONE && !ns_top_key(top, &screen, key))
            break;
        if (key == ' ' || ns_clock_now(CLOCK_MONOTONIC) >= refresh) {
            ns_top_refresh(top, ns_clock_now(CLOCK_MONOTONIC));
            screen.over = is_over(wish);
            refresh = after(screen.interval);
        }
    }
    ns_screen_close();
    return error ? say_error(error, wish) : NS_EXIT_YES;
}

/* nohup, and a shell's background, ignore some: they stay ignored. */
static void catch_signals(void)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = note_end}, before;

    for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
        if (sigaction(ending[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(ending[i], &action, NULL);
}

int ns_top_main(int argc, char **argv)
{
    struct wish wish = {.interval = 2};
    struct ns_top top = {.begin = ns_clock_now(CLOCK_MONOTONIC)};
    int status = read_options(argc, argv, &wish), error;

    if (status >= 0)
        return status;
    error = ns_watch_open(
        &(struct ns_watch_wish){
            .pids = &wish.pid, .n_pids = 1, .children = true, .all = wish.pid == 0},
        &top.watch);
    if (error)
        return say_error(error, &wish);
    catch_signals();
    status = !wish.once && ns_screen_open() ? show_screen(&top, &wish) : show_lines(&top, &wish);
    ns_top_release(&top);
    ns_watch_close(top.watch);
    return status;
}
