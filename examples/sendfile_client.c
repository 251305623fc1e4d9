/* SPDX-License-Identifier: MIT */
/* Requests the file of sendfile_server repeatedly on one connection, and reads header and content
 * before the next request. A request is one write: the answer stalls. */
#include "common.h"

static const char help[] = "Usage: sendfile_client [OPTION]... HOST PORT COUNT\n"
                           "Fetch the file of sendfile_server COUNT times over one connection.\n"
                           "  --warmup N   fetches before those that count (0)\n"
                           "  --help       this text\n";

enum { SIZE = 400 };

/* Read a header. The content that arrived with it is put into CONTENT; returns its length. */
static size_t read_header(int fd, size_t number, char content[SIZE])
{
    char header[128];
    size_t have = 0, size = 0, asked = 0;
    char *end = NULL;
    while (end == NULL) {
        size_t got = read_some(fd, header + have, sizeof(header) - have);
        if (got == 0)
            die("the server closed the connection after %zu answers", number);
        have += got;
        end = memchr(header, '\n', have);
        if (end == NULL && have == sizeof(header))
            die("header %zu is longer than %zu bytes", number, sizeof(header));
    }
    *end++ = '\0';
    have -= (size_t)(end - header);
    if (sscanf(header, "content of %zu bytes for get %zu", &size, &asked) != 2 || size != SIZE ||
        asked != number || have > size)
        die("answer %zu has a header of other bytes than were sent", number);
    memcpy(content, end, have);
    return have;
}

static void run(int fd, struct rounds *rounds)
{
    char request[64], content[SIZE], expected[SIZE];
    fill_pattern(expected, SIZE, SIZE);
    while (rounds_left(rounds)) {
        size_t number = rounds->seen, have;
        int length = snprintf(request, sizeof(request), "get %zu\n", number);
        rounds_begin(rounds, fd);
        write_all(fd, request, (size_t)length);
        have = read_header(fd, number, content);
        if (have < SIZE && !read_all(fd, content + have, SIZE - have))
            die("the server closed the connection within answer %zu", number);
        rounds_end(rounds);
        if (memcmp(content, expected, SIZE) != 0)
            die("answer %zu arrived with other bytes than were sent", number);
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {ALL_OPTIONS, END_OF_OPTIONS};
    struct common common = COMMON_DEFAULTS;
    struct rounds rounds;
    int fd, option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        common_option(option, &common, help);
    if (argc - optind != 3)
        usage_error("needs HOST PORT COUNT, see --help");
    rounds_prepare(&rounds, parse_count(argv[optind + 2]), common.warmup);
    fd = connect_to(argv[optind], argv[optind + 1], &common.socket);
    run(fd, &rounds);
    print_rounds(&rounds, fd);
    return 0;
}
