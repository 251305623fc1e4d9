/* SPDX-License-Identifier: MIT */
/* What the files of `nagleshim top` share. A row is all connections of a process with the same role
 * and service, with what they lost in the last interval. */
#ifndef NS_TOP_H
#define NS_TOP_H

#include "process/loaded.h"
#include "watch/watch.h"

#include <stdio.h>

enum { NS_DONE_SOCKETS, NS_DONE_PUSHES, NS_DONE_ACKS, NS_DONE };

struct ns_top_process {
    pid_t pid;
    uint64_t started;       /* see struct ns_watched */
    char name[64];          /* printable */
    enum ns_shim shim;      /* NS_SHIM_WORKS for NS_SHIM_READY, too */
    bool is_cured;          /* the kernel cures the connections of its control group */
    uint64_t looked;        /* when it was examined; CLOCK_MONOTONIC ns */
    uint64_t done[NS_DONE]; /* by the library until then, if has_done */
    bool has_done;
};

struct ns_top_row {
    struct ns_top_process process;
    enum ns_role role;
    struct ns_address service; /* a server's local end; otherwise the remote end */
    struct ns_address peer;    /* of the last connection */
    unsigned connections;
    unsigned busy;             /* those with recent traffic */
    struct ns_verdict verdict; /* on the last interval */
    uint64_t behind_ns;        /* behind holds of the other end, in the current interval */
    double holds_rate;         /* holds per second, in the last interval */
    double lost_rate;          /* lost ms per second, at either end */
    double share;              /* lost time as a part of the time of busy connections */
    /* The other end, on this host, whose holds this end waited for, in the current interval and in
     * the last one; lost_rate counts them, too, but holds_rate does not. NULL: none. */
    const struct ns_top_row *holder, *held_by;
    bool is_peer; /* its process is not chosen: it is shown only if it holds bytes */
};

struct ns_top {
    struct ns_watch *watch;
    struct ns_top_row **rows;
    size_t n_rows;
    uint64_t begin;                      /* of the interval */
    double seconds;                      /* length of the last one */
    struct ns_watch_tally tally, before; /* now, and at the begin of the last interval */
    bool counts;                         /* for --openmetrics */
    /* When the newest process was started that had a row at the last refresh, and that has one. */
    uint64_t newest, newer;
};

/* For ns_watch_open; context is the struct ns_top. */
void ns_top_take_hold(void *context, struct ns_watched *watched, const struct ns_hold *hold);

/* Rows of peers are shown only if they hold bytes; they come after all others. */
bool ns_top_is_shown(const struct ns_top_row *row);

/* Is it only the other end that holds bytes? Then that one's row has the lost time, too. */
static inline bool ns_top_waits(const struct ns_top_row *row)
{
    return row->held_by && row->holds_rate == 0;
}

/* End the interval: compute rates, add and remove rows, sort. */
void ns_top_refresh(struct ns_top *top, uint64_t now);

/* Add what --json prints to the command's object (cli/output.h). */
void ns_top_fill_json(const struct ns_top *top);

/* Print the table, with `most` rows at most. */
void ns_top_print(FILE *out, const struct ns_top *top, size_t most);

/* --- screen.c: a terminal -------------------------------------------------------------------- */

enum ns_key { NS_KEY_NONE, NS_KEY_DRAW, NS_KEY_END };

/* Take the terminal, and give it back. Its keys are read if this process is in its foreground. */
void ns_screen_begin(void);
void ns_screen_end(void);

/* The key that was pressed; does not wait. NS_KEY_DRAW: what is drawn has changed. */
enum ns_key ns_screen_key(void);

/* Draw the table, or what the keys have chosen. */
void ns_screen_draw(const struct ns_top *top);

/* --- metrics.c: counters --------------------------------------------------------------------- */

/* Add to the counters: the last interval of a row, and what the library in a process has done since
 * the last call for this process. */
void ns_metrics_take_row(const struct ns_top_row *row, const struct ns_conclusion *conclusion);
void ns_metrics_take_library(struct ns_top_process *process, const struct ns_stats *stats);

/* Replace the file as a whole by the counters; "-": print them. top NULL: by nothing, as long as
 * there are none. An exit status, after a message if that fails. */
int ns_metrics_write(const struct ns_top *top, const char *file);

#endif
