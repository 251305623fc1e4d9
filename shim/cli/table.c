/* SPDX-License-Identifier: MIT */
/* Owns the layout of a table. Its texts must be sanitized. Not async-signal-safe. */
#include "cli/table.h"

#include <stdio.h>

size_t ns_table_bytes(const char *text, size_t places)
{
    size_t n = 0;

    while (text[n] != '\0' && (places > 0 || ((unsigned char)text[n] & 0xC0) == 0x80)) {
        places -= ((unsigned char)text[n] & 0xC0) != 0x80;
        n++;
    }
    return n;
}

unsigned ns_table_places(const char *text)
{
    unsigned places = 0;

    for (; *text; text++)
        places += ((unsigned char)*text & 0xC0) != 0x80;
    return places;
}

void ns_table_fit(struct ns_table *table, unsigned column, const char *text)
{
    unsigned places = ns_table_places(text);

    if (places > table->width[column])
        table->width[column] = places;
}

void ns_table_limit(struct ns_table *table, unsigned column, unsigned most)
{
    if (table->line && table->width[column] > most)
        table->width[column] = most;
}

static void write_cell(const struct ns_table *table, unsigned column, const char *text, FILE *out)
{
    unsigned width = table->width[column], places = ns_table_places(text);
    int blanks = places < width ? (int)(width - places) : 0;
    bool cut = places > width;

    fprintf(out, "%*s%.*s%s%*s ", table->right[column] ? blanks : 0, "",
            (int)ns_table_bytes(text, width - cut), text, cut ? NS_TABLE_CUT : "",
            table->right[column] ? 0 : blanks, "");
}

void ns_table_text(const struct ns_table *table, const char *const *cells, const char *last,
                   char *buffer, size_t size)
{
    FILE *out = fmemopen(buffer, size, "w");

    buffer[0] = '\0';
    for (unsigned i = 0; out && i < table->columns; i++)
        write_cell(table, i, cells[i], out);
    if (!out)
        return;
    fputs(last, out);
    fclose(out);
    buffer[size - 1] = '\0';
}
