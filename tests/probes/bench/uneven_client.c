/* SPDX-License-Identifier: MIT */
/* The client of Red Hat's pair, with a packet in another number of writes each time, from 2 to 15:
 * nothing can be learned from the bursts before. Usage: uneven_client [--warmup N] HOST PORT COUNT
 */
#include "../../../examples/common.h"

enum { PACKET = 30, MOST = 15 };

static void send_packet(int fd, const char *packet, size_t number)
{
    size_t writes = 2 + number * number * 7 % (MOST - 1);
    size_t sent = 0;

    for (size_t i = 0; i < writes; i++) {
        size_t end = PACKET * (i + 1) / writes;

        write_all(fd, packet + sent, end - sent);
        sent = end;
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {ALL_OPTIONS, END_OF_OPTIONS};
    static const char help[] = "Usage: uneven_client [--warmup N] HOST PORT COUNT\n";
    struct common common = COMMON_DEFAULTS;
    char packet[PACKET], answer[PACKET];
    struct rounds rounds;
    int fd, option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        common_option(option, &common, help);
    if (argc - optind != 3)
        usage_error("needs HOST PORT COUNT");
    rounds_prepare(&rounds, parse_count(argv[optind + 2]), common.warmup);
    fd = connect_to(argv[optind], argv[optind + 1], &common.socket);
    while (rounds_left(&rounds)) {
        fill_pattern(packet, PACKET, rounds.seen);
        rounds_begin(&rounds, fd);
        send_packet(fd, packet, rounds.seen);
        if (!read_all(fd, answer, PACKET))
            die("the server closed the connection after %zu packets", rounds.seen);
        rounds_end(&rounds);
        if (memcmp(answer, packet, PACKET) != 0)
            die("the answer to packet %zu is not the packet", rounds.seen - 1);
    }
    print_rounds(&rounds, fd);
    return 0;
}
