/* SPDX-License-Identifier: MIT */
/* Owns how `nagleshim top` words its table and its screen. Not async-signal-safe. */
#include "cli/top/top.h"

#include "cli/diagnose/sentences.h"
#include "cli/top/screen.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const order_names[] = {[NS_TOP_BY_LOST] = "time lost",
                                          [NS_TOP_BY_HOLDS] = "holds",
                                          [NS_TOP_BY_PID] = "process id",
                                          [NS_TOP_BY_NAME] = "process name"};

static const char *const help[] = {
    "  q        end",
    "  space    the table as it is now",
    "  d        the delay between two tables, in seconds",
    "  L H N P  sort by time lost, holds, process id, process name",
    "  < > R    sort by the one before or after these; the other way round",
    "  arrows, Page Up and Page Down show other rows",
    "",
    "  HOLDS/S  how often a second bytes were held while the program waited",
    "  LOST/S   how many milliseconds a second it waited for that",
    "  SHARE    that, of the time of its connections with traffic",
    "  SHIM     whether nagleshim is in the process, and what it does there",
    "",
    "  any key goes back",
};

const char *ns_top_order_name(enum ns_top_order order)
{
    return order_names[order];
}

char *ns_top_summary(const struct ns_top *top, unsigned line, char *buffer, size_t size)
{
    const struct ns_watch_tally *tally = &top->tally, *since = &top->since;
    unsigned stalling = 0;
    char clock[16];
    time_t now = time(NULL);
    struct tm local;
    int n;

    for (size_t i = 0; i < top->n_rows; i++)
        stalling += top->rows[i]->holds_rate > 0;
    strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&now, &local));
    if (line == 0) {
        snprintf(buffer, size, "nagleshim top - %s, %u connection%s, %u with traffic; %u row%s",
                 clock, tally->connections, tally->connections == 1 ? "" : "s", tally->busy,
                 stalling, stalling == 1 ? " stalls" : "s stall");
        return buffer;
    }
    n = snprintf(buffer, size, "%.0f looks/s, %.1f %% of a CPU",
                 top->seconds > 0 ? (double)since->looks / top->seconds : 0,
                 top->seconds > 0 ? (double)since->busy_ns / 1e7 / top->seconds : 0);
#define MORE(...) n += n < (int)size ? snprintf(buffer + n, size - (size_t)n, __VA_ARGS__) : 0
    if (tally->idle > 0)
        MORE("; %u idle connection%s in no row", tally->idle, tally->idle == 1 ? " is" : "s are");
    if (tally->busy > tally->close)
        MORE("; %u looked at closely at a time", tally->close);
    if (since->missed > 0)
        MORE("; %llu rounds came too late", (unsigned long long)since->missed);
    if (since->forgotten > 0)
        MORE("; %llu connection%s too short or too many", (unsigned long long)since->forgotten,
             since->forgotten == 1 ? " was" : "s were");
    if (tally->denied > 0)
        MORE("; %llu process%s may not be looked into", (unsigned long long)tally->denied,
             tally->denied == 1 ? "" : "es");
    if (tally->unread > 0)
        MORE("; %llu process%s could not be watched (ulimit -Hn, or memory)",
             (unsigned long long)tally->unread, tally->unread == 1 ? "" : "es");
#undef MORE
    return buffer;
}

static void print_peer(const struct ns_top_row *row, char *buffer, size_t size)
{
    char peer[64];

    if (row->role != NS_ROLE_SERVER && row->connections > 1)
        snprintf(buffer, size, "%s, %u connections",
                 ns_words_address(&row->service, peer, sizeof(peer)), row->connections);
    else if (row->role != NS_ROLE_SERVER)
        ns_words_address(&row->service, buffer, size);
    else if (row->connections == 1)
        snprintf(buffer, size, "port %u, %s", row->service.port,
                 ns_words_address(&row->peer, peer, sizeof(peer)));
    else
        snprintf(buffer, size, "port %u, %u connections", row->service.port, row->connections);
}

enum { PROCESS, PID, ROLE, HOLDS, LOST, SHARE, SHIM };

void ns_top_cells(const struct ns_top_row *row, struct ns_top_cells *cells)
{
    static const char *const titles[] = {"PROCESS", "PID",   "ROLE", "HOLDS/S",
                                         "LOST/S",  "SHARE", "SHIM"};
    const char *role;

    if (!row) {
        memcpy(cells->columns, titles, sizeof(titles));
        snprintf(cells->last, sizeof(cells->last), "PEER");
        return;
    }
    for (unsigned i = 0; i < NS_TOP_COLUMNS; i++)
        cells->columns[i] = cells->texts[i];
    role = ns_role_name(row->role);
    cells->columns[PROCESS] = row->process->name;
    cells->columns[ROLE] = role ? role : "?";
    cells->columns[SHIM] = row->process->shim_text;
#define TEXT(column, ...) snprintf(cells->texts[column], sizeof(cells->texts[0]), __VA_ARGS__)
    TEXT(PID, "%d", row->process->pid);
    TEXT(HOLDS, "%.1f", row->holds_rate);
    TEXT(LOST, "%.1f", row->lost_rate);
    TEXT(SHARE, "%.0f%%", row->share * 100);
#undef TEXT
    print_peer(row, cells->last, sizeof(cells->last));
}

void ns_top_columns(const struct ns_top *top, struct ns_table *table)
{
    struct ns_top_cells cells;

    /* 80 columns, with an IPv4 address, so that few names move the others. */
    *table = (struct ns_table){
        .columns = NS_TOP_COLUMNS,
        .width = {14, 7, 6, 7, 7, 5, 11},
        .right = {[PID] = true, [HOLDS] = true, [LOST] = true, [SHARE] = true},
    };
    for (size_t i = 0; i < top->n_rows; i++) {
        ns_top_cells(top->rows[i], &cells);
        for (unsigned column = 0; column < NS_TOP_COLUMNS; column++)
            ns_table_fit(table, column, cells.columns[column]);
    }
}

/* Names are cut where the screen has no room for them beside the numbers and a peer. */
static void fit_screen(struct ns_table *table, int columns)
{
    unsigned more = columns > 80 ? (unsigned)(columns - 80) / 3 : 0;

    table->line = (unsigned)columns;
    ns_table_limit(table, PROCESS, 14 + more);
    ns_table_limit(table, SHIM, 11 + more);
}

static void draw_help(int lines)
{
    int n = (int)(sizeof(help) / sizeof(help[0]));

    for (int i = 0; i < lines; i++)
        ns_screen_line(i, NS_STYLE_PLAIN, i < n ? help[i] : "");
    ns_screen_show();
}

static int draw_head(const struct ns_top *top, const struct ns_top_screen *screen)
{
    char line[512];
    int at = 0;

    for (unsigned i = 0; i < NS_TOP_SUMMARY_LINES; i++)
        ns_screen_line(at++, NS_STYLE_PLAIN, ns_top_summary(top, i, line, sizeof(line)));
    if (screen->asking)
        snprintf(line, sizeof(line), "delay in seconds (now %g): %s", screen->interval,
                 screen->typed);
    else
        snprintf(line, sizeof(line), "by %s%s, every %g s; h: help, q: end%s",
                 ns_top_order_name(top->order), top->reversed ? ", reversed" : "", screen->interval,
                 screen->over ? "; the process has ended" : "");
    ns_screen_line(at++, screen->asking ? NS_STYLE_BOLD : NS_STYLE_PLAIN, line);
    return at;
}

void ns_top_draw(const struct ns_top *top, struct ns_top_screen *screen)
{
    struct ns_top_cells cells;
    struct ns_table table;
    char line[512], title[512];
    int lines, columns, at;

    ns_screen_size(&lines, &columns);
    if (screen->help) {
        draw_help(lines);
        return;
    }
    at = draw_head(top, screen);
    ns_top_columns(top, &table);
    fit_screen(&table, columns);
    ns_top_cells(NULL, &cells);
    ns_table_text(&table, cells.columns, cells.last, line, sizeof(line));
    snprintf(title, sizeof(title), "%-*s", columns, line);
    ns_screen_line(at++, NS_STYLE_REVERSE, title);
    if (screen->first >= top->n_rows)
        screen->first = top->n_rows > 0 ? top->n_rows - 1 : 0;
    for (size_t i = screen->first; at < lines; i++) {
        const struct ns_top_row *row = i < top->n_rows ? top->rows[i] : NULL;

        line[0] = '\0';
        if (row) {
            ns_top_cells(row, &cells);
            ns_table_text(&table, cells.columns, cells.last, line, sizeof(line));
        }
        ns_screen_line(at++, row && row->holds_rate > 0 ? NS_STYLE_BOLD : NS_STYLE_PLAIN, line);
    }
    ns_screen_show();
}

static void type_delay(struct ns_top_screen *screen, int key)
{
    size_t n = strlen(screen->typed);
    double seconds;

    if (key == '\n' || key == '\r') {
        seconds = strtod(screen->typed, NULL);
        if (seconds >= 0.5 && seconds <= 3600)
            screen->interval = seconds;
        screen->asking = false;
    } else if (key == 27) {
        screen->asking = false;
    } else if ((key == 8 || key == 127) && n > 0) {
        screen->typed[n - 1] = '\0';
    } else if (key < 256 && strchr("0123456789.", key) && n + 1 < sizeof(screen->typed)) {
        screen->typed[n] = (char)key;
        screen->typed[n + 1] = '\0';
    }
}

static void scroll(const struct ns_top *top, struct ns_top_screen *screen, int key)
{
    int lines, columns;
    size_t page, step;

    ns_screen_size(&lines, &columns);
    page = lines > 6 ? (size_t)lines - 5 : 1;
    step = key == NS_KEY_PAGE_UP || key == NS_KEY_PAGE_DOWN ? page : 1;
    if (key == NS_KEY_UP || key == NS_KEY_PAGE_UP)
        screen->first = screen->first > step ? screen->first - step : 0;
    else if (screen->first + step < top->n_rows)
        screen->first += step;
}

bool ns_top_key(struct ns_top *top, struct ns_top_screen *screen, int key)
{
    static const char orders[] = "LHNP";
    const char *order = key > 0 && key < 256 ? strchr(orders, key) : NULL;

    if (key == NS_KEY_RESIZED)
        return true;
    if (screen->asking) {
        type_delay(screen, key);
        return true;
    }
    if (screen->help) {
        screen->help = false;
        return true;
    }
    if (key == 'q' || key == 'Q')
        return false;
    if (key == 'h' || key == '?')
        screen->help = true;
    else if (key == 'd' || key == 's')
        screen->asking = true, screen->typed[0] = '\0';
    else if (key == 'R')
        top->reversed = !top->reversed;
    else if (key == '<' || key == '>')
        top->order = (enum ns_top_order)((top->order + (key == '>' ? 1 : NS_TOP_ORDERS - 1)) %
                                         NS_TOP_ORDERS);
    else if (order)
        top->order = (enum ns_top_order)(order - orders);
    else if (key >= NS_KEY_UP)
        scroll(top, screen, key);
    ns_top_sort(top);
    return true;
}
