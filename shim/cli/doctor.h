/* SPDX-License-Identifier: MIT */
/* The two halves of `nagleshim doctor`. Each prints what it finds, and returns the exit status. */
#ifndef NS_DOCTOR_H
#define NS_DOCTOR_H

#include "cli/findings.h"
#include "cli/proc.h"

/* words: the program, and its arguments. */
int ns_doctor_program(char **words, unsigned n);
int ns_doctor_process(pid_t pid);

/* Why the shim is not in a process's memory. Prints facts, and adds at least one reason. */
void ns_doctor_absent(const struct ns_proc *proc, struct ns_findings *findings);

/* Which policy the process would get if it were started now: prints every file tried, and warns of
 * what differs from what it looked at, which was path ("" built in), at looked (seconds by the
 * clock of files), and took or not. */
void ns_doctor_policy(const struct ns_proc *proc, const char *path, double looked, bool taken,
                      struct ns_findings *findings);

#endif
