/* SPDX-License-Identifier: MIT */
/* What a diagnosis says of a row, in the words that its text, its JSON and its page have in common.
 * Pure: nothing is asked of the system and nothing is printed. Each returns buffer. */
#ifndef NS_DIAGNOSIS_WORDS_H
#define NS_DIAGNOSIS_WORDS_H

#include "cli/diagnosis.h"

#include <stdbool.h>
#include <stddef.h>

/* "127.0.0.1:80", "[::1]:80", or "?" if it is not known. */
char *ns_words_address(const struct ns_address *address, char *buffer, size_t size);

/* "client of 127.0.0.1:80", "server on 127.0.0.1:80" */
char *ns_words_where(const struct ns_diagnosed *row, char *buffer, size_t size);

/* What the whole has come to, as a sentence that begins with a verdict. */
char *ns_words_headline(const struct ns_diagnosis *diagnosis, char *buffer, size_t size);

/* Why the grade is what it is, in one sentence. */
char *ns_words_proof(const struct ns_diagnosed *row, char *buffer, size_t size);

/* "peer", for machines; and what it means. */
const char *ns_words_cause(enum ns_cause cause);
const char *ns_words_cause_meaning(enum ns_cause cause);
const char *ns_words_doubt(enum ns_doubt doubt);

/* Does this end hold bytes (and not the peer, which waits for our ACK)? */
bool ns_words_holds(const struct ns_diagnosed *row);

/* Does the row stall, or seem to? */
bool ns_words_stalls(const struct ns_diagnosed *row);

/* The row of the same connections' other end, where that process was looked at, too. */
const struct ns_diagnosed *ns_words_other_end(const struct ns_diagnosis *diagnosis,
                                              const struct ns_diagnosed *row);

/* How many requests of the row stalled, or seem to have. */
uint64_t ns_words_stall_count(const struct ns_diagnosed *row);

/* What they lost, in ms: for certain, or else at most. */
double ns_words_lost_ms(const struct ns_diagnosed *row);
bool ns_words_certain(const struct ns_diagnosed *row);

/* The same of all rows, each connection counted once though both its ends were looked at. */
double ns_words_total_lost_ms(const struct ns_diagnosis *diagnosis);

/* What one end can do, and what is expected of it: how long a request that stalls takes, and how long it will. */
struct ns_cure {
    const char *end;  /* "this end", "other end" */
    const char *does; /* "send adaptive", "ack before-wait" */
    double from_ms, to_ms;
};

/* 0 if there is nothing to cure, else 2: this end first. */
unsigned ns_words_cures(const struct ns_diagnosed *row, struct ns_cure cures[2]);

#endif
