/* SPDX-License-Identifier: MIT */
/* What other processes do to a connection, or to whom it is handed, and calls that want a process
 * of one thread. See promise.h. */
#include "promise.h"

#include <sys/prctl.h>

/* A burst that no wait ends. */
static void burst(struct conn conn)
{
    put(conn.fd, "one ");
    put(conn.fd, "two ");
    put(conn.fd, "three");
    at_once(conn.peer, "one two three");
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
        poll(NULL, 0, 1);
    }
    is_governed(conn.fd);
    close(conn.fd);
    RAW(close, conn.peer, 0, 0, 0);
    close(pair[0]);
    close(pair[1]);
}

/* Bursts are held as they were before, or none ever is. */
static void held_again(struct conn conn)
{
    int before = results->held;
    double begin = now_ms();
    do
        converse(conn);
    while (getenv("LIFE_HOLDS") && results->held == before && look_again(begin, 1000));
    if (getenv("LIFE_HOLDS") && results->held == before)
        wrong("nothing is held any more");
    burst(conn);
}

static void after_prctl(void)
{
    struct conn conn = open_conversing();
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    held_again(conn);
    close_conn(conn);
}

static void after_unshare(void)
{
    struct conn conn = open_conversing();
    EXPECT(unshare(CLONE_FS) == 0);
    held_again(conn);
    close_conn(conn);
}

static void after_user_namespace(void)
{
    struct conn conn = open_conversing();
    pid_t pid = fork();
    if (pid == 0) {
        converse(conn);
        if (unshare(CLONE_NEWUSER) != 0 && errno != EPERM && errno != ENOSPC)
            wrong("unshare: %s", strerror(errno));
        held_again(conn);
        _exit(results->wrong != 0);
    }
    child_ended(pid, 0);
    close_conn(conn);
}

static int option_of(int fd, int option)
{
    int value = -1;
    socklen_t len = sizeof value;
    long result = raw(SYS_getsockopt, fd, IPPROTO_TCP, option, (long)&value, (long)&len, 0);
    return result == 0 ? value : -1;
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
    enum { DELACK_MAX_US = 46 }; /* TCP_DELACK_MAX_US, linux/tcp.h of recent kernels */
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
    {"after-prctl", after_prctl},
    {"after-unshare", after_unshare},
    {"after-user-namespace", after_user_namespace},
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
