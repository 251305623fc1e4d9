/* SPDX-License-Identifier: MIT */
/* Shared by the programs about the life of sockets. One end of a connection is made by libc's
 * calls. The other end is made and read by raw system calls, which no preloaded library sees, so
 * that a read there is no wait and flushes nothing. Prints the number of held writes, of late
 * writes, and of errors. */
#pragma once

#include "raw.h"
#include "rights.h"
#include "scenario.h"

#include <netinet/tcp.h>

/* Shared with children. */
static struct results {
    int held, late, wrong;
} * results;

#define wrong(...)                                                                                 \
    do {                                                                                           \
        RAW_SAY(__VA_ARGS__);                                                                      \
        results->wrong++;                                                                          \
    } while (0)

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition))                                                                          \
            wrong("line %d: not true: %s (errno %d)", __LINE__, #condition, errno);                \
    } while (0)

static bool is_shimmed(void)
{
    return getenv("LD_PRELOAD") != NULL;
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Makes no call that the library sees, like a program that computes. */
__attribute__((unused)) static void compute_ms(double time)
{
    struct timespec left = {.tv_nsec = (long)(time * 1e6)};
    while (RAW(nanosleep, &left, &left, 0, 0) == -EINTR)
        ;
}

/* Makes a wait that the library sees. */
__attribute__((unused)) static void wait_ms(int time)
{
    poll(NULL, 0, time);
}

/* For a loop that checks repeatedly: lets other threads run. False after the time most. */
__attribute__((unused)) static bool look_again(double begin, double most)
{
    RAW(sched_yield, 0, 0, 0, 0);
    return now_ms() - begin < most;
}

struct conn {
    int fd, peer; /* only RAW may use peer, which the library must not see */
};

static struct sockaddr_in loopback(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = port};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/* A listener that the library has not seen. */
static int raw_listener(int protocol, struct sockaddr_in *address)
{
    socklen_t len = sizeof *address;
    int fd = (int)RAW(socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, protocol, 0);
    *address = loopback(0);
    if (fd < 0 || RAW(bind, fd, address, len, 0) || RAW(listen, fd, 64, 0, 0) ||
        RAW(getsockname, fd, address, &len, 0)) {
        wrong("no listener");
        _exit(3);
    }
    return fd;
}

/* Accepts the only connection of that listener, unseen by the library, and closes the listener. */
static int raw_accept(int listener)
{
    int fd = (int)RAW(accept4, listener, 0, 0, SOCK_CLOEXEC);
    RAW(close, listener, 0, 0, 0);
    return fd;
}

/* A client that the library has not seen. */
__attribute__((unused)) static int raw_client(const struct sockaddr_in *address)
{
    int fd = (int)RAW(socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0, 0);
    EXPECT(RAW(connect, fd, address, sizeof *address, 0) == 0);
    return fd;
}

/* A listener that the library has seen. */
__attribute__((unused)) static int seen_listener(struct sockaddr_in *address)
{
    socklen_t len = sizeof *address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    *address = loopback(0);
    EXPECT(bind(fd, (struct sockaddr *)address, len) == 0);
    EXPECT(listen(fd, 8) == 0);
    EXPECT(getsockname(fd, (struct sockaddr *)address, &len) == 0);
    return fd;
}

__attribute__((unused)) static struct conn open_conn(void)
{
    struct sockaddr_in address;
    struct conn conn;
    int listener = raw_listener(0, &address);
    conn.fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(conn.fd, (struct sockaddr *)&address, sizeof address) != 0) {
        wrong("cannot connect: %s", strerror(errno));
        _exit(3);
    }
    conn.peer = raw_accept(listener);
    return conn;
}

/* A connection that the library has not seen; fd (-1: a new socket) is its client. */
__attribute__((unused)) static struct conn raw_conn(int fd)
{
    struct sockaddr_in address;
    struct conn conn = {.fd = fd};
    int listener = raw_listener(0, &address);
    if (fd < 0)
        conn.fd = (int)RAW(socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0, 0);
    if (RAW(connect, conn.fd, &address, sizeof address, 0) != 0) {
        wrong("cannot connect by a raw call");
        _exit(3);
    }
    conn.peer = raw_accept(listener);
    return conn;
}

/* Closes both ends, if they were not replaced. */
__attribute__((unused)) static void close_conn(struct conn conn)
{
    close(conn.fd);
    RAW(close, conn.peer, 0, 0, 0);
}

__attribute__((unused)) static int unsent(int fd)
{
    int bytes = 0;
    RAW(ioctl, fd, SIOCOUTQNSD, &bytes, 0);
    return bytes;
}

enum { DELACK_MAX_US = 46 }; /* TCP_DELACK_MAX_US in linux/tcp.h of recent kernels */

/* The kernel's value of a TCP option; -1 if the kernel does not have it. */
static int kernel_option(int fd, int option)
{
    int value = -1;
    socklen_t len = sizeof value;
    long result = raw(SYS_getsockopt, fd, IPPROTO_TCP, option, (long)&value, (long)&len, 0);
    return result == 0 ? value : -1;
}

__attribute__((unused)) static void set_kernel_option(int fd, int option, int value)
{
    raw(SYS_setsockopt, fd, IPPROTO_TCP, option, (long)&value, sizeof value, 0);
}

/* The kernel's TCP_NODELAY, which is on under every rule of these tests, and off without the
 * library. */
static bool has_nodelay(int fd)
{
    return kernel_option(fd, TCP_NODELAY) > 0;
}

/* The library, if it is loaded, treats this connection, which has been written to. Before the next
 * write, even of zero bytes, it sets TCP_NODELAY, unless the thread writes continuously without a
 * wait (a second probe in a row is a wait). */
__attribute__((unused)) static void is_governed(int fd)
{
    poll(NULL, 0, 0);
    poll(NULL, 0, 0);
    EXPECT(write(fd, "", 0) == 0);
    EXPECT(has_nodelay(fd) == is_shimmed());
}

/* An ordinary write. It is counted if the kernel holds it for another reason than Nagle's
 * algorithm. */
__attribute__((unused)) static void put(int fd, const char *text)
{
    size_t size = strlen(text);
    ssize_t n = write(fd, text, size);
    if (n != (ssize_t)size)
        wrong("write of \"%s\": %zd, %s", text, n, strerror(errno));
    int held = unsent(fd);
    if (held > 0 && has_nodelay(fd))
        __atomic_fetch_add(&results->held, 1, __ATOMIC_RELAXED);
}

__attribute__((unused)) static double from_environment(const char *name, double otherwise)
{
    const char *value = getenv(name);
    return value ? atof(value) : otherwise;
}

__attribute__((unused)) static void arrives_within(int peer, const char *text, double limit)
{
    char data[256];
    size_t size = strlen(text), got = 0;
    double begin = now_ms();
    while (got < size && look_again(begin, from_environment("LIFE_PATIENCE_MS", 2000))) {
        long n =
            raw(SYS_recvfrom, peer, (long)(data + got), (long)(size - got), MSG_DONTWAIT, 0, 0);
        if (n == 0 || (n < 0 && n != -EAGAIN && n != -EINTR))
            break;
        got += n > 0 ? (size_t)n : 0;
    }
    double took = now_ms() - begin;
    if (got != size || memcmp(data, text, size) != 0)
        wrong("\"%s\" did not arrive, but %zu bytes: \"%.*s\"", text, got, (int)got, data);
    else if (took > limit) {
        printf("\"%s\" took %.1f ms\n", text, took);
        fflush(stdout);
        results->late++;
    }
}

/* The next bytes at peer are these: the last call has sent them. */
__attribute__((unused)) static void at_once(int peer, const char *text)
{
    arrives_within(peer, text, from_environment("LIFE_LIMIT_MS", 20));
}

/* The same, after a wait of this thread. */
__attribute__((unused)) static void arrives(int peer, const char *text)
{
    wait_ms(1);
    at_once(peer, text);
}

/* Then the stream ends. Closes the peer. */
__attribute__((unused)) static void ends(int peer)
{
    char byte;
    double begin = now_ms();
    long n;
    do
        n = raw(SYS_recvfrom, peer, (long)&byte, 1, MSG_DONTWAIT, 0, 0);
    while (n == -EAGAIN && look_again(begin, 2000));
    if (n != 0)
        wrong("the stream ends with %ld", n);
    RAW(close, peer, 0, 0, 0);
}

__attribute__((unused)) static void answer(int peer, const char *text)
{
    raw(SYS_sendto, peer, (long)text, (long)strlen(text), MSG_NOSIGNAL, 0, 0);
}

/* Under auto-cork the library holds the first of two small writes to a socket that it treats. There
 * are two writes because the last one of a repeated burst is not held. */
__attribute__((unused)) static void still_governed(struct conn conn)
{
    int before = results->held;
    for (int i = 0; i < 3; i++) {
        put(conn.fd, "still ");
        put(conn.fd, i == 1 ? "on " : "");
        put(conn.fd, "here");
        arrives(conn.peer, i == 1 ? "still on here" : "still here");
    }
    is_governed(conn.fd);
    if (getenv("LIFE_HOLDS") && results->held == before)
        wrong("this socket is not governed any more");
}

/* Bursts of small writes, each followed by a wait and an answer. */
__attribute__((unused)) static void converse(struct conn conn)
{
    char byte;
    for (int i = 0; i < 8; i++) {
        put(conn.fd, "one ");
        put(conn.fd, "two ");
        put(conn.fd, "three");
        poll(NULL, 0, 1);
        arrives_within(conn.peer, "one two three", 1000);
        answer(conn.peer, "!");
        EXPECT(recv(conn.fd, &byte, 1, 0) == 1);
    }
}

/* What getsockopt reports. */
__attribute__((unused)) static int told(int fd, int level, int option)
{
    int value = -1;
    socklen_t len = sizeof value;
    EXPECT(getsockopt(fd, level, option, &value, &len) == 0);
    return value;
}

/* The program has never set TCP_NODELAY, and getsockopt must report this. */
__attribute__((unused)) static void never_asked(int fd)
{
    EXPECT(told(fd, IPPROTO_TCP, TCP_NODELAY) == 0);
}

/* Serves one connection: sends two answers in pieces, and waits after the second one. */
__attribute__((unused)) static void serve(int in, int out)
{
    char request[8];
    put(out, "one ");
    put(out, "answer");
    EXPECT(read(in, request, sizeof request) == 4);
    is_governed(out);
    put(out, "other ");
    put(out, "answer");
    wait_ms(300);
}

__attribute__((unused)) static void be_served(int client)
{
    arrives(client, "one answer");
    answer(client, "next");
    arrives(client, "other answer");
    ends(client);
}

/* A UDP socket that sends to *receiver; the library has seen neither. */
__attribute__((unused)) static int raw_udp(int *receiver)
{
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof address;
    *receiver = (int)RAW(socket, AF_INET, SOCK_DGRAM, 0, 0);
    RAW(bind, *receiver, &address, len, 0);
    RAW(getsockname, *receiver, &address, &len, 0);
    int fd = (int)RAW(socket, AF_INET, SOCK_DGRAM, 0, 0);
    RAW(connect, fd, &address, len, 0);
    return fd;
}

/* The next datagram is this one. */
__attribute__((unused)) static void datagram(int receiver, const char *text)
{
    char data[64] = "";
    double begin = now_ms();
    long n;
    do
        n = raw(SYS_recvfrom, receiver, (long)data, sizeof data - 1, MSG_DONTWAIT, 0, 0);
    while (n == -EAGAIN && look_again(begin, 1000));
    if (n != (long)strlen(text) || strcmp(data, text) != 0)
        wrong("datagram \"%s\" is %ld bytes: \"%s\"", text, n, data);
}

/* A child that shares this process's memory, but with these flags nothing else. */
__attribute__((unused)) static pid_t clone_in_memory(int (*run)(void *), void *argument, int flags)
{
    enum { STACK = 256 * 1024 };
    char *stack =
        mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    return clone(run, stack + STACK, CLONE_VM | SIGCHLD | flags, argument);
}

/* Returns 0 in a child, unseen by the library, after 20 ms. */
__attribute__((unused)) static pid_t fork_later(void)
{
    pid_t pid = (pid_t)RAW(clone, SIGCHLD, 0, 0, 0);
    if (pid == 0)
        RAW(ppoll, 0, 0, (&(struct timespec){.tv_nsec = 20000000}), 0);
    return pid;
}

__attribute__((unused)) static void open_pair(int pair[2])
{
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
}

__attribute__((unused)) static void close_pair(const int pair[2])
{
    close(pair[0]);
    close(pair[1]);
}

/* Returns what sendmsg returns. */
__attribute__((unused)) static ssize_t try_to_send_right(int by, int fd)
{
    struct right right;
    return sendmsg(by, right_message(&right, "", 1, fd), MSG_NOSIGNAL);
}

__attribute__((unused)) static void send_right(int by, int fd)
{
    EXPECT(try_to_send_right(by, fd) == 1);
}

__attribute__((unused)) static int receive_right(int from)
{
    char byte;
    struct right right;
    EXPECT(recvmsg(from, right_message(&right, &byte, 1, -1), MSG_CMSG_CLOEXEC) == 1);
    int fd = right_of(&right);
    EXPECT(fd >= 0);
    return fd;
}

__attribute__((unused)) static void child_ended(pid_t pid, int expected)
{
    int status = -1;
    waitpid(pid, &status, 0);
    if (status != expected)
        wrong("a child ended with %#x, not %#x", status, expected);
}

static void make_results(void)
{
    results =
        mmap(NULL, sizeof *results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}
