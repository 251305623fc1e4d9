/* SPDX-License-Identifier: MIT */
/* The ways to use `nagleshim doctor`. Each prints what it finds, and returns the exit status. */
#ifndef NS_DOCTOR_H
#define NS_DOCTOR_H

#include "cli/process/process_report.h"

#include <cJSON.h>

/* words: the program, and its arguments. */
int ns_doctor_program(char **words, unsigned n);
int ns_doctor_process(pid_t pid);

/* Every process; with every, also those without TCP sockets and without the shim. */
int ns_doctor_all(bool every);

/* Of one process among many: whether the shim works in it, in a word; what it does there, or why
 * it does nothing (allocated, NULL if there is no memory); and all of it as an object (NULL in the
 * text form). */
const char *ns_doctor_column(const struct ns_process_report *patient);
char *ns_doctor_cell(const struct ns_process_report *patient);
cJSON *ns_doctor_entry(const struct ns_process_report *patient, const char *name);

#endif
