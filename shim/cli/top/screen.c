/* SPDX-License-Identifier: MIT */
/* Owns the terminal while the table is on it, and the meaning of keys. It draws with the escape
 * sequences of ECMA-48, which every terminal in use understands. Not async-signal-safe. */
#include "cli/top/top.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define BEGIN_SCREEN "\033[?1049h\033[?25l" /* the alternate screen, without a cursor */
#define END_SCREEN "\033[?25h\033[?1049l"
#define BOLD "\033[1m"
#define REVERSE "\033[7m"
#define PLAIN "\033[m"
#define CLEAR_LINE "\033[K"
#define CLEAR_BELOW "\033[J"

static const char *const order_names[] = {"time lost", "holds", "process id", "process name"};
static const char order_keys[] = "LHNP";

static const char *const help[] = {
    "  q        quit",
    "  space    refresh the table now",
    "  L H N P  sort by time lost, holds, process id, process name",
    "  R        reverse the order",
    "  arrows, Page Up and Page Down scroll",
    "",
    "  HOLDS/S  holds per second during which the program waited",
    "  LOST/S   milliseconds per second that the program lost by them",
    "  SHARE    the same, as a part of the time of its busy connections",
    "  SHIM     what nagleshim does in the process",
    "",
    "  any key returns to the table",
};

static struct termios before;

bool ns_top_open(void)
{
    const char *type = getenv("TERM");

    if (!isatty(STDOUT_FILENO) || !type || !*type || strcmp(type, "dumb") == 0 ||
        tcgetattr(STDIN_FILENO, &before) != 0)
        return false;
    struct termios raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    fputs(BEGIN_SCREEN, stdout);
    return true;
}

void ns_top_close(void)
{
    fputs(END_SCREEN, stdout);
    fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

static void get_size(int *lines, int *columns)
{
    struct winsize size = {0};

    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    *lines = size.ws_row ? size.ws_row : 24;
    *columns = size.ws_col ? size.ws_col : 80;
}

/* A line that is cut to the width of the screen ends in a mark. */
static void draw_line(int line, int columns, const char *style, const char *text)
{
    bool cut = ns_table_places(text) > (unsigned)columns;

    printf("\033[%d;1H" CLEAR_LINE "%s%.*s%s" PLAIN, line + 1, style,
           (int)ns_table_bytes(text, (size_t)columns - cut), text, cut ? NS_TABLE_CUT : "");
}

static int draw_head(const struct ns_top *top, const struct ns_top_view *view, int columns)
{
    char line[512];
    int at = 0;

    for (unsigned i = 0; i < NS_TOP_SUMMARY_LINES; i++)
        draw_line(at++, columns, "", ns_top_summary(top, i, line, sizeof line));
    snprintf(line, sizeof line, "by %s%s, every %g s; h: help, q: quit%s", order_names[top->order],
             top->reversed ? ", reversed" : "", view->interval,
             view->over ? "; the process has ended" : "");
    draw_line(at++, columns, "", line);
    return at;
}

void ns_top_draw(const struct ns_top *top, struct ns_top_view *view)
{
    struct ns_top_cells cells;
    struct ns_table table;
    char line[512], title[512];
    int lines, columns, at = 0;

    get_size(&lines, &columns);
    if (view->help) {
        for (size_t i = 0; at < lines && i < sizeof help / sizeof help[0]; i++)
            draw_line(at++, columns, "", help[i]);
    } else {
        at = draw_head(top, view, columns);
        ns_top_columns(top, (unsigned)columns, &table);
        ns_top_cells(NULL, &cells);
        ns_table_text(&table, cells.columns, cells.last, line, sizeof line);
        snprintf(title, sizeof title, "%-*s", columns, line);
        draw_line(at++, columns, REVERSE, title);
        if (view->first >= top->n_rows)
            view->first = top->n_rows > 0 ? top->n_rows - 1 : 0;
        for (size_t i = view->first; at < lines && i < top->n_rows; i++) {
            ns_top_cells(top->rows[i], &cells);
            ns_table_text(&table, cells.columns, cells.last, line, sizeof line);
            draw_line(at++, columns, top->rows[i]->holds_rate > 0 ? BOLD : "", line);
        }
    }
    if (at < lines)
        printf("\033[%d;1H" CLEAR_BELOW, at + 1);
    fflush(stdout);
}

/* The sequences of arrows and pages: CSI A, CSI B, CSI 5 ~ and CSI 6 ~. */
static void scroll(const struct ns_top *top, struct ns_top_view *view, char key)
{
    int lines, columns;

    get_size(&lines, &columns);
    size_t page = lines > 6 ? (size_t)lines - 5 : 1;
    size_t step = key == '5' || key == '6' ? page : 1;
    if (key == 'A' || key == '5')
        view->first = view->first > step ? view->first - step : 0;
    else if ((key == 'B' || key == '6') && view->first + step < top->n_rows)
        view->first += step;
}

enum ns_top_typed ns_top_read_keys(struct ns_top *top, struct ns_top_view *view)
{
    enum ns_top_typed result = NS_TOP_NOTHING;
    char keys[64];
    ssize_t n = read(STDIN_FILENO, keys, sizeof keys);

    for (ssize_t i = 0; i < n; i++) {
        const char *order = strchr(order_keys, keys[i]);

        if (result == NS_TOP_NOTHING)
            result = NS_TOP_DRAW;
        if (keys[i] == '\033' && i + 2 < n) {
            scroll(top, view, keys[i + 2]);
            i += 2;
        } else if (view->help) {
            view->help = false;
        } else if (keys[i] == 'q' || keys[i] == 'Q') {
            return NS_TOP_QUIT;
        } else if (keys[i] == 'h' || keys[i] == '?') {
            view->help = true;
        } else if (keys[i] == ' ') {
            result = NS_TOP_REFRESH;
        } else if (keys[i] == 'R') {
            top->reversed = !top->reversed;
        } else if (keys[i] && order) {
            top->order = (enum ns_top_order)(order - order_keys);
        }
    }
    ns_top_sort(top);
    return result;
}
