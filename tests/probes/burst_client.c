/* SPDX-License-Identifier: MIT */
/* A packet of a few bytes and its answer, many times over: written in pieces as a chatty program
 * does, or in one call as the program rewritten would. For tcp_nodelay_server.
 * Usage: burst_client pieces|one|cork HOST PORT ROUNDS */
#include "../../examples/common.h"

#include <arpa/inet.h>

enum { PIECES = 15, PIECE = 2 };

int main(int argc, char **argv)
{
    char packet[PIECES * PIECE], answer[PIECES * PIECE];
    long rounds;
    struct timespec begin, end;

    if (argc != 5)
        die("usage: burst_client pieces|one|cork HOST PORT ROUNDS");
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(argv[3]))};
    inet_pton(AF_INET, argv[2], &address.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1, zero = 0;
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        die_errno("connect");
    if (argv[1][0] == 'o')
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    rounds = atol(argv[4]);
    for (long round = -50; round < rounds; round++) {
        if (round == 0)
            clock_gettime(CLOCK_MONOTONIC, &begin);
        fill_pattern(packet, sizeof(packet), (size_t)(round + 50));
        if (argv[1][0] == 'c')
            setsockopt(fd, IPPROTO_TCP, TCP_CORK, &one, sizeof(one));
        if (argv[1][0] == 'o') {
            if (write(fd, packet, sizeof(packet)) != sizeof(packet))
                die_errno("write");
        } else {
            for (unsigned i = 0; i < PIECES; i++)
                if (write(fd, packet + i * PIECE, PIECE) != PIECE)
                    die_errno("write");
        }
        if (argv[1][0] == 'c')
            setsockopt(fd, IPPROTO_TCP, TCP_CORK, &zero, sizeof(zero));
        for (size_t have = 0; have < sizeof(answer);) {
            ssize_t got = read(fd, answer + have, sizeof(answer) - have);
            if (got <= 0)
                die_errno("read");
            have += (size_t)got;
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("us_per_round %.3f\n",
           ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) /
               1e3 / (double)rounds);
    return 0;
}
