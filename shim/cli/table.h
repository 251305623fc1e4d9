/* SPDX-License-Identifier: MIT */
/* A table on standard output whose last column is text of any length: folded to the width of a
 * terminal, and one line a row where something else reads it. */
#ifndef NS_TABLE_H
#define NS_TABLE_H

#include <stdbool.h>
#include <stddef.h>

enum { NS_TABLE_COLUMNS_MOST = 8 };

struct ns_table {
    unsigned columns; /* before the last */
    unsigned width[NS_TABLE_COLUMNS_MOST];
    bool right[NS_TABLE_COLUMNS_MOST]; /* numbers */
    unsigned line;                     /* of the terminal; 0: nothing is folded or cut */
};

/* How wide a line of standard output may be: the terminal's width, 80 if it does not tell; 0 if it
 * is no terminal. */
unsigned ns_table_line(void);

/* A column must be as wide as this text. */
void ns_table_fit(struct ns_table *table, unsigned column, const char *text);

/* A column may not be wider than that on a terminal. */
void ns_table_limit(struct ns_table *table, unsigned column, unsigned most);

/* What stands at the end of a text that was cut. */
#define NS_TABLE_CUT "+"

/* How many places a text takes, and the bytes of it that take so many, in UTF-8 as far as it is. */
unsigned ns_table_places(const char *text);
size_t ns_table_bytes(const char *text, size_t places);

/* cells: one text a column; last: the text behind them, or below where the line is too narrow. */
void ns_table_row(const struct ns_table *table, const char *const *cells, const char *last);

/* The same in a buffer, without an end of line, and never folded. */
void ns_table_text(const struct ns_table *table, const char *const *cells, const char *last,
                   char *buffer, size_t size);

#endif
