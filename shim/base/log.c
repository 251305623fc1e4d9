/* SPDX-License-Identifier: MIT */
/* Writes the log. Owns nothing but the level and the file's name. Must never write to stdout, keep
 * a descriptor open, use one below 3, or write to a stderr that has become something else. */
#include "base/log.h"

#include "base/real.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 1024 };

static enum ns_log_level threshold = NS_LOG_ERROR;
static char log_file[4096];
/* st_dev and st_ino of stderr at start-up, from its /proc link's text: "pipe:[123]", "/dev/pts/0".
 * fstat has a symbol of its own version in every libc; readlink has one. */
static char stderr_was[128];

static void stderr_is(char *name, size_t size)
{
    ssize_t n = readlink("/proc/self/fd/2", name, size - 1);
    name[n > 0 ? n : 0] = 0;
}

bool ns_log_open(const char *level, const char *file)
{
    static const char *const words[] = {"off", "error", "info", "debug"};
    bool known = !level || !*level;
    for (unsigned i = 0; !known && i < sizeof words / sizeof *words; i++)
        if (strcmp(level, words[i]) == 0) {
            threshold = (enum ns_log_level)i;
            known = true;
        }
    if (file && *file && strlen(file) < sizeof log_file)
        memcpy(log_file, file, strlen(file) + 1);
    if (!log_file[0] && threshold >= NS_LOG_INFO) /* nothing is written later otherwise */
        stderr_is(stderr_was, sizeof stderr_was);
    return known;
}

bool ns_log_enabled(enum ns_log_level level)
{
    return level <= threshold;
}

bool ns_log_to_file(void)
{
    return log_file[0] != 0;
}

static void write_line(const char *line, size_t len)
{
    if (!log_file[0]) {
        char now[sizeof stderr_was];
        if (stderr_was[0]) {
            stderr_is(now, sizeof now);
            if (strcmp(now, stderr_was) != 0)
                return;
        }
        if (NS_REAL(write)(2, line, len) < 0)
            return;
        return;
    }
    /* NONBLOCK: a FIFO without a reader must not stop the program. */
    int fd =
        open(log_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);
    if (fd >= 0 && fd < 3) {
        int high = NS_REAL(fcntl)(fd, F_DUPFD_CLOEXEC, 3);
        NS_REAL(close)(fd);
        fd = high;
    }
    if (fd < 0)
        return;
    /* One write: lines of several processes in one file stay whole. */
    ssize_t written = NS_REAL(write)(fd, line, len);
    (void)written;
    NS_REAL(close)(fd);
}

void ns_log(enum ns_log_level level, const char *format, ...)
{
    if (!ns_log_enabled(level))
        return;
    int saved = errno;
    char line[LINE];
    int n = snprintf(line, sizeof line, "nagleshim[%ld]: ", (long)getpid());
    va_list arguments;
    va_start(arguments, format);
    int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, format, arguments);
    va_end(arguments);
    if (m >= 0) {
        size_t len = (size_t)n + (size_t)m;
        if (len > sizeof line - 2)
            len = sizeof line - 2;
        line[len++] = '\n';
        write_line(line, len);
    }
    errno = saved;
}
