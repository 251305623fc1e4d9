/* SPDX-License-Identifier: MIT */
/* The server of Red Hat's example pair: reads packets of 30 bytes, however they arrive, and answers
 * each with one write. It never writes before it has a whole packet. While it waits for the rest of
 * a packet, no data can carry an ACK. */
#include "common.h"

enum { PACKET = 30 };

static const char help[] =
    "Usage: tcp_nodelay_server [OPTION]... PORT COUNT\n"
    "Answer COUNT packets of 30 bytes on each connection; 0: until the client closes it.\n"
    "PORT 0 takes a free one. The first line printed is 'listening on port N'.\n"
    "  --connections N  connections to serve, one after the other (1); 0: no end\n"
    "  --warmup N       packets whose segments are not counted (0)\n"
    "  --help           this text\n";

static struct common common = COMMON_DEFAULTS;
static size_t count;

static void serve(int fd)
{
    struct meter meter = {.warmup = common.warmup};
    char packet[PACKET], expected[PACKET];
    /* Reads to the end of the stream even after COUNT packets, because only then the last answer
     * has left. */
    while (read_all(fd, packet, PACKET)) {
        if (count > 0 && meter.answered == count)
            die("the client sent more than %zu packets", count);
        fill_pattern(expected, PACKET, meter.answered);
        if (memcmp(packet, expected, PACKET) != 0)
            die("packet %zu arrived with other bytes than were sent", meter.answered);
        meter_count(&meter, fd);
        write_all(fd, packet, PACKET);
    }
    if (meter.answered < count)
        die("the client closed the connection after %zu of %zu packets", meter.answered, count);
    print_meter(&meter, fd);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {SERVER_OPTIONS, END_OF_OPTIONS};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        common_option(option, &common, help);
    if (argc - optind != 2)
        usage_error("needs PORT COUNT, see --help");
    count = (size_t)parse_number(argv[optind + 1], "COUNT", 0, INT_MAX);
    serve_connections(argv[optind], &common, serve);
    return 0;
}
