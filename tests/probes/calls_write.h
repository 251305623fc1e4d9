/* SPDX-License-Identifier: MIT */
/* The writes of the call table, with good and bad arguments, on every kind of descriptor. */
#ifndef PROBES_CALLS_WRITE_H
#define PROBES_CALLS_WRITE_H

#include "record.h"

#include <netinet/tcp.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <sys/un.h>

enum { VECTORS = 1100 };
static struct iovec vectors[VECTORS];
static const char text[] = "0123456789abcdefghijklmnopqrstuvwxyz";

static void fill_vectors(void)
{
    for (size_t i = 0; i < VECTORS; i++)
        vectors[i] = (struct iovec){(char *)(uintptr_t)text + i % 36, 1};
}

/* A file with the text in it, that no directory names. */
static int open_file(void)
{
    int fd = memfd_create("probe", MFD_CLOEXEC);
    must(fd >= 0 && write(fd, text, 36) == 36 && lseek(fd, 0, SEEK_SET) == 0, "make a file");
    return fd;
}

static void write_plain(int fd)
{
    fill_vectors();
    struct msghdr message = {.msg_iov = vectors, .msg_iovlen = 3};
    struct mmsghdr many[2] = {{.msg_hdr = message}, {.msg_hdr = message}};
    struct sockaddr_in elsewhere = loopback(htons(9));
    CALL(write(fd, text, 5));
    CALL(writev(fd, vectors, 3));
    CALL(pwritev2(fd, vectors, 3, -1, 0));
    CALL(send(fd, text, 6, 0));
    CALL(sendto(fd, text, 7, 0, NULL, 0));
    CALL(sendto(fd, text, 7, 0, (struct sockaddr *)&elsewhere, sizeof elsewhere));
    CALL(sendmsg(fd, &message, 0));
    CALL(sendmmsg(fd, many, 2, 0));
    record_value("msg_len", many[0].msg_len + many[1].msg_len);
    message.msg_name = &elsewhere;
    message.msg_namelen = sizeof elsewhere;
    CALL(sendmsg(fd, &message, MSG_NOSIGNAL));
    int file = open_file();
    off_t offset = 30;
    off64_t offset64 = 1;
    CALL(sendfile(fd, file, &offset, 100));
    record_value("offset", (long)offset);
    CALL(sendfile64(fd, file, &offset64, 3));
    record_value("offset", (long)offset64);
    CALL(sendfile(fd, file, NULL, 4));
    CALL(sendfile(fd, file, NULL, 0));
    close(file);
}

static void write_flags(int fd)
{
    CALL(send(fd, text, 2, MSG_NOSIGNAL));
    CALL(send(fd, text, 2, MSG_DONTWAIT));
    CALL(send(fd, text, 2, MSG_MORE));
    CALL(send(fd, text, 2, 0));
    CALL(send(fd, text, 2, MSG_EOR));
    CALL(send(fd, text, 2, MSG_CONFIRM | MSG_DONTROUTE));
    CALL(send(fd, text, 2, 0x1000000));
    CALL(sendto(fd, text, 2, MSG_MORE | MSG_DONTWAIT, NULL, 0));
    CALL(write(fd, text, 1));
    struct msghdr message = {.msg_iov = vectors, .msg_iovlen = 2};
    CALL(sendmsg(fd, &message, MSG_MORE));
    CALL(sendmsg(fd, &message, MSG_EOR));
    CALL(pwritev2(fd, vectors, 2, -1, 0x4000));
    CALL(pwritev2(fd, vectors, 2, -1, RWF_NOWAIT));
    CALL(pwritev2(fd, vectors, 2, 0, 0));
}

static void write_bad(int fd)
{
    fill_vectors();
    struct msghdr message = {.msg_iov = vectors, .msg_iovlen = 0};
    CALL(write(fd, none, 0));
    CALL(write(fd, none, 4));
    CALL(write(fd, nowhere, 4));
    CALL(write(fd, text, too_much));
    CALL(send(fd, none, 4, 0));
    CALL(send(fd, none, 0, 0));
    CALL(sendto(fd, nowhere, 4, 0, none, 0));
    CALL(sendto(fd, text, 4, 0, nowhere, 16));
    CALL(writev(fd, vectors, 0));
    CALL(writev(fd, none, 0));
    CALL(writev(fd, none, 1));
    CALL(writev(fd, vectors, negative));
    CALL(writev(fd, vectors, 1025));
    CALL(writev(fd, vectors, 1024));
    CALL(sendmsg(fd, &message, 0));
    CALL(sendmsg(fd, none, 0));
    message.msg_iovlen = 1025;
    CALL(sendmsg(fd, &message, 0));
    message.msg_iovlen = 1024;
    CALL(sendmsg(fd, &message, 0));
    message.msg_iov = none;
    message.msg_iovlen = 1;
    CALL(sendmsg(fd, &message, 0));
    CALL(sendmmsg(fd, none, 0, 0));
    CALL(sendmmsg(fd, none, 1, 0));
    CALL(pwritev2(fd, vectors, 1025, -1, 0));
    CALL(pwritev2(fd, vectors, negative, -1, 0));
    CALL(pwritev2(fd, none, 1, -1, 0));
    vectors[1] = (struct iovec){nowhere, 4};
    CALL(writev(fd, vectors + 1, 1));
    vectors[1] = (struct iovec){none, 0};
    CALL(writev(fd, vectors, 3));
    vectors[1].iov_len = SIZE_MAX;
    CALL(writev(fd, vectors, 3));
    CALL(sendfile(fd, NO_FD, NULL, 4));
    CALL(sendfile64(fd, -1, NULL, 4));
    CALL(sendfile(fd, fd, NULL, 4));
    CALL(splice(fd, NULL, fd, NULL, 4, 0));
    CALL(splice(NO_FD, NULL, fd, NULL, 4, 0));
}

/* Addresses of descriptions, not of bytes: here a shim in the program must look before the kernel
 * does. */
static void write_bad_addresses(int fd)
{
    CALL(writev(fd, nowhere, 1));
    CALL(pwritev2(fd, nowhere, 2, -1, 0));
    CALL(sendmsg(fd, nowhere, 0));
    CALL(sendmmsg(fd, nowhere, 1, 0));
    struct msghdr message = {.msg_iov = nowhere, .msg_iovlen = 1};
    CALL(sendmsg(fd, &message, 0));
}

static void write_splice(int fd)
{
    int ends[2];
    must(pipe2(ends, O_CLOEXEC) == 0, "make a pipe");
    must(write(ends[1], text, 20) == 20, "fill a pipe");
    CALL(splice(ends[0], NULL, fd, NULL, 4, 0));
    CALL(splice(ends[0], NULL, fd, NULL, 4, SPLICE_F_MORE));
    CALL(splice(ends[0], NULL, fd, NULL, 100, SPLICE_F_NONBLOCK));
    CALL(splice(ends[0], NULL, fd, NULL, 100, SPLICE_F_NONBLOCK));
    CALL(splice(ends[0], NULL, fd, NULL, 0, 0));
    CALL(splice(ends[0], NULL, fd, NULL, 4, 0x80));
    close(ends[1]);
    CALL(splice(ends[0], NULL, fd, NULL, 100, 0));
    close(ends[0]);
}

/* Everything that was written to from has arrived at to. SIOCOUTQ tells it, which counts until the
 * peer has acknowledged (UNIX: read) it: what SIOCOUTQNSD no longer counts may still be on its way,
 * in the backlog of a processor's loopback. */
static void expect_all(int from, int to)
{
    static unsigned char data[64 * 1024];
    size_t got = 0;
    uint32_t sum = 0;
    for (int unacknowledged = 1; unacknowledged > 0;) {
        int waiting = unacknowledged = 0;
        ioctl(from, SIOCOUTQ, &unacknowledged); /* fails, and leaves 0: a pipe */
        ioctl(to, FIONREAD, &waiting);
        ssize_t n = waiting > 0 ? read(to, data, sizeof data) : 0;
        for (ssize_t i = 0; i < n; i++)
            sum = sum * 31 + data[i];
        got += (size_t)(n > 0 ? n : 0);
        if (n > 0)
            unacknowledged = 1; /* look again */
        else if (unacknowledged > 0)
            usleep(1000);
    }
    record_value("arrived", (long)got);
    record_value("their sum", (long)sum);
}

static void write_full(void)
{
    static char much[256 * 1024];
    struct pair pair = open_pair();
    struct timespec moment = {.tv_nsec = 50000000};
    int small = 4096, file = open_file(), ends[2];
    setsockopt(pair.a, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    fcntl(pair.a, F_SETFL, O_NONBLOCK);
    for (bool took = true; took;) {
        for (took = false; write(pair.a, much, sizeof much) > 0;)
            took = true;
        while (write(pair.a, much, 1) > 0)
            took = true;
        nanosleep(&moment, NULL);
    }
    struct msghdr message = {.msg_iov = vectors, .msg_iovlen = 3};
    struct mmsghdr many = {.msg_hdr = message};
    fill_vectors();
    must(pipe2(ends, O_CLOEXEC) == 0 && write(ends[1], text, 20) == 20, "make a pipe");
    CALL(write(pair.a, text, 5));
    CALL(writev(pair.a, vectors, 3));
    CALL(pwritev2(pair.a, vectors, 3, -1, 0));
    CALL(send(pair.a, text, 5, 0));
    CALL(sendmsg(pair.a, &message, 0));
    CALL(sendmmsg(pair.a, &many, 1, 0));
    CALL(sendfile(pair.a, file, NULL, 4));
    CALL(splice(ends[0], NULL, pair.a, NULL, 4, SPLICE_F_NONBLOCK));
    fcntl(pair.a, F_SETFL, 0);
    CALL(send(pair.a, text, 5, MSG_DONTWAIT));
    CALL(sendmsg(pair.a, &message, MSG_DONTWAIT));
    set_timeouts(pair.a, 5);
    CALL(write(pair.a, text, 5));
    CALL(sendmsg(pair.a, &message, 0));
    set_timeouts(pair.a, 0);
    INTERRUPTED(write(pair.a, text, 5));
    INTERRUPTED(writev(pair.a, vectors, 3));
    INTERRUPTED(send(pair.a, text, 5, 0));
    INTERRUPTED(sendto(pair.a, text, 5, 0, NULL, 0));
    INTERRUPTED(sendmsg(pair.a, &message, 0));
    INTERRUPTED(sendmmsg(pair.a, &many, 1, 0));
    INTERRUPTED(sendfile(pair.a, file, NULL, 4));
    close_pair(pair);
    close(ends[0]);
    close(ends[1]);
    close(file);
}

static void write_broken(void)
{
    struct pair pair = open_pair();
    struct msghdr message = {.msg_iov = vectors, .msg_iovlen = 3};
    int file = open_file(), before = record_sigpipes;
    CALL(write(pair.a, text, 5));
    CALL(shutdown(pair.a, SHUT_WR));
    expect_bytes(pair.b, 6);
    CALL(write(pair.a, text, 5));
    CALL(send(pair.a, text, 5, 0));
    record_value("SIGPIPE", record_sigpipes - before);
    CALL(send(pair.a, text, 5, MSG_NOSIGNAL));
    CALL(sendmsg(pair.a, &message, MSG_NOSIGNAL));
    record_value("SIGPIPE", record_sigpipes - before);
    CALL(writev(pair.a, vectors, 3));
    CALL(sendfile(pair.a, file, NULL, 4));
    record_value("SIGPIPE", record_sigpipes - before);
    CALL(send(pair.b, text, 5, 0)); /* half-closed: the other way still works */
    expect_bytes(pair.a, 5);
    close_pair(pair);

    pair = open_pair();
    /* Under a name of its own: where bytes are gathered in user memory, the error comes a call
     * later.
     */
    const char *context = record_context;
    record_context = "reset";
    struct linger now = {1, 0};
    setsockopt(pair.b, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    CALL(write(pair.a, text, 5));
    expect_bytes(pair.b, 5);
    close(pair.b); /* a reset */
    CALL(write(pair.a, text, 5));
    CALL(write(pair.a, text, 5));
    CALL(send(pair.a, text, 5, MSG_NOSIGNAL));
    record_value("SIGPIPE", record_sigpipes - before);
    record_context = context;
    close(pair.a);
    close(file);
}

static void write_others(void)
{
    int ends[2], fd = socket(AF_INET, SOCK_STREAM, 0);
    fill_vectors();
    record_add("%s: # not connected\n", record_context);
    write_plain(fd);
    close(fd);
    record_add("%s: # UNIX stream\n", record_context);
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    write_plain(ends[0]);
    write_bad(ends[0]);
    expect_all(ends[0], ends[1]);
    close(ends[0]);
    close(ends[1]);
    record_add("%s: # UNIX datagrams\n", record_context);
    must(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0, "socketpair");
    fill_vectors();
    CALL(write(ends[0], text, 3));
    CALL(send(ends[0], text, 4, 0));
    CALL(writev(ends[0], vectors, 2));
    char data[8];
    for (size_t i = 0; i < 4; i++)
        CALL(recv(ends[1], data, sizeof data, MSG_DONTWAIT | MSG_TRUNC));
    close(ends[0]);
    close(ends[1]);
    record_add("%s: # a pipe\n", record_context);
    must(pipe2(ends, 0) == 0, "pipe");
    write_plain(ends[1]);
    expect_all(ends[1], ends[0]);
    close(ends[0]);
    int before = record_sigpipes;
    CALL(write(ends[1], text, 3));
    record_value("SIGPIPE", record_sigpipes - before);
    close(ends[1]);
}

static void write_datagrams(void)
{
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof address;
    char data[64];
    int to = socket(AF_INET, SOCK_DGRAM, 0), from = socket(AF_INET, SOCK_DGRAM, 0);
    must(bind(to, (struct sockaddr *)&address, len) == 0 &&
             getsockname(to, (struct sockaddr *)&address, &len) == 0 &&
             connect(from, (struct sockaddr *)&address, len) == 0,
         "open UDP sockets");
    CALL(write(from, text, 3));
    CALL(send(from, text, 4, 0));
    CALL(writev(from, vectors, 5));
    CALL(sendto(from, text, 6, 0, (struct sockaddr *)&address, len));
    CALL(write(from, text, 0));
    for (int i = 0; i < 5; i++)
        CALL(recv(to, data, sizeof data, 0));
    CALL(send(from, text, 2, MSG_MORE));
    CALL(send(from, text, 2, 0));
    CALL(recv(to, data, sizeof data, MSG_TRUNC));
    close(to);
    close(from);
}

/* The main ones, for every context. */
static void calls_write_main(void)
{
    struct pair pair = open_pair();
    write_plain(pair.a);
    expect_all(pair.a, pair.b);
    write_flags(pair.a);
    expect_all(pair.a, pair.b);
    write_splice(pair.a);
    expect_all(pair.a, pair.b);
    write_bad(NO_FD);
    write_bad(pair.a);
    expect_all(pair.a, pair.b);
    close_pair(pair);
}

static void calls_write(void)
{
    calls_write_main();
    struct pair pair = open_pair();
    CALL(send(pair.a, text, 1, MSG_OOB));
    CALL(write(pair.a, text + 1, 1));
    close_pair(pair);
    write_plain(-1);
    write_broken();
    write_others();
    write_datagrams();
    write_full();
    pair = open_pair();
    write_bad_addresses(NO_FD);
    if (getenv("PROBE_BAD_ADDRESSES"))
        write_bad_addresses(pair.a);
    close_pair(pair);
}

#endif
