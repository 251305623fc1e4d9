/* SPDX-License-Identifier: MIT */
/* Shared by the programs of tests/promises/promises.bats: a connection that the library certainly
 * treats, and a pending ACK on it. Each program must behave in the same way without the library. */
#pragma once

#include "life.h"

/* Bursts of small writes, each followed by a wait and an answer. */
__attribute__((unused)) static void converse(struct conn conn)
{
    char byte;
    for (int i = 0; i < 8; i++) {
        put(conn.fd, "one ");
        put(conn.fd, "two ");
        put(conn.fd, "three");
        poll(NULL, 0, 1);
        arrives_within(conn.peer, "one two three", 1000);
        answer(conn.peer, "!");
        EXPECT(recv(conn.fd, &byte, 1, 0) == 1);
    }
}

/* The same on a new connection, which the library must then treat, if it is loaded. */
__attribute__((unused)) static struct conn open_conversing(void)
{
    struct conn conn = open_conn();
    converse(conn);
    is_governed(conn.fd);
    return conn;
}

/* The program has never set TCP_NODELAY, and getsockopt must report this. */
__attribute__((unused)) static void never_asked(int fd)
{
    int value = -1;
    socklen_t len = sizeof value;
    EXPECT(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &len) == 0 && value == 0);
}
