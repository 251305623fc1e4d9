/* SPDX-License-Identifier: MIT */
/* The log: the only place that writes text, to stderr or to a file that is opened and closed for
 * each line. Never writes to stdout, and never a byte that the application sends or receives.
 *
 * A line may be written in a signal handler, by any thread and while the process exits. So it is
 * built without stdio, in its caller's memory, and written by system calls that are not
 * cancellation points. Nothing waits: if stderr is full or its reader is gone, the line is dropped.
 * errno is unchanged. */
#ifndef NS_LOG_H
#define NS_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum ns_log_level { NS_LOG_OFF, NS_LOG_ERROR, NS_LOG_INFO, NS_LOG_DEBUG };

/* level: NAGLESHIM_LOG or NULL; file: NAGLESHIM_LOG_FILE or NULL. Returns false if the level is
 * unknown (then it is error). Remembers which file stderr is. */
bool ns_log_open(const char *level, const char *file);

bool ns_log_to_file(void);

/* Write no line from now on (silent), and make no system call: a seccomp filter may kill the
 * process. */
void ns_log_silence(bool silent);

/* One line, cut at 1 KiB. stderr gets it only if it still is the file that it was at start-up. For
 * start-up: printf is not async-signal-safe. */
void ns_log(enum ns_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A line in parts. What does not fit is cut off; control characters become '?'. Everything from
 * here on is async-signal-safe. */
struct ns_line {
    unsigned used;
    char text[1024];
};

void ns_line_begin(struct ns_line *line); /* "TIME nagleshim[PID]: ", in UTC */
void ns_line_add(struct ns_line *line, const char *text);
void ns_line_add_number(struct ns_line *line, const char *before, uint64_t number);
void ns_line_write(struct ns_line *line);

/* "fd 5: what", and "fd 5: what 4"; other: -1 for none. Call them by NS_DEBUG. */
void ns_log_socket(int fd, const char *what, int other);

/* Written at start-up and by ns_log_silence. */
extern enum ns_log_level ns_log_level;
#define NS_DEBUGS __builtin_expect(ns_log_level == NS_LOG_DEBUG, 0)

/* NAGLESHIM_LOG=debug: one decision about a socket; NS_DEBUG_FROM adds another descriptor. Costs
 * one load and a branch if the level is lower. */
#define NS_DEBUG(fd, what) NS_DEBUG_FROM(fd, what, -1)
#define NS_DEBUG_FROM(fd, what, other) (NS_DEBUGS ? ns_log_socket(fd, what, other) : (void)0)

#endif
