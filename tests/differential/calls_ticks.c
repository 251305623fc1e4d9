/* SPDX-License-Identifier: MIT */
/* Handlers that write, read, poll, open and close in the middle of a call: that of a timer, and one
 * that comes after a number of instructions. The first runs at any time, so they write no trace,
 * use descriptors of their own, and check their results themselves. */
#include "program.h"

#include <ucontext.h>

enum { TICK = 40, LINES = 12, FILE_FD = 990, PIPE_IN, PIPE_OUT, NEAR, FAR, COPY, ONE_STEP = 0x100 };
static const char text[] = "a line of a handler's report\n";
enum { LINE = sizeof text - 1 };

bool ticking;
static volatile long wrong, steps;
static bool stopped, jumps;
static timer_t timer;
static struct itimerspec period;
static sigjmp_buf jump;

static void drain(int fd)
{
    char data[1024];
    while (raw(SYS_recvfrom, fd, (long)data, sizeof data, MSG_DONTWAIT, 0, 0) > 0)
        ;
}

static void report(void)
{
    int error = errno;
    char data[LINES * LINE];
    struct pollfd item = {.fd = NEAR, .events = POLLIN};
    RAW(write, FAR, text, LINE, 0);
    wrong += write(NEAR, text, LINE) != LINE;
    long n = recv(NEAR, data, LINE, MSG_DONTWAIT);
    wrong += n == 0 || (n < 0 && errno != EAGAIN);
    wrong += poll(&item, 1, 0) < 0 || (item.revents & ~POLLIN);
    wrong += dup2(NEAR, COPY) != COPY || write(COPY, text, LINE) != LINE || close(COPY) != 0;
    for (int i = 0; i < LINES; i++)
        wrong += (write(FILE_FD, text, LINE) != LINE) + (write(PIPE_OUT, text, LINE) != LINE);
    wrong += read(PIPE_IN, data, sizeof data) != sizeof data || memcmp(data, text, LINE) != 0;
    drain(FAR);
    errno = error;
}

static void on_tick(int number)
{
    (void)number;
    report();
}

static void on_step(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    (void)context;
    if (steps > 0 && --steps > 0)
        return;
#ifdef __x86_64__
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~ONE_STEP;
#endif
    report();
    if (jumps)
        siglongjmp(jump, 1);
}

static void move(int fd, int to)
{
    RAW(dup3, fd, to, O_CLOEXEC, 0);
    RAW(close, fd, 0, 0, 0);
}

/* Makes what the handlers use. The library does not see the far end of the connection. */
static void make_own(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = shared->listener};
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    socklen_t length = sizeof address;
    int pair[2], listener;
    if (raw_ioctl(FAR, FIONREAD) >= 0)
        return;
    listener = (int)RAW(socket, AF_INET, SOCK_STREAM, 0, 0);
    RAW(bind, listener, &address, length, 0);
    RAW(listen, listener, 1, 0, 0);
    RAW(getsockname, listener, &address, &length, 0);
    move((int)RAW(socket, AF_INET, SOCK_STREAM, 0, 0), COPY);
    dup3(COPY, NEAR, O_CLOEXEC);
    close(COPY);
    connect(NEAR, (struct sockaddr *)&address, length);
    move((int)RAW(accept4, listener, 0, 0, 0), FAR);
    RAW(close, listener, 0, 0, 0);
    RAW(pipe2, pair, O_NONBLOCK, 0, 0);
    move(pair[0], PIPE_IN);
    move(pair[1], PIPE_OUT);
    move((int)RAW(memfd_create, "report", 0, 0, 0), FILE_FD);
    sigfillset(&action.sa_mask);
    sigaction(TICK, &action, NULL);
    action.sa_sigaction = on_step;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGTRAP, &action, NULL);
}

static void note_wrong(struct op *op)
{
    note(op, wrong ? " WRONG in a handler" : "");
    wrong = 0;
}

/* From here on SIGTRAP comes after each instruction. */
void step_on(long count)
{
    make_own();
    steps = count;
#ifdef __x86_64__
    __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | ONE_STEP);
#endif
}

void step_off(struct op *op)
{
#ifdef __x86_64__
    __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~(unsigned long)ONE_STEP);
#endif
    op->steps = 0;
    note_wrong(op);
}

/* A tick has interrupted the call. It is made again, without ticks until it ends. */
bool call_again(long result)
{
    if (!ticking || result != -1 || errno != EINTR)
        return false;
    stopped = true;
    timer_settime(timer, 0, &(struct itimerspec){{0, 0}, {0, 0}}, NULL);
    errno = UNTOUCHED;
    return true;
}

void tick_on(void)
{
    if (ticking && stopped)
        timer_settime(timer, 0, &period, NULL);
    stopped = false;
}

/* ticks MICROSECONDS { ... }: the block, while a handler comes this often. */
CALLS(ticks)
{
    struct block block = next_block();
    struct timespec time = {0, (100 + word_number(op, 1) % 10000) * 1000};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = TICK};
    event._sigev_un._tid = (int)RAW(gettid, 0, 0, 0, 0);
    if (ticking)
        return run_block(block);
    make_own();
    period = (struct itimerspec){time, time};
    ticking = timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
    timer_settime(timer, 0, &period, NULL);
    run_block(block);
    timer_delete(timer);
    ticking = false;
    note_wrong(op);
}

/* jump SLOT COUNT: a handler leaves calls that change nothing. */
SLOT_CALLS(jump)
{
    char data[1];
    struct pollfd item = {.fd = slot->fd, .events = POLLIN};
    if (finished(slot)) /* recv would take the error */
        return note(op, " skipped");
    jumps = true;
    if (sigsetjmp(jump, 1) == 0) {
        step_on(word_number(op, 2));
        poll(&item, 1, 1);
        recv(slot->fd, data, 1, MSG_PEEK | MSG_DONTWAIT);
        step_off(op);
    }
    jumps = false;
    note_wrong(op);
}

/* Makes what the handlers use, before anything is pending. */
CALLS(report)
{
    make_own();
    note(op, raw_ioctl(FAR, FIONREAD) < 0 ? " failed" : "");
}

/* A line to a file, while work is pending. */
CALLS(log)
{
    make_own();
    CALL(op, write(FILE_FD, text, LINE));
}

/* rounds SLOT TIMES: answers as many requests. Then the kernel delays the ACK of the next one. */
SLOT_CALLS(rounds)
{
    char data[8];
    struct connection *connection = connection_of(slot);
    long times = word_number(op, 2) % 100, wrong_ones = 0;
    if (!connection || connection->over || connection->half || connection->stopped ||
        small_buffer(slot) || finished(slot))
        return note(op, " skipped");
    for (long i = 0; i < times; i++) {
        ask(SEND, slot->connection, sizeof data, 0);
        settle(slot);
        long n = recv(slot->fd, data, sizeof data, MSG_DONTWAIT);
        wrong_ones += n != sizeof data || pattern_differs(shared, slot->connection, 1,
                                                          incoming(slot)->read, data, n) >= 0;
        incoming(slot)->read += n > 0 ? n : 0;
        n = write(slot->fd, pattern_at(shared, slot->connection, 0, outgoing(slot)->written),
                  sizeof data);
        wrong_ones += n != sizeof data;
        outgoing(slot)->written += n > 0 ? n : 0;
    }
    note_number(op, " wrong ", wrong_ones);
}
