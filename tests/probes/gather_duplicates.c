/* SPDX-License-Identifier: MIT */
/* "buffer": "user" on a socket that has a duplicate in the process: one by which the program only
 * reads leaves the gathering as it is, and one by which it writes ends it, in order. */
#include "gather.h"

#include <sys/sendfile.h>
#include <sys/uio.h>

static int by_dup(int fd)
{
    return dup(fd);
}

static int by_dup2(int fd)
{
    return dup2(fd, 60);
}

static int by_dup3(int fd)
{
    return dup3(fd, 60, O_CLOEXEC);
}

static int by_fcntl(int fd)
{
    return fcntl(fd, F_DUPFD, 50);
}

static int by_fcntl_cloexec(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, 50);
}

static int by_number(int fd)
{
    return (int)syscall(SYS_dup, fd);
}

/* The duplicate of a duplicate. */
static int by_two(int fd)
{
    int first = dup(fd), second = dup(first);
    close(first);
    return second;
}

static int (*const ways[])(int) = {by_dup,           by_dup2,   by_dup3, by_fcntl,
                                   by_fcntl_cloexec, by_number, by_two};
enum { WAYS = sizeof ways / sizeof *ways };

/* Two small writes, which stay in the program's memory where that is asked for. */
static void holds_on(struct conn conn)
{
    int before = *in_memory;
    hold(conn);
    if (gathers_in_memory() && from_environment("LIFE_DELAY_MS", 0) >= 100 && *in_memory == before)
        wrong("it gathers no more");
}

static struct conn open_two(int (*way)(int), int *copy)
{
    struct conn conn = open_holding();
    *copy = way(conn.fd);
    EXPECT(*copy >= 0);
    at_once(conn.peer, "ab");
    return conn;
}

/* Each is a wait for what is held by the other descriptor, or looks at it. */
static void reads(void)
{
    for (int way = 0; way < WAYS; way++) {
        char data[8];
        int copy, bytes;
        socklen_t len = sizeof bytes;
        struct conn conn = open_two(ways[way], &copy);
        struct pollfd one = {.fd = copy, .events = POLLIN};
        holds_on(conn);
        answer(conn.peer, "answer");
        EXPECT(read(copy, data, sizeof data) == 6);
        at_once(conn.peer, "ab");
        holds_on(conn);
        EXPECT(recv(copy, data, sizeof data, MSG_DONTWAIT) == -1 && errno == EAGAIN);
        at_once(conn.peer, "ab");
        holds_on(conn);
        EXPECT(ioctl(copy, FIONREAD, &bytes) == 0 && bytes == 0);
        at_once(conn.peer, "ab");
        holds_on(conn);
        EXPECT(poll(&one, 1, 1) == 0);
        at_once(conn.peer, "ab");
        holds_on(conn);
        EXPECT(getsockopt(copy, SOL_SOCKET, SO_SNDBUF, &bytes, &len) == 0);
        if (gathers_in_memory())
            at_once(conn.peer, "ab");
        else
            arrives(conn.peer, "ab");
        holds_on(conn);
        EXPECT(close(copy) == 0);
        poll(NULL, 0, 0);
        at_once(conn.peer, "ab");
        holds_on(conn);
        close(conn.fd);
        at_once(conn.peer, "ab");
        ends(conn.peer, 0);
        RAW(close, conn.peer, 0, 0, 0);
    }
}

static bool writes(int fd)
{
    return write(fd, "c", 1) == 1;
}

static bool sends(int fd)
{
    return send(fd, "c", 1, 0) == 1;
}

static bool sends_to(int fd)
{
    return sendto(fd, "c", 1, MSG_NOSIGNAL, NULL, 0) == 1;
}

static bool sends_message(int fd)
{
    struct iovec one = {"c", 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1};
    return sendmsg(fd, &message, 0) == 1;
}

static bool writes_vector(int fd)
{
    struct iovec one = {"c", 1};
    return writev(fd, &one, 1) == 1;
}

static bool sends_file(int fd)
{
    int file = memfd_create("c", MFD_CLOEXEC);
    off_t begin = 0;
    bool sent = write(file, "c", 1) == 1 && sendfile(fd, file, &begin, 1) == 1;
    close(file);
    return sent;
}

static bool splices(int fd)
{
    int ends[2];
    bool sent = pipe2(ends, O_CLOEXEC) == 0 && write(ends[1], "c", 1) == 1 &&
                splice(ends[0], NULL, fd, NULL, 1, 0) == 1;
    close(ends[0]);
    close(ends[1]);
    return sent;
}

static bool prints(int fd)
{
    return dprintf(fd, "c") == 1;
}

static bool writes_by_number(int fd)
{
    return syscall(SYS_write, fd, "c", 1l) == 1;
}

static bool writes_vector_by_number(int fd)
{
    struct iovec one = {"c", 1};
    return syscall(SYS_pwritev2, fd, &one, 1l, -1l, -1l, 0l) == 1;
}

/* Somebody else does, who has had it sent. */
static bool passes_on(int fd)
{
    int way[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, way) == 0);
    send_right(way[0], fd);
    int other = receive_right(way[1]);
    long sent = RAW(write, other, "c", 1, 0);
    close(other);
    close(way[0]);
    close(way[1]);
    return sent == 1;
}

static bool prints_to_stream(int fd)
{
    FILE *stream = fdopen(dup(fd), "w");
    bool printed = stream && fputc('c', stream) == 'c';
    return stream && fclose(stream) == 0 && printed;
}

static void ends_gathering(void)
{
    static bool (*const calls[])(int) = {
        writes,  sends,  sends_to,         sends_message, writes_vector,    sends_file,
        splices, prints, writes_by_number, passes_on,     prints_to_stream, writes_vector_by_number,
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        int copy;
        struct conn conn = open_two(ways[i % WAYS], &copy);
        holds_on(conn);
        EXPECT(calls[i](copy));
        arrives(conn.peer, "abc");
        gathers_no_more(conn);
        gathers_no_more((struct conn){copy, conn.peer});
        EXPECT(write(copy, "one ", 4) == 4 && write(conn.fd, "two ", 4) == 4 &&
               write(copy, "three", 5) == 5);
        arrives(conn.peer, "one two three");
        close(copy);
        close_conn(conn);
    }
}

/* stdio writes by the descriptors that it has inside libc: by 0 to 2, however they came to be
 * duplicates, and by what a stream stands on. */
static void is_printed(void)
{
    int keep = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
    for (int way = 0; way < 3; way++) {
        struct conn conn = open_holding();
        FILE *stream = way == 2 ? fopen("/dev/null", "w") : stdout;
        EXPECT(stream && fflush(stream) == 0);
        if (way == 1)
            EXPECT(close(STDOUT_FILENO) == 0 && dup(conn.fd) == STDOUT_FILENO);
        else
            EXPECT(dup2(conn.fd, fileno(stream)) == fileno(stream));
        at_once(conn.peer, "ab");
        hold(conn);
        EXPECT(fputc('c', stream) == 'c' && fflush(stream) == 0);
        arrives(conn.peer, "abc");
        if (way == 2)
            fclose(stream);
        else
            EXPECT(dup2(keep, STDOUT_FILENO) == STDOUT_FILENO);
        close_conn(conn);
    }
    close(keep);
}

/* The descriptor that gathers goes first. */
static void outlives(void)
{
    for (int way = 0; way < WAYS; way++) {
        int copy;
        struct conn conn = open_two(ways[way], &copy);
        holds_on(conn);
        if (way % 2)
            close(conn.fd);
        else
            EXPECT(dup2(copy, conn.fd) == conn.fd);
        at_once(conn.peer, "ab");
        gathers_no_more((struct conn){copy, conn.peer});
        if (way % 2 == 0)
            gathers_no_more(conn);
        close(way % 2 ? copy : conn.fd);
        EXPECT(way % 2 || close(copy) == 0);
        ends(conn.peer, 0);
        RAW(close, conn.peer, 0, 0, 0);
    }
}

static void shuts(void)
{
    int copy;
    struct conn conn = open_two(by_dup, &copy);
    holds_on(conn);
    EXPECT(shutdown(copy, SHUT_WR) == 0);
    at_once(conn.peer, "ab");
    ends(conn.peer, 0);
    EXPECT(send(conn.fd, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    EXPECT(send(copy, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    close(copy);
    close_conn(conn);
}

/* A reset that the flush has met, or without one the duplicate, is told once, by whichever
 * descriptor is asked first. */
static void resets(void)
{
    for (int by = 0; by < 6; by++) {
        struct linger none = {1, 0};
        char data[8];
        int copy, error = 0;
        socklen_t len = sizeof error;
        struct conn conn = open_two(by_dup, &copy);
        raw(SYS_setsockopt, conn.peer, SOL_SOCKET, SO_LINGER, (long)&none, sizeof none, 0);
        if (by != 3)
            hold(conn);
        RAW(close, conn.peer, 0, 0, 0);
        compute_ms(1);
        poll(NULL, 0, 0);
        if (by >= 4)
            EXPECT((by == 4 ? write(copy, "x", 1) : send(copy, "x", 1, 0)) == -1 &&
                   errno == ECONNRESET);
        else if (by >= 2)
            EXPECT(getsockopt(copy, SOL_SOCKET, SO_ERROR, &error, &len) == 0 &&
                   error == ECONNRESET);
        else
            EXPECT(read(by ? conn.fd : copy, data, sizeof data) == -1 && errno == ECONNRESET);
        EXPECT(read(copy, data, sizeof data) == 0 && read(conn.fd, data, sizeof data) == 0);
        EXPECT(send(by % 3 ? copy : conn.fd, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
        close(copy);
        close(conn.fd);
    }
}

/* Conversations whose answers are read by the duplicate: how many ACKs were sent is counted. */
static void converses(void)
{
    char data[8];
    int copy;
    struct conn conn = open_two(by_dup, &copy);
    for (int i = 0; i < 100; i++) {
        hold(conn);
        poll(NULL, 0, 0);
        arrives(conn.peer, "ab");
        answer(conn.peer, "answer");
        EXPECT(read(copy, data, sizeof data) == 6);
    }
    close(copy);
    close_conn(conn);
}

/* A connection with a duplicate, and both buffers full of what was taken. */
static struct conn open_full(int *copy, size_t *taken)
{
    static char piece[1000];
    int small = 4096;
    struct conn conn = open_conn();
    memset(piece, 'f', sizeof piece);
    setsockopt(conn.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    raw(SYS_setsockopt, conn.peer, SOL_SOCKET, SO_RCVBUF, (long)&small, sizeof small, 0);
    fcntl(conn.fd, F_SETFL, O_NONBLOCK);
    *copy = dup(conn.fd);
    for (ssize_t n; (n = write(conn.fd, piece, sizeof piece)) > 0;)
        *taken += (size_t)n;
    return conn;
}

/* What both buffers are full of leaves before what is written by the duplicate. */
static void fills_both(bool closes)
{
    static char got[1 << 20];
    int copy;
    size_t taken = 0, size = 0;
    bool ended = false;
    struct conn conn = open_full(&copy, &taken);
    double full = now_ms();
    if (closes)
        close(conn.fd);
    else
        EXPECT(write(copy, "end", 3) == -1 && errno == EAGAIN && look_again(full, 1000));
    for (double begin = now_ms(); size < taken + 3 && look_again(begin, 2000);) {
        ended = ended || write(copy, "end", 3) == 3;
        long n = raw(SYS_recvfrom, conn.peer, (long)(got + size), (long)(sizeof got - size),
                     MSG_DONTWAIT, 0, 0);
        size += n > 0 ? (size_t)n : 0;
    }
    EXPECT(size == taken + 3 && memcmp(got + taken, "end", 3) == 0);
    if (!closes)
        close(conn.fd);
    close(copy);
    ends(conn.peer, 0);
    RAW(close, conn.peer, 0, 0, 0);
}

static void outlives_full(void)
{
    fills_both(true);
}

/* Nor does it wait for that where it would not wait for the kernel. */
static void writes_to_full(void)
{
    fills_both(false);
}

/* The shutdown is done once all has left, and at once for the program. */
static void shuts_full(void)
{
    static char got[1 << 20];
    int copy;
    size_t taken = 0, size = 0;
    struct conn conn = open_full(&copy, &taken);
    double full = now_ms();
    EXPECT(shutdown(copy, SHUT_WR) == 0 && look_again(full, 1000));
    EXPECT(send(copy, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    for (double begin = now_ms(); size < taken && look_again(begin, 2000);) {
        long n = raw(SYS_recvfrom, conn.peer, (long)(got + size), (long)(sizeof got - size),
                     MSG_DONTWAIT, 0, 0);
        size += n > 0 ? (size_t)n : 0;
    }
    EXPECT(size == taken);
    ends(conn.peer, 0);
    close(copy);
    close_conn(conn);
}

static const struct scenario scenarios[] = {
    {"reads", reads},
    {"ends", ends_gathering},
    {"is-printed", is_printed},
    {"outlives", outlives},
    {"shuts", shuts},
    {"resets", resets},
    {"converses", converses},
    {"outlives-full", outlives_full},
    {"writes-to-full", writes_to_full},
    {"shuts-full", shuts_full},
};

GATHER_MAIN(scenarios)
