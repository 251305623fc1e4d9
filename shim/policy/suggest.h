/* SPDX-License-Identifier: MIT */
/* The known word that a misspelt one was probably meant to be: policy keys, options, variables. */
#ifndef NS_POLICY_NEAR_H
#define NS_POLICY_NEAR_H

struct ns_suggest {
    const char *word;  /* what was written */
    const char *known; /* the nearest so far; NULL if none is near enough */
    unsigned distance; /* its letters to change; letters that differ in case alone do not count */
};

/* Compare with one of the known words, which must stay. Start with {.word = ...}. Never allocates;
 * async-signal-safe. */
void ns_suggest_try(struct ns_suggest *near, const char *known);

#endif
