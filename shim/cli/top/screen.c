/* SPDX-License-Identifier: MIT */
/* See screen.h. Owns the terminal while it is open. ncurses is loaded when it is wanted, so that
 * the command starts where there is none, and is declared here, so that it is drawn with wherever
 * it is, whether or not its headers were there when the command was built: these functions are
 * X/Open's, and their binary form is that of version 6. Not async-signal-safe. */
#include "cli/top/screen.h"

#include "cli/table.h"

#include <dlfcn.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct window; /* WINDOW */
struct screen; /* SCREEN */

/* curses.h of ncurses 6 */
enum {
    CURSES_REVERSE = 0x40000,
    CURSES_BOLD = 0x200000,
    CURSES_DOWN = 0402,
    CURSES_UP = 0403,
    CURSES_BACKSPACE = 0407,
    CURSES_PAGE_DOWN = 0522,
    CURSES_PAGE_UP = 0523,
    CURSES_RESIZED = 0632,
};

#define CURSES(X)                                                                                  \
    X(struct screen *, newterm, (const char *type, FILE *out, FILE *in))                           \
    X(void, delscreen, (struct screen *))                                                          \
    X(int, endwin, (void))                                                                         \
    X(int, cbreak, (void))                                                                         \
    X(int, noecho, (void))                                                                         \
    X(int, curs_set, (int))                                                                        \
    X(int, nodelay, (struct window *, bool))                                                       \
    X(int, keypad, (struct window *, bool))                                                        \
    X(int, wgetch, (struct window *))                                                              \
    X(int, wmove, (struct window *, int line, int column))                                         \
    X(int, wattrset, (struct window *, int))                                                       \
    X(int, waddnstr, (struct window *, const char *, int))                                         \
    X(int, wclrtoeol, (struct window *))                                                           \
    X(int, wrefresh, (struct window *))                                                            \
    X(int, getmaxx, (const struct window *))                                                       \
    X(int, getmaxy, (const struct window *))                                                       \
    X(char *, tigetstr, (const char *))

static struct {
#define X(result, name, arguments) result(*name) arguments;
    CURSES(X)
#undef X
    struct window **stdscr;
    struct screen *screen;
} curses;

static bool load(void)
{
    static const char *const names[] = {"libncursesw.so.6", "libncurses.so.6"};
    void *library = NULL;
    void *found;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
        /* As POSIX has it for functions from dlsym. */
#define X(result, name, arguments)                                                                 \
    found = dlsym(library, #name);                                                                 \
    if (!found)                                                                                    \
        return false;                                                                              \
    memcpy(&curses.name, &found, sizeof(found));
    CURSES(X)
#undef X
    curses.stdscr = dlsym(library, "stdscr");
    return curses.stdscr;
}

bool ns_screen_open(void)
{
    const char *type = getenv("TERM");

    if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO) || !type || !*type ||
        strcmp(type, "dumb") == 0 || !load())
        return false;
    setlocale(LC_CTYPE, "");
    curses.screen = curses.newterm(type, stdout, stdin);
    if (!curses.screen)
        return false;
    if (!curses.tigetstr("cup")) {
        ns_screen_close();
        return false;
    }
    curses.cbreak();
    curses.noecho();
    curses.curs_set(0);
    curses.nodelay(*curses.stdscr, true);
    curses.keypad(*curses.stdscr, true);
    return true;
}

void ns_screen_close(void)
{
    curses.endwin();
    curses.delscreen(curses.screen);
}

void ns_screen_size(int *lines, int *columns)
{
    *lines = curses.getmaxy(*curses.stdscr);
    *columns = curses.getmaxx(*curses.stdscr);
}

void ns_screen_line(int line, enum ns_style style, const char *text)
{
    static const int attributes[] = {0, CURSES_BOLD, CURSES_REVERSE};
    struct window *window = *curses.stdscr;
    unsigned columns = (unsigned)curses.getmaxx(window), places = ns_table_places(text);
    bool cut = places > columns;

    curses.wmove(window, line, 0);
    curses.wattrset(window, attributes[style]);
    curses.waddnstr(window, text, (int)ns_table_bytes(text, columns - cut));
    if (cut)
        curses.waddnstr(window, NS_TABLE_CUT, 1);
    curses.wattrset(window, 0);
    /* A line as wide as the screen has moved on to the next. */
    if (places < columns)
        curses.wclrtoeol(window);
}

void ns_screen_show(void)
{
    curses.wrefresh(*curses.stdscr);
}

int ns_screen_key(void)
{
    int key = curses.wgetch(*curses.stdscr);

    switch (key) {
    case CURSES_UP:
        return NS_KEY_UP;
    case CURSES_DOWN:
        return NS_KEY_DOWN;
    case CURSES_PAGE_UP:
        return NS_KEY_PAGE_UP;
    case CURSES_PAGE_DOWN:
        return NS_KEY_PAGE_DOWN;
    case CURSES_BACKSPACE:
        return '\b';
    case CURSES_RESIZED:
        return NS_KEY_RESIZED;
    default:
        return key > 0 && key < 256 ? key : NS_KEY_NONE;
    }
}
