/* SPDX-License-Identifier: MIT */
/* See suggest.h. Owns how similar a misspelling must be; knows no list of words. */
#include "policy/suggest.h"

#include <string.h>

enum {
    LENGTH_MOST = 40,  /* letters; longer words are not compared */
    DISTANCE_MOST = 3, /* letters to change in a long word; a third of them in a short one */
};

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Not tolower, which depends on the locale. */
static char at(const char *word, size_t position)
{
    char c = word[position - 1];
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* How many letters must be inserted, removed, replaced, or swapped with the next one to turn a into
 * b. Neither is longer than LENGTH_MOST. */
static unsigned distance(const char *a, const char *b)
{
    /* cost[i][j]: for the first i letters of a and the first j of b */
    unsigned char cost[LENGTH_MOST + 1][LENGTH_MOST + 1];
    size_t rows = strlen(a), columns = strlen(b);
    for (size_t j = 0; j <= columns; j++)
        cost[0][j] = (unsigned char)j;
    for (size_t i = 1; i <= rows; i++) {
        cost[i][0] = (unsigned char)i;
        for (size_t j = 1; j <= columns; j++) {
            unsigned best = least(cost[i - 1][j], cost[i][j - 1]) + 1u;
            best = least(best, cost[i - 1][j - 1] + (at(a, i) == at(b, j) ? 0u : 1u));
            if (i > 1 && j > 1 && at(a, i) == at(b, j - 1) && at(a, i - 1) == at(b, j))
                best = least(best, cost[i - 2][j - 2] + 1u);
            cost[i][j] = (unsigned char)best;
        }
    }
    return cost[rows][columns];
}

void ns_suggest_try(struct ns_suggest *near, const char *known)
{
    size_t length = strlen(known);
    if (length > LENGTH_MOST || strlen(near->word) > LENGTH_MOST)
        return;
    unsigned here = distance(near->word, known);
    unsigned most = least(DISTANCE_MOST, (unsigned)(length + 1) / 3);
    if (here > most || (near->known && here >= near->distance))
        return;
    near->known = known;
    near->distance = here;
}
