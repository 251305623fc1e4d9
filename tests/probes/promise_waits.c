/* SPDX-License-Identifier: MIT */
/* The masks of the waits that have one hold during the whole wait: while an acknowledgement is owed
 * and bytes are held, with the signal pending before it, sent during it, and kept out of it. See
 * promise.h. */
#include "promise.h"

#include <sys/epoll.h>
#include <sys/select.h>

/* Milliseconds. */
enum { LONG = 1500, SHORT = 90 };

static volatile sig_atomic_t handled;
static struct conn quiet, owing;
static int epoll;

static void on_signal(int number)
{
    (void)number;
    handled++;
}

int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t);

/* Nothing comes on the quiet connection. */
typedef int waits(const sigset_t *mask, int milliseconds);

static struct timespec time_of(int milliseconds)
{
    return (struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000};
}

static int by_ppoll(const sigset_t *mask, int milliseconds)
{
    struct pollfd one = {.fd = quiet.fd, .events = POLLIN};
    struct timespec time = time_of(milliseconds);
    return ppoll(&one, 1, &time, mask);
}

static int by_checked_ppoll(const sigset_t *mask, int milliseconds)
{
    struct pollfd one = {.fd = quiet.fd, .events = POLLIN};
    struct timespec time = time_of(milliseconds);
    return __ppoll_chk(&one, 1, &time, mask, sizeof one);
}

static int by_pselect(const sigset_t *mask, int milliseconds)
{
    struct timespec time = time_of(milliseconds);
    fd_set reads;
    FD_ZERO(&reads);
    FD_SET(quiet.fd, &reads);
    return pselect(quiet.fd + 1, &reads, NULL, NULL, &time, mask);
}

static int by_epoll_pwait(const sigset_t *mask, int milliseconds)
{
    struct epoll_event event;
    return epoll_pwait(epoll, &event, 1, milliseconds, mask);
}

static int by_epoll_pwait2(const sigset_t *mask, int milliseconds)
{
    struct epoll_event event;
    struct timespec time = time_of(milliseconds);
    return epoll_pwait2(epoll, &event, 1, &time, mask);
}

static const struct {
    const char *name;
    waits *wait;
} calls[] = {
    {"ppoll", by_ppoll},
    {"__ppoll_chk", by_checked_ppoll},
    {"pselect", by_pselect},
    {"epoll_pwait", by_epoll_pwait},
    {"epoll_pwait2", by_epoll_pwait2},
};

/* Something is owed when it begins. */
static int wait_owing(int call, bool debts, const sigset_t *mask, int milliseconds)
{
    if (debts) {
        owe(owing);
        put(quiet.fd, "he");
        put(quiet.fd, "ld");
    }
    errno = 0;
    int result = calls[call].wait(mask, milliseconds);
    int error = errno;
    if (debts)
        arrives_within(quiet.peer, "held", 1000);
    return result < 0 ? -error : result;
}

static pid_t whom;

/* Once it waits for a while. */
static void *signals(void *unused)
{
    compute_ms(SHORT / 3);
    RAW(tgkill, getpid(), whom, SIGUSR1, 0);
    return unused;
}

/* What a signal does to this wait: its result, whether it ended by itself, how often the handler
 * ran in it. */
static void expect(int call, const char *what, int result, double took, int expected, int times)
{
    bool in_time = expected == -EINTR ? took < LONG - 500 : took >= SHORT - 1;
    if (result != expected || handled != times || !in_time)
        wrong("%s, %s: %d after %.0f ms, handled %d times", calls[call].name, what, result, took,
              (int)handled);
}

static void masks_of(int call, bool debts)
{
    sigset_t none, one;
    pthread_t other;
    double begin;
    int result;
    sigemptyset(&none);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    /* Blocked and pending, let through by the wait. */
    handled = 0;
    pthread_sigmask(SIG_SETMASK, &one, NULL);
    raise(SIGUSR1);
    begin = now_ms();
    result = wait_owing(call, debts, &none, LONG);
    expect(call, "pending", result, now_ms() - begin, -EINTR, 1);
    /* Blocked, and sent while it waits. */
    handled = 0;
    begin = now_ms();
    pthread_create(&other, NULL, signals, NULL);
    result = wait_owing(call, debts, &none, LONG);
    expect(call, "sent", result, now_ms() - begin, -EINTR, 1);
    pthread_join(other, NULL);
    /* Pending, and kept out; without a mask, too. */
    handled = 0;
    raise(SIGUSR1);
    begin = now_ms();
    result = wait_owing(call, debts, NULL, SHORT);
    expect(call, "pending, no mask", result, now_ms() - begin, 0, 0);
    begin = now_ms();
    result = wait_owing(call, debts, &one, SHORT);
    expect(call, "pending, kept out", result, now_ms() - begin, 0, 0);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    EXPECT(handled == 1);
    /* Let in outside, and sent while the wait keeps it out: it comes once that is over. */
    handled = 0;
    begin = now_ms();
    pthread_create(&other, NULL, signals, NULL);
    result = wait_owing(call, debts, &one, SHORT);
    double took = now_ms() - begin;
    pthread_join(other, NULL);
    expect(call, "sent, kept out", result, took, 0, 1);
}

static void masks(bool debts)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct epoll_event event = {.events = EPOLLIN};
    sigaction(SIGUSR1, &action, NULL);
    whom = gettid();
    quiet = open_conversing();
    owing = open_conversing();
    epoll = epoll_create1(EPOLL_CLOEXEC);
    EXPECT(epoll_ctl(epoll, EPOLL_CTL_ADD, quiet.fd, &event) == 0);
    for (int i = 0; i < (int)(sizeof calls / sizeof *calls); i++)
        masks_of(i, debts);
    close(epoll);
    close_conn(quiet);
    close_conn(owing);
}

static void masks_owing(void)
{
    masks(true);
}

static void masks_alone(void)
{
    masks(false);
}

static const struct scenario scenarios[] = {
    {"masks-owing", masks_owing},
    {"masks-alone", masks_alone},
};

LIFE_MAIN(scenarios)
