/* SPDX-License-Identifier: MIT */
/* Every way in which a process ends, or becomes another program: what a child has gathered arrives
 * first, before the deadline. */
#include "gather.h"

#include <pthread.h>

static struct sockaddr_in address;

static void handler(int number)
{
    _exit(number);
}

static void ends_again(int number)
{
    signal(number, SIG_DFL);
    raise(number);
}

static void kills_again(int number)
{
    signal(number, SIG_DFL);
    kill(getpid(), number); /* comes as soon as this returns */
}

static void by_exit(void)
{
    exit(0);
}

static void by__exit(void)
{
    _exit(0);
}

static void by_quick_exit(void)
{
    quick_exit(0);
}

static void by_abort(void)
{
    abort();
}

static void by_exec(void)
{
    execl("/bin/true", "true", (char *)NULL);
}

static void by_exec_by_number(void)
{
    char *arguments[] = {"true", NULL};
    syscall(SYS_execve, "/bin/true", arguments, NULL);
}

static void by_exit_by_number(void)
{
    syscall(SYS_exit_group, 0);
}

static void by_thread(void)
{
    pthread_exit(NULL);
}

static void by_handled_signal(void)
{
    signal(SIGTERM, handler);
    RAW(kill, RAW(getpid, 0, 0, 0, 0), SIGTERM, 0, 0);
}

static void by_signal_raised_again(void)
{
    signal(SIGTERM, ends_again);
    RAW(kill, RAW(getpid, 0, 0, 0, 0), SIGTERM, 0, 0);
}

static void by_signal_sent_again(void)
{
    signal(SIGTERM, kills_again);
    RAW(kill, RAW(getpid, 0, 0, 0, 0), SIGTERM, 0, 0);
}

static void by_return_of_main(void)
{
    exit(0);
}

static void each_way(void)
{
    static void (*const ways[])(void) = {
        by_exit,           by__exit,          by_quick_exit,          by_abort,
        by_exec,           by_exec_by_number, by_exit_by_number,      by_thread,
        by_handled_signal, by_return_of_main, by_signal_raised_again, by_signal_sent_again,
    };
    int listener = raw_listener(0, &address);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            struct conn conn = {.fd = socket(AF_INET, SOCK_STREAM, 0), .peer = listener};
            if (connect(conn.fd, (struct sockaddr *)&address, sizeof address) != 0)
                _exit(1);
            EXPECT(write(conn.fd, "a", 1) == 1 && write(conn.fd, "b", 1) == 1);
            if (unsent(conn.fd) == 0)
                ++*in_memory;
            ways[i]();
            RAW(exit_group, 99, 0, 0, 0);
        }
        int peer = (int)RAW(accept4, listener, 0, 0, SOCK_CLOEXEC);
        int status;
        waitpid(pid, &status, 0);
        int before = results->late;
        at_once(peer, "ab");
        ends(peer, 0);
        if (results->late != before)
            printf("way %zu\n", i);
        RAW(close, peer, 0, 0, 0);
    }
    RAW(close, listener, 0, 0, 0);
}

/* The child holds nothing of its parent's, however it is made. */
static void children(void)
{
    for (int way = 0; way < 3; way++) {
        struct conn conn = open_holding();
        pid_t pid = way == 0   ? fork()
                    : way == 1 ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)
                               : (pid_t)RAW(clone, SIGCHLD, 0, 0, 0);
        if (pid == 0) {
            struct pollfd ready = {.fd = conn.fd, .events = POLLIN};
            poll(&ready, 1, 1);
            close(conn.fd);
            _exit(0);
        }
        child_ended(pid, 0);
        arrives(conn.peer, "ab");
        hold(conn);
        struct timespec moment = {.tv_nsec = 1000000};
        nanosleep(&moment, NULL);
        at_once(conn.peer, "ab");
        EXPECT(unread(conn.peer) == 0);
        close_conn(conn);
    }
}

static const struct scenario scenarios[] = {{"ends", each_way}, {"children", children}};

GATHER_MAIN(scenarios)
