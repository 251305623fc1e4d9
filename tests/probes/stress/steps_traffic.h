/* SPDX-License-Identifier: MIT */
/* The steps of steps.c that write, read and wait. */
#pragma once

#include "life.h"

#include <linux/futex.h>

static struct conn near, far;
static int pair[2];
static char byte; /* the last one that was read */

/* --- writes --- */

SCENARIO_NAMED(writes, "write")
{
    EXPECT(write(near.fd, "piece", 5) == 5);
}

SCENE("send", EXPECT(send(near.fd, "piece", 5, 0) == 5))
SCENE("more", EXPECT(send(near.fd, "piece", 5, MSG_MORE) == 5))
SCENE("record", EXPECT(send(near.fd, "piece", 5, MSG_EOR) == 5))
SCENE("copied", EXPECT(send(near.fd, "piece", 5, MSG_ZEROCOPY) == 5))
SCENE("unseen-write", EXPECT(RAW(write, near.fd, "piece", 5, 0) == 5))
SCENE("empty", EXPECT(write(near.fd, "", 0) == 0))

static void write_big(int fd)
{
    static char data[100000];
    EXPECT(write(fd, data, sizeof data) == sizeof data);
}

SCENE("big", write_big(near.fd))
SCENE("other", EXPECT(write(far.fd, "piece", 5) == 5))
SCENE("other-big", write_big(far.fd))

static void write_from_nowhere(size_t size)
{
    void *nowhere = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(write(near.fd, nowhere, size) == -1 && errno == EFAULT);
}

SCENE("bad", write_from_nowhere(5))
SCENE("bad-big", write_from_nowhere(100000)) /* too much to hold */

/* --- reads --- */

static bool has_lowat; /* one byte does not make the socket ready */

static void says_this(const char *text)
{
    struct pollfd one = {.fd = near.fd, .events = POLLIN};
    /* Ends the kernel's immediate ACKs of a new connection. */
    set_kernel_option(near.fd, TCP_QUICKACK, 0);
    answer(near.peer, text);
    EXPECT(has_lowat || RAW(ppoll, &one, 1, NULL, NULL) == 1); /* unseen by the library */
}

SCENARIO_NAMED(says, "says")
{
    says_this("!");
}

SCENARIO_NAMED(reads, "read")
{
    EXPECT(read(near.fd, &byte, 1) == 1);
}

SCENARIO_NAMED(hears, "hear")
{
    says();
    reads();
}

SCENE("miss", EXPECT(read(near.fd, &byte, 1) == -1 && errno == EAGAIN))

/* The socket is ready, but the kernel still rejects the invalid time. */
SCENARIO("bad-time")
{
    struct pollfd one = {.fd = near.fd, .events = POLLOUT};
    struct timespec time = {.tv_nsec = 2000000000};
    EXPECT(ppoll(&one, 1, &time, NULL) == -1 && errno == EINVAL);
}

SCENE("try", EXPECT(recv(near.fd, &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN))

/* On a socket that is not TCP. */
SCENARIO("try-local")
{
    int local[2];
    RAW(socketpair, AF_UNIX, SOCK_DGRAM, 0, local);
    EXPECT(recv(local[0], &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    RAW(close, local[0], 0, 0, 0);
    RAW(close, local[1], 0, 0, 0);
}

SCENARIO_NAMED(hears_at_once, "get")
{
    says();
    EXPECT(recv(near.fd, &byte, 1, MSG_DONTWAIT) == 1);
}

SCENE("whole", says(); EXPECT(recv(near.fd, &byte, 1, MSG_WAITALL) == 1))
/* About as long as a delayed ACK that the library limits. */
SCENE("delay-of-ack", compute_ms(12))
SCENE("none", says(); EXPECT(recv(near.fd, &byte, 0, 0) == 0))
SCENE("peek", says(); EXPECT(recv(near.fd, &byte, 1, MSG_PEEK) == 1))

SCENARIO("vector")
{
    char data[2];
    struct iovec two[] = {{data, 1}, {data + 1, 1}};
    says_this("!!");
    EXPECT(readv(near.fd, two, 2) == 2);
}

SCENARIO("message")
{
    struct iovec one = {&byte, 1};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &one, .msg_iovlen = 1}};
    says();
    EXPECT(recvmmsg(near.fd, &message, 1, 0, NULL) == 1);
}

/* Splices into the pipe; splice-out splices out of it. */
SCENE("splice-in", says(); EXPECT(splice(near.fd, NULL, pair[1], NULL, 1, 0) == 1))
SCENE("splice", RAW(write, pair[1], "!", 1, 0);
      EXPECT(splice(pair[0], NULL, near.fd, NULL, 1, 0) == 1))
SCENE("splice-out", EXPECT(splice(pair[0], NULL, near.fd, NULL, 1, SPLICE_F_MORE) == 1))

/* The other three of four bytes come later. */
SCENARIO("four")
{
    char data[8];
    says();
    pid_t pid = fork_later();
    if (pid == 0) {
        answer(near.peer, "!!!");
        RAW(exit_group, 0, 0, 0, 0);
    }
    EXPECT(read(near.fd, data, sizeof data) == 4);
    RAW(wait4, pid, 0, 0, 0);
}

static void read_late(int flags)
{
    pid_t pid = fork_later();
    if (pid == 0) {
        answer(near.peer, "!");
        RAW(exit_group, 0, 0, 0, 0);
    }
    EXPECT(recv(near.fd, &byte, 1, flags) == 1);
    RAW(wait4, pid, 0, 0, 0);
}

SCENE("late", read_late(0))
SCENE("late-whole", read_late(MSG_WAITALL))

/* Waits for data without taking any. */
SCENE("touch", says(); EXPECT(recv(near.fd, NULL, 0, 0) == 0))

SCENE("end", RAW(shutdown, near.peer, SHUT_WR, 0, 0); EXPECT(read(near.fd, &byte, 1) == 0))

/* --- waits --- */

SCENE("wait", poll(NULL, 0, 1))
SCENE("look", poll(NULL, 0, 0))
/* This select waits for input in vain. */
static void select_in_vain(void)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(near.fd, &set);
    EXPECT(select(near.fd + 1, &set, NULL, NULL, &(struct timeval){.tv_usec = 1000}) == 0);
}
SCENE("select", select_in_vain())

/* This select finds data. So does one with sets that are larger than an fd_set. */
static void select_data(int count)
{
    static fd_set sets[2][8];
    FD_SET(near.fd, sets[0]);
    FD_SET(near.fd, sets[1]);
    EXPECT(select(count, sets[0], NULL, sets[1], NULL) == 1);
    EXPECT(FD_ISSET(near.fd, sets[0]) && !FD_ISSET(near.fd, sets[1]));
}

SCENE("select-data", select_data(near.fd + 1))
SCENE("select-data-of-many", select_data(8 * FD_SETSIZE))

/* This poll finds data. */
SCENARIO("find")
{
    struct pollfd one = {.fd = near.fd, .events = POLLIN};
    EXPECT(poll(&one, 1, 1000) == 1);
}

/* It also finds room to write. */
static void find_room(int timeout)
{
    static struct pollfd one;
    one = (struct pollfd){.fd = near.fd, .events = POLLIN | POLLOUT};
    EXPECT(poll(&one, 1, timeout) == 1);
}

SCENE("room", find_room(-1))
SCENE("look-for-room", find_room(0))

SCENE("nap", nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL))
SCENE("pause", compute_ms(20))

SCENARIO("count")
{
    int bytes;
    EXPECT(ioctl(near.fd, FIONREAD, &bytes) == 0 && bytes == 0);
}

SCENE("pipe", RAW(write, pair[1], "!", 1, 0); EXPECT(read(pair[0], &byte, 1) == 1))

SCENARIO("file")
{
    static int file;
    file = file ? file : open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    EXPECT(read(file, &byte, 1) == 1);
}

/* A number that was a file's until its stream was closed, and is a pipe's. */
SCENARIO("file-then-pipe")
{
    FILE *stream = fopen("/proc/self/exe", "re");
    int number = fileno(stream);
    for (int i = 0; i < 4; i++)
        EXPECT(read(number, &byte, 1) == 1);
    fclose(stream);
    RAW(dup3, pair[0], number, O_CLOEXEC, 0);
    EXPECT(read(number, &byte, 1) == -1 && errno == EAGAIN);
    RAW(close, number, 0, 0, 0);
}

SCENE("empty-pipe", EXPECT(read(pair[0], &byte, 1) == -1 && errno == EAGAIN))

SCENARIO("sem")
{
    struct timespec until = {0};
    sem_t sem;
    sem_init(&sem, 0, 0);
    EXPECT(sem_timedwait(&sem, &until) == -1 && errno == ETIMEDOUT);
}

SCENARIO("free-sem")
{
    sem_t sem;
    sem_init(&sem, 0, 1);
    EXPECT(sem_wait(&sem) == 0);
}

SCENARIO("child")
{
    pid_t pid = fork_later();
    int status;
    if (pid == 0)
        RAW(exit_group, 0, 0, 0, 0);
    EXPECT(waitpid(pid, &status, 0) == pid);
}

/* Nobody has connected. */
#define ACCEPTS(name, ...)                                                                         \
    SCENARIO(#name)                                                                                \
    {                                                                                              \
        struct sockaddr_in address;                                                                \
        int listener = raw_listener(0, &address);                                                  \
        RAW(fcntl, listener, F_SETFL, O_NONBLOCK, 0);                                              \
        EXPECT(name(listener, NULL, NULL, ##__VA_ARGS__) == -1 && errno == EAGAIN);                \
        RAW(close, listener, 0, 0, 0);                                                             \
    }
ACCEPTS(accept)
ACCEPTS(accept4, SOCK_CLOEXEC)

SCENARIO("connect")
{
    int fd = (int)RAW(socket, AF_UNIX, SOCK_STREAM, 0, 0);
    struct sockaddr none = {.sa_family = AF_UNIX};
    EXPECT(connect(fd, &none, sizeof none) == -1);
    RAW(close, fd, 0, 0, 0);
}

SCENARIO("futex")
{
    int word = 1;
    EXPECT(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0) == -1);
}

static sigjmp_buf away;
static bool jumps_away;

static void on_alarm(int number)
{
    (void)number;
    if (jumps_away)
        siglongjmp(away, 1);
}

static void set_alarm(void)
{
    struct itimerval soon = {.it_value.tv_usec = 20000};
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
}

SCENARIO("epoll")
{
    struct epoll_event event;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    set_alarm();
    EXPECT(epoll_pwait2(epoll, &event, 1, NULL, NULL) == -1 && errno == EINTR);
    RAW(close, epoll, 0, 0, 0);
}

/* A read that a signal ends. */
SCENE("interrupted", set_alarm(); EXPECT(read(near.fd, &byte, 1) == -1 && errno == EINTR))

/* A read that a handler leaves. */
SCENARIO("left")
{
    jumps_away = true;
    if (!sigsetjmp(away, 1)) {
        set_alarm();
        wrong("read %zd", read(near.fd, &byte, 1));
    }
    jumps_away = false;
}

/* More connections than a thread's list of pending work can hold. */
SCENARIO("crowd")
{
    enum { CROWD = 1100 };
    static struct conn crowd[CROWD];
    struct rlimit files = {2500, 4096};
    EXPECT(setrlimit(RLIMIT_NOFILE, &files) == 0);
    for (int i = 0; i < CROWD; i++)
        crowd[i] = open_conn();
    for (int i = 0; i < CROWD; i++) {
        near = crowd[i];
        hears();
        writes();
        hears_at_once();
    }
}
