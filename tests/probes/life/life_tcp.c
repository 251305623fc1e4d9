/* SPDX-License-Identifier: MIT */
/* How connections begin and end: reset, opened with data, by MPTCP. */
#include "life.h"

/* Bytes that a program sent before its close arrive, even if unread data makes the close a reset:
 * without the library they have already left. */
SCENARIO("close-unread")
{
    struct conn conn = open_conn();
    answer(conn.peer, "never read");
    compute_ms(2);
    put(conn.fd, "answer");
    close(conn.fd);
    at_once(conn.peer, "answer");
    ends(conn.peer, -ECONNRESET);
}

SCENARIO("fast-open")
{
    struct sockaddr_in address;
    int listener = raw_listener(0, &address), one = 1;
    set_kernel_option(listener, TCP_FASTOPEN, 5);
    for (int round = 0; round < 4; round++) { /* the first gets the cookie */
        struct conn conn = {.fd = socket(AF_INET, SOCK_STREAM, 0)};
        if (round < 2) {
            EXPECT(sendto(conn.fd, "first ", 6, MSG_FASTOPEN, (struct sockaddr *)&address,
                          sizeof address) == 6);
        } else {
            setsockopt(conn.fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &one, sizeof one);
            EXPECT(connect(conn.fd, (struct sockaddr *)&address, sizeof address) == 0);
            put(conn.fd, "first ");
        }
        conn.peer = (int)RAW(accept4, listener, 0, 0, SOCK_CLOEXEC);
        put(conn.fd, "second ");
        put(conn.fd, "third");
        arrives(conn.peer, "first second third");
        close_conn(conn);
    }
    RAW(close, listener, 0, 0, 0);
}

SCENARIO("mptcp")
{
    struct sockaddr_in address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 262);
    if (fd < 0) {
        printf("no MPTCP here\n");
        return;
    }
    int listener = raw_listener(262, &address);
    EXPECT(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    struct conn conn = {fd, raw_accept(listener)};
    for (int i = 0; i < 5; i++) {
        put(conn.fd, "one ");
        put(conn.fd, "two ");
        put(conn.fd, "three");
        arrives(conn.peer, "one two three");
    }
    put(conn.fd, "last ");
    put(conn.fd, "words");
    close(conn.fd);
    at_once(conn.peer, "last words");
    ends(conn.peer, 0);
    /* An option that MPTCP lacks may exist for the next connection. */
    conn = open_conn();
    char byte;
    for (int i = 0; i < 2; i++) { /* from then on an ACK may be delayed */
        put(conn.fd, "?");
        arrives(conn.peer, "?");
        answer(conn.peer, "!");
        EXPECT(read(conn.fd, &byte, 1) == 1);
    }
    int before = kernel_option(conn.peer, DELACK_MAX_US);
    int bound = kernel_option(conn.fd, DELACK_MAX_US);
    EXPECT(getenv("LD_PRELOAD") == NULL || before < 0 || bound < before);
    close_conn(conn);
}

LIFE_MAIN
