/* SPDX-License-Identifier: MIT */
/* Ways to read, write and wait in which an ACK may be needless, late or missing. This process is
 * one end of a connection; a child without LD_PRELOAD is the other one. Prints the rounds as the
 * examples do, with the segments of both ends. Usage: ack_patterns NAME ROUNDS */
#include "../../examples/common.h"
#include "raw.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

enum { MESSAGE = 64, PIECE = 60 };

static struct rounds rounds;
static char block[4096];

static void nodelay(int fd, int on)
{
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, on, "TCP_NODELAY");
}

static void put(int fd, size_t size)
{
    write_all(fd, block, size);
}

/* Ends the process if the peer has closed. */
static void get(int fd, size_t size)
{
    while (size > 0) {
        ssize_t n = read(fd, block, size);
        if (n <= 0)
            exit(n == 0 ? 0 : 1);
        size -= (size_t)n;
    }
}

static void pause_us(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* --- the other end: answers or requests in several pieces, with pauses between them --- */

struct peer {
    bool asks;  /* it sends requests; otherwise answers */
    int pieces; /* 0: it only reads */
    bool nodelay;
    long think_us, pause_us;
};

static void be_peer(int fd, const struct peer *peer)
{
    if (peer->nodelay)
        nodelay(fd, 1);
    for (;;) {
        if (!peer->asks)
            get(fd, MESSAGE);
        if (peer->think_us)
            pause_us(peer->think_us);
        for (int i = 0; i < peer->pieces; i++) {
            put(fd, MESSAGE / 2);
            if (peer->pause_us)
                pause_us(peer->pause_us);
        }
        if (peer->asks)
            get(fd, MESSAGE);
    }
}

/* --- this end --- */

#define ROUNDS(fd, ...)                                                                            \
    while (rounds_left(&rounds)) {                                                                 \
        rounds_begin(&rounds, fd);                                                                 \
        __VA_ARGS__;                                                                               \
        rounds_end(&rounds);                                                                       \
    }

static void reads_whole(int fd)
{
    nodelay(fd, 1);
    ROUNDS(fd, put(fd, MESSAGE); if (recv(fd, block, MESSAGE, MSG_WAITALL) != MESSAGE) exit(1));
}

static void reads_whole_message(int fd)
{
    struct iovec parts[2] = {{block, 10}, {block + 10, MESSAGE - 10}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ROUNDS(fd, put(fd, MESSAGE); if (recvmsg(fd, &message, MSG_WAITALL) != MESSAGE) exit(1));
}

/* Leaves the data in the socket until all of it is there. The kernel acknowledges unread data when
 * its timer fires, and no option changes this, because tcp_cleanup_rbuf needs an empty queue. */
static void leaves_unread(int fd, bool (*is_whole)(int fd))
{
    ROUNDS(fd, put(fd, MESSAGE); while (!is_whole(fd)); get(fd, MESSAGE));
}

static bool polled(int fd)
{
    struct pollfd input = {.fd = fd, .events = POLLIN};
    return poll(&input, 1, -1) == 1;
}

static bool selected(int fd)
{
    fd_set input;
    FD_ZERO(&input);
    FD_SET(fd, &input);
    return select(fd + 1, &input, NULL, NULL, NULL) == 1;
}

static bool peeked(int fd)
{
    return polled(fd) && recv(fd, block, MESSAGE, MSG_PEEK) == MESSAGE;
}

static bool counted(int fd)
{
    int bytes = 0;
    return ioctl(fd, FIONREAD, &bytes) == 0 && bytes == MESSAGE;
}

static bool polled_and_counted(int fd)
{
    return polled(fd) && counted(fd);
}

static bool slept_and_counted(int fd)
{
    pause_us(50);
    return counted(fd);
}

static void has_low_water(int fd, bool (*is_whole)(int fd))
{
    set_option(fd, SOL_SOCKET, SO_RCVLOWAT, MESSAGE, "SO_RCVLOWAT");
    leaves_unread(fd, is_whole);
}

#define LEAVES(name, leaves, is_whole)                                                             \
    static void name(int fd)                                                                       \
    {                                                                                              \
        leaves(fd, is_whole);                                                                      \
    }
LEAVES(lowat_and_select, has_low_water, selected)
LEAVES(lowat_and_poll, has_low_water, polled)
LEAVES(peeks, leaves_unread, peeked)
LEAVES(polls_and_counts, leaves_unread, polled_and_counted)
LEAVES(sleeps_and_counts, leaves_unread, slept_and_counted)

/* An event loop whose waits never block, because a pipe is always writable. */
static void never_idle(int fd)
{
    int ends[2], epoll = epoll_create1(0);
    struct epoll_event in = {.events = EPOLLIN, .data.fd = fd}, out = {.events = EPOLLOUT},
                       ready[2];
    if (pipe(ends) != 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, ends[1], &out) != 0 ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &in) != 0)
        die_errno("epoll");
    ROUNDS(
        fd, for (size_t got = 0; got < MESSAGE;) {
            for (int n = epoll_wait(epoll, ready, 2, -1); n > 0; n--)
                if (ready[n - 1].data.fd == fd)
                    got += read_some(fd, block, MESSAGE - got);
        } put(fd, MESSAGE));
}

/* The parent writes, and its forked child reads. */
static void child_reads(int fd)
{
    int ask[2], done[2];
    char byte = 0;
    if (pipe(ask) != 0 || pipe(done) != 0)
        die_errno("pipe");
    if (fork() == 0) {
        close(ask[1]);
        while (read(ask[0], &byte, 1) == 1) {
            get(fd, MESSAGE);
            write_all(done[1], &byte, 1);
        }
        _exit(0);
    }
    ROUNDS(fd, put(fd, MESSAGE); write_all(ask[1], &byte, 1); read_all(done[0], &byte, 1));
    close(ask[1]);
}

/* SPLICE_F_NONBLOCK only concerns the pipe: the socket blocks. */
static void splices(int fd)
{
    int ends[2];
    if (pipe(ends) != 0)
        die_errno("pipe");
    ROUNDS(
        fd, put(fd, MESSAGE); for (size_t left = MESSAGE; left > 0;) {
            ssize_t n = splice(fd, NULL, ends[1], NULL, left, SPLICE_F_NONBLOCK);
            if (n <= 0)
                die_errno("splice");
            get(ends[0], (size_t)n);
            left -= (size_t)n;
        });
}

/* Reads until there is no data, and then waits: unseen by preloaded libraries, or with poll. */
static void get_unless_empty(int fd, size_t size, bool seen)
{
    struct pollfd input = {.fd = fd, .events = POLLIN};
    while (size > 0) {
        ssize_t n = recv(fd, block, size, MSG_DONTWAIT);
        if (n > 0)
            size -= (size_t)n;
        else if (n == 0 || errno != EAGAIN)
            exit(n == 0 ? 0 : 1);
        else if (seen)
            poll(&input, 1, -1);
        else
            RAW(ppoll, &input, 1, NULL, NULL);
    }
}

static void waits_unseen(int fd)
{
    nodelay(fd, 1);
    ROUNDS(fd, put(fd, MESSAGE); get_unless_empty(fd, MESSAGE, false));
}

/* Tries another read after each request, as an event loop does, before it answers. */
static void looks_again(int fd)
{
    ROUNDS(fd, get_unless_empty(fd, MESSAGE, true); recv(fd, block, 1, MSG_DONTWAIT);
           put(fd, MESSAGE));
}

/* Waits unseen, and reads only if data is there. */
static void reads_when_told(int fd)
{
    struct pollfd input = {.fd = fd, .events = POLLIN};
    nodelay(fd, 1);
    ROUNDS(
        fd, put(fd, MESSAGE); for (size_t left = MESSAGE; left > 0;) {
            RAW(ppoll, &input, 1, NULL, NULL);
            left -= (size_t)recv(fd, block, left, MSG_DONTWAIT);
        });
}

/* Reads a request in two parts, without a wait in between. */
static void reads_in_parts(int fd)
{
    struct pollfd input = {.fd = fd, .events = POLLIN};
    ROUNDS(fd, poll(&input, 1, -1); recv(fd, block, 4, MSG_DONTWAIT);
           recv(fd, block, MESSAGE / 2, MSG_DONTWAIT); put(fd, MESSAGE));
}

static void asks(int fd)
{
    nodelay(fd, 1);
    ROUNDS(fd, put(fd, MESSAGE); get(fd, MESSAGE));
}

static void asks_for_three(int fd)
{
    nodelay(fd, 1);
    ROUNDS(fd, put(fd, MESSAGE); get(fd, 3 * (MESSAGE / 2)));
}

static void answers_slowly(int fd)
{
    nodelay(fd, 1);
    ROUNDS(fd, get(fd, MESSAGE); pause_us(20000); put(fd, MESSAGE));
}

/* Streams: 50 small writes a round. */
static void looks_for_input(int fd)
{
    ROUNDS(fd, for (int i = 0; i < 50; i++) put(fd, PIECE); recv(fd, block, 1, MSG_DONTWAIT));
}

static void flushes(int fd)
{
    ROUNDS(fd, for (int i = 0; i < 50; i++) put(fd, PIECE); nodelay(fd, 1); nodelay(fd, 0));
}

static void polls_for_room(int fd)
{
    struct pollfd room = {.fd = fd, .events = POLLOUT};
    ROUNDS(
        fd, for (int i = 0; i < 50; i++) {
            poll(&room, 1, -1);
            put(fd, PIECE);
        });
}

static void selects_for_room(int fd)
{
    fd_set room;
    ROUNDS(
        fd, for (int i = 0; i < 50; i++) {
            FD_ZERO(&room);
            FD_SET(fd, &room);
            select(fd + 1, NULL, &room, NULL, NULL);
            put(fd, PIECE);
        });
}

static const struct {
    const char *name;
    void (*act)(int fd);
    struct peer peer;
} patterns[] = {
    {"whole", reads_whole, {.pieces = 2, .nodelay = true}},
    {"whole-of-nagle", reads_whole, {.pieces = 2}},
    {"whole-message", reads_whole_message, {.pieces = 2}},
    {"lowat-select", lowat_and_select, {.pieces = 2}},
    {"lowat-poll", lowat_and_poll, {.pieces = 2}},
    {"peek", peeks, {.pieces = 2}},
    {"fionread", polls_and_counts, {.pieces = 2}},
    {"fionread-sleep", sleeps_and_counts, {.pieces = 2}},
    {"never-idle", never_idle, {.asks = true, .pieces = 2}},
    {"child-reads", child_reads, {.pieces = 2}},
    {"splice", splices, {.pieces = 2}},
    {"unseen-wait", waits_unseen, {.pieces = 2}},
    {"unseen-poll", reads_when_told, {.pieces = 2}},
    {"parts", reads_in_parts, {.asks = true, .pieces = 1, .nodelay = true}},
    {"looks-again", looks_again, {.asks = true, .pieces = 2, .nodelay = true}},
    {"slow-answers", asks, {.pieces = 2, .nodelay = true, .think_us = 20000}},
    {"slow-server", answers_slowly, {.asks = true, .pieces = 2, .nodelay = true}},
    {"pieces", asks_for_three, {.pieces = 3, .nodelay = true, .pause_us = 100}},
    {"looks-for-input", looks_for_input, {0}},
    {"flushes", flushes, {0}},
    {"polls-for-room", polls_for_room, {0}},
    {"selects-for-room", selects_for_room, {0}},
};

/* In a child that has executed this program without LD_PRELOAD. */
static void start_peer(char **argv, int port)
{
    char text[16];
    if (fork() != 0)
        return;
    snprintf(text, sizeof text, "%d", port);
    unsetenv("LD_PRELOAD");
    execl("/proc/self/exe", argv[0], argv[1], argv[2], text, (char *)NULL);
    _exit(127);
}

int main(int argc, char **argv)
{
    const struct socket_options none = {.sndbuf = -1};
    size_t chosen = 0, count = sizeof patterns / sizeof *patterns;
    if (argc < 3)
        die("usage: ack_patterns NAME ROUNDS");
    while (chosen < count && strcmp(argv[1], patterns[chosen].name) != 0)
        chosen++;
    if (chosen == count)
        die("there is no pattern '%s'", argv[1]);
    if (argc > 3) {
        int fd = connect_to("127.0.0.1", argv[3], &none);
        if (patterns[chosen].peer.pieces)
            be_peer(fd, &patterns[chosen].peer);
        while (read(fd, block, sizeof block) > 0)
            ;
        return 0;
    }
    int listener = listen_on(0, &none);
    struct sockaddr_in6 address;
    socklen_t length = sizeof address;
    if (getsockname(listener, (struct sockaddr *)&address, &length) != 0)
        die_errno("getsockname");
    start_peer(argv, ntohs(address.sin6_port)); /* at the same offset as sin_port */
    int fd = accept_one(listener);
    rounds_prepare(&rounds, parse_count(argv[2]), 10);
    patterns[chosen].act(fd);
    struct tcp_info info;
    length = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0)
        die_errno("TCP_INFO");
    printf("both %.2f ", (double)(info.tcpi_segs_out + info.tcpi_segs_in) / (double)rounds.seen);
    print_rounds(&rounds, fd);
    close(fd);
    return 0;
}
