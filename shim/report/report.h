/* SPDX-License-Identifier: MIT */
/* The report: the one line by which a process says at its end what the shim did in it, or why it
 * did nothing; and, under NAGLESHIM_LOG=debug, which rule took a socket. Reads the status section
 * and the counters, and decides nothing. Nothing here blocks or allocates; errno is unchanged; all
 * of it but the opening is async-signal-safe. */
#ifndef NS_REPORT_H
#define NS_REPORT_H

#include "report/log.h"
#include "policy/match.h"

/* Start-up: what the program calls itself. Copied; only where a report is asked for. */
void ns_report_open(const char *program);

/* The process ends: the line, unless it has been said. Nothing is said by a child that shares its
 * parent's memory, nor, under info, by a process that had no TCP socket and that the shim did not
 * stand aside in. */
void ns_report_end(void);

/* The shim stands aside for good, and no system call of ours may follow: what would be said at the
 * end is said now. */
void ns_report_aside(void);

/* In a child that has its own memory: what was counted before is its parent's. */
void ns_report_forked(void);

/* No rule takes the socket fd: a connection, or a listener as a whole. */
void ns_report_left_alone(int fd, bool listens);

/* rule has taken the socket fd. Called by NS_DEBUG_RULE. */
void ns_report_rule(int fd, const struct ns_rule *rule, bool listens);
#define NS_DEBUG_RULE(fd, rule, listens) (NS_DEBUGS ? ns_report_rule(fd, rule, listens) : (void)0)

#endif
