/* SPDX-License-Identifier: MIT */
/* Descriptors that are duplicated, replaced, passed on, made by syscall(), and closed unseen by the
 * library. */
#pragma once

#include "life.h"

#include <linux/net.h>

/* Replaces fd by another descriptor, by raw system calls. */
static void replace(int fd, int by)
{
    RAW(close, fd, 0, 0, 0);
    RAW(dup3, by, fd, 0, 0);
    RAW(close, by, 0, 0, 0);
}

/* The same by libc's syscall(), as libuv closes. */
static void replace_by_libc(int fd, int by)
{
    syscall(SYS_close, fd);
    syscall(SYS_dup3, by, fd, 0);
    syscall(SYS_close, by);
}

static void becomes_udp(bool inside_a_burst)
{
    for (int i = 0; i < 20; i++) {
        struct conn conn = open_conn();
        int receiver, udp = raw_udp(&receiver);
        put(conn.fd, "t");
        put(conn.fd, "c");
        put(conn.fd, "p");
        if (!inside_a_burst)
            arrives(conn.peer, "tcp");
        if (inside_a_burst)
            replace_by_libc(conn.fd, udp);
        else
            replace(conn.fd, udp);
        EXPECT(write(conn.fd, "first", 5) == 5);
        EXPECT(write(conn.fd, "second", 6) == 6);
        EXPECT(send(conn.fd, "third", 5, 0) == 5);
        datagram(receiver, "first");
        datagram(receiver, "second");
        datagram(receiver, "third");
        RAW(close, receiver, 0, 0, 0);
        close_conn(conn);
    }
}

SCENE("becomes-udp", becomes_udp(false))
SCENE("becomes-udp-in-burst", becomes_udp(true))

SCENARIO("becomes-others")
{
    struct conn conn = open_conn();
    int pair[2];
    char data[16];
    put(conn.fd, "tcp");
    RAW(pipe2, pair, O_CLOEXEC, 0, 0);
    replace(conn.fd, pair[1]);
    EXPECT(write(conn.fd, "in the pipe", 11) == 11);
    EXPECT(RAW(read, pair[0], data, sizeof data, 0) == 11);
    EXPECT(send(conn.fd, "x", 1, 0) == -1 && errno == ENOTSOCK);
    EXPECT(lseek(conn.fd, 0, SEEK_CUR) == -1 && errno == ESPIPE);
    RAW(close, pair[0], 0, 0, 0);
    signal(SIGPIPE, SIG_IGN);
    EXPECT(write(conn.fd, "x", 1) == -1 && errno == EPIPE);
    close_conn(conn);
    conn = open_conn();
    put(conn.fd, "tcp");
    RAW(close, conn.fd, 0, 0, 0);
    EXPECT(write(conn.fd, "x", 1) == -1 && errno == EBADF);
    EXPECT(read(conn.fd, data, 1) == -1 && errno == EBADF);
    EXPECT(close(conn.fd) == -1 && errno == EBADF);
    RAW(close, conn.peer, 0, 0, 0);
    /* Another connection gets the same number, and only its own bytes. */
    conn = open_conn();
    struct conn other = open_conn();
    put(conn.fd, "to one");
    int number = conn.fd;
    replace(number, other.fd);
    other.fd = number;
    put(other.fd, "to the other");
    arrives(conn.peer, "to one");
    arrives(other.peer, "to the other");
    RAW(close, conn.peer, 0, 0, 0);
    close_conn(other);
}

/* A running child receives a listener, and serves one of its connections. */
SCENARIO("rights-listener")
{
    int way[2];
    struct sockaddr_in address;
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, way) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(way[0]);
        int fd = accept(receive_right(way[1]), NULL, NULL);
        serve(fd, fd);
        _exit(0);
    }
    close(way[1]);
    int listener = seen_listener(&address);
    send_right(way[0], listener);
    close(listener);
    be_served(raw_client(&address));
    close(way[0]);
    child_ended(pid, 0);
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
