/* SPDX-License-Identifier: MIT */
/* The sentences of a diagnosis, which its text and its JSON share; the page shows those of the
 * JSON. Call them after ns_diagnosis_finish. Pure. Functions with a buffer return it, cut to size.
 */
#ifndef NS_SENTENCES_H
#define NS_SENTENCES_H

#include "cli/diagnose/rows.h"

#include <stddef.h>

/* Append to the text in buffer. */
__attribute__((format(printf, 3, 4))) void ns_words_add(char *buffer, size_t size,
                                                        const char *format, ...);

/* "127.0.0.1:80", "[::1]:80", or "?" if it is unknown. */
char *ns_words_address(const struct ns_address *address, char *buffer, size_t size);

/* "client of 127.0.0.1:80", "server on 127.0.0.1:80" */
char *ns_diagnosis_where(const struct ns_row *row, char *buffer, size_t size);

/* The verdict on everything that was watched. */
char *ns_diagnosis_headline(const struct ns_diagnosis *diagnosis, char *buffer, size_t size);

/* The reason for the grade. */
char *ns_diagnosis_proof(const struct ns_row *row, char *buffer, size_t size);

/* What the experiment in a process has shown. */
char *ns_diagnosis_experiment(const struct ns_row_process *process, char *buffer, size_t size);

/* A cure: what it does, what it gains, and whether it is possible. */
char *ns_diagnosis_cure(const struct ns_row *row, unsigned number, char *buffer, size_t size);

/* "the peer took long to answer, 3 times, 20.1 ms each" */
char *ns_diagnosis_delay(enum ns_delay delay, enum ns_source source, uint64_t times, uint64_t ns,
                         char *buffer, size_t size);

/* "peer", for machines; and its meaning. */
const char *ns_delay_name(enum ns_delay delay);
const char *ns_delay_meaning(enum ns_delay delay, enum ns_source source);

const char *ns_diagnosis_doubt(const struct ns_row *row);

#endif
