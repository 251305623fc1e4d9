/* SPDX-License-Identifier: MIT */
/* See log.h. Owns the level, the file's name, and what stderr was. Must never keep a descriptor
 * open, use one below 3, or write to a stderr that has become another file. System calls are made
 * by number: the libc's open and write are cancellation points, and the calls that log are not. */
#include "report/log.h"

#include "base/memory.h"
#include "base/system.h"

#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum ns_log_level ns_log_level = NS_LOG_ERROR;
NS_LARGE_ARRAY static char log_file[4096];

/* The text of stderr's /proc link at start-up ("pipe:[123]", "/dev/pts/0"), if lines may be written
 * later; "": it was closed. */
static char stderr_was[128];
static bool writes_later;

static void stderr_is(char name[static sizeof stderr_was])
{
    long n = NS_SYSTEM(SYS_readlinkat, AT_FDCWD, "/proc/self/fd/2", name, sizeof stderr_was - 1);
    name[n > 0 ? n : 0] = 0;
}

bool ns_log_open(const char *level, const char *file)
{
    static const char *const words[] = {"off", "error", "info", "debug"};
    bool known = !level || !*level;
    if (!level && !file) /* most processes; nothing is written, so that no page is copied */
        return true;
    for (unsigned i = 0; !known && i < sizeof words / sizeof *words; i++)
        if (strcmp(level, words[i]) == 0) {
            ns_log_level = (enum ns_log_level)i;
            known = true;
        }
    if (file && *file && strlen(file) < sizeof log_file)
        memcpy(log_file, file, strlen(file) + 1);
    writes_later = !log_file[0] && ns_log_level >= NS_LOG_INFO;
    if (writes_later)
        stderr_is(stderr_was);
    return known;
}

bool ns_log_to_file(void)
{
    return log_file[0] != 0;
}

void ns_log_silence(bool silent)
{
    static enum ns_log_level before;
    if (silent)
        before = ns_log_level;
    ns_log_level = silent ? NS_LOG_OFF : before;
}

/* May a line be written to stderr? Not if stderr is a TCP connection (inetd), or if the write would
 * wait or raise SIGPIPE. */
static bool takes_line(void)
{
    int domain;
    socklen_t size = sizeof domain;
    if (NS_SYSTEM(SYS_getsockopt, 2, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
        domain != AF_UNIX)
        return false;
    struct timespec none = {0};
    struct pollfd at = {.fd = 2, .events = POLLOUT};
    return NS_SYSTEM(SYS_ppoll, &at, 1l, &none, NULL, 0l) == 1 && at.revents == POLLOUT;
}

/* Where a line goes: stderr, or a descriptor to close; -1: nowhere. */
static int destination(void)
{
    char now[sizeof stderr_was];
    if (log_file[0]) /* NONBLOCK: a FIFO without a reader must not stop the program */
        return ns_system_high(
            NS_SYSTEM(SYS_openat, AT_FDCWD, log_file,
                      O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644));
    if (writes_later) { /* the program may have closed it, and opened another file */
        stderr_is(now);
        if (!now[0] || strcmp(now, stderr_was) != 0)
            return -1;
    }
    return takes_line() ? 2 : -1;
}

/* Could a line raise SIGXFSZ, which ends the program (setrlimit(2), RLIMIT_FSIZE)? Other processes
 * may write a line meanwhile: so there must be room for two of the largest. */
static bool is_full(int fd)
{
    struct rlimit64 most;
    struct statx file;
    return NS_SYSTEM(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &most) == 0 &&
           most.rlim_cur != RLIM64_INFINITY &&
           NS_SYSTEM(SYS_statx, fd, "", (long)AT_EMPTY_PATH, (long)(STATX_TYPE | STATX_SIZE),
                     &file) == 0 &&
           S_ISREG(file.stx_mode) && file.stx_size + 2 * sizeof(struct ns_line) > most.rlim_cur;
}

void ns_line_add(struct ns_line *line, const char *text)
{
    for (; *text && line->used < sizeof line->text - 1; text++) { /* room for the newline */
        bool control = (unsigned char)*text < ' ' || *text == 0x7f;
        line->text[line->used++] = control ? '?' : *text;
    }
}

/* With this number of digits, or more. */
static void add_digits(struct ns_line *line, const char *before, uint64_t number, unsigned least)
{
    char digits[24];
    unsigned at = sizeof digits - 1;
    digits[at] = 0;
    do
        digits[--at] = (char)('0' + number % 10);
    while ((number /= 10) || sizeof digits - 1 - at < least);
    ns_line_add(line, before);
    ns_line_add(line, digits + at);
}

void ns_line_add_number(struct ns_line *line, const char *before, uint64_t number)
{
    add_digits(line, before, number, 1);
}

void ns_line_begin(struct ns_line *line)
{
    struct timespec now = {0};
    NS_REAL(clock_gettime)(CLOCK_REALTIME_COARSE, &now); /* without the TSC: PR_SET_TSC */
    /* In UTC, until February 2100; years begin in March. gmtime_r would take a lock of libc. */
    uint64_t second = (uint64_t)now.tv_sec, day = second / 86400 + 671, year = (4 * day + 3) / 1461;
    day -= 1461 * year / 4;
    uint64_t month = (5 * day + 2) / 153;
    line->used = 0;
    add_digits(line, "", 1968 + year + month / 10, 4);
    add_digits(line, "-", (month + 2) % 12 + 1, 2);
    add_digits(line, "-", day - (153 * month + 2) / 5 + 1, 2);
    add_digits(line, "T", second / 3600 % 24, 2);
    add_digits(line, ":", second / 60 % 60, 2);
    add_digits(line, ":", second % 60, 2);
    add_digits(line, ".", (uint64_t)now.tv_nsec / 1000000, 3);
    ns_line_add_number(line, "Z nagleshim[", (uint64_t)getpid());
    ns_line_add(line, "]: ");
}

void ns_line_write(struct ns_line *line)
{
    int saved = errno;
    int fd = destination();
    line->text[line->used] = '\n';
    if (fd >= 0 && !is_full(fd)) /* one write: lines of several processes in one file stay whole */
        NS_SYSTEM(SYS_write, fd, line->text, line->used + 1);
    if (fd > 2)
        NS_SYSTEM(SYS_close, fd);
    errno = saved;
}

void ns_log_socket(int fd, const char *what, int other)
{
    struct ns_line line;
    ns_line_begin(&line);
    ns_line_add_number(&line, "fd ", (uint64_t)fd);
    ns_line_add(&line, ": ");
    ns_line_add(&line, what);
    if (other >= 0)
        ns_line_add_number(&line, " ", (uint64_t)other);
    ns_line_write(&line);
}

void ns_log(enum ns_log_level level, const char *format, ...)
{
    if (level > ns_log_level)
        return;
    int saved = errno;
    struct ns_line line;
    char text[sizeof line.text];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    ns_line_begin(&line);
    ns_line_add(&line, n >= 0 ? text : "");
    ns_line_write(&line);
    errno = saved;
}
