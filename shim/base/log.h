/* SPDX-License-Identifier: MIT */
/* The log: the only place that writes text. To stderr or to a file that is opened and closed for
 * each line; never to stdout, never a byte of what the application sends or receives. */
#ifndef NS_LOG_H
#define NS_LOG_H

#include <stdbool.h>

enum ns_log_level { NS_LOG_OFF, NS_LOG_ERROR, NS_LOG_INFO, NS_LOG_DEBUG };

/* level: a word of NAGLESHIM_LOG or NULL; file: NAGLESHIM_LOG_FILE or NULL. Returns false if the
 * word is none of ours (then the level is error). Remembers which file stderr is. */
bool ns_log_open(const char *level, const char *file);

bool ns_log_enabled(enum ns_log_level level);
bool ns_log_to_file(void);

/* One line, cut at 1 KiB; errno unchanged. To stderr only while that is the file it was at
 * start-up. Formats no floating point and takes no lock of ours; not to be called with a real
 * descriptor in the application's hands that could block. Not async-signal-safe. */
void ns_log(enum ns_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
