/* SPDX-License-Identifier: MIT */
/* Puts messages into a queue over HTTP as many client libraries do: it writes the headers of the
 * POST in one write, the body in another one, and waits for the answer. Nagle's algorithm holds the
 * body until the headers are acknowledged, and the server does not answer before it has the body.
 */
#include "common.h"

enum { HEAD_ROOM = 512, BODY = 480 };

static const char help[] =
    "Usage: queue_put [OPTION]... HOST PORT COUNT\n"
    "Post COUNT messages to queue_server over one connection, headers and body in two writes.\n"
    "  --get        GET instead, which is one write\n"
    "  --nodelay    TCP_NODELAY\n"
    "  --pause US   wait US microseconds before each request\n"
    "  --csv FILE   write the latency of each counted request\n"
    "  --warmup N   requests before those that count (0)\n"
    "  --help       this text\n";

struct request {
    const char *host;
    bool get;
    long pause_us;
};

/* The headers are as long as those of the storage services that this program imitates. */
static size_t write_head(char *head, const struct request *request, size_t number)
{
    int length;
    if (request->get)
        length = snprintf(head, HEAD_ROOM,
                          "GET /queue/%zu HTTP/1.1\r\nHost: %s\r\nUser-Agent: queue_put\r\n"
                          "Accept: application/octet-stream\r\n\r\n",
                          number, request->host);
    else
        length = snprintf(head, HEAD_ROOM,
                          "POST /queue/%zu HTTP/1.1\r\nHost: %s\r\nUser-Agent: queue_put\r\n"
                          "Accept: application/xml\r\nx-version: 2009-09-19\r\n"
                          "x-date: Wed, 01 Jan 2025 00:00:00 GMT\r\n"
                          "Authorization: SharedKey example:c2lnbmF0dXJlIG9mIHRoZSByZXF1ZXN0\r\n"
                          "Content-Type: application/octet-stream\r\n"
                          "Content-Length: %d\r\n\r\n",
                          number, request->host, BODY);
    if (length >= HEAD_ROOM)
        usage_error("the name of the host is too long");
    return (size_t)length;
}

/* Read one answer, which must be exactly EXPECTED. */
static void read_answer(int fd, const char *expected, size_t number)
{
    char answer[1024];
    size_t length = strlen(expected);
    if (!read_all(fd, answer, length))
        die("the server closed the connection after %zu answers", number);
    if (memcmp(answer, expected, length) != 0)
        die("answer %zu is not the one expected: %.*s", number, (int)strcspn(answer, "\r\n"),
            answer);
}

static void run(int fd, const struct request *request, struct rounds *rounds)
{
    char head[HEAD_ROOM], expected[1024], body[BODY + 1] = "";
    while (rounds_left(rounds)) {
        size_t number = rounds->seen;
        size_t length = write_head(head, request, number);
        fill_pattern(body, BODY, number);
        snprintf(expected, sizeof(expected), "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s",
                 request->get ? "200 OK" : "201 Created", request->get ? BODY : 0,
                 request->get ? body : "");
        if (request->pause_us > 0)
            usleep((useconds_t)request->pause_us);
        rounds_begin(rounds, fd);
        write_all(fd, head, length);
        if (!request->get)
            write_all(fd, body, BODY);
        read_answer(fd, expected, number);
        rounds_end(rounds);
    }
}

static void write_csv(const char *path, const struct rounds *rounds)
{
    FILE *csv = fopen(path, "w");
    if (csv == NULL)
        die_errno(path);
    fprintf(csv, "request,microseconds\n");
    for (size_t i = 0; i < rounds->done; i++)
        fprintf(csv, "%zu,%.1f\n", i + 1, (double)rounds->ns[i] / 1e3);
    if (fclose(csv) != 0)
        die_errno(path);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {ALL_OPTIONS,
                                            NODELAY_OPTION,
                                            {"get", no_argument, NULL, 'g'},
                                            {"pause", required_argument, NULL, 'p'},
                                            {"csv", required_argument, NULL, 'o'},
                                            END_OF_OPTIONS};
    struct common common = COMMON_DEFAULTS;
    struct request request = {.get = false};
    const char *csv = NULL;
    struct rounds rounds;
    int fd, option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (common_option(option, &common, help))
            continue;
        if (option == 'g')
            request.get = true;
        if (option == 'p')
            request.pause_us = parse_number(optarg, "--pause", 1, 999999);
        if (option == 'o')
            csv = optarg;
    }
    if (argc - optind != 3)
        usage_error("needs HOST PORT COUNT, see --help");
    request.host = argv[optind];
    rounds_prepare(&rounds, parse_count(argv[optind + 2]), common.warmup);
    fd = connect_to(argv[optind], argv[optind + 1], &common.socket);
    run(fd, &request, &rounds);
    if (csv != NULL)
        write_csv(csv, &rounds);
    print_rounds(&rounds, fd);
    return 0;
}
