/* SPDX-License-Identifier: MIT */
/* Makes a connection for each request: connect, one request, one answer, the end. Prints their
 * number per second. Usage: bench_connect server PORT, until it is killed; bench_connect client
 * HOST PORT COUNT */
#include "bench.h"

enum { REQUEST = 64, ANSWER = 256 };

static const struct socket_options options = {.sndbuf = -1};

static void serve(int listener)
{
    char request[REQUEST], answer[ANSWER];
    fill_pattern(answer, sizeof(answer), 1);
    for (;;) {
        int fd = accept_one(listener);
        if (read_all(fd, request, sizeof(request)))
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

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "server") == 0)
        serve(listen_on(parse_number(argv[2], "PORT", 0, 65535), &options));
    if (argc != 5 || strcmp(argv[1], "client") != 0)
        usage_error("needs server PORT or client HOST PORT COUNT");
    ask(argv[2], argv[3], parse_count(argv[4]));
    return 0;
}
