/* SPDX-License-Identifier: MIT */
/* What the files of `nagleshim top` share: rows of connections of one process, role and service,
 * and what they lost in the last interval. */
#ifndef NS_TOP_H
#define NS_TOP_H

#include "cli/process/loaded.h"
#include "cli/table.h"

#include "watch/watch.h"

#include <stdio.h>

enum ns_top_order { NS_TOP_BY_LOST, NS_TOP_BY_HOLDS, NS_TOP_BY_PID, NS_TOP_BY_NAME, NS_TOP_ORDERS };

struct ns_top_process {
    pid_t pid;
    uint64_t started; /* 0: not known; see struct ns_watched */
    char name[64];    /* tame */
    enum ns_shim shim;
    char shim_text[48]; /* what it does there, in few words */
    uint64_t looked;    /* when; CLOCK_MONOTONIC ns */
    bool used;
};

struct ns_top_row {
    struct ns_top_process *process;
    enum ns_role role;
    struct ns_address service; /* client: the remote end; server: the local end */
    struct ns_address peer;    /* of its only connection, or of the last one */
    unsigned connections;
    unsigned busy;                       /* of those, had traffic lately */
    uint64_t holds, lost_ns;             /* since the last refresh */
    double holds_rate, lost_rate, share; /* a second; ms a second; of the busy ones' time */
};

struct ns_top {
    struct ns_watch *watch;
    struct ns_top_row **rows;
    size_t n_rows;
    struct ns_top_process **processes;
    size_t n_processes;
    enum ns_top_order order;
    bool reversed;
    uint64_t begin;                     /* of the interval */
    double seconds;                     /* that the last one took */
    struct ns_watch_tally tally, since; /* now; of the last interval: looks and so on */
};

/* For ns_watch_look; context is the struct ns_top. */
void ns_top_take_hold(void *context, struct ns_watched *watched, const struct ns_hold *hold);

/* The end of an interval: rates, new and gone rows, order. */
void ns_top_refresh(struct ns_top *top, uint64_t now);
void ns_top_sort(struct ns_top *top);
void ns_top_release(struct ns_top *top);

/* A line above the table, without an end of line. Returns buffer. */
char *ns_top_summary(const struct ns_top *top, unsigned line, char *buffer, size_t size);
const char *ns_top_order_name(enum ns_top_order order);

enum { NS_TOP_SUMMARY_LINES = 2 };

/* For cli/table.h. */
enum { NS_TOP_COLUMNS = 7 };
struct ns_top_cells {
    const char *columns[NS_TOP_COLUMNS];
    char last[96];
    char texts[NS_TOP_COLUMNS][16];
};

/* A table whose columns are as wide as these rows need them. */
void ns_top_columns(const struct ns_top *top, struct ns_table *table);

/* row: NULL for the title. cells must not be copied, and refer to the row. */
void ns_top_cells(const struct ns_top_row *row, struct ns_top_cells *cells);

/* Its name, and what the shim does in it. */
void ns_top_look_at_process(struct ns_top_process *process);

/* node_exporter's textfile; the file is there whole or as it was. 0, or -errno. */
int ns_top_write_prometheus(const struct ns_top *top, const char *path);

/* One key of the screen. False: it is the end. */
struct ns_top_screen {
    double interval;
    size_t first; /* row that is shown first */
    bool help;
    bool over;   /* the process that was named has ended */
    bool asking; /* for the delay, of which this much is typed */
    char typed[16];
};
bool ns_top_key(struct ns_top *top, struct ns_top_screen *screen, int key);
void ns_top_draw(const struct ns_top *top, struct ns_top_screen *screen);

#endif
