/* SPDX-License-Identifier: MIT */
/* Owns the words of the table, which are the lines above it and its cells, and its layout. The
 * words must be sanitized. Not async-signal-safe. */
#include "cli/top/top.h"

#include "cli/diagnose/sentences.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* "; 3 connections " */
static void add_count(char *buffer, size_t size, uint64_t n, const char *noun, const char *plural,
                      const char *text)
{
    if (n > 0)
        ns_words_add(buffer, size, "; %llu %s%s %s", (unsigned long long)n, noun,
                     n == 1 ? "" : plural, text);
}

char *ns_top_summary(const struct ns_top *top, unsigned line, char *buffer, size_t size)
{
    const struct ns_watch_tally *tally = &top->tally, *since = &top->since;
    double seconds = top->seconds > 0 ? top->seconds : 1;
    time_t now = time(NULL);
    unsigned stalling = 0;
    char clock[16];
    struct tm local;

    if (line == 0) {
        for (size_t i = 0; i < top->n_rows; i++)
            stalling += top->rows[i]->lost_rate > 0;
        strftime(clock, sizeof clock, "%H:%M:%S", localtime_r(&now, &local));
        snprintf(buffer, size, "nagleshim top - %s, %u connection%s, %u with traffic; %u row%s",
                 clock, tally->connections, tally->connections == 1 ? "" : "s", tally->busy,
                 stalling, stalling == 1 ? " stalls" : "s stall");
        return buffer;
    }
    snprintf(buffer, size, "%.0f samples/s, %.1f%% of a CPU", (double)since->looks / seconds,
             (double)since->busy_ns / 1e7 / seconds);
    add_count(buffer, size, tally->idle, "idle connection", "s", "not shown");
    if (tally->busy > tally->sampled)
        ns_words_add(buffer, size, "; %u sampled at a time", tally->sampled);
    add_count(buffer, size, since->missed, "round", "s", "of samples late");
    add_count(buffer, size, since->forgotten, "connection", "s",
              "not sampled (too short or too many)");
    add_count(buffer, size, tally->denied, "process", "es",
              "not examined (not permitted, or too few descriptors)");
    return buffer;
}

enum { PROCESS, PID, ROLE, HOLDS, LOST, SHARE, SHIM, COLUMNS };

struct cells {
    const char *columns[COLUMNS];
    char last[96];
    char texts[COLUMNS][16];
};

static const char *const shims[] = {
    [NS_SHIM_UNKNOWN] = "?",         [NS_SHIM_DENIED] = "denied",     [NS_SHIM_NO] = "no",
    [NS_SHIM_UNNAMED] = "no?",       [NS_SHIM_STARTING] = "starting", [NS_SHIM_OFF] = "off",
    [NS_SHIM_VERSION] = "version",   [NS_SHIM_DISABLED] = "disabled", [NS_SHIM_READY] = "works",
    [NS_SHIM_OBSERVES] = "observes", [NS_SHIM_WORKS] = "works",
};

char *ns_top_peer(const struct ns_top_row *row, char *buffer, size_t size)
{
    const struct ns_address *address = row->role == NS_ROLE_SERVER ? &row->peer : &row->service;

    buffer[0] = '\0';
    if (row->role == NS_ROLE_SERVER)
        ns_words_add(buffer, size, "port %u, ", row->service.port);
    if (row->role != NS_ROLE_SERVER || row->connections == 1) {
        char text[64];

        ns_words_add(buffer, size, "%s", ns_words_address(address, text, sizeof text));
        if (row->connections > 1)
            ns_words_add(buffer, size, ", ");
    }
    if (row->connections != 1 && (row->role == NS_ROLE_SERVER || row->connections > 1))
        ns_words_add(buffer, size, "%u connections", row->connections);
    if (row->held_by)
        ns_words_add(buffer, size, ", held by %s[%d]", row->held_by->name, row->held_by->pid);
    return buffer;
}

const char *ns_top_shim(const struct ns_top_row *row)
{
    return shims[row->process->shim];
}

/* row: NULL for the title. cells has pointers into itself and the row. */
static void fill_cells(const struct ns_top_row *row, struct cells *cells)
{
    static const char *const titles[] = {"PROCESS", "PID",   "ROLE", "HOLDS/S",
                                         "LOST/S",  "SHARE", "SHIM"};

    if (!row) {
        memcpy(cells->columns, titles, sizeof titles);
        snprintf(cells->last, sizeof cells->last, "PEER");
        return;
    }
    for (unsigned i = 0; i < COLUMNS; i++)
        cells->columns[i] = cells->texts[i];
    const char *role = ns_role_name(row->role);
    cells->columns[PROCESS] = row->process->name;
    cells->columns[ROLE] = role ? role : "?";
    cells->columns[SHIM] = ns_top_shim(row);
    snprintf(cells->texts[PID], sizeof cells->texts[0], "%d", row->process->pid);
    snprintf(cells->texts[HOLDS], sizeof cells->texts[0], "%.1f", row->holds_rate);
    snprintf(cells->texts[LOST], sizeof cells->texts[0], "%.1f", row->lost_rate);
    snprintf(cells->texts[SHARE], sizeof cells->texts[0], "%.0f%%", row->share * 100);
    ns_top_peer(row, cells->last, sizeof cells->last);
}

size_t ns_top_bytes(const char *text, size_t places)
{
    size_t n = 0;

    while (text[n] != '\0' && (places > 0 || ((unsigned char)text[n] & 0xC0) == 0x80)) {
        places -= ((unsigned char)text[n] & 0xC0) != 0x80;
        n++;
    }
    return n;
}

unsigned ns_top_places(const char *text)
{
    unsigned places = 0;

    for (; *text; text++)
        places += ((unsigned char)*text & 0xC0) != 0x80;
    return places;
}

void ns_top_columns(const struct ns_top *top, unsigned line, struct ns_table *table)
{
    static const unsigned least[COLUMNS] = {14, 7, 6, 7, 7, 5, 11};
    unsigned more = line > 80 ? (line - 80) / 3 : 0;
    struct cells cells;

    /* The widths fill 80 columns with an IPv4 address, so that the columns seldom move. */
    table->line = line;
    memcpy(table->width, least, sizeof least);
    for (size_t i = 0; i < top->n_rows; i++) {
        fill_cells(top->rows[i], &cells);
        for (unsigned column = 0; column < COLUMNS; column++) {
            unsigned places = ns_top_places(cells.columns[column]);

            if (line && (column == PROCESS || column == SHIM) && places > least[column] + more)
                places = least[column] + more;
            if (places > table->width[column])
                table->width[column] = places;
        }
    }
}

static void write_cell(const struct ns_table *table, unsigned column, const char *text, FILE *out)
{
    unsigned width = table->width[column], places = ns_top_places(text);
    int blanks = places < width ? (int)(width - places) : 0;
    bool cut = places > width;
    bool is_right = column == PID || column == HOLDS || column == LOST || column == SHARE;

    fprintf(out, "%*s%.*s%s%*s ", is_right ? blanks : 0, "", (int)ns_top_bytes(text, width - cut),
            text, cut ? NS_TOP_CUT : "", is_right ? 0 : blanks, "");
}

void ns_top_line(const struct ns_table *table, const struct ns_top_row *row, char *buffer,
                 size_t size)
{
    FILE *out = fmemopen(buffer, size, "w");
    struct cells cells;

    buffer[0] = '\0';
    if (!out)
        return;
    fill_cells(row, &cells);
    for (unsigned i = 0; i < COLUMNS; i++)
        write_cell(table, i, cells.columns[i], out);
    fputs(cells.last, out);
    fclose(out);
    buffer[size - 1] = '\0';
}
