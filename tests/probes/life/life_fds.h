/* SPDX-License-Identifier: MIT */
/* Descriptors that are made by syscall(). */
#pragma once

#include "life.h"

#include <linux/net.h>

/* i386 and s390x have no number for accept() itself. */
static int accept_by_number(int listener)
{
#ifdef SYS_accept
    return (int)syscall(SYS_accept, listener, NULL, NULL);
#else
    long packed[] = {listener, 0, 0};
    return (int)syscall(SYS_socketcall, SYS_ACCEPT, packed);
#endif
}

/* A server whose sockets are all made by syscall(). */
SCENARIO("made-by-number")
{
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof address;
    int listener = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM, 0);
    EXPECT(bind(listener, (struct sockaddr *)&address, len) == 0);
    EXPECT(syscall(SYS_listen, listener, 8) == 0);
    EXPECT(getsockname(listener, (struct sockaddr *)&address, &len) == 0);
    for (int i = 0; i < 2; i++) {
        struct conn conn = {.peer = raw_client(&address)};
        conn.fd = i ? (int)syscall(SYS_accept4, listener, NULL, NULL, SOCK_CLOEXEC)
                    : accept_by_number(listener);
        never_asked(conn.fd);
        converse(conn);
        int copy = (int)syscall(SYS_fcntl, conn.fd, F_DUPFD, 50), value = -1;
        EXPECT(copy >= 50);
        never_asked(copy);
        len = sizeof value;
        EXPECT(syscall(SYS_getsockopt, copy, IPPROTO_TCP, TCP_NODELAY, &value, &len) == 0);
        EXPECT(value == 0);
        is_governed(copy);
        close(copy);
        close_conn(conn);
    }
    close(listener);
}
