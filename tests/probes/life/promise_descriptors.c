/* SPDX-License-Identifier: MIT */
/* Descriptors that are closed in another table than this process's own, filters that permit
 * everything, and what becomes of the connections that stay open. See promise.h. */
#include "promise.h"

#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* A peer that answers each request with two small writes: the second waits for the ACK of the
 * first. The median of some rounds, in milliseconds. */
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
    qsort(took, ROUNDS, sizeof *took, by_value);
    return took[ROUNDS / 2];
}

/* With a library neither end's small writes wait; without one they do, since nobody cares. */
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

static void close_range_unshare(void)
{
    in_a_thread(unshares);
}

static void close_range_by_number(void)
{
    in_a_thread(unshares_by_number);
}

/* Everything but what is standard, in its own table and in its parent's memory. */
static int closes(void *conn)
{
    close(((struct conn *)conn)->fd);
    close_range(3, ~0U, 0);
    return 0;
}

static void clone_vm(void)
{
    enum { STACK = 256 * 1024 };
    struct conn conn = open_conversing();
    char *stack =
        mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    pid_t pid = clone(closes, stack + STACK, CLONE_VM | SIGCHLD, &conn);
    EXPECT(ended_within(pid, 4000) == 0);
    still_flows(conn);
    close_conn(conn);
    munmap(stack, STACK);
}

/* A server whose sockets are all made by syscall(). */
static void made_by_number(void)
{
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof address;
    int listener = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM, 0);
    EXPECT(bind(listener, (struct sockaddr *)&address, len) == 0);
    EXPECT(syscall(SYS_listen, listener, 8) == 0);
    EXPECT(getsockname(listener, (struct sockaddr *)&address, &len) == 0);
    for (int i = 0; i < 2; i++) {
        struct conn conn = {.peer = (int)RAW(socket, AF_INET, SOCK_STREAM, 0, 0)};
        EXPECT(RAW(connect, conn.peer, &address, sizeof address, 0) == 0);
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

/* Everything is allowed. */
static struct sock_filter all_of_it[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
static struct sock_fprog allow = {.len = 1, .filter = all_of_it};

static void filter_by_prctl(void)
{
    struct conn conn = open_conversing();
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &allow) == 0);
    never_asked(conn.fd);
    close_conn(conn);
}

static void filter_by_number(void)
{
    struct conn conn = open_conversing();
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    EXPECT(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &allow) == 0);
    never_asked(conn.fd);
    close_conn(conn);
}

static const struct scenario scenarios[] = {
    {"close-range-unshare", close_range_unshare},
    {"close-range-by-number", close_range_by_number},
    {"clone-vm", clone_vm},
    {"made-by-number", made_by_number},
    {"filter-by-prctl", filter_by_prctl},
    {"filter-by-number", filter_by_number},
};

LIFE_MAIN(scenarios)
