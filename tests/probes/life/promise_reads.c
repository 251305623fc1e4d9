/* SPDX-License-Identifier: MIT */
/* Readers that wait for more than the first piece of an answer, and a client whose socket was made
 * by bare system calls. The peer is below our feet, has Nagle on and sends its answer in two small
 * writes: the second waits until the first is acknowledged. Prints the median of READS_ROUNDS
 * rounds in milliseconds. See promise.h.
 *
 * What lies unread the kernel acknowledges when its timer says so, whatever is asked of it then
 * (tcp_cleanup_rbuf wants an empty queue). Only for sixteen pieces, and sixteen more after a pause
 * of a retransmission timeout, does it do so as they come, if it was asked before
 * (tcp_in_quickack_mode). */
#include "promise.h"

#include <sys/resource.h>
#include <sys/select.h>

enum { MOST_ROUNDS = 15, HEAD = 10, BODY = 90, WHOLE = HEAD + BODY, PIECES = 15 };

static char data[WHOLE];

/* Answers each request, until the end of the stream. */
static void *answers(void *peer)
{
    static const char text[WHOLE];
    char request[2 * PIECES];
    int fd = *(int *)peer;
    while (raw(SYS_recvfrom, fd, (long)request, 1, 0, 0, 0) == 1) {
        raw(SYS_sendto, fd, (long)text, HEAD, MSG_NOSIGNAL, 0, 0);
        raw(SYS_sendto, fd, (long)text, BODY, MSG_NOSIGNAL, 0, 0);
    }
    return NULL;
}

/* Answers fifteen small writes by a byte. */
static void *answers_bursts(void *peer)
{
    char request[2 * PIECES];
    int fd = *(int *)peer;
    while (raw(SYS_recvfrom, fd, (long)request, sizeof request, MSG_WAITALL, 0, 0) ==
           sizeof request)
        raw(SYS_sendto, fd, (long)request, 1, MSG_NOSIGNAL, 0, 0);
    return NULL;
}

static void converse_with(void *(*peer)(void *), struct conn conn, void (*ask)(int fd),
                          void (*read_answer)(int fd))
{
    double took[MOST_ROUNDS];
    pthread_t thread;
    pthread_create(&thread, NULL, peer, &conn.peer);
    int rounds = (int)from_environment("READS_ROUNDS", MOST_ROUNDS);
    for (int i = 0; i < rounds; i++) {
        double begin = now_ms();
        ask(conn.fd);
        read_answer(conn.fd);
        took[i] = now_ms() - begin;
    }
    printf("median %.2f\n", median_of(took, rounds));
    shutdown(conn.fd, SHUT_WR);
    pthread_join(thread, NULL);
    close_conn(conn);
}

static void ask_once(int fd)
{
    EXPECT(send(fd, "?", 1, 0) == 1);
}

static void waits_until_readable(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    EXPECT(poll(&one, 1, 5000) == 1);
}

static void wait_all(int fd)
{
    EXPECT(recv(fd, data, WHOLE, MSG_WAITALL) == WHOLE);
}

static void wait_all_recvmsg(int fd)
{
    struct iovec parts[2] = {{data, HEAD}, {data + HEAD, BODY}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    EXPECT(recvmsg(fd, &message, MSG_WAITALL) == WHOLE);
}

static void select_all(int fd)
{
    fd_set reads;
    FD_ZERO(&reads);
    FD_SET(fd, &reads);
    EXPECT(select(fd + 1, &reads, NULL, NULL, NULL) == 1);
    EXPECT(read(fd, data, WHOLE) == WHOLE);
}

static void poll_all(int fd)
{
    waits_until_readable(fd);
    EXPECT(read(fd, data, WHOLE) == WHOLE);
}

/* What is there stays there until all of it is. */
static void peek_all(int fd)
{
    double begin = now_ms();
    while (recv(fd, data, WHOLE, MSG_PEEK) < WHOLE && look_again(begin, 5000))
        waits_until_readable(fd);
    EXPECT(recv(fd, data, WHOLE, 0) == WHOLE);
}

static void fionread_all(int fd)
{
    double begin = now_ms();
    int there = 0;
    waits_until_readable(fd);
    while (ioctl(fd, FIONREAD, &there) == 0 && there < WHOLE && look_again(begin, 5000))
        waits_until_readable(fd);
    EXPECT(read(fd, data, WHOLE) == WHOLE);
}

static void read_piecewise(int fd)
{
    for (size_t got = 0; got < WHOLE;) {
        ssize_t n = recv(fd, data, WHOLE - got, 0);
        if (n <= 0) {
            wrong("no answer");
            return;
        }
        got += (size_t)n;
    }
}

/* The same without poll, which finds something at once. */
static void fionread_and_sleep(int fd)
{
    double begin = now_ms();
    int there = 0;
    while (ioctl(fd, FIONREAD, &there) == 0 && there < WHOLE && look_again(begin, 5000))
        usleep(50);
    EXPECT(read(fd, data, WHOLE) == WHOLE);
}

static void reads_by(void (*read_answer)(int fd))
{
    converse_with(answers, open_conn(), ask_once, read_answer);
}

SCENE("waitall", reads_by(wait_all))
SCENE("waitall-recvmsg", reads_by(wait_all_recvmsg))
SCENE("peek", reads_by(peek_all))
SCENE("fionread", reads_by(fionread_all))
SCENE("fionread-sleep", reads_by(fionread_and_sleep))

static void with_low_water(void (*read_answer)(int fd))
{
    struct conn conn = open_conn();
    int whole = WHOLE;
    EXPECT(setsockopt(conn.fd, SOL_SOCKET, SO_RCVLOWAT, &whole, sizeof whole) == 0);
    converse_with(answers, conn, ask_once, read_answer);
}

SCENE("lowat-select", with_low_water(select_all))
SCENE("lowat-poll", with_low_water(poll_all))

static void ask_in_pieces(int fd)
{
    for (int i = 0; i < PIECES; i++)
        EXPECT(send(fd, "ab", 2, 0) == 2);
}

static void read_a_byte(int fd)
{
    EXPECT(recv(fd, data, 1, 0) == 1);
}

/* A runtime that makes its system calls itself uses libc's send and recv all the same. */
SCENE("raw-client", converse_with(answers_bursts, raw_conn(-1), ask_in_pieces, read_a_byte))

/* The same with a number that only a program with thousands of connections comes to. */
SCENARIO("high-client")
{
    enum { HIGH = 2000 };
    struct rlimit limit;
    EXPECT(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_cur > 2 * HIGH ? limit.rlim_cur : 2 * HIGH;
    EXPECT(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    int made = (int)RAW(socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0, 0);
    EXPECT(RAW(dup3, made, HIGH, O_CLOEXEC, 0) == HIGH);
    RAW(close, made, 0, 0, 0);
    converse_with(answers_bursts, raw_conn(HIGH), ask_in_pieces, read_a_byte);
}

SCENARIO("syscall-client")
{
    struct sockaddr_in address;
    struct conn conn;
    int listener = raw_listener(0, &address);
    conn.fd = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(syscall(SYS_connect, conn.fd, &address, sizeof address) == 0);
    conn.peer = raw_accept(listener);
    converse_with(answers_bursts, conn, ask_in_pieces, read_a_byte);
}

/* It reads what a peer with Nagle on has written in two pieces. */
SCENE("raw-reader", converse_with(answers, raw_conn(-1), ask_once, read_piecewise))

LIFE_MAIN
