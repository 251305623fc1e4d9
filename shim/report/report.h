/* SPDX-License-Identifier: MIT */
/* The report: one line at the end of a process (NAGLESHIM_LOG=info) with what the library did in
 * it, or why it was disabled; and, with NAGLESHIM_LOG=debug, each socket's rule. Reads the
 * status section and the counters, and decides nothing. Nothing here blocks or allocates; errno is
 * unchanged; everything but ns_report_open is async-signal-safe. */
#ifndef NS_REPORT_H
#define NS_REPORT_H

#include "report/log.h"
#include "policy/match.h"

/* Start-up: the program's own name, which is copied if a report is asked for. */
void ns_report_open(const char *program);

/* The process ends: write the line, unless it has been written. A child that shares its parent's
 * memory writes none. A process without a TCP socket writes one at the level debug only. */
void ns_report_end(void);

/* The process needs no line at its end: an earlier message has said the same. */
void ns_report_is_written(void);

/* The library is disabled from now on, and no system call may follow: write the line now. Or it
 * works again (disabled is false). */
void ns_report_disabled(bool disabled);

/* In a child that has its own memory: the earlier counts belong to its parent. */
void ns_report_forked(void);

/* A TCP socket was made that is not in the table. */
void ns_report_not_in_table(void);

/* No rule matches the socket fd: a connection, or a listener as a whole. */
void ns_report_left_alone(int fd, bool listens);

/* rule matches the socket fd. Called by NS_DEBUG_RULE. */
void ns_report_rule(int fd, const struct ns_rule *rule, bool listens);
#define NS_DEBUG_RULE(fd, rule, listens) (NS_DEBUGS ? ns_report_rule(fd, rule, listens) : (void)0)

#endif
