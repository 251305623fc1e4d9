/* SPDX-License-Identifier: MIT */
/* A peer that reads slowly, or not yet: both the kernel's buffer and ours are full. Nothing is
 * lost or doubled, nobody who must not wait does, and poll and epoll tell the truth. */
#include "gather.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/time.h>

static unsigned next_byte, expected_byte;

static struct conn open_small(int flags)
{
    struct conn conn = open_conn();
    int small = 8192;
    setsockopt(conn.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    raw(SYS_setsockopt, conn.peer, SOL_SOCKET, SO_RCVBUF, (long)&small, sizeof small, 0);
    if (flags)
        fcntl(conn.fd, F_SETFL, flags);
    next_byte = expected_byte = 0;
    return conn;
}

/* One small write; how many bytes it took. */
static ssize_t put_piece(int fd)
{
    unsigned char piece[97];
    for (unsigned i = 0; i < sizeof piece; i++)
        piece[i] = (unsigned char)((next_byte + i) % 251);
    ssize_t n = write(fd, piece, sizeof piece);
    if (n > 0)
        next_byte += (unsigned)n;
    return n;
}

/* What the peer has now, at most so much. */
static long take(int peer, size_t most)
{
    unsigned char data[4096];
    long n = raw(SYS_recvfrom, peer, (long)data, (long)(most < sizeof data ? most : sizeof data),
                 MSG_DONTWAIT, 0, 0);
    for (long i = 0; i < n; i++)
        if (data[i] != expected_byte++ % 251) {
            wrong("byte %u is %u", expected_byte - 1, data[i]);
            return -1;
        }
    return n;
}

/* Until all has arrived, or nothing comes for two seconds. */
static void take_all(int peer)
{
    double begin = now_ms();
    while (expected_byte < next_byte && look_again(begin, 2000))
        if (take(peer, 4096) > 0)
            begin = now_ms();
    if (expected_byte != next_byte)
        wrong("%u bytes of %u arrived", expected_byte, next_byte);
}

static void fill(int fd)
{
    ssize_t n;
    do
        n = put_piece(fd);
    while (n > 0);
    EXPECT(n == -1 && errno == EAGAIN);
}

/* And until what the two ends still move has moved. */
static void fill_up(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    do
        fill(fd);
    while (poll(&ready, 1, 50) > 0);
}

static void says_eagain(void)
{
    struct conn conn = open_small(O_NONBLOCK);
    fill_up(conn.fd);
    struct pollfd ready = {.fd = conn.fd, .events = POLLOUT};
    EXPECT(poll(&ready, 1, 20) == 0);
    double begin = now_ms();
    while (poll(&ready, 1, 0) == 0 && look_again(begin, 2000))
        take(conn.peer, 4096);
    EXPECT(ready.revents == POLLOUT);
    EXPECT(put_piece(conn.fd) > 0); /* what poll says is so */
    take_all(conn.peer);
    /* Edge by edge. */
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLOUT | EPOLLET};
    epoll_ctl(epoll, EPOLL_CTL_ADD, conn.fd, &event);
    EXPECT(epoll_wait(epoll, &event, 1, 0) == 1);
    for (int i = 0; i < 5; i++) {
        fill(conn.fd);
        begin = now_ms();
        while (epoll_wait(epoll, &event, 1, 0) == 0 && look_again(begin, 2000))
            take(conn.peer, 4096);
        EXPECT(now_ms() - begin < 2000);
    }
    take_all(conn.peer);
    close(epoll);
    close_conn(conn);
}

/* The application polls for input only. */
static void leaves_by_itself(void)
{
    struct conn conn = open_small(O_NONBLOCK);
    fill(conn.fd);
    struct pollfd ready = {.fd = conn.fd, .events = POLLIN};
    EXPECT(poll(&ready, 1, 1) == 0);
    take_all(conn.peer);
    fill(conn.fd);
    take_all(conn.peer); /* without any call */
    close_conn(conn);
}

static void *slow_reader(void *peer)
{
    while (expected_byte < next_byte || expected_byte < 200000) {
        long n = take(*(int *)peer, 1000);
        if (n == 0 || (n < 0 && n != -EAGAIN))
            break;
        RAW(sched_yield, 0, 0, 0, 0);
    }
    return NULL;
}

static void interrupted(int number)
{
    (void)number;
}

static void blocks(void)
{
    pthread_t reading;
    struct timeval limit = {0, 30000};
    struct conn conn = open_small(0);
    pthread_create(&reading, NULL, slow_reader, &conn.peer);
    while (next_byte < 200000)
        EXPECT(put_piece(conn.fd) == 97);
    shutdown(conn.fd, SHUT_WR);
    pthread_join(reading, NULL);
    EXPECT(expected_byte == next_byte);
    close_conn(conn);
    conn = open_small(0);
    setsockopt(conn.fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    fill(conn.fd);
    take_all(conn.peer);
    close_conn(conn);
    conn = open_small(O_NONBLOCK);
    fill_up(conn.fd);
    fcntl(conn.fd, F_SETFL, 0);
    struct sigaction action = {.sa_handler = interrupted};
    /* And again: the first may come before the write waits. */
    struct itimerval soon = {{0, 20000}, {0, 20000}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    errno = 0;
    while (put_piece(conn.fd) > 0)
        ;
    EXPECT(errno == EINTR);
    alarm(20); /* in place of the timer */
    signal(SIGALRM, SIG_DFL);
    take_all(conn.peer);
    close_conn(conn);
}

/* Nothing is lost, and the close does not wait. */
static void closes(void)
{
    for (int way = 0; way < 3; way++) {
        struct conn conn = open_small(O_NONBLOCK);
        struct linger linger = {1, 1};
        fill(conn.fd);
        if (way == 1)
            EXPECT(shutdown(conn.fd, SHUT_WR) == 0);
        if (way == 1)
            EXPECT(send(conn.fd, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
        if (way == 2)
            setsockopt(conn.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
        double begin = now_ms();
        close(conn.fd);
        EXPECT(way == 2 || now_ms() - begin < 500);
        take_all(conn.peer);
        ends(conn.peer, 0);
        RAW(close, conn.peer, 0, 0, 0);
    }
    compute_ms(30); /* the descriptors that the rests left by are closed by now */
}

/* The process ends at once after a write that the kernel did not take. */
static void exits(void)
{
    struct sockaddr_in address;
    int listener = raw_listener(0, &address);
    unsigned *sent = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = fork();
    if (pid == 0) {
        int small = 8192, fd = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
        if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
            _exit(1);
        fcntl(fd, F_SETFL, O_NONBLOCK);
        fill(fd);
        *sent = next_byte;
        exit(0);
    }
    int peer = (int)RAW(accept4, listener, 0, 0, SOCK_CLOEXEC);
    child_ended(pid, 0);
    expected_byte = 0;
    next_byte = *sent;
    take_all(peer);
    ends(peer, 0);
    RAW(close, peer, 0, 0, 0);
    RAW(close, listener, 0, 0, 0);
}

static volatile sig_atomic_t pipes;

static void counts(int number)
{
    (void)number;
    pipes++;
}

/* The peer resets the connection while bytes are held: told once, as the kernel tells it. */
static void fails(void)
{
    struct timespec moment = {.tv_nsec = 1000000};
    struct linger none = {1, 0};
    signal(SIGPIPE, counts);
    for (int way = 0; way < 5; way++) {
        struct conn conn = open_conn();
        int error = 0;
        socklen_t len = sizeof error;
        char byte;
        raw(SYS_setsockopt, conn.peer, SOL_SOCKET, SO_LINGER, (long)&none, sizeof none, 0);
        hold(conn);
        if (way == 4) /* a FIN first: the reset is then EPIPE */
            RAW(shutdown, conn.peer, SHUT_WR, 0, 0);
        RAW(close, conn.peer, 0, 0, 0);
        nanosleep(&moment, NULL);
        pipes = 0;
        errno = 0;
        if (way == 0)
            EXPECT(write(conn.fd, "x", 1) == -1 && errno == ECONNRESET && pipes == 0);
        if (way == 1)
            EXPECT(read(conn.fd, &byte, 1) == -1 && errno == ECONNRESET);
        if (way == 2)
            EXPECT(getsockopt(conn.fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 &&
                   error == ECONNRESET);
        if (way == 3) {
            struct pollfd ready = {.fd = conn.fd, .events = POLLIN | POLLOUT};
            EXPECT(poll(&ready, 1, 0) == 1 && ready.revents & POLLHUP && ready.revents & POLLIN);
            EXPECT(recv(conn.fd, &byte, 1, 0) == -1 && errno == ECONNRESET);
        }
        if (way == 4) {
            EXPECT(write(conn.fd, "x", 1) == -1 && errno == EPIPE && pipes == 1);
            pipes = 0;
        }
        EXPECT(send(conn.fd, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE && pipes == 0);
        EXPECT(write(conn.fd, "x", 1) == -1 && errno == EPIPE && pipes == 1);
        EXPECT(read(conn.fd, &byte, 1) == 0);
        EXPECT(getsockopt(conn.fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 &&
               (error == 0 || way == 2));
        close(conn.fd);
    }
}

static const struct scenario scenarios[] = {
    {"eagain", says_eagain}, {"leaves", leaves_by_itself},
    {"blocks", blocks},      {"closes", closes},
    {"exits", exits},        {"fails", fails},
};

GATHER_MAIN(scenarios)
