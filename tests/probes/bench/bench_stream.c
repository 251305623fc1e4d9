/* SPDX-License-Identifier: MIT */
/* A program that writes continuously without a wait. Measures the time until the other end has read
 * everything, and the number of segments. Usage: bench_stream reader PORT READ_SIZE, until it is
 * killed; bench_stream writer HOST PORT COUNT SIZE [nodelay] prints one line. */
#include "system.h"
#include "../../../examples/common.h"

static const struct socket_options no_options = {.sndbuf = -1};

static void read_stream(int fd, char *data, size_t size)
{
    while (read_some(fd, data, size) != 0)
        continue;
    /* The writer may have ended. */
    if (send(fd, "k", 1, MSG_NOSIGNAL) != 1 && errno != EPIPE && errno != ECONNRESET)
        die_errno("send");
}

static void read_streams(long port, size_t size)
{
    int listener = listen_on(port, &no_options);
    char *data = malloc(size);
    if (data == NULL)
        die("no memory for %zu bytes", size);
    for (;;) {
        int fd = accept_one(listener);
        read_stream(fd, data, size);
        close(fd);
    }
}

static void write_stream(int fd, size_t count, size_t size)
{
    char *data = malloc(size), answer;
    if (data == NULL)
        die("no memory for %zu bytes", size);
    fill_pattern(data, size, 1);
    int64_t begun = now_ns();
    for (size_t i = 0; i < count; i++)
        write_all(fd, data, size);
    if (shutdown(fd, SHUT_WR) != 0)
        die_errno("shutdown");
    if (!read_all(fd, &answer, 1))
        die("no answer");
    printf("total_ms %.3f segments %u\n", (double)(now_ns() - begun) / 1e6, traffic_of(fd).data);
    free(data);
}

int main(int argc, char **argv)
{
    struct socket_options options = no_options;
    if (argc == 4 && strcmp(argv[1], "reader") == 0)
        read_streams(parse_number(argv[2], "PORT", 0, 65535), parse_count(argv[3]));
    options.nodelay = argc == 7 && strcmp(argv[6], "nodelay") == 0;
    if (argc != 6 + options.nodelay || strcmp(argv[1], "writer") != 0)
        usage_error("needs reader PORT READ_SIZE or writer HOST PORT COUNT SIZE");
    write_stream(connect_to(argv[2], argv[3], &options), parse_count(argv[4]),
                 parse_count(argv[5]));
    return 0;
}
