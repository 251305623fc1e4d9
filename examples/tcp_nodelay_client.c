/* SPDX-License-Identifier: MIT */
/* The client of Red Hat's example pair: it sends a packet of 30 bytes in 15 writes and then waits
 * for the answer. By default Nagle's algorithm holds 14 of them until the first is acknowledged.
 * There are four hand-written fixes: no_delay and cork set an option once. join clears TCP_NODELAY
 * for the writes and sets it before the wait, so that 14 of them leave as one segment. one_write is
 * the best: it collects the pieces in a buffer. */
#include "common.h"

enum { WRITES = 15, PIECE = 2, PACKET = WRITES * PIECE };

enum way { COALESCE, NO_DELAY, CORK, JOIN, ONE_WRITE };

static const struct {
    const char *word, *suffix;
} ways[] = {{"", ""},
            {"no_delay", " using TCP_NODELAY"},
            {"cork", " using TCP_CORK"},
            {"join", " using TCP_NODELAY before the wait"},
            {"one_write", " using one write"}};

static const char help[] =
    "Usage: tcp_nodelay_client [OPTION]... HOST PORT COUNT [no_delay|cork|join|one_write]\n"
    "Send COUNT packets of 30 bytes, each in 15 writes, and wait for the answer to each.\n"
    "  --warmup N   packets sent before those that count (0)\n"
    "  --stats      print a second line: rounds, times, stalls, segments\n"
    "  --help       this text\n";

static void send_packet(int fd, const char *packet, enum way way)
{
    char gathered[PACKET];
    if (way == JOIN)
        set_option(fd, IPPROTO_TCP, TCP_NODELAY, 0, "TCP_NODELAY");
    for (int i = 0; i < WRITES; i++) {
        if (way == ONE_WRITE)
            memcpy(gathered + i * PIECE, packet + i * PIECE, PIECE);
        else
            write_all(fd, packet + i * PIECE, PIECE);
    }
    if (way == ONE_WRITE)
        write_all(fd, gathered, PACKET);
    if (way == JOIN)
        set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
    if (way == CORK) {
        set_option(fd, IPPROTO_TCP, TCP_CORK, 0, "TCP_CORK");
        set_option(fd, IPPROTO_TCP, TCP_CORK, 1, "TCP_CORK");
    }
}

static void run(int fd, enum way way, struct rounds *rounds)
{
    char packet[PACKET], answer[PACKET];
    while (rounds_left(rounds)) {
        fill_pattern(packet, PACKET, rounds->seen);
        rounds_begin(rounds, fd);
        send_packet(fd, packet, way);
        if (!read_all(fd, answer, PACKET))
            die("the server closed the connection after %zu packets", rounds->seen);
        rounds_end(rounds);
        if (memcmp(answer, packet, PACKET) != 0)
            die("the answer to packet %zu is not the packet", rounds->seen - 1);
    }
}

static enum way parse_way(const char *word)
{
    for (enum way way = NO_DELAY; way <= ONE_WRITE; way++)
        if (strcmp(word, ways[way].word) == 0)
            return way;
    usage_error("the last argument must be no_delay, cork, join or one_write, not '%s'", word);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        ALL_OPTIONS, {"stats", no_argument, NULL, 's'}, END_OF_OPTIONS};
    struct common common = COMMON_DEFAULTS;
    enum way way = COALESCE;
    struct rounds rounds;
    bool stats = false;
    double ms;
    int fd, option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        if (!common_option(option, &common, help))
            stats = true;
    if (argc - optind < 3 || argc - optind > 4)
        usage_error("needs HOST PORT COUNT, see --help");
    if (argc - optind == 4)
        way = parse_way(argv[optind + 3]);
    common.socket.nodelay = way == NO_DELAY;
    rounds_prepare(&rounds, parse_count(argv[optind + 2]), common.warmup);
    fd = connect_to(argv[optind], argv[optind + 1], &common.socket);
    if (way == CORK)
        set_option(fd, IPPROTO_TCP, TCP_CORK, 1, "TCP_CORK");
    run(fd, way, &rounds);
    ms = (double)(rounds.ended - rounds.begun) / 1e6;
    printf("%zu packets of %d bytes sent in %f ms: %f bytes/ms%s\n", rounds.done, PACKET, ms,
           (double)rounds.done * PACKET / ms, ways[way].suffix);
    if (stats)
        print_rounds(&rounds, fd);
    return 0;
}
