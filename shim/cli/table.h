/* SPDX-License-Identifier: MIT */
/* A table whose last column is text of any length. */
#ifndef NS_TABLE_H
#define NS_TABLE_H

#include <stdbool.h>
#include <stddef.h>

enum { NS_TABLE_COLUMNS_MOST = 8 };

struct ns_table {
    unsigned columns; /* before the last */
    unsigned width[NS_TABLE_COLUMNS_MOST];
    bool right[NS_TABLE_COLUMNS_MOST]; /* numbers */
    unsigned line;                     /* width of the terminal; 0: nothing is cut */
};

/* Widen a column to fit this text. */
void ns_table_fit(struct ns_table *table, unsigned column, const char *text);

/* Limit a column's width on a terminal. */
void ns_table_limit(struct ns_table *table, unsigned column, unsigned most);

/* The end of a text that was cut. */
#define NS_TABLE_CUT "+"

/* The number of characters in a UTF-8 text, and the number of bytes in its first characters. */
unsigned ns_table_places(const char *text);
size_t ns_table_bytes(const char *text, size_t places);

/* A row in a buffer, without a newline. */
void ns_table_text(const struct ns_table *table, const char *const *cells, const char *last,
                   char *buffer, size_t size);

#endif
