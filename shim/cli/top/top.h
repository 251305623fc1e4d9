/* SPDX-License-Identifier: MIT */
/* What the files of `nagleshim top` share. Its rows are those of a diagnosis of each interval. */
#ifndef NS_TOP_H
#define NS_TOP_H

#include "cli/diagnose/diagnose.h"
#include "watch/watch.h"

#include <stdio.h>

struct ns_top {
    struct ns_watch *watch;
    struct ns_diagnosis interval;        /* its rows and processes */
    uint64_t begin;                      /* of the interval */
    double seconds;                      /* length of the last one */
    struct ns_watch_tally tally, before; /* now, and at the begin of the last interval */
    bool counts;                         /* for --prometheus */
    /* When the newest process was started that had a row at the last refresh, and that has one. */
    uint64_t newest, newer;
};

/* For ns_watch_open; context is the struct ns_top. */
void ns_top_take_hold(void *context, struct ns_watched *watched, const struct ns_hold *hold);

/* Rows of peers are shown only if they hold bytes; they come after all others. */
bool ns_top_is_shown(const struct ns_row *row);

/* Is it only the other end that holds bytes? Then that one's row has the lost time, too. */
static inline bool ns_top_waits(const struct ns_row *row)
{
    return row->other && row->holds_rate == 0;
}

/* End the interval: compute rates, add and remove rows, sort. */
void ns_top_refresh(struct ns_top *top, uint64_t now);

/* Add what --json prints to the command's object (cli/output.h). */
void ns_top_fill_json(const struct ns_top *top);

/* Print the table, with `most` rows at most. */
void ns_top_print(FILE *out, const struct ns_top *top, size_t most);

/* --- screen.c: a terminal -------------------------------------------------------------------- */

enum ns_key { NS_KEY_NONE, NS_KEY_DRAW, NS_KEY_END };

/* Take the terminal, which the end of the command gives back. Its keys are read if this process is
 * in its foreground. */
void ns_screen_begin(void);

/* The key that was pressed; does not wait. NS_KEY_DRAW: what is drawn has changed. */
enum ns_key ns_screen_key(void);

/* Draw the table, or what the keys have chosen. */
void ns_screen_draw(const struct ns_top *top);

/* --- metrics.c: counters --------------------------------------------------------------------- */

/* Add to the counters: the last interval of a row, and what the library in a process has done since
 * the last call for this process. */
void ns_metrics_take_row(const struct ns_row *row);
void ns_metrics_take_library(struct ns_row_process *process, const struct ns_stats *stats);

/* Replace the file as a whole by the counters; "-": print them. top NULL: by nothing, as long as
 * there are none. An exit status, after a message if that fails. */
int ns_metrics_write(const struct ns_top *top, const char *file);

#endif
