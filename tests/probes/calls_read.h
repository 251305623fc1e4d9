/* SPDX-License-Identifier: MIT */
/* The reads of the call table, with good and bad arguments: with nothing owed, and while an
 * acknowledgement is owed on another connection, where the shim reads in another way. */
#ifndef PROBES_CALLS_READ_H
#define PROBES_CALLS_READ_H

#include "record.h"

#include <sys/ioctl.h>
#include <sys/uio.h>
#include <sys/wait.h>

ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __recv_chk(int, void *, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);

static char in[256];
static struct iovec in_vectors[1100];

static void fill_in_vectors(void)
{
    memset(in, '.', sizeof in);
    for (size_t i = 0; i < 1100; i++)
        in_vectors[i] = (struct iovec){in + i % 200, 1};
}

static struct msghdr message_in(size_t count)
{
    static char control[64];
    static struct sockaddr_in name;
    memset(&name, 0, sizeof name);
    return (struct msghdr){.msg_name = &name,
                           .msg_namelen = sizeof name,
                           .msg_iov = in_vectors,
                           .msg_iovlen = count,
                           .msg_control = control,
                           .msg_controllen = sizeof control,
                           .msg_flags = 0x55};
}

static void record_message(const struct msghdr *message)
{
    record_value("msg_namelen", message->msg_namelen);
    record_value("msg_controllen", (long)message->msg_controllen);
    record_value("msg_flags", message->msg_flags);
}

static void read_each(struct pair pair)
{
    struct sockaddr_in from = {0};
    socklen_t len = sizeof from;
    int a = pair.a;
    fill_in_vectors();
    feed(pair.b, a, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
    CALL(read(a, in, 2));
    CALL(readv(a, in_vectors + 2, 2));
    CALL(preadv2(a, in_vectors + 4, 2, -1, 0));
    CALL(recv(a, in + 6, 2, 0));
    CALL(recv(a, in + 8, 2, MSG_PEEK));
    CALL(recv(a, in + 8, 2, MSG_TRUNC));
    CALL(recv(a, in + 10, 2, MSG_WAITALL));
    CALL(recv(a, in + 12, 2, MSG_DONTWAIT));
    CALL(recvfrom(a, in + 14, 2, 0, (struct sockaddr *)&from, &len));
    record_value("length of the address", (long)len);
    CALL(recvfrom(a, in + 16, 2, 0, NULL, NULL));
    struct msghdr message = message_in(3);
    CALL(recvmsg(a, &message, 0));
    record_message(&message);
    message = message_in(2);
    CALL(recvmsg(a, &message, MSG_PEEK | MSG_CMSG_CLOEXEC));
    record_message(&message);
    struct mmsghdr many[2] = {{.msg_hdr = message_in(2)}, {.msg_hdr = message_in(1)}};
    struct timespec soon = {0, 1000000};
    CALL(recvmmsg(a, many, 2, 0, &soon));
    record_value("msg_len", many[0].msg_len + many[1].msg_len);
    CALL(__read_chk(a, in + 20, 2, 2));
    CALL(__recv_chk(a, in + 22, 2, 2, 0));
    CALL(__recvfrom_chk(a, in + 24, 2, 2, 0, NULL, NULL));
    int ends[2];
    must(pipe2(ends, O_CLOEXEC) == 0, "pipe");
    CALL(splice(a, NULL, ends[1], NULL, 3, 0));
    CALL(read(ends[0], in + 26, 3));
    close(ends[0]);
    close(ends[1]);
    CALL(read(a, in + 30, 100));
    record_bytes("read", in, 80);
}

static void read_bad(int fd)
{
    fill_in_vectors();
    struct msghdr message = message_in(1025);
    CALL(read(fd, none, 0));
    CALL(readv(fd, in_vectors, 0));
    CALL(readv(fd, in_vectors, negative));
    CALL(readv(fd, in_vectors, 1025));
    CALL(readv(fd, none, 1));
    CALL(readv(fd, nowhere, 1));
    CALL(preadv2(fd, in_vectors, 1025, -1, 0));
    CALL(preadv2(fd, in_vectors, 1, 0, 0));
    CALL(preadv2(fd, in_vectors, 1, -1, 0x4000));
    CALL(recv(fd, in, 4, MSG_OOB));
    CALL(recv(fd, in, 4, MSG_ERRQUEUE));
    CALL(recv(fd, in, 4, MSG_ERRQUEUE | MSG_DONTWAIT));
    CALL(recvmsg(fd, &message, 0));
    CALL(recvmsg(fd, none, 0));
    CALL(recvmsg(fd, nowhere, 0));
    CALL(recvmmsg(fd, none, 0, 0, none));
    struct timespec wrong = {0, 1000000000};
    struct mmsghdr one = {.msg_hdr = message_in(1)};
    CALL(recvmmsg(fd, &one, 1, 0, &wrong));
    CALL(splice(fd, NULL, NO_FD, NULL, 4, 0));
}

/* Nothing is there: all that does not wait. */
static void read_nothing(int fd)
{
    struct msghdr message = message_in(3);
    struct mmsghdr one = {.msg_hdr = message_in(1)};
    socklen_t len = 16;
    CALL(recv(fd, in, 4, MSG_DONTWAIT));
    CALL(recv(fd, in, 4, MSG_DONTWAIT | MSG_PEEK));
    CALL(recv(fd, in, 4, MSG_DONTWAIT | MSG_WAITALL));
    CALL(recvfrom(fd, in, 4, MSG_DONTWAIT, (struct sockaddr *)in, &len));
    CALL(recvmsg(fd, &message, MSG_DONTWAIT));
    record_message(&message);
    CALL(recvmmsg(fd, &one, 1, MSG_DONTWAIT, none));
    fcntl(fd, F_SETFL, O_NONBLOCK);
    CALL(read(fd, in, 4));
    CALL(read(fd, in, 4));
    CALL(readv(fd, in_vectors, 2));
    CALL(preadv2(fd, in_vectors, 2, -1, 0));
    CALL(recv(fd, in, 4, MSG_WAITALL));
    CALL(recvmsg(fd, &message, 0));
    CALL(__read_chk(fd, in, 4, 4));
    fcntl(fd, F_SETFL, 0);
}

static void read_timeouts(struct pair pair, const struct pair *owing)
{
    int a = pair.a, eight = 8, one = 1;
    struct msghdr message = message_in(3);
#define OWE()                                                                                      \
    do {                                                                                           \
        if (owing)                                                                                 \
            owe_on(*owing);                                                                        \
    } while (0)
    set_timeouts(a, 5);
    OWE();
    CALL(read(a, in, 4));
    OWE();
    CALL(readv(a, in_vectors, 2));
    OWE();
    CALL(recv(a, in, 4, 0));
    OWE();
    CALL(recvmsg(a, &message, 0));
    record_message(&message);
    feed(pair.b, a, "part");
    OWE();
    CALL(recv(a, in, 8, MSG_WAITALL));
    feed(pair.b, a, "part");
    setsockopt(a, SOL_SOCKET, SO_RCVLOWAT, &eight, sizeof eight);
    OWE();
    CALL(recv(a, in, 16, 0));
    setsockopt(a, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one);
    set_timeouts(a, 0);
    struct mmsghdr many = {.msg_hdr = message_in(1)};
    OWE();
    INTERRUPTED(read(a, in, 4));
    OWE();
    INTERRUPTED(recv(a, in, 4, 0));
    OWE();
    INTERRUPTED(recv(a, in, 4, MSG_WAITALL));
    OWE();
    INTERRUPTED(recvfrom(a, in, 4, 0, NULL, NULL));
    message = message_in(3);
    OWE();
    INTERRUPTED(recvmsg(a, &message, 0));
    record_message(&message);
    OWE();
    INTERRUPTED(recvmmsg(a, &many, 1, 0, NULL));
    OWE();
    INTERRUPTED(readv(a, in_vectors, 2));
    OWE();
    INTERRUPTED(preadv2(a, in_vectors, 2, -1, 0));
    OWE();
    INTERRUPTED(__recv_chk(a, in, 4, 4, 0));
#undef OWE
}

/* Data that comes while the call waits: nothing is there at a first look. */
static void read_late(struct pair pair, struct pair owing)
{
    struct msghdr message = message_in(4);
    struct pollfd one = {.fd = pair.a, .events = POLLIN};
    for (int way = 0; way < 5; way++) {
        pid_t pid = fork();
        if (pid == 0) {
            usleep(5000);
            write(pair.b, "late", 4);
            _exit(0);
        }
        owe_on(owing);
        if (way == 0)
            CALL(read(pair.a, in, 4));
        else if (way == 1)
            CALL(recv(pair.a, in, 4, 0));
        else if (way == 2)
            CALL(recvmsg(pair.a, &message, 0));
        else if (way == 3)
            CALL(poll(&one, 1, -1));
        else
            CALL(recv(pair.a, in, 8, MSG_WAITALL)); /* what poll has seen, and the last */
        waitpid(pid, NULL, 0);
    }
}

static void read_ends(void)
{
    struct pair pair = open_pair();
    struct linger now = {1, 0};
    feed(pair.b, pair.a, "last");
    shutdown(pair.b, SHUT_WR);
    CALL(recv(pair.a, in, 8, MSG_WAITALL));
    CALL(read(pair.a, in, 4));
    CALL(recv(pair.a, in, 4, MSG_DONTWAIT));
    CALL(readv(pair.a, in_vectors, 1));
    close_pair(pair);
    pair = open_pair();
    CALL(shutdown(pair.a, SHUT_RD));
    CALL(read(pair.a, in, 4));
    CALL(recv(pair.a, in, 4, MSG_DONTWAIT));
    close_pair(pair);
    pair = open_pair();
    setsockopt(pair.b, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    feed(pair.b, pair.a, "last");
    close(pair.b);
    CALL(read(pair.a, in, 4));
    CALL(read(pair.a, in, 4));
    CALL(read(pair.a, in, 4));
    close(pair.a);
    int fresh = socket(AF_INET, SOCK_STREAM, 0);
    CALL(read(fresh, in, 4));
    CALL(recv(fresh, in, 4, MSG_DONTWAIT));
    CALL(readv(fresh, in_vectors, 1));
    close(fresh);
}

static void read_others(void)
{
    int ends[2];
    must(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0, "socketpair");
    feed(ends[1], ends[0], "packet");
    CALL(recv(ends[0], in, 3, MSG_TRUNC));
    CALL(recv(ends[0], in, 3, MSG_DONTWAIT));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    read_bad(ends[0]);
    close(ends[0]);
    close(ends[1]);
    must(pipe2(ends, 0) == 0, "pipe");
    feed(ends[1], ends[0], "pipe");
    CALL(read(ends[0], in, 2));
    CALL(readv(ends[0], in_vectors, 2));
    CALL(recv(ends[0], in, 4, 0));
    INTERRUPTED(read(ends[0], in, 4));
    close(ends[1]);
    CALL(read(ends[0], in, 4));
    close(ends[0]);
}

static void calls_read_main(void)
{
    struct pair pair = open_pair(), owing = open_pair();
    for (int round = 0; round < 2; round++) {
        record_add("%s: # %s owed\n", record_context, round ? "an ACK is" : "nothing is");
        read_each(pair);
        if (round)
            owe_on(owing);
        read_nothing(pair.a);
        CALL(read(pair.a, none, 0));
        CALL(recv(pair.a, none, 0, MSG_DONTWAIT));
        feed(pair.b, pair.a, "lost");
        if (round)
            owe_on(owing);
        CALL(read(pair.a, none, 4));
        if (round)
            owe_on(owing);
        CALL(read(pair.a, in, too_much));
        CALL(recv(pair.a, nowhere, 4, MSG_DONTWAIT));
        CALL(recv(pair.a, in, 4, MSG_DONTWAIT));
    }
    read_bad(NO_FD);
    close_pair(pair);
    close_pair(owing);
}

static void calls_read(void)
{
    calls_read_main();
    struct pair pair = open_pair(), owing = open_pair();
    read_timeouts(pair, NULL);
    record_add("%s: # an ACK is owed\n", record_context);
    read_timeouts(pair, &owing);
    fcntl(pair.a, F_SETFL, O_NONBLOCK);
    read_bad(pair.a);
    owe_on(owing);
    read_bad(pair.a);
    fcntl(pair.a, F_SETFL, 0);
    read_late(pair, owing);
    close_pair(pair);
    close_pair(owing);
    read_ends();
    read_others();
}

#endif
