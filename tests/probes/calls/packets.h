/* SPDX-License-Identifier: MIT */
/* Packets of three writes for tcp_nodelay_server, for programs that cannot use the examples' code.
 */
#ifndef PROBES_PACKETS_H
#define PROBES_PACKETS_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 20, PACKET = 30 };

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* The same bytes as those of tcp_nodelay_client. */
static void fill(char *data, unsigned seed)
{
    unsigned state = seed * 2654435761u + 1;
    for (int i = 0; i < PACKET; i++) {
        state = state * 1664525u + 1013904223u;
        data[i] = (char)('a' + (state >> 16) % 26);
    }
}

/* Calls only write and read. Returns false on an error. */
static bool ask(int fd, unsigned number)
{
    char packet[PACKET], answer[PACKET];
    fill(packet, number);
    for (int i = 0; i < PACKET; i += 10)
        if (write(fd, packet + i, 10) != 10)
            return false;
    for (ssize_t have = 0, got; have < PACKET; have += got)
        if ((got = read(fd, answer + have, (size_t)(PACKET - have))) <= 0)
            return false;
    return memcmp(answer, packet, PACKET) == 0;
}

/* A connection to this port, or -1. */
static int connect_to(const char *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((unsigned short)atoi(port)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? fd : -1;
}

#endif
