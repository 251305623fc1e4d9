/* SPDX-License-Identifier: MIT */
/* Readers that wait for more than the first piece of an answer. The peer, which the library does
 * not see, uses Nagle's algorithm and sends its answer in two small writes: the second waits until
 * the first is acknowledged. Prints the median of 15 rounds in milliseconds. See promise.h.
 *
 * The kernel acknowledges unread data when its timer fires, and no option changes this, because
 * tcp_cleanup_rbuf needs an empty queue. If TCP_QUICKACK was set before, it acknowledges sixteen
 * segments as they arrive, and sixteen more after a pause of a retransmission timeout
 * (tcp_in_quickack_mode). */
#include "promise.h"

#include <sys/select.h>

enum { ROUNDS = 15, HEAD = 10, BODY = 90, WHOLE = HEAD + BODY };

static char data[WHOLE];

/* Answers each request, until the end of the stream. */
static void *answers(void *peer)
{
    static const char text[WHOLE];
    char request;
    int fd = *(int *)peer;
    while (raw(SYS_recvfrom, fd, (long)&request, 1, 0, 0, 0) == 1) {
        raw(SYS_sendto, fd, (long)text, HEAD, MSG_NOSIGNAL, 0, 0);
        raw(SYS_sendto, fd, (long)text, BODY, MSG_NOSIGNAL, 0, 0);
    }
    return NULL;
}

static void converse_with(struct conn conn, void (*read_answer)(int fd))
{
    double took[ROUNDS];
    pthread_t thread;
    pthread_create(&thread, NULL, answers, &conn.peer);
    for (int i = 0; i < ROUNDS; i++) {
        double begin = now_ms();
        EXPECT(send(conn.fd, "?", 1, 0) == 1);
        read_answer(conn.fd);
        took[i] = now_ms() - begin;
    }
    printf("median %.2f\n", median_of(took, ROUNDS));
    shutdown(conn.fd, SHUT_WR);
    pthread_join(thread, NULL);
    close_conn(conn);
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

/* The data stays in the socket until it is complete. */
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

/* The same without poll, which would return at once. */
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
    converse_with(open_conn(), read_answer);
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
    converse_with(conn, read_answer);
}

SCENE("lowat-select", with_low_water(select_all))
SCENE("lowat-poll", with_low_water(poll_all))

LIFE_MAIN
