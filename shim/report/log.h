/* SPDX-License-Identifier: MIT */
/* The log: the only place that writes text. To stderr or to a file that is opened and closed for
 * each line; never to stdout, never a byte of what the application sends or receives.
 *
 * A line may be written in a signal handler, from any thread and on the way out of the process: so
 * it is put together without stdio, on its owner's memory, and written by system calls that are no
 * points of cancellation. It never waits: a stderr that has no room, or whose reader is gone, gets
 * none. errno is unchanged by all of it. */
#ifndef NS_LOG_H
#define NS_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum ns_log_level { NS_LOG_OFF, NS_LOG_ERROR, NS_LOG_INFO, NS_LOG_DEBUG };

/* level: a word of NAGLESHIM_LOG or NULL; file: NAGLESHIM_LOG_FILE or NULL. Returns false if the
 * word is none of ours (then the level is error). Remembers which file stderr is. */
bool ns_log_open(const char *level, const char *file);

bool ns_log_enabled(enum ns_log_level level);
bool ns_log_to_file(void);

/* No line from now on, and no system call: a filter may kill whoever makes one. */
void ns_log_silence(void);

/* One line, cut at 1 KiB. To stderr only while that is the file it was at start-up, or that file
 * anew where the program has closed it (log.c says which). For start-up: printf is not
 * async-signal-safe. */
void ns_log(enum ns_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A line in parts. What does not fit is left out; control characters become '?'. Everything from
 * here on is async-signal-safe. */
struct ns_line {
    unsigned used;
    char text[1024];
};

void ns_line_begin(struct ns_line *line); /* "nagleshim[PID]: " */
void ns_line_add(struct ns_line *line, const char *text);
void ns_line_add_number(struct ns_line *line, uint64_t number);
void ns_line_write(struct ns_line *line);

/* "fd 5: what", and "fd 5: what 4"; other: -1 for none. Call them by NS_DEBUG. */
void ns_log_socket(int fd, const char *what, int other);

/* Whether decisions about sockets are told. Written at start-up and when the log falls silent. */
extern bool ns_log_debugs;
#define NS_DEBUGS __builtin_expect(ns_log_debugs, 0)

/* NAGLESHIM_LOG=debug: one decision about a socket, and with NS_DEBUG_FROM the descriptor that it
 * speaks of besides. One load and a branch where nobody asked. */
#define NS_DEBUG(fd, what) NS_DEBUG_FROM(fd, what, -1)
#define NS_DEBUG_FROM(fd, what, other) (NS_DEBUGS ? ns_log_socket(fd, what, other) : (void)0)

#endif
