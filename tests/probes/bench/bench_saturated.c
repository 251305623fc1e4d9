/* SPDX-License-Identifier: MIT */
/* A server that is never idle: each of its connections always has a request outstanding, so that
 * its epoll_wait never blocks. It writes an answer in several pieces. The client prints the average
 * time of a round, the number of stalls, and the 90th percentile. Usage: bench_saturated server
 * PORT PIECES [nodelay], until it is killed; bench_saturated client HOST PORT PIECES CONNECTIONS
 * ROUNDS */
#include "bench.h"

enum { QUESTION = 32, PIECE = 40, MOST_PIECES = 100, MOST_CONNECTIONS = 64, MOST_EVENTS = 16 };

/* A connection of the client. */
struct connection {
    int fd;
    size_t have;
    int64_t begun;
};

static void answer(int fd, size_t pieces)
{
    char request[QUESTION], piece[PIECE];
    if (!read_all(fd, request, sizeof(request))) {
        close(fd);
        return;
    }
    for (size_t i = 0; i < pieces; i++) {
        fill_pattern(piece, sizeof(piece), i);
        write_all(fd, piece, sizeof(piece));
    }
}

static void serve(long port, size_t pieces, const struct socket_options *options)
{
    int fds[MOST_CONNECTIONS], epoll = epoll_create1(0);
    int listener = listen_on(port, options);
    struct epoll_event events[MOST_EVENTS];
    if (epoll < 0)
        die_errno("epoll_create1");
    watch(epoll, listener, (epoll_data_t){.ptr = NULL});
    for (size_t have = 0;;) {
        size_t ready = wait_for_some(epoll, events, MOST_EVENTS);
        for (size_t i = 0; i < ready; i++) {
            if (events[i].data.ptr != NULL) {
                answer(*(int *)events[i].data.ptr, pieces);
                continue;
            }
            if (have == MOST_CONNECTIONS)
                die("more than %d connections", MOST_CONNECTIONS);
            fds[have] = accept_one(listener);
            watch(epoll, fds[have], (epoll_data_t){.ptr = &fds[have]});
            have++;
        }
    }
}

static void ask(struct connection *one)
{
    char request[QUESTION];
    fill_pattern(request, sizeof(request), 1);
    one->have = 0;
    one->begun = now_ns();
    write_all(one->fd, request, sizeof(request));
}

/* Returns true at the end of an answer. */
static bool take(struct connection *one, size_t pieces)
{
    char data[MOST_PIECES * PIECE], expected[PIECE];
    size_t got = read_some(one->fd, data, pieces * PIECE - one->have);
    if (got == 0)
        die("the server closed the connection");
    for (size_t i = 0; i < got; i++) {
        size_t at = one->have + i;
        if (i == 0 || at % PIECE == 0)
            fill_pattern(expected, sizeof(expected), at / PIECE);
        if (data[i] != expected[at % PIECE])
            die("another answer");
    }
    one->have += got;
    return one->have == pieces * PIECE;
}

static void run(struct connection *all, size_t connections, size_t pieces, size_t rounds)
{
    struct epoll_event events[MOST_EVENTS];
    int epoll = epoll_create1(0);
    int64_t *took = numbers(rounds), begun = now_ns();
    size_t asked = 0, done = 0;
    if (epoll < 0)
        die_errno("cannot begin");
    for (size_t i = 0; i < connections; i++)
        watch(epoll, all[i].fd, (epoll_data_t){.ptr = &all[i]});
    for (; asked < connections && asked < rounds; asked++)
        ask(&all[asked]);
    while (done < rounds) {
        size_t ready = wait_for_some(epoll, events, MOST_EVENTS);
        for (size_t i = 0; i < ready; i++) {
            struct connection *one = events[i].data.ptr;
            if (!take(one, pieces))
                continue;
            took[done++] = now_ns() - one->begun;
            if (asked++ < rounds)
                ask(one);
        }
    }
    begun = now_ns() - begun;
    size_t stalls = summarise(took, done).stalls;
    printf("round_us %.2f p90_us %.1f stalls %zu\n", (double)begun / 1e3 / (double)done,
           (double)took[done * 9 / 10] / 1e3, stalls);
    free(took);
}

int main(int argc, char **argv)
{
    struct connection all[MOST_CONNECTIONS];
    struct socket_options options = {.sndbuf = -1};
    size_t connections;
    options.nodelay = argc == 5 && strcmp(argv[4], "nodelay") == 0;
    if ((argc == 4 || options.nodelay) && strcmp(argv[1], "server") == 0)
        serve(parse_number(argv[2], "PORT", 0, 65535),
              (size_t)parse_number(argv[3], "PIECES", 1, MOST_PIECES), &options);
    if (argc != 7 || strcmp(argv[1], "client") != 0)
        usage_error(
            "needs server PORT PIECES [nodelay] or client HOST PORT PIECES CONNECTIONS ROUNDS");
    connections = (size_t)parse_number(argv[5], "CONNECTIONS", 1, MOST_CONNECTIONS);
    for (size_t i = 0; i < connections; i++)
        all[i].fd = connect_to(argv[2], argv[3], &options);
    run(all, connections, (size_t)parse_number(argv[4], "PIECES", 1, MOST_PIECES),
        parse_count(argv[6]));
    return 0;
}
