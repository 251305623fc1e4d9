/* SPDX-License-Identifier: MIT */
/* Options that a rule has set on a socket, when the socket gets another rule or none. 127.0.0.2 and
 * 127.0.0.3 have no listener, so that the program can connect the same socket to another address.
 * The policy is that of tests/promises/promises.bats; without the library the kernel's options are
 * the program's own. */
#pragma once

#include "life.h"

enum { RULED = 77, DEFAULT = 7200, ASKED = 500 };

static int in_kernel(int fd, int level, int option)
{
    int value = -1;
    socklen_t len = sizeof value;
    raw(SYS_getsockopt, fd, level, option, (long)&value, (long)&len, 0);
    return value;
}

/* The kernel has the rule's values if ruled, and getsockopt always returns the program's own. */
static void has(int fd, bool ruled, int idle)
{
    EXPECT(in_kernel(fd, IPPROTO_TCP, TCP_KEEPIDLE) == (ruled ? RULED : idle));
    EXPECT(in_kernel(fd, SOL_SOCKET, SO_KEEPALIVE) == ruled);
    EXPECT(told(fd, IPPROTO_TCP, TCP_KEEPIDLE) == idle);
    EXPECT(told(fd, SOL_SOCKET, SO_KEEPALIVE) == 0);
    EXPECT(told(fd, IPPROTO_TCP, TCP_NODELAY) == 0);
}

static int connect_to(int fd, uint32_t host, const struct sockaddr_in *like)
{
    struct sockaddr_in address = *like;
    address.sin_addr.s_addr = htonl(host);
    return connect(fd, (struct sockaddr *)&address, sizeof address);
}

/* Connects first to 127.0.0.2, whose rule sets options, then to an address without a rule or with a
 * rule that sets none. */
static void goes_on(uint32_t then, bool asks)
{
    struct sockaddr_in address;
    int listener = raw_listener(0, &address), fd = socket(AF_INET, SOCK_STREAM, 0);
    int idle = asks ? ASKED : DEFAULT;
    if (asks)
        EXPECT(setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle) == 0);
    EXPECT(connect_to(fd, INADDR_LOOPBACK + 1, &address) == -1 && errno == ECONNREFUSED);
    has(fd, is_shimmed(), idle);
    if (then != INADDR_LOOPBACK)
        EXPECT(connect_to(fd, then, &address) == -1 && errno == ECONNREFUSED);
    else
        EXPECT(connect_to(fd, then, &address) == 0);
    has(fd, false, idle);
    EXPECT(in_kernel(fd, IPPROTO_TCP, TCP_NODELAY) == 0);
    /* Back to the rule that sets options. */
    if (then != INADDR_LOOPBACK) {
        EXPECT(connect_to(fd, INADDR_LOOPBACK + 1, &address) == -1 && errno == ECONNREFUSED);
        has(fd, is_shimmed(), idle);
    }
    close(fd);
    RAW(close, listener, 0, 0, 0);
}

SCENARIO("undone")
{
    for (int asks = 0; asks < 2; asks++) {
        goes_on(INADDR_LOOPBACK, asks);
        goes_on(INADDR_LOOPBACK + 2, asks);
    }
}

/* The library uses its object of a closed socket again. */
SCENARIO("of-a-closed-socket")
{
    struct sockaddr_in nobody = loopback(1);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT(connect_to(fd, INADDR_LOOPBACK + 1, &nobody) == -1 && errno == ECONNREFUSED);
    has(fd, is_shimmed(), DEFAULT);
    close(fd);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT(told(fd, SOL_SOCKET, SO_SNDBUF) == in_kernel(fd, SOL_SOCKET, SO_SNDBUF));
    has(fd, false, DEFAULT);
    close(fd);
}

/* A listener's rule also applies to its connections, unless they get another rule. */
SCENARIO("of-a-listener")
{
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 3);
    EXPECT(bind(listener, (struct sockaddr *)&address, len) == 0 && listen(listener, 4) == 0 &&
           getsockname(listener, (struct sockaddr *)&address, &len) == 0);
    int client = raw_client(&address);
    int fd = accept(listener, NULL, NULL);
    has(fd, is_shimmed(), DEFAULT);
    close(fd);
    RAW(close, client, 0, 0, 0);
    close(listener);
}
