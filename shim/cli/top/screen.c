/* SPDX-License-Identifier: MIT */
/* Owns the terminal while `nagleshim top` draws on it: its second screen, its modes, and the keys.
 * The escape sequences are those that every terminal in use understands. */
#include "cli/top/top.h"

#include "process/scope.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* The second screen, without a cursor, and without a further line for what is too long: a letter of
 * a process's name may be two columns wide. */
#define BEGIN "\033[?1049h\033[?25l\033[?7l"
#define END "\033[?7h\033[?25h\033[?1049l"
#define HOME "\033[H"
#define REST_OF_LINE "\033[K"
#define REST_OF_SCREEN "\033[J"

enum { OTHER_LINES = 6 /* besides the rows */ };

static struct termios before;
static bool has_keys, has_help, is_paused;

static const char help[] =
    "\nms/s     milliseconds per second that the program loses to Nagle's algorithm;\n"
    "         in parentheses at an end that waits for the other one: the same time\n"
    "SHARE    the same as a part of the time of its busy connections\n"
    "LIBRARY  works: the library does; no: it is not there; cured: the kernel\n"
    "         cures new connections of its control group (see nagleshim-cure(1))\n"
    "HOLDS/S  how often per second bytes were held\n"
    "PEER     the other end, and the process on this host that holds the bytes\n";

/* stderr is flushed at exit, after this, so that messages appear on the normal screen. */
static void end(void)
{
    if (has_keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
    fputs(END, stdout);
    fflush(stdout);
}

void ns_screen_begin(void)
{
    /* One write for each table, so that it does not flicker. */
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    setvbuf(stderr, NULL, _IOFBF, BUFSIZ);
    fputs(BEGIN, stdout);
    atexit(end);
    has_keys = tcgetpgrp(STDIN_FILENO) == getpgrp() && tcgetattr(STDIN_FILENO, &before) == 0;
    if (!has_keys)
        return;
    struct termios raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = raw.c_cc[VTIME] = 0; /* read(2) does not wait */
    raw.c_cc[VSUSP] = _POSIX_VDISABLE;    /* a shell would get this screen */
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}

enum ns_key ns_screen_key(void)
{
    char key;
    if (!has_keys || read(STDIN_FILENO, &key, 1) != 1)
        return NS_KEY_NONE;
    if (key == 'q')
        return NS_KEY_END;
    has_help ^= key == '?' || key == 'h';
    is_paused ^= key == 'p';
    return NS_KEY_DRAW;
}

/* Lines of UTF-8, cut to so many characters. */
static void print_cut(const char *text, unsigned columns)
{
    for (unsigned column = 0; *text; text++) {
        bool begins = ((unsigned char)*text & 0xC0) != 0x80;
        column = *text == '\n' ? 0 : column + begins;
        if (*text == '\n')
            fputs(REST_OF_LINE, stdout);
        if (column <= columns)
            putchar(*text);
    }
}

void ns_screen_draw(const struct ns_top *top)
{
    static char *table; /* the last one */
    struct winsize size;
    size_t length;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        size = (struct winsize){.ws_row = 24, .ws_col = 80};
    if (!is_paused) {
        free(table);
        FILE *out = ns_allocated(open_memstream(&table, &length));
        ns_top_print(out, top, size.ws_row > OTHER_LINES ? size.ws_row - OTHER_LINES : 1);
        fclose(out);
    }
    fputs(HOME, stdout);
    if (has_keys)
        print_cut(is_paused ? "paused: p goes on, q ends, ? explains the columns\n"
                            : "q ends, p pauses, ? explains the columns\n",
                  size.ws_col);
    print_cut(has_help || !table ? help : table, size.ws_col);
    fputs(REST_OF_SCREEN, stdout);
    fflush(stdout);
}
