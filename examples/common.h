/* SPDX-License-Identifier: MIT */
/* Shared by all examples: sockets over IPv4 and IPv6, complete reads and writes, a pattern that
 * shows lost or mixed bytes, and the line of results.
 *
 * Included first by each program, so that one `gcc program.c` builds it. It sets only socket
 * options that the caller asks for. Nothing in it is async-signal-safe. */
#ifndef EXAMPLES_COMMON_H
#define EXAMPLES_COMMON_H

/* The same value as with gcc's -D_GNU_SOURCE, so that both definitions are allowed. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
/* Not netinet/tcp.h, because glibc's struct tcp_info lacks the counters of segments. */
#include <linux/tcp.h>

/* A delayed ACK takes 40 ms or more and an ordinary round far less than one. */
#define STALL_NS 20000000

struct socket_options {
    int sndbuf; /* SO_SNDBUF, negative: not asked for */
    bool nodelay;
};

/* The options that most of the programs have. */
struct common {
    struct socket_options socket;
    size_t warmup;      /* rounds at the start that are not counted */
    size_t connections; /* of a server: the number of connections to serve; 0: no limit */
};

/* clang-format would format the brace in a macro as a block. */
/* clang-format off */
#define COMMON_DEFAULTS {.socket = {.sndbuf = -1}, .connections = 1}
#define ALL_OPTIONS \
    {"warmup", required_argument, NULL, 'w'}, {"help", no_argument, NULL, 'h'}
#define SERVER_OPTIONS ALL_OPTIONS, {"connections", required_argument, NULL, 'c'}
#define NODELAY_OPTION {"nodelay", no_argument, NULL, 'n'}
#define END_OF_OPTIONS {NULL, 0, NULL, 0}
/* clang-format on */

/* Segments that a socket has sent: those with data, and pure ACKs. */
struct traffic {
    uint32_t data;
    uint32_t acks;
};

/* The time of each counted round, and the segments sent in them. */
struct rounds {
    size_t warmup;
    size_t wanted;
    size_t seen;
    size_t done;
    int64_t begun;
    int64_t ended;
    int64_t round_begun;
    struct traffic before;
    int64_t *ns;
};

__attribute__((format(printf, 2, 3), noreturn)) static inline void fail(int status,
                                                                        const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "%s: ", program_invocation_short_name);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(status);
}

#define die(...) fail(1, __VA_ARGS__)
#define die_errno(what) fail(1, "%s: %s", what, strerror(errno))
#define usage_error(...) fail(2, __VA_ARGS__)

static inline long parse_number(const char *text, const char *what, long least, long most)
{
    char *end;
    long value;
    errno = 0;
    value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < least || value > most)
        usage_error("%s must be a number from %ld to %ld, not '%s'", what, least, most, text);
    return value;
}

static inline size_t parse_count(const char *text)
{
    return (size_t)parse_number(text, "COUNT", 1, INT_MAX);
}

/* Handle a result of getopt_long if it is one of the options above. Ends the program after --help,
 * and after an error that getopt_long has printed. */
static inline bool common_option(int option, struct common *common, const char *help)
{
    switch (option) {
    case 'w':
        common->warmup = (size_t)parse_number(optarg, "--warmup", 0, INT_MAX);
        return true;
    case 'c':
        common->connections = (size_t)parse_number(optarg, "--connections", 0, INT_MAX);
        return true;
    case 'n':
        common->socket.nodelay = true;
        return true;
    case 'h':
        fputs(help, stdout);
        exit(0);
    case '?':
        exit(2);
    default:
        return false;
    }
}

static inline int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void set_option(int fd, int level, int name, int value, const char *what)
{
    if (setsockopt(fd, level, name, &value, sizeof(value)) != 0)
        die_errno(what);
}

static inline void apply_options(int fd, const struct socket_options *options)
{
    if (options->sndbuf >= 0)
        set_option(fd, SOL_SOCKET, SO_SNDBUF, options->sndbuf, "SO_SNDBUF");
    if (options->nodelay)
        set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
}

/* Listen on PORT for IPv6 and IPv4, or for IPv4 only if there is no IPv6, and print the port on
 * standard output. */
static inline int listen_on(long port, const struct socket_options *options)
{
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t length = sizeof(any6);
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool six = fd >= 0;
    if (!six && (fd = socket(AF_INET, SOCK_STREAM, 0)) < 0)
        die_errno("socket");
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
    if (six)
        set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0, "IPV6_V6ONLY");
    apply_options(fd, options);
    if ((six ? bind(fd, (struct sockaddr *)&any6, sizeof(any6))
             : bind(fd, (struct sockaddr *)&any4, sizeof(any4))) != 0)
        die_errno("bind");
    if (listen(fd, 16) != 0)
        die_errno("listen");
    if (getsockname(fd, (struct sockaddr *)&any6, &length) != 0)
        die_errno("getsockname");
    /* sin6_port and sin_port are the same two bytes. */
    printf("listening on port %d\n", ntohs(any6.sin6_port));
    fflush(stdout);
    signal(SIGPIPE, SIG_IGN);
    return fd;
}

static inline int accept_one(int listener)
{
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        die_errno("accept");
    return fd;
}

/* Call SERVE with each connection in turn. */
static inline void serve_connections(const char *port, const struct common *common,
                                     void (*serve)(int fd))
{
    int listener = listen_on(parse_number(port, "PORT", 0, 65535), &common->socket);
    for (size_t i = 0; common->connections == 0 || i < common->connections; i++) {
        int fd = accept_one(listener);
        serve(fd);
        close(fd);
    }
    close(listener);
}

/* The main function of a server that takes PORT and the common options, and no other. */
static inline int serve_main(int argc, char **argv, struct common *common, const char *help,
                             void (*serve)(int fd))
{
    static const struct option options[] = {SERVER_OPTIONS, END_OF_OPTIONS};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        common_option(option, common, help);
    if (argc - optind != 1)
        usage_error("needs PORT, see --help");
    serve_connections(argv[optind], common, serve);
    return 0;
}

/* Connect to the first of HOST's addresses that answers. */
static inline int connect_to(const char *host, const char *port,
                             const struct socket_options *options)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    int fd = -1;
    int error;
    parse_number(port, "PORT", 1, 65535);
    error = getaddrinfo(host, port, &hints, &found);
    if (error != 0)
        die("%s: %s", host, gai_strerror(error));
    for (struct addrinfo *at = found; at != NULL && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, at->ai_socktype, at->ai_protocol);
        if (fd < 0)
            continue;
        apply_options(fd, options);
        if (connect(fd, at->ai_addr, at->ai_addrlen) != 0) {
            error = errno;
            close(fd);
            errno = error;
            fd = -1;
        }
    }
    if (fd < 0)
        die("cannot connect to %s port %s: %s", host, port, strerror(errno));
    freeaddrinfo(found);
    signal(SIGPIPE, SIG_IGN);
    return fd;
}

static inline void write_all(int fd, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        ssize_t written = write(fd, at, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            die_errno("write");
        at += written;
        size -= (size_t)written;
    }
}

/* One read of at most SIZE bytes; 0 at the end of the stream. A peer that was killed before it had
 * read all data resets the connection: that is an end, too. */
static inline size_t read_some(int fd, void *data, size_t size)
{
    ssize_t got;
    do
        got = read(fd, data, size);
    while (got < 0 && errno == EINTR);
    if (got < 0 && errno == ECONNRESET)
        return 0;
    if (got < 0)
        die_errno("read");
    return (size_t)got;
}

/* Read SIZE bytes; false if the peer closed before the first of them. */
static inline bool read_all(int fd, void *data, size_t size)
{
    size_t have = 0;
    while (have < size) {
        size_t got = read_some(fd, (char *)data + have, size - have);
        if (got == 0 && have == 0)
            return false;
        if (got == 0)
            die("the peer closed the connection after %zu of %zu bytes", have, size);
        have += got;
    }
    return true;
}

/* Text that differs for each seed and does not repeat within a message. */
static inline void fill_pattern(void *data, size_t size, uint64_t seed)
{
    uint32_t state = (uint32_t)(seed * 2654435761u + 1);
    char *text = data;
    for (size_t i = 0; i < size; i++) {
        state = state * 1664525u + 1013904223u;
        text[i] = (char)('a' + (state >> 16) % 26);
    }
}

static inline struct traffic traffic_of(int fd)
{
    struct tcp_info info;
    socklen_t length = sizeof(info);
    memset(&info, 0, sizeof(info));
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0)
        die_errno("TCP_INFO");
    return (struct traffic){info.tcpi_data_segs_out, info.tcpi_segs_out - info.tcpi_data_segs_out};
}

static inline struct traffic traffic_since(struct traffic before, struct traffic after)
{
    return (struct traffic){after.data - before.data, after.acks - before.acks};
}

/* Allocates and touches all memory now, so that a round contains no additional call. */
static inline void rounds_prepare(struct rounds *rounds, size_t wanted, size_t warmup)
{
    *rounds = (struct rounds){.warmup = warmup, .wanted = wanted};
    rounds->ns = malloc(wanted * sizeof(*rounds->ns));
    if (rounds->ns == NULL)
        die("no memory for %zu rounds", wanted);
    memset(rounds->ns, 0, wanted * sizeof(*rounds->ns));
}

static inline bool rounds_left(const struct rounds *rounds)
{
    return rounds->seen < rounds->warmup + rounds->wanted;
}

/* FD is the socket whose segments are counted from the first counted round on. */
static inline void rounds_begin(struct rounds *rounds, int fd)
{
    if (rounds->seen == rounds->warmup)
        rounds->before = traffic_of(fd);
    rounds->round_begun = now_ns();
}

static inline void rounds_end(struct rounds *rounds)
{
    rounds->ended = now_ns();
    if (rounds->seen++ < rounds->warmup)
        return;
    if (rounds->done == 0)
        rounds->begun = rounds->round_begun;
    rounds->ns[rounds->done++] = rounds->ended - rounds->round_begun;
}

static inline int compare_ns(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

struct summary {
    double median_us;
    double max_us;
    size_t stalls;
};

/* Sorts NS. */
static inline struct summary summarise(int64_t *ns, size_t count)
{
    struct summary summary = {0};
    if (count == 0)
        return summary;
    qsort(ns, count, sizeof(*ns), compare_ns);
    summary.median_us = (double)(ns[(count - 1) / 2] + ns[count / 2]) / 2e3;
    summary.max_us = (double)ns[count - 1] / 1e3;
    for (size_t i = count; i > 0 && ns[i - 1] > STALL_NS; i--)
        summary.stalls++;
    return summary;
}

/* A server's count of segments after its warm-up. */
struct meter {
    size_t warmup;
    size_t answered;
    struct traffic before;
};

/* Called before each answer. */
static inline void meter_count(struct meter *meter, int fd)
{
    if (meter->answered++ == meter->warmup)
        meter->before = traffic_of(fd);
}

static inline void print_traffic(struct traffic sent, size_t count)
{
    printf("segments %u segments_per_round %.2f acks %u\n", sent.data,
           count > 0 ? (double)sent.data / (double)count : 0.0, sent.acks);
}

/* The line of results that a server prints at the end of a connection. */
static inline void print_meter(const struct meter *meter, int fd)
{
    bool counted = meter->answered > meter->warmup;
    struct traffic after = traffic_of(fd);
    size_t rounds = counted ? meter->answered - meter->warmup : 0;
    printf("rounds %zu warmup %zu ", rounds, meter->warmup);
    print_traffic(traffic_since(counted ? meter->before : after, after), rounds);
    fflush(stdout);
}

/* The line of results that a client prints at its end. */
static inline void print_rounds(const struct rounds *rounds, int fd)
{
    struct summary summary = summarise(rounds->ns, rounds->done);
    printf("rounds %zu warmup %zu total_ms %.3f median_us %.1f max_us %.1f stalls %zu ",
           rounds->done, rounds->warmup, (double)(rounds->ended - rounds->begun) / 1e6,
           summary.median_us, summary.max_us, summary.stalls);
    print_traffic(traffic_since(rounds->before, traffic_of(fd)), rounds->done);
}

#endif
