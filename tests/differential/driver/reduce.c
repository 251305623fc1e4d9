/* SPDX-License-Identifier: MIT */
/* Leaves lines out of a script as long as the difference stays: halves first, then quarters, down
 * to single lines (delta debugging). */
#include "driver.h"

#include <stdlib.h>

enum { LINES_MOST = 512 };

struct lines {
    const char *at[LINES_MOST];
    int length[LINES_MOST];
    bool left_out[LINES_MOST];
    int count;
};

static void split(struct lines *lines, const char *script)
{
    lines->count = 0;
    for (const char *at = script; *at && lines->count < LINES_MOST;) {
        int n = (int)strcspn(at, "\n");
        lines->left_out[lines->count] = false;
        lines->at[lines->count] = at;
        lines->length[lines->count++] = n;
        at += n + (at[n] == '\n');
    }
}

static void join(const struct lines *lines, char script[SCRIPT_MOST])
{
    size_t used = 0;
    script[0] = '\0';
    for (int i = 0; i < lines->count; i++)
        if (!lines->left_out[i])
            used += (size_t)snprintf(script + used, SCRIPT_MOST - used, "%.*s\n", lines->length[i],
                                     lines->at[i]);
}

/* Without these lines, if it still differs then. */
static bool leave_out(struct lines *lines, int first, int count, const struct variant *variant,
                      differs_function *differs)
{
    static char shorter[SCRIPT_MOST];
    struct lines before = *lines;
    int changed = 0;
    for (int i = first; i < first + count && i < lines->count; i++) {
        changed += !lines->left_out[i];
        lines->left_out[i] = true;
    }
    if (!changed)
        return false;
    join(lines, shorter);
    if (differs(shorter, variant))
        return true;
    *lines = before;
    return false;
}

void reduce(char script[SCRIPT_MOST], const struct variant *variant, differs_function *differs)
{
    static char original[SCRIPT_MOST];
    struct lines lines;
    bool shorter = true;
    memcpy(original, script, SCRIPT_MOST);
    split(&lines, original);
    while (shorter) {
        shorter = false;
        for (int size = (lines.count + 1) / 2; size > 0; size /= 2)
            for (int first = 0; first < lines.count; first += size)
                shorter |= leave_out(&lines, first, size, variant, differs);
    }
    join(&lines, script);
}
