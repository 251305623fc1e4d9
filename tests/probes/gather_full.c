/* SPDX-License-Identifier: MIT */
/* A peer that reads slowly, or not yet: both the kernel's buffer and ours are full. Nothing is
 * lost or doubled, nobody who must not wait does, and poll and epoll tell the truth. */
#include "gather_full.h"

#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/time.h>
#include <sys/uio.h>

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

/* And until that is so for good: what polls as full has room for some bytes yet. */
static void fill_up_for_good(int fd)
{
    unsigned before;
    fill_up(fd);
    do {
        before = next_byte;
        compute_ms(30);
        fill(fd);
    } while (next_byte != before);
}

/* Each call that must not wait on a blocking socket, and writev, which may not be cut but at the
 * end of what there is room for. */
static void must_not_wait(void)
{
    struct conn conn = open_small(O_NONBLOCK);
    char data[64];
    int pair[2], file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct iovec one = {data, sizeof data}, empty = {data, 0};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1};
    struct mmsghdr many = {.msg_hdr = message};
    memset(data, 'x', sizeof data);
    fill_up_for_good(conn.fd);
    EXPECT(pipe2(pair, O_CLOEXEC) == 0 && write(pair[1], data, sizeof data) == sizeof data);
    EXPECT(writev(conn.fd, &one, 1) == -1 && errno == EAGAIN);
    EXPECT(sendmsg(conn.fd, &message, 0) == -1 && errno == EAGAIN);
    EXPECT(sendmmsg(conn.fd, &many, 1, 0) == -1 && errno == EAGAIN);
    EXPECT(sendfile(conn.fd, file, NULL, 64) == -1 && errno == EAGAIN);
    EXPECT(splice(pair[0], NULL, conn.fd, NULL, 64, 0) == -1 && errno == EAGAIN);
    EXPECT(writev(conn.fd, &empty, 1) == 0);
    fcntl(conn.fd, F_SETFL, 0);
    EXPECT(send(conn.fd, data, sizeof data, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    EXPECT(send(conn.fd, data, sizeof data, MSG_DONTWAIT | MSG_MORE) == -1 && errno == EAGAIN);
    EXPECT(sendmsg(conn.fd, &message, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    EXPECT(sendmmsg(conn.fd, &many, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    EXPECT(pwritev2(conn.fd, &one, 1, -1, RWF_NOWAIT) == -1 &&
           (errno == EAGAIN || errno == EOPNOTSUPP));
    take_all(conn.peer);
    close(pair[0]);
    close(pair[1]);
    close(file);
    close_conn(conn);
}

/* Vectors of which the last does not fit: what was taken of it is its beginning. */
static void cuts_vectors(void)
{
    struct conn conn = open_small(O_NONBLOCK);
    unsigned char data[3000];
    for (;;) {
        struct iovec parts[3] = {{data, 7}, {data + 7, 1993}, {data + 2000, 1000}};
        for (unsigned i = 0; i < sizeof data; i++)
            data[i] = (unsigned char)((next_byte + i) % 251);
        ssize_t n = writev(conn.fd, parts, 3);
        if (n < 0)
            break;
        next_byte += (unsigned)n;
    }
    EXPECT(errno == EAGAIN);
    take_all(conn.peer);
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

/* After each of these the deadline thread is a new one, and the program makes no call that would
 * start it. */
static void outlives_threads(void)
{
    for (int way = 0; way < 4; way++) {
        struct conn conn = open_small(O_NONBLOCK);
        int own = open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC);
        fill(conn.fd);
        if (way == 0)
            EXPECT(unshare(CLONE_FS) == 0);
        if (way == 1)
            EXPECT(setns(own, 0) == 0 || errno == EPERM);
        if (way == 2)
            EXPECT(prctl(PR_SET_KEEPCAPS, 0) == 0);
        if (way == 3)
            EXPECT(syscall(SYS_setgid, getgid()) == 0);
        take_all(conn.peer);
        close(own);
        close_conn(conn);
    }
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

static volatile sig_atomic_t pipes;

static void counts(int number)
{
    (void)number;
    pipes++;
}

/* The peer resets the connection while bytes are held, and, from FIRST_EMPTY on, while none are:
 * told once, as the kernel tells it. */
static void fails(void)
{
    enum { FIRST_EMPTY = 5, WAYS = 8 };
    static char large[20000];
    struct timespec moment = {.tv_nsec = 1000000};
    struct linger none = {1, 0};
    signal(SIGPIPE, counts);
    for (int way = 0; way < WAYS; way++) {
        struct conn conn = open_conn();
        int error = 0;
        socklen_t len = sizeof error;
        char byte;
        raw(SYS_setsockopt, conn.peer, SOL_SOCKET, SO_LINGER, (long)&none, sizeof none, 0);
        hold(conn);
        if (way >= FIRST_EMPTY)
            arrives(conn.peer, "ab");
        if (way == 4) /* a FIN first: the reset is then EPIPE */
            RAW(shutdown, conn.peer, SHUT_WR, 0, 0);
        RAW(close, conn.peer, 0, 0, 0);
        nanosleep(&moment, NULL);
        pipes = 0;
        errno = 0;
        if (way == 0)
            EXPECT(write(conn.fd, "x", 1) == -1 && errno == ECONNRESET && pipes == 0);
        if (way == FIRST_EMPTY)
            EXPECT(write(conn.fd, large, sizeof large) == -1 && errno == ECONNRESET && pipes == 0);
        if (way == 1 || way == FIRST_EMPTY + 1)
            EXPECT(read(conn.fd, &byte, 1) == -1 && errno == ECONNRESET);
        if (way == 2 || way == FIRST_EMPTY + 2)
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
        error = -1;
        EXPECT(getsockopt(conn.fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0);
        close(conn.fd);
    }
}

static const struct scenario scenarios[] = {
    {"eagain", says_eagain},
    {"must-not-wait", must_not_wait},
    {"cuts-vectors", cuts_vectors},
    {"leaves", leaves_by_itself},
    {"outlives-threads", outlives_threads},
    {"blocks", blocks},
    {"fails", fails},
};

GATHER_MAIN(scenarios)
