/* SPDX-License-Identifier: MIT */
/* A signal handler interrupts a call of the library at each of its instructions in turn. The call
 * is single-stepped, and at the N-th step the handler changes the call's descriptors. Each turn
 * runs in a child. LIFE_STRIDE: the distance between tested steps. For x86-64. */
#include "life.h"

#if defined(__x86_64__)
#include <setjmp.h>
#include <ucontext.h>

enum { TRAP_FLAG = 0x100, NOT_REACHED = 2 };

static volatile int steps, at_step;
static void (*volatile happens)(void);

static void trapped(int number, siginfo_t *info, void *context)
{
    ucontext_t *before = context;
    int saved = errno;
    (void)number;
    (void)info;
    if (++steps == at_step) {
        before->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
        happens();
    }
    errno = saved;
}

#define STEPPED(call)                                                                              \
    do {                                                                                           \
        __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");                 \
        call;                                                                                      \
        __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");               \
    } while (0)

static int two[2];
static struct conn conn;
static int other;

/* --- dup of a pipe, whose number is given to a socket --- */

static void pipe_becomes_socket(void)
{
    close(two[0]);
    other = socket(AF_INET, SOCK_STREAM, 0);
}

static int app_nodelay(int fd)
{
    int value = 0;
    socklen_t len = sizeof value;
    EXPECT(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &len) == 0);
    return value;
}

static void dup_of_what_changes(void)
{
    int copy, on = 1;
    EXPECT(pipe(two) == 0);
    happens = pipe_becomes_socket;
    STEPPED(copy = dup(two[0]));
    if (steps < at_step || other != two[0])
        return;
    close(copy);
    int another = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT(setsockopt(other, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
    EXPECT(app_nodelay(another) == 0); /* the two are independent */
}

/* --- close of one of two descriptors, while the handler reads from the other one --- */

static void exchange(struct conn with)
{
    char byte;
    answer(with.peer, "!");
    EXPECT(read(with.fd, &byte, 1) == 1);
    EXPECT(write(with.fd, "!", 1) == 1);
    EXPECT(RAW(read, with.peer, &byte, 1, 0) == 1);
}

static void reads_by_the_other(void)
{
    char byte;
    answer(conn.peer, "!");
    EXPECT(recv(other, &byte, 1, MSG_DONTWAIT) == 1);
}

/* Is the ACK sent before a wait? */
static void acknowledges(int fd, int peer)
{
    EXPECT(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 1) == 0);
    EXPECT(is_acknowledged(peer));
}

static void close_of_one_of_two(void)
{
    int none = 0;
    conn = open_conn();
    other = dup(conn.fd);
    for (int i = 0; i < 20; i++) /* the kernel's quick ACKs are over */
        exchange(conn);
    RAW(setsockopt, conn.fd, IPPROTO_TCP, TCP_QUICKACK, &none);
    happens = reads_by_the_other;
    STEPPED(close(conn.fd));
    if (steps >= at_step)
        acknowledges(other, conn.peer);
}

/* --- a wait, while a number on its list becomes another connection --- */

static struct conn late;

static void accepts_there(void)
{
    char byte;
    late.fd = dup3(late.fd, conn.fd, 0);
    exchange(late);
    EXPECT(nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL) == 0);
    answer(late.peer, "!");
    EXPECT(read(late.fd, &byte, 1) == 1);
}

static void wait_while_one_arrives(void)
{
    struct conn busy = open_conn();
    char byte;
    conn = open_conn();
    late = open_conn();
    exchange(conn);
    exchange(late);
    for (int burst = 0; burst < 4; burst++) { /* so that the next one is joined at once */
        for (int i = 0; i < 12; i++)
            EXPECT(write(busy.fd, "piece", 5) == 5);
        poll(NULL, 0, 1);
    }
    answer(conn.peer, "!");
    EXPECT(read(conn.fd, &byte, 1) == 1);
    for (int i = 0; i < 12; i++)
        EXPECT(write(busy.fd, "piece", 5) == 5);
    close(conn.fd);
    happens = accepts_there;
    STEPPED(poll(&(struct pollfd){.fd = busy.fd, .events = POLLOUT}, 1, 100));
    if (steps >= at_step)
        acknowledges(late.fd, late.peer);
}

/* --- a write by a number that is closed, while another one names the connection --- */

static void closes_that(void)
{
    close(conn.fd);
}

static void write_by_what_closes(void)
{
    char byte;
    conn = open_conn();
    other = dup(conn.fd);
    for (int pieces = 1; pieces <= 4; pieces++) { /* all bursts differ, so the next one is held */
        for (int i = 0; i < pieces; i++)
            EXPECT(write(conn.fd, "!", 1) == 1);
        poll(NULL, 0, 1);
        for (int i = 0; i < pieces; i++)
            EXPECT(RAW(read, conn.peer, &byte, 1, 0) == 1);
    }
    happens = closes_that;
    STEPPED(write(conn.fd, "!", 1));
    if (steps < at_step)
        return;
    /* From now on pending work is listed under the other number. */
    EXPECT(write(other, "?", 1) == 1);
    poll(NULL, 0, 1);
    if (RAW(recvfrom, conn.peer, &byte, 1, MSG_DONTWAIT) == 1 && byte == '!')
        EXPECT(RAW(recvfrom, conn.peer, &byte, 1, MSG_DONTWAIT) == 1);
    EXPECT(byte == '?');
}

/* --- a write that begins to join, while the handler reads from its connection --- */

static void reads_there(void)
{
    char byte;
    answer(conn.peer, "!");
    EXPECT(recv(conn.fd, &byte, 1, MSG_DONTWAIT) == 1);
}

static void join_while_read_from(void)
{
    conn = open_conn();
    for (int i = 0; i < 3; i++) {
        EXPECT(write(conn.fd, "piece", 5) == 5);
    }
    happens = reads_there;
    STEPPED(EXPECT(write(conn.fd, "piece", 5) == 5));
    poll(NULL, 0, 1);
    if (steps >= at_step)
        EXPECT(has_nodelay(conn.fd));
}

/* --- a write that begins to join, and a wait after it, that a handler jumps out of: the bytes
 * leave before the next wait --- */

static sigjmp_buf before_the_call;

static void jumps(void)
{
    siglongjmp(before_the_call, 1);
}

static void left_by_a_jump(bool is_wait)
{
    conn = open_conn();
    set_kernel_option(conn.peer, TCP_QUICKACK, 0);
    for (int i = 0; i < 3 + is_wait; i++)
        EXPECT(write(conn.fd, "piece", 5) == 5);
    happens = jumps;
    if (sigsetjmp(before_the_call, 1) == 0) {
        if (is_wait)
            STEPPED(poll(NULL, 0, 1));
        else
            STEPPED(write(conn.fd, "piece", 5));
    }
    poll(NULL, 0, 1);
    EXPECT(unsent(conn.fd) == 0);
    if (steps >= at_step)
        EXPECT(has_nodelay(conn.fd));
}

static void write_that_is_left(void)
{
    left_by_a_jump(false);
}

static void wait_that_is_left(void)
{
    left_by_a_jump(true);
}

static bool reaches(int step, void (*turn)(void))
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        at_step = step;
        alarm(10);
        turn();
        _exit(steps < at_step ? NOT_REACHED : 0);
    }
    EXPECT(waitpid(pid, &status, 0) == pid);
    if (!WIFEXITED(status))
        wrong("step %d: status %#x", step, status);
    return WIFEXITED(status) && WEXITSTATUS(status) != NOT_REACHED;
}

static void at_each_step(void (*turn)(void))
{
    struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO | SA_NODEFER};
    int step = 1, stride = (int)from_environment("LIFE_STRIDE", 1);
    sigaction(SIGTRAP, &action, NULL);
    while (results->wrong == 0 && reaches(step, turn))
        step += stride;
    printf("steps %d\n", step);
    EXPECT(step > 50);
}

SCENE("dup", at_each_step(dup_of_what_changes))
SCENE("close", at_each_step(close_of_one_of_two))
SCENE("wait", at_each_step(wait_while_one_arrives))
SCENE("join", at_each_step(join_while_read_from))
SCENE("write", at_each_step(write_by_what_closes))
SCENE("leave-write", at_each_step(write_that_is_left))
SCENE("leave-wait", at_each_step(wait_that_is_left))

LIFE_MAIN
#else
int main(void)
{
    puts("steps 0");
    return 0;
}
#endif
