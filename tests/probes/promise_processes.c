/* SPDX-License-Identifier: MIT */
/* What other processes do to a connection, or to whom it is handed, and calls that want a process
 * of one thread. See promise.h. */
#include "promise.h"

#include <linux/close_range.h>

/* A burst, and the wait that ends it. */
static void burst(struct conn conn)
{
    put(conn.fd, "one ");
    put(conn.fd, "two ");
    put(conn.fd, "three");
    arrives(conn.peer, "one two three");
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

/* Nobody has written on this connection before the child of vfork does, and nobody of this process
 * has seen it being made. */
static void vfork_writes(void)
{
    struct conn made = open_conn(), conn = made;
    int pair[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    send_right(pair[0], made.fd);
    conn.fd = receive_right(pair[1]);
    close(made.fd);
    pid_t pid = child_that_writes(conn.fd);
    EXPECT(ended_within(pid, 2000) == 0);
    arrives_within(conn.peer, "abababababababab", 1000);
    for (int i = 0; i < 6; i++) {
        burst(conn);
    }
    is_governed(conn.fd);
    close(conn.fd);
    RAW(close, conn.peer, 0, 0, 0);
    close(pair[0]);
    close(pair[1]);
}

__attribute__((noinline)) static pid_t child_that_covers(int fd, int pipe_end)
{
    pid_t pid = vfork();
    if (pid != 0)
        return pid;
    if (dup2(pipe_end, fd) != fd)
        _exit(1);
    for (int i = 0; i < 6; i++) {
        if (write(fd, "error", 5) != 5)
            _exit(2);
    }
    _exit(0);
}

/* A child of vfork puts a pipe over its own copy of the descriptor, as for a program that it is
 * about to run. */
static void vfork_covers(void)
{
    struct conn conn = open_conversing();
    int ends[2];
    EXPECT(pipe2(ends, O_CLOEXEC) == 0);
    EXPECT(ended_within(child_that_covers(conn.fd, ends[1]), 2000) == 0);
    never_asked(conn.fd);
    still_flows(conn);
    is_governed(conn.fd);
    close(ends[0]);
    close(ends[1]);
    close_conn(conn);
}

/* The process has one thread, and still the only copy of its descriptors. */
static void after_unshare_files(void)
{
    struct conn conn = open_conversing();
    EXPECT(unshare(CLONE_FILES) == 0);
    never_asked(conn.fd);
    still_flows(conn);
    is_governed(conn.fd);
    close_conn(conn);
}

/* The same with a close, while another connection has bytes held. */
static void closes_and_unshares(void)
{
    struct conn conn = open_conversing(), other = open_conversing();
    char byte;
    long n = -1;
    for (int i = 0; i < 3; i++)
        EXPECT(write(other.fd, "x", 1) == 1);
    EXPECT(close_range((unsigned)conn.fd, (unsigned)conn.fd, CLOSE_RANGE_UNSHARE) == 0);
    for (double begin = now_ms(); now_ms() - begin < 500;) {
        n = raw(SYS_recvfrom, conn.peer, (long)&byte, 1, MSG_DONTWAIT, 0, 0);
        if (n == 0)
            break;
        EXPECT(write(other.fd, "x", 1) == 1);
        compute_ms(2);
    }
    if (n != 0)
        wrong("the stream has not ended: %ld", n);
    RAW(close, conn.peer, 0, 0, 0);
    close_conn(other);
}

/* Accepts one connection on descriptor 3, writes to it in pieces, and ends. */
static int role_accepts(void)
{
    char byte;
    int fd = accept(3, NULL, NULL);
    EXPECT(fd >= 0);
    for (int i = 0; i < 20; i++) {
        EXPECT(read(fd, &byte, 1) == 1);
        EXPECT(write(fd, "one ", 4) == 4);
        EXPECT(write(fd, "two", 3) == 3);
    }
    is_governed(fd);
    close(fd);
    return results->wrong != 0;
}

/* The program that the listener is handed to has the library, this one has not: LISTENER_PRELOAD.
 * announced: as a service manager does. */
static void hands_listener(bool announced)
{
    struct sockaddr_in address;
    int listener = raw_listener(0, &address);
    int nodelay = option_of(listener, TCP_NODELAY), delay = option_of(listener, DELACK_MAX_US);
    int idle = option_of(listener, TCP_KEEPIDLE);
    EXPECT(getenv("LD_PRELOAD") == NULL && nodelay == 0);
    pid_t pid = fork();
    if (pid == 0) {
        char self[32];
        const char *preload = getenv("LISTENER_PRELOAD");
        int high = fcntl(listener, F_DUPFD, 10);
        dup2(high, 3);
        close(high);
        snprintf(self, sizeof self, "%d", (int)getpid());
        if (announced) {
            setenv("LISTEN_PID", self, 1);
            setenv("LISTEN_FDS", "1", 1);
        }
        if (preload)
            setenv("LD_PRELOAD", preload, 1);
        execl("/proc/self/exe", "promise_processes", "role-accepts", (char *)NULL);
        _exit(9);
    }
    int client = (int)RAW(socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0, 0);
    EXPECT(RAW(connect, client, &address, sizeof address, 0) == 0);
    for (int i = 0; i < 20; i++) {
        answer(client, "?");
        arrives_within(client, "one two", 1000);
    }
    RAW(close, client, 0, 0, 0);
    child_ended(pid, 0);
    EXPECT(option_of(listener, TCP_NODELAY) == nodelay);
    EXPECT(option_of(listener, DELACK_MAX_US) == delay);
    EXPECT(option_of(listener, TCP_KEEPIDLE) == idle);
    RAW(close, listener, 0, 0, 0);
}

static void listener_announced(void)
{
    hands_listener(true);
}

static void listener_inherited(void)
{
    hands_listener(false);
}

static const struct scenario scenarios[] = {
    {"vfork-writes", vfork_writes},
    {"vfork-covers", vfork_covers},
    {"after-unshare-files", after_unshare_files},
    {"closes-and-unshares", closes_and_unshares},
    {"listener-announced", listener_announced},
    {"listener-inherited", listener_inherited},
};

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "role-accepts") == 0) {
        results =
            mmap(NULL, sizeof *results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        alarm(20);
        return role_accepts();
    }
    return life_main(argc, argv, scenarios, sizeof scenarios / sizeof *scenarios);
}
