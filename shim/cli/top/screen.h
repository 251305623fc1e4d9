/* SPDX-License-Identifier: MIT */
/* A terminal's screen, by ncurses if this machine has it. */
#ifndef NS_SCREEN_H
#define NS_SCREEN_H

#include <stdbool.h>

enum ns_style { NS_STYLE_PLAIN, NS_STYLE_BOLD, NS_STYLE_REVERSE };

enum {
    NS_KEY_NONE = 0,
    NS_KEY_UP = 256,
    NS_KEY_DOWN,
    NS_KEY_PAGE_UP,
    NS_KEY_PAGE_DOWN,
    NS_KEY_RESIZED
};

/* False: there is no ncurses, no terminal, or one that cannot place its cursor. Nothing was written
 * then. */
bool ns_screen_open(void);
void ns_screen_close(void);

void ns_screen_size(int *lines, int *columns);

/* The whole of a line, cut to the screen's width, with a mark then. */
void ns_screen_line(int line, enum ns_style style, const char *text);
void ns_screen_show(void);

/* A character, one of the above, or NS_KEY_NONE if none was typed. Does not wait. */
int ns_screen_key(void);

#endif
