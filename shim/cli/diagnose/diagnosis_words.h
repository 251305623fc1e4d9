/* SPDX-License-Identifier: MIT */
/* What a diagnosis says of a row, in the words that its text, its JSON and its page have in common.
 * Pure: nothing is asked of the system and nothing is printed. Each returns buffer. */
#ifndef NS_DIAGNOSIS_WORDS_H
#define NS_DIAGNOSIS_WORDS_H

#include "cli/diagnose/diagnosis.h"

#include <stdbool.h>
#include <stddef.h>

/* "127.0.0.1:80", "[::1]:80", or "?" if it is not known. */
char *ns_words_address(const struct ns_address *address, char *buffer, size_t size);

/* "client of 127.0.0.1:80", "server on 127.0.0.1:80" */
char *ns_diagnosis_where(const struct ns_diagnosed *row, char *buffer, size_t size);

/* What the whole has come to, as a sentence that begins with a verdict. */
char *ns_diagnosis_headline(const struct ns_diagnosis *diagnosis, char *buffer, size_t size);

/* Why the grade is what it is, in one sentence. */
char *ns_diagnosis_proof(const struct ns_diagnosed *row, char *buffer, size_t size);

/* What an experiment has shown. */
char *ns_diagnosis_experiment(const struct ns_diagnosed_experiment *experiment, char *buffer,
                              size_t size);

/* A cure of the row in a sentence: number 0 is the first. NULL if there are no more. */
char *ns_diagnosis_cure(const struct ns_diagnosis *diagnosis, const struct ns_diagnosed *row,
                        unsigned number, char *buffer, size_t size);

/* How often a cause took how long, in a sentence. NULL if that is too little to be told. */
char *ns_diagnosis_besides(const struct ns_diagnosed *row, enum ns_cause cause, char *buffer,
                           size_t size);

/* "peer", for machines; and what it means. */
const char *ns_diagnosis_cause(enum ns_cause cause);
const char *ns_diagnosis_cause_meaning(enum ns_cause cause, enum ns_source source);
const char *ns_diagnosis_doubt(enum ns_doubt doubt);

/* Does this end hold bytes (and not the peer, which waits for our ACK)? */
bool ns_diagnosis_holds(const struct ns_diagnosed *row);

/* Does the row stall, or seem to? */
bool ns_diagnosis_stalls(const struct ns_diagnosed *row);

/* How many requests of the row stalled, or seem to have. */
uint64_t ns_diagnosis_stall_count(const struct ns_diagnosed *row);

/* What they lost, in ms: for certain, or else at most. */
double ns_diagnosis_lost_ms(const struct ns_diagnosed *row);
bool ns_diagnosis_certain(const struct ns_diagnosed *row);

/* The same of all rows, each connection counted once though both its ends were looked at. */
double ns_diagnosis_total_lost_ms(const struct ns_diagnosis *diagnosis);

/* What one end can do, and what is expected of it: how long a request that stalls takes, and how
 * long it will. */
struct ns_cure {
    const char *end;  /* "this end", "other end" */
    const char *does; /* "send adaptive", "ack before-wait" */
    double from_ms, to_ms;
    bool measured; /* by an experiment, not foretold */
};

/* 0 if there is nothing to cure, 1 or 2: this end first. */
unsigned ns_diagnosis_cures(const struct ns_diagnosis *diagnosis, const struct ns_diagnosed *row,
                            struct ns_cure cures[2]);

#endif
