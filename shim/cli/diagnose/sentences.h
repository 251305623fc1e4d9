/* SPDX-License-Identifier: MIT */
/* The sentences of a diagnosis, which its text and its JSON share; the page shows those of the
 * JSON. Call them after ns_diagnosis_finish. A function's result is valid until its next call. */
#ifndef NS_SENTENCES_H
#define NS_SENTENCES_H

#include "cli/diagnose/rows.h"

/* Append to a text, which is cut to its size. */
__attribute__((format(printf, 2, 3))) void ns_words_add(char text[NS_WORDS_MOST],
                                                        const char *format, ...);

/* "127.0.0.1:80", "[::1]:80", or "?" if it is unknown. */
const char *ns_words_address(const struct ns_address *address);

/* "python3[17]", until the next call. */
const char *ns_words_process(const struct ns_row_process *process);

/* The verdict on everything that was watched. */
const char *ns_diagnosis_headline(const struct ns_diagnosis *diagnosis);

/* The reason for the grade, and for CANNOT_TELL. */
const char *ns_diagnosis_proof(const struct ns_row *row);
const char *ns_diagnosis_doubt(const struct ns_row *row);

/* "61 requests, 59 stalled for 40.1 to 44.9 ms; 2 665 ms lost", of a row that stalls. */
const char *ns_diagnosis_cost(const struct ns_row *row);

/* What the experiment in a process has shown. */
const char *ns_diagnosis_experiment(const struct ns_row_process *process);

/* Before a loss: "", "at least ", "at most " ... */
const char *ns_words_bound(const struct ns_row *row);

/* Beside certain stalls, requests that were held and then took longer than the release explains:
 * "20 requests took 145 ms each: up to 45 ms held, the rest the peer". NULL: there are none. */
const char *ns_diagnosis_mixed(const struct ns_row *row);

/* "the peer took long to answer, 3 times, 20.1 ms each" */
const char *ns_diagnosis_delay(const struct ns_row *row, enum ns_delay delay);

/* Append "; ", before, and the longest delay of n rows, unless it took less than 1 ms. */
void ns_words_add_delay(char text[NS_WORDS_MOST], const struct ns_row *rows, size_t n,
                        const char *before);

/* Of a row that is held by the peer: append "; this end may have held bytes, too: 3 times, 40.1 ms
 * each" if so. */
void ns_words_add_own_holds(char text[NS_WORDS_MOST], const struct ns_row *row);

/* "peer", for machines. */
const char *ns_delay_name(enum ns_delay delay);

#endif
