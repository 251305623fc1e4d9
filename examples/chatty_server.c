/* SPDX-License-Identifier: MIT */
/* The server of the programs in chatty/: each message is a line of JSON, which may arrive in any
 * number of pieces. The answer is the message's number. The number of received segments shows how
 * the client has written. */
#include "common.h"

enum { LINE_LIMIT = 256 };

static const char help[] =
    "Usage: chatty_server [OPTION]... PORT\n"
    "Answer each line of the programs in examples/chatty.\n"
    "PORT 0 takes a free one. The first line printed is 'listening on port N'.\n"
    "  --connections N  connections to serve, one after the other (1); 0: no end\n"
    "  --warmup N       messages whose segments are not counted (0)\n"
    "  --help           this text\n";

static struct common common = COMMON_DEFAULTS;

static uint32_t segments_in(int fd)
{
    struct tcp_info info;
    socklen_t length = sizeof(info);
    memset(&info, 0, sizeof(info));
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0)
        die_errno("TCP_INFO");
    return info.tcpi_data_segs_in;
}

static void check_message(const char *line, size_t size, size_t number)
{
    char expected[LINE_LIMIT];
    int length = snprintf(expected, sizeof(expected),
                          "{\"number\": %zu, \"symbol\": \"ACME\", \"price\": %zu, \"size\": %zu, "
                          "\"side\": \"%s\"}\n",
                          number, 1000 + number % 9000, 100 + number % 900,
                          number % 2 == 0 ? "buy" : "sell");
    if (size != (size_t)length || memcmp(line, expected, size) != 0)
        die("message %zu is not the one expected: %.*s", number, (int)size, line);
}

/* Read the next line, which must be the last one that the client has sent; false at the end of the
 * stream. */
static bool read_message(int fd, char *line, size_t *size)
{
    *size = 0;
    while (*size == 0 || line[*size - 1] != '\n') {
        size_t got = read_some(fd, line + *size, LINE_LIMIT - *size);
        if (got == 0 && *size > 0)
            die("the client closed the connection within a message");
        if (got == 0)
            return false;
        *size += got;
    }
    return true;
}

static void serve(int fd)
{
    char line[LINE_LIMIT], answer[32];
    size_t number = 0, size;
    uint32_t before = 0, after = 0;
    while (read_message(fd, line, &size)) {
        check_message(line, size, number);
        after = segments_in(fd);
        if (number + 1 == common.warmup)
            before = after;
        write_all(fd, answer, (size_t)snprintf(answer, sizeof(answer), "%zu\n", number));
        number++;
    }
    number = number > common.warmup ? number - common.warmup : 0;
    printf("messages %zu segments_in %u segments_per_message %.2f\n", number, after - before,
           number > 0 ? (double)(after - before) / (double)number : 0.0);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    return serve_main(argc, argv, &common, help, serve);
}
