/* SPDX-License-Identifier: MIT */
/* Calls on connections for the places of a program that the differential fuzzer
 * (tests/differential) does not reach. The fuzzer tests the same calls with all kinds of arguments.
 */
#ifndef PROBES_CALLS_TRAFFIC_H
#define PROBES_CALLS_TRAFFIC_H

#include "record.h"

#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __recv_chk(int, void *, size_t, size_t, int);

static char in[256];

static void traffic_writes(struct pair pair)
{
    static const char text[] = "0123456789";
    struct iovec two[2] = {{(char *)(uintptr_t)text, 3}, {(char *)(uintptr_t)text, 4}};
    struct msghdr message = {.msg_iov = two, .msg_iovlen = 2};
    struct mmsghdr many[2] = {{.msg_hdr = message}, {.msg_hdr = message}};
    off64_t offset = 0;
    int file = memfd_create("probe", MFD_CLOEXEC);
    must(file >= 0 && write(file, text, 10) == 10, "make a file");
    CALL(write(pair.a, text, 5));
    CALL(writev(pair.a, two, 2));
    CALL(pwritev2(pair.a, two, 2, -1, 0));
    CALL(send(pair.a, text, 6, MSG_NOSIGNAL));
    CALL(send(pair.a, text, 2, MSG_MORE));
    CALL(sendto(pair.a, text, 7, 0, NULL, 0));
    CALL(sendmsg(pair.a, &message, 0));
    CALL(sendmmsg(pair.a, many, 2, 0));
    record_value("msg_len", many[0].msg_len + many[1].msg_len);
    CALL(sendfile64(pair.a, file, &offset, 4));
    record_value("offset", (long)offset);
    expect_bytes(pair.b, 59);
    CALL(write(NO_FD, text, 5));
    CALL(sendmsg(NO_FD, &message, 0));
    CALL(write(pair.a, nowhere, 4));
    close(file);
}

static void traffic_reads(struct pair pair)
{
    struct iovec two[2] = {{in, 2}, {in + 2, 2}};
    struct msghdr message = {.msg_iov = two, .msg_iovlen = 2};
    feed(pair.b, pair.a, "0123456789abcdefghijklmnop");
    CALL(read(pair.a, in, 2));
    CALL(readv(pair.a, two, 2));
    CALL(recv(pair.a, in, 4, MSG_PEEK));
    CALL(recv(pair.a, in, 4, MSG_WAITALL));
    CALL(recvmsg(pair.a, &message, 0));
    CALL(__read_chk(pair.a, in + 4, 2, 2));
    CALL(__recv_chk(pair.a, in + 6, 2, 2, 0));
    record_bytes("read", in, 8);
    CALL(recv(pair.a, in, sizeof in, MSG_DONTWAIT));
    CALL(recv(pair.a, in, 4, MSG_DONTWAIT));
    CALL(read(NO_FD, in, 4));
    set_timeouts(pair.a, 5);
    CALL(read(pair.a, in, 4));
    set_timeouts(pair.a, 0);
}

static void traffic_waits(struct pair pair)
{
    struct pollfd one = {.fd = pair.a, .events = POLLIN};
    struct epoll_event event = {.events = EPOLLIN}, found[2];
    struct timeval time = {0, 2000};
    fd_set set;
    int epoll = epoll_create1(0);
    must(epoll_ctl(epoll, EPOLL_CTL_ADD, pair.a, &event) == 0, "epoll_ctl");
    for (int ready = 0; ready < 2; ready++) {
        FD_ZERO(&set);
        FD_SET(pair.a, &set);
        time.tv_usec = 2000;
        CALL(poll(&one, 1, 2));
        record_value("revents", one.revents);
        CALL(select(pair.a + 1, &set, NULL, NULL, &time));
        CALL(epoll_wait(epoll, found, 2, 2));
        feed(pair.b, pair.a, "ready");
    }
    close(epoll);
}

static void traffic_options(int fd)
{
    static const int names[] = {TCP_NODELAY, TCP_CORK};
    socklen_t length = sizeof(int);
    int value;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int on = 1; on >= 0; on--) {
            CALL(getsockopt(fd, IPPROTO_TCP, names[i], &value, &length));
            record_value("value", value);
            CALL(setsockopt(fd, IPPROTO_TCP, names[i], &on, sizeof on));
        }
    CALL(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, nowhere, sizeof value));
    CALL(setsockopt(NO_FD, IPPROTO_TCP, TCP_NODELAY, &value, sizeof value));
    CALL(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, nowhere));
    CALL(fcntl64(fd, F_GETFL));
    CALL(getsockopt(fd, 12345, TCP_NODELAY, &value, &length));
    CALL(setsockopt(fd, IPPROTO_TCP, 9999, &value, sizeof value));
}

static void calls_traffic(void)
{
    struct pair pair = open_pair();
    traffic_options(pair.a);
    traffic_writes(pair);
    traffic_reads(pair);
    traffic_waits(pair);
    traffic_options(pair.a);
    close_pair(pair);
}

#endif
