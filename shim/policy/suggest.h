/* SPDX-License-Identifier: MIT */
/* The known word (policy key, option, variable) that is most similar to a misspelt one. */
#ifndef NS_POLICY_NEAR_H
#define NS_POLICY_NEAR_H

struct ns_suggest {
    const char *word;  /* what was written */
    const char *known; /* the most similar so far; NULL if none is similar enough */
    unsigned distance; /* letters to change; case does not count */
};

/* Compare with a known word, which must stay in memory. Start with {.word = ...}.
 * Async-signal-safe.
 */
void ns_suggest_try(struct ns_suggest *near, const char *known);

#endif
