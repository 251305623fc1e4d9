/* SPDX-License-Identifier: MIT */
/* Makes a connection for each request: connect, one request, one answer, the end. With "whole" all
 * are on one connection, and both ends read with MSG_WAITALL. Prints the number of requests per
 * second. Usage: bench_connect server PORT, until it is killed; bench_connect client HOST PORT
 * COUNT [whole] */
#include "bench.h"

enum { REQUEST = 64, ANSWER = 256, WHOLE = 'w' };

static const struct socket_options options = {.sndbuf = -1};

static void serve(int listener)
{
    char request[REQUEST] = {0}, answer[ANSWER];
    fill_pattern(answer, sizeof(answer), 1);
    for (;;) {
        int fd = accept_one(listener);
        if (read_all(fd, request, sizeof(request)))
            write_all(fd, answer, sizeof(answer));
        while (request[0] == WHOLE && recv(fd, request, REQUEST, MSG_WAITALL) == REQUEST)
            write_all(fd, answer, sizeof(answer));
        close(fd);
    }
}

static void ask(const char *host, const char *port, size_t count)
{
    char request[REQUEST], answer[ANSWER + 1];
    int64_t begun = now_ns();
    fill_pattern(request, sizeof(request), 2);
    for (size_t i = 0; i < count; i++) {
        int fd = connect_to(host, port, &options);
        size_t have = 0, got;
        write_all(fd, request, sizeof(request));
        while ((got = read_some(fd, answer + have, sizeof(answer) - have)) != 0)
            have += got;
        if (have != ANSWER)
            die("an answer of %zu bytes", have);
        close(fd);
    }
    printf("requests_per_s %.1f\n", (double)count * 1e9 / (double)(now_ns() - begun));
}

static void ask_on_one(const char *host, const char *port, size_t count)
{
    char request[REQUEST] = {WHOLE}, answer[ANSWER];
    int fd = connect_to(host, port, &options);
    int64_t begun = now_ns();
    for (size_t i = 0; i < count; i++) {
        write_all(fd, request, sizeof(request));
        if (recv(fd, answer, sizeof(answer), MSG_WAITALL) != ANSWER)
            die("no whole answer");
    }
    printf("requests_per_s %.1f\n", (double)count * 1e9 / (double)(now_ns() - begun));
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "server") == 0)
        serve(listen_on(parse_number(argv[2], "PORT", 0, 65535), &options));
    bool whole = argc == 6 && strcmp(argv[5], "whole") == 0;
    if ((argc != 5 && !whole) || strcmp(argv[1], "client") != 0)
        usage_error("needs server PORT or client HOST PORT COUNT [whole]");
    (whole ? ask_on_one : ask)(argv[2], argv[3], parse_count(argv[4]));
    return 0;
}
