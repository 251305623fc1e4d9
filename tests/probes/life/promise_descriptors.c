/* SPDX-License-Identifier: MIT */
/* Descriptors that are closed in another descriptor table, while the process's own connections stay
 * open. See promise.h. */
#include "promise.h"

#include <linux/close_range.h>

/* A peer that answers each request with two small writes: the second waits for the ACK of the
 * first. Returns the median time of a round in milliseconds. */
static double median_answer(struct conn conn)
{
    enum { ROUNDS = 5 };
    double took[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        char data[16];
        size_t got = 0;
        EXPECT(write(conn.fd, "ask ", 4) == 4);
        EXPECT(write(conn.fd, "him", 3) == 3);
        double begin = now_ms();
        struct pollfd none = {.fd = -1};
        poll(&none, 1, 0);
        arrives_within(conn.peer, "ask him", 1000);
        answer(conn.peer, "head");
        answer(conn.peer, "body");
        while (got < 8) {
            ssize_t n = recv(conn.fd, data, sizeof data, 0);
            if (n <= 0) {
                wrong("no answer");
                return 0;
            }
            got += (size_t)n;
        }
        took[i] = now_ms() - begin;
    }
    return median_of(took, ROUNDS);
}

/* With the library the small writes of neither end wait; without it they do. */
static void still_flows(struct conn conn)
{
    double least = 1e9;
    never_asked(conn.fd);
    for (int tries = 0; tries < 5 && least > from_environment("LIFE_LIMIT_MS", 5); tries++) {
        double median = median_answer(conn);
        least = median < least ? median : least;
    }
    never_asked(conn.fd);
    printf("median %.1f\n", least);
}

static void *unshares(void *unused)
{
    EXPECT(close_range(3, ~0U, CLOSE_RANGE_UNSHARE) == 0);
    return unused;
}

static void *unshares_by_number(void *unused)
{
    EXPECT(syscall(SYS_close_range, 3, ~0U, CLOSE_RANGE_UNSHARE) == 0);
    return unused;
}

static void in_a_thread(void *(*run)(void *))
{
    struct conn conn = open_conversing();
    pthread_t thread;
    pthread_create(&thread, NULL, run, NULL);
    pthread_join(thread, NULL);
    still_flows(conn);
    close_conn(conn);
}

SCENE("close-range-unshare", in_a_thread(unshares))
SCENE("close-range-by-number", in_a_thread(unshares_by_number))

/* Closes everything except the standard descriptors, in its own table and in its parent's memory.
 */
static int closes(void *conn)
{
    close(((struct conn *)conn)->fd);
    close_range(3, ~0U, 0);
    return 0;
}

SCENARIO("clone-vm")
{
    struct conn conn = open_conversing();
    EXPECT(ended_within(clone_in_memory(closes, &conn, 0), 4000) == 0);
    still_flows(conn);
    close_conn(conn);
}

__attribute__((noinline)) static pid_t child_that_writes(int fd)
{
    pid_t pid = vfork();
    if (pid != 0)
        return pid;
    for (int i = 0; i < 8; i++) {
        if (write(fd, "a", 1) != 1 || write(fd, "b", 1) != 1)
            _exit(1);
        poll(NULL, 0, 1);
    }
    _exit(0);
}

/* A child of vfork makes the first writes on a connection. */
SCENARIO("vfork-writes")
{
    struct conn conn = raw_conn(-1);
    EXPECT(ended_within(child_that_writes(conn.fd), 2000) == 0);
    arrives_within(conn.peer, "abababababababab", 1000);
    for (int i = 0; i < 6; i++) {
        EXPECT(send(conn.fd, "one ", 4, 0) == 4);
        put(conn.fd, "two ");
        put(conn.fd, "three");
        arrives(conn.peer, "one two three");
    }
    close_conn(conn);
}

__attribute__((noinline)) static pid_t child_that_covers(int fd, int pipe_end)
{
    pid_t pid = vfork();
    if (pid != 0)
        return pid;
    if (dup2(pipe_end, fd) != fd)
        _exit(1);
    for (int i = 0; i < 6; i++)
        if (write(fd, "error", 5) != 5)
            _exit(2);
    _exit(0);
}

/* A child of vfork replaces its own copy of the descriptor by a pipe, as before an exec. */
SCENARIO("vfork-covers")
{
    struct conn conn = open_conversing();
    int ends[2];
    EXPECT(pipe2(ends, O_CLOEXEC) == 0);
    EXPECT(ended_within(child_that_covers(conn.fd, ends[1]), 2000) == 0);
    never_asked(conn.fd);
    still_flows(conn);
    close(ends[0]);
    close(ends[1]);
    close_conn(conn);
}

/* A server whose sockets are all made by syscall(). */
SCENARIO("made-by-number")
{
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof address;
    int listener = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM, 0);
    EXPECT(bind(listener, (struct sockaddr *)&address, len) == 0);
    EXPECT(syscall(SYS_listen, listener, 8) == 0);
    EXPECT(getsockname(listener, (struct sockaddr *)&address, &len) == 0);
    for (int i = 0; i < 2; i++) {
        struct conn conn = {.peer = raw_client(&address)};
        conn.fd = (int)(i ? syscall(SYS_accept4, listener, NULL, NULL, SOCK_CLOEXEC)
                          : syscall(SYS_accept, listener, NULL, NULL));
        never_asked(conn.fd);
        converse(conn);
        int copy = (int)syscall(SYS_fcntl, conn.fd, F_DUPFD, 50), value = -1;
        EXPECT(copy >= 50);
        never_asked(copy);
        len = sizeof value;
        EXPECT(syscall(SYS_getsockopt, copy, IPPROTO_TCP, TCP_NODELAY, &value, &len) == 0);
        EXPECT(value == 0);
        is_governed(copy);
        close(copy);
        close_conn(conn);
    }
    close(listener);
}

LIFE_MAIN
