/* SPDX-License-Identifier: MIT */
/* Packets of three writes for tcp_nodelay_server. */
#pragma once

#include "loopback.h"

enum { ROUNDS = 20, PACKET = 30 };

/* Calls only write and read. Returns false if another answer comes. */
static bool ask(int fd, unsigned number)
{
    char packet[PACKET], answer[PACKET];
    fill_pattern(packet, PACKET, number);
    for (int i = 0; i < PACKET; i += 10)
        write_all(fd, packet + i, 10);
    return read_all(fd, answer, PACKET) && memcmp(answer, packet, PACKET) == 0;
}

static int connect_to_port(const char *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(port)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return loopback_connect(&address);
}
