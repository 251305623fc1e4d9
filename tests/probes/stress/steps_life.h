/* SPDX-License-Identifier: MIT */
/* How the connections of steps.c come about, what it asks for there, how it hands them on and ends.
 */
#ifndef PROBES_STEPS_LIFE_H
#define PROBES_STEPS_LIFE_H

#include "steps_traffic.h"

#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <sys/prctl.h>

extern char **environ;

static void ask(int option, int value)
{
    EXPECT(setsockopt(near.fd, IPPROTO_TCP, option, &value, sizeof value) == 0);
}

/* --- how it comes about --- */

static void connected(void)
{
    near = open_conn();
}

static void accepted(void)
{
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(bind(listener, (struct sockaddr *)&address, len) == 0 && listen(listener, 8) == 0 &&
           getsockname(listener, (struct sockaddr *)&address, &len) == 0);
    near.peer = (int)RAW(socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0, 0);
    EXPECT(RAW(connect, near.peer, &address, len, 0) == 0);
    near.fd = accept(listener, NULL, NULL);
}

static void accepted_nonblock(void)
{
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(listen(listener, 8) == 0 &&
           getsockname(listener, (struct sockaddr *)&address, &len) == 0);
    near.peer = (int)RAW(socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0, 0);
    EXPECT(RAW(connect, near.peer, &address, len, 0) == 0);
    near.fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
}

static void made_raw(void)
{
    near = raw_conn(-1);
}

/* --- what a program asks for --- */

enum { DELACK_MAX_US = 46 }; /* TCP_DELACK_MAX_US, linux/tcp.h of recent kernels */

static void asks_bound(void)
{
    ask(DELACK_MAX_US, 20000);
}

static void is_told_of_bound(void)
{
    int told = 0;
    socklen_t len = sizeof told;
    EXPECT(getsockopt(near.fd, IPPROTO_TCP, DELACK_MAX_US, &told, &len) == 0 && told == 200000);
}

static void asks_nodelay(void)
{
    ask(TCP_NODELAY, 1);
}

static void asks_delay(void)
{
    ask(TCP_NODELAY, 0);
}

/* A socket that is neither connected nor listening. */
static void asks_idle(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), idle = 500;
    EXPECT(setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle) == 0);
}

static void has_nodelay_already(void)
{
    int on = 1;
    raw(SYS_setsockopt, near.fd, IPPROTO_TCP, TCP_NODELAY, (long)&on, sizeof on, 0);
}

static void has_bound_already(void)
{
    int bound = 8000;
    raw(SYS_setsockopt, near.fd, IPPROTO_TCP, DELACK_MAX_US, (long)&bound, sizeof bound, 0);
}

static void corks(void)
{
    ask(TCP_CORK, 1);
}

static void uncorks(void)
{
    ask(TCP_CORK, 0);
}

static void asks_quickack(void)
{
    ask(TCP_QUICKACK, 1);
}

static void asks_whole(void)
{
    int bytes = 4;
    EXPECT(setsockopt(near.fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes) == 0);
}

static void asks_nonblock(void)
{
    EXPECT(fcntl(near.fd, F_SETFL, O_NONBLOCK) == 0);
}

/* --- handing on and ending --- */

static void forks(void)
{
    pid_t pid = fork();
    if (pid == 0)
        RAW(exit_group, 0, 0, 0, 0);
    child_ended(pid, 0);
}

static void clones(void)
{
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        RAW(exit_group, 0, 0, 0, 0);
    child_ended(pid, 0);
}

static void vforks(void)
{
    pid_t pid = vfork();
    if (pid == 0)
        RAW(exit_group, 0, 0, 0, 0);
    child_ended(pid, 0);
}

static void vfork_writes(void)
{
    pid_t pid = vfork();
    if (pid == 0) {
        if (write(near.fd, "piece", 5) != 5 || write(near.fd, "piece", 5) != 5)
            RAW(exit_group, 1, 0, 0, 0);
        RAW(exit_group, 0, 0, 0, 0);
    }
    child_ended(pid, 0);
}

/* Everything but what is standard, in a table of its own. */
static void *closes_in_thread(void *unused)
{
    EXPECT(close_range(3, ~0U, CLOSE_RANGE_UNSHARE) == 0);
    return unused;
}

static void empties_own_table(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, closes_in_thread, NULL);
    pthread_join(thread, NULL);
}

static int closes_in_helper(void *unused)
{
    (void)unused;
    close_range(3, ~0U, 0);
    return 0;
}

/* A child in our memory. */
static void has_helper(void)
{
    enum { STACK = 256 * 1024 };
    char *stack =
        mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    pid_t pid = clone(closes_in_helper, stack + STACK, CLONE_VM | SIGCHLD, NULL);
    child_ended(pid, 0);
}

static void spawns(void)
{
    pid_t pid;
    char *const arguments[] = {"true", NULL};
    EXPECT(posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ) == 0);
    child_ended(pid, 0);
}

static void execs(void)
{
    execl("/nonexistent", "nobody", (char *)NULL);
}

static void execs_by_number(void)
{
    char *const arguments[] = {"nobody", NULL};
    syscall(SYS_execve, "/nonexistent", arguments, environ);
}

static void leaves(void)
{
    _exit(0);
}

static void returns(void)
{
    exit(0);
}

static void closes(void)
{
    close(near.fd);
}

static void closes_by_number(void)
{
    syscall(SYS_close, near.fd);
}

/* Behind our back. */
static void becomes_a_pipe(void)
{
    char byte;
    RAW(dup3, pair[0], near.fd, 0, 0);
    EXPECT(recv(near.fd, &byte, 1, 0) == -1 && errno == ENOTSOCK);
}

static void reads_pipe_there(void)
{
    char byte;
    RAW(write, pair[1], "!", 1, 0);
    EXPECT(read(near.fd, &byte, 1) == 1);
}

static void is_repaired(void)
{
    enum { OFF_WITHOUT_PROBE = -1 };
    ask(TCP_REPAIR, 1);
    ask(TCP_REPAIR, OFF_WITHOUT_PROBE);
}

static void duplicates(void)
{
    int copy = dup(near.fd);
    EXPECT(copy >= 0);
    RAW(close, near.fd, 0, 0, 0);
    near.fd = copy;
}

static int spare;

static void copies(void)
{
    spare = dup(near.fd);
}

static void corks_copy(void)
{
    int on = 1;
    EXPECT(setsockopt(spare, IPPROTO_TCP, TCP_CORK, &on, sizeof on) == 0);
}

static void swaps(void)
{
    int fd = near.fd;
    near.fd = spare;
    spare = fd;
}

/* Past the library, while there is another one. */
static void vanishes(void)
{
    RAW(close, near.fd, 0, 0, 0);
}

static struct conn left;
static _Atomic bool has_read;

static void *reads_left(void *unused)
{
    char byte;
    EXPECT(read(left.fd, &byte, 1) == 1);
    has_read = true;
    return unused;
}

/* A thread waits there for what the peer says, and meanwhile another one closes it, and gives its
 * number to something else. */
static void is_left_to_reader(void)
{
    pthread_t reader;
    left = near;
    EXPECT(pthread_create(&reader, NULL, reads_left, NULL) == 0);
    compute_ms(20);
    close(left.fd);
    EXPECT(RAW(dup3, 2, left.fd, 0, 0) == left.fd);
}

static void reader_hears(void)
{
    double begin = now_ms();
    answer(left.peer, "!");
    while (!has_read) /* which nobody sees */
        EXPECT(look_again(begin, 2000));
}

static void unshares(void)
{
    EXPECT(unshare(CLONE_FS) == 0);
}

static void keeps_capabilities(void)
{
    EXPECT(prctl(PR_SET_KEEPCAPS, 0) == 0);
}

static void sets_group_by_number(void)
{
    EXPECT(syscall(SYS_setgid, getgid()) == 0);
}

static void becomes_stdout(void)
{
    EXPECT(dup2(near.fd, 1) == 1);
}

static void is_opened(void)
{
    EXPECT(fdopen(near.fd, "r+") != NULL);
}

static void is_passed(void)
{
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    send_right(pair[0], near.fd);
}

static void is_passed_back(void)
{
    is_passed();
    RAW(close, near.fd, 0, 0, 0);
    near.fd = receive_right(pair[1]);
}

static void uses_uring(void)
{
    EXPECT(syscall(SYS_io_uring_setup, 0, NULL) == -1);
}

static void writes_by_number(void)
{
    EXPECT(syscall(SYS_write, near.fd, "piece", 5) == 5);
}

static void filters(void)
{
    static struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    static struct sock_fprog allow = {.len = 1, .filter = all};
    if (geteuid() != 0) /* who may do without it stops nothing of the library's by it */
        EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &allow) == 0);
}

static _Atomic int staying;

static void *write_and_stay(void *unused)
{
    for (int i = 0; i < 5; i++)
        writes();
    staying = 1;
    RAW(ppoll, 0, 0, 0, 0);
    return unused;
}

/* A thread that writes five pieces and waits where nobody sees it. */
static void is_written_to(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, write_and_stay, NULL);
    while (!staying)
        RAW(sched_yield, 0, 0, 0, 0);
}

#endif
