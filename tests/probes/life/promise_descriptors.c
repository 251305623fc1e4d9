/* SPDX-License-Identifier: MIT */
/* Sockets and closes by syscall(), which the library sees. See promise.h. */
#include "promise.h"

#include <linux/close_range.h>
#include <linux/net.h>

static void *unshares_by_number(void *unused)
{
    EXPECT(syscall(SYS_close_range, 3, ~0U, CLOSE_RANGE_UNSHARE) == 0);
    return unused;
}

/* A thread closes everything in a descriptor table of its own. */
SCENARIO("close-range-by-number")
{
    struct conn conn = open_conversing();
    pthread_t thread;
    pthread_create(&thread, NULL, unshares_by_number, NULL);
    pthread_join(thread, NULL);
    never_asked(conn.fd);
    still_governed(conn);
    close_conn(conn);
}

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

LIFE_MAIN
