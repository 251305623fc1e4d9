/* SPDX-License-Identifier: MIT */
/* "buffer": "user" and how a process comes to have signal handlers: with one, signals are blocked
 * while gathered bytes are sent, and without any they are not. Usage: gather_handlers SCENARIO;
 * those named by-... install one in that way, burst and wait three times, and are to be traced. */
#include "behind.h"
#include "gather.h"

#include <pthread.h>
#include <sys/syscall.h>

int __sigaction(int, const struct sigaction *, struct sigaction *);
sighandler_t bsd_signal(int, sighandler_t);
sighandler_t sysv_signal(int, sighandler_t);
sighandler_t __sysv_signal(int, sighandler_t);

static void does_nothing(int number)
{
    (void)number;
}

static const struct sigaction action = {.sa_handler = does_nothing, .sa_flags = SA_RESTART};

/* Three bursts, each of which the wait sends. */
static void bursts(struct conn conn)
{
    for (int i = 0; i < 3; i++) {
        hold(conn);
        poll(NULL, 0, 1);
        at_once(conn.peer, "ab");
    }
    close_conn(conn);
}

static void by_nothing(void)
{
    struct sigaction ignores = {.sa_handler = SIG_IGN};
    struct conn conn = open_conn();
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR1, SIG_DFL);
    EXPECT(sigaction(SIGUSR1, &ignores, NULL) == 0);
    EXPECT(sigaction(SIGUSR1, NULL, &ignores) == 0 && ignores.sa_handler == SIG_IGN);
    EXPECT(pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL) == 0);
    bursts(conn);
}

#define BY(name, installs)                                                                         \
    static void by_##name(void)                                                                    \
    {                                                                                              \
        struct conn conn = open_conn();                                                            \
        EXPECT(installs);                                                                          \
        bursts(conn);                                                                              \
    }
BY(sigaction, sigaction(SIGUSR1, &action, NULL) == 0)
BY(signal, signal(SIGUSR1, does_nothing) == SIG_DFL)
BY(bsd_signal, bsd_signal(SIGUSR1, does_nothing) == SIG_DFL)
BY(sysv_signal, __sysv_signal(SIGUSR1, does_nothing) == SIG_DFL)
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
BY(sigset, sigset(SIGUSR1, does_nothing) == SIG_DFL)
BY(cancel_type, pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0)
#if defined(__GLIBC__)
BY(libc_sigaction, __sigaction(SIGUSR1, &action, NULL) == 0)
BY(weak_sysv_signal, sysv_signal(SIGUSR1, does_nothing) == SIG_DFL)
BY(ssignal, ssignal(SIGUSR1, does_nothing) == SIG_DFL)
#endif

/* The kernel's struct sigaction, of which only the handler is not 0: never called. */
static void by_number(void)
{
    struct {
        void (*handler)(int);
        unsigned long words[3];
    } kernels = {.handler = does_nothing};
    struct conn conn = open_conn();
    EXPECT(syscall(SYS_rt_sigaction, SIGUSR1, &kernels, NULL, 8) == 0);
    bursts(conn);
}

/* A trial: a handler is installed for the first time while another thread sends, and runs there at
 * once. */
static struct conn conn;
static volatile sig_atomic_t stops, handled;
static int rounds;

static void writes(int number)
{
    (void)number;
    handled += write(conn.fd, "h", 1) == 1;
}

static void *sends(void *unused)
{
    while (!stops && rounds < 4000) {
        rounds++;
        EXPECT(write(conn.fd, "a", 1) == 1);
        EXPECT(write(conn.fd, "b", 1) == 1);
        poll(NULL, 0, 0);
    }
    return unused;
}

static void pause_us(int most)
{
    struct timespec left = {.tv_nsec = rand() % most * 1000};
    RAW(nanosleep, &left, 0, 0, 0);
}

/* The stream is "ab", over and over, with an "h" here and there. */
static void check_stream(void)
{
    static char data[1 << 16];
    int letters = 0, handlers = 0;
    RAW(shutdown, conn.fd, SHUT_WR, 0, 0);
    for (long n; (n = raw(SYS_recvfrom, conn.peer, (long)data, sizeof data, 0, 0, 0)) > 0;)
        for (long i = 0; i < n; i++) {
            if (data[i] == 'h')
                handlers++;
            else if (data[i] != "ab"[letters++ % 2])
                wrong("byte %d is %c", letters + handlers, data[i]);
        }
    if (letters != 2 * rounds || handlers != handled)
        wrong("%d of %d letters, %d of %d handlers'", letters, 2 * rounds, handlers, (int)handled);
}

static void trial(void)
{
    const struct sigaction first = {.sa_handler = writes, .sa_flags = SA_RESTART};
    pthread_t thread;
    alarm(4); /* and no handler: it ends the child */
    conn = open_conn();
    hold(conn);
    rounds++;
    pthread_create(&thread, NULL, sends, NULL);
    pause_us(300);
    sigaction(SIGUSR1, &first, NULL);
    for (int i = 0; i < 5; i++) {
        pthread_kill(thread, SIGUSR1);
        pause_us(20);
    }
    stops = 1;
    pthread_join(thread, NULL);
    check_stream();
}

static void first_handler(void)
{
    struct conn own = open_holding();
    arrives(own.peer, "ab");
    close_conn(own);
    for (unsigned i = 0; i < 150; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            srand(i);
            trial();
            _exit(0);
        }
        child_ended(pid, 0);
    }
}

/* Two threads install the first handlers at the same time, while a third sends: neither's may run
 * there before it has. */
static pthread_t sender;
static volatile sig_atomic_t sending;

static moment *flushes;

static void is_not_interrupted(void)
{
    *flushes = NULL;
    sending = 1;
    for (double begin = now_ms(); !handled && now_ms() - begin < 200;)
        pause_us(100);
    if (handled)
        wrong("a handler ran in the middle of a flush");
}

static void *sends_once(void *unused)
{
    flushes = moment_of("behind_flush");
    hold(conn);
    rounds++;
    *flushes = is_not_interrupted;
    poll(NULL, 0, 0);
    sending = 1; /* or it has left in another way */
    while (!stops)
        poll(NULL, 0, 1);
    return unused;
}

static void *installs(void *number)
{
    struct sigaction first = {.sa_handler = writes, .sa_flags = SA_RESTART};
    sigfillset(&first.sa_mask); /* they count in one place */
    sigaction(*(int *)number, &first, NULL);
    pthread_kill(sender, *(int *)number);
    return NULL;
}

static void two_handlers(void)
{
    int first = SIGUSR1, second = SIGUSR2;
    pthread_t other;
    alarm(4); /* and no handler: it ends us */
    conn = open_conn();
    pthread_create(&sender, NULL, sends_once, NULL);
    while (!sending)
        pause_us(100);
    pthread_create(&other, NULL, installs, &first);
    installs(&second);
    pthread_join(other, NULL);
    while (handled < 2)
        pause_us(100);
    stops = 1;
    pthread_join(sender, NULL);
    check_stream();
    close_conn(conn);
}

static const struct scenario scenarios[] = {
    {"first-handler", first_handler},
    {"two-handlers", two_handlers},
    {"by-nothing", by_nothing},
    {"by-sigaction", by_sigaction},
    {"by-signal", by_signal},
    {"by-bsd_signal", by_bsd_signal},
    {"by-sysv_signal", by_sysv_signal},
    {"by-sigset", by_sigset},
    {"by-cancel_type", by_cancel_type},
    {"by-number", by_number},
#if defined(__GLIBC__)
    {"by-libc_sigaction", by_libc_sigaction},
    {"by-weak_sysv_signal", by_weak_sysv_signal},
    {"by-ssignal", by_ssignal},
#endif
};

GATHER_MAIN(scenarios)
