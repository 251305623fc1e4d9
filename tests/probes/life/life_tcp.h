/* SPDX-License-Identifier: MIT */
/* Connections that are opened by syscall(), with data, by MPTCP, and with kTLS, with which the
 * kernel puts the bytes into records. */
#pragma once

#include "life.h"

#include <linux/tls.h>

#ifndef SOL_TLS
#define SOL_TLS 282
#endif
#ifndef TCP_ULP
#define TCP_ULP 31
#endif

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
    ends(conn.peer);
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
    EXPECT(!is_shimmed() || before < 0 || bound < before);
    close_conn(conn);
}

static const struct tls12_crypto_info_aes_gcm_128 keys = {
    .info = {.version = TLS_1_2_VERSION, .cipher_type = TLS_CIPHER_AES_GCM_128}};

/* No byte of a record is held. */
static void send_records(struct conn conn)
{
    EXPECT(raw(SYS_setsockopt, conn.peer, SOL_TLS, TLS_RX, (long)&keys, sizeof keys, 0) == 0);
    for (int i = 0; i < 4; i++) {
        int held = results->held;
        put(conn.fd, "one ");
        EXPECT(send(conn.fd, "two ", 4, 0) == 4);
        put(conn.fd, "three");
        EXPECT(results->held == held);
        arrives(conn.peer, "one two three");
    }
    close_conn(conn);
}

static long begin_tls(int fd)
{
    return raw(SYS_setsockopt, fd, IPPROTO_TCP, TCP_ULP, (long)"tls", 3, 0);
}

/* Held bytes leave before the records begin. If the kernel has no kTLS, the failed call changes
 * nothing. */
SCENARIO("kernel-tls")
{
    struct conn conn = open_conn();
    long peer = begin_tls(conn.peer);
    put(conn.fd, "plain ");
    put(conn.fd, "text");
    int result = setsockopt(conn.fd, IPPROTO_TCP, TCP_ULP, "tls", 3);
    at_once(conn.peer, "plain text");
    EXPECT(result == (peer == 0 ? 0 : -1) && (result == 0 || errno == -peer));
    if (result != 0) {
        printf("no kTLS here: %s\n", strerror(errno));
        still_governed(conn);
        close_conn(conn);
        return;
    }
    EXPECT(setsockopt(conn.fd, SOL_TLS, TLS_TX, &keys, sizeof keys) == 0);
    send_records(conn);
    /* A raw system call has made the connection, and begun the records. */
    conn = raw_conn(-1);
    EXPECT(begin_tls(conn.peer) == 0 && begin_tls(conn.fd) == 0);
    EXPECT(raw(SYS_setsockopt, conn.fd, SOL_TLS, TLS_TX, (long)&keys, sizeof keys, 0) == 0);
    send_records(conn);
}

#ifndef SYS_accept /* i386 and s390x have no number for accept() itself */
#define SYS_accept SYS_accept4
#endif

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
                    : (int)syscall(SYS_accept, listener, NULL, NULL, 0);
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
