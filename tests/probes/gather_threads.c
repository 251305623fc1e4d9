/* SPDX-License-Identifier: MIT */
/* Several writers on one connection, and signal handlers that write to the connection that they
 * interrupt or jump out of the write: every write arrives whole, once, and each writer's in order;
 * and nobody waits for ever. */
#include "gather.h"

#include <pthread.h>
#include <setjmp.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/uio.h>

enum { WRITERS = 4, RECORD = 16, PAGE = 4096 };

/* "<w nnnnnnnnn...>": who wrote it, and his how manieth. */
static void make_record(char *record, int writer, unsigned number)
{
    char text[RECORD + 1];
    snprintf(text, sizeof text, "<%d %011u>", writer, number);
    memcpy(record, text, RECORD);
}

static struct conn conn;
static unsigned written[WRITERS];
static volatile sig_atomic_t jumped; /* writes that a jump has left: they may be there or not */

static void *reader(void *unused)
{
    static char data[1 << 16];
    size_t have = 0;
    unsigned next[WRITERS] = {0}, missing = 0;
    (void)unused;
    for (;;) {
        long n =
            raw(SYS_recvfrom, conn.peer, (long)(data + have), (long)(sizeof data - have), 0, 0, 0);
        if (n <= 0)
            break;
        have += (size_t)n;
        size_t at = 0;
        for (; at + RECORD <= have; at += RECORD) {
            char expected[RECORD];
            int writer = data[at + 1] - '0';
            unsigned number = (unsigned)strtoul(data + at + 3, NULL, 10);
            if (data[at] != '<' || writer < 0 || writer >= WRITERS) {
                wrong("no record: %.16s", data + at);
                return NULL;
            }
            make_record(expected, writer, number);
            if (memcmp(expected, data + at, RECORD) != 0 || number < next[writer])
                wrong("writer %d: %.16s, not %u", writer, data + at, next[writer]);
            missing += number - next[writer];
            next[writer] = number + 1;
        }
        memmove(data, data + at, have -= at);
    }
    for (int i = 0; i < WRITERS; i++)
        missing += written[i] - next[i];
    if (have || missing > (unsigned)jumped)
        wrong("%zu bytes too many, %u records missing, %d left by a jump", have, missing, jumped);
    return NULL;
}

static void write_record(int writer)
{
    char record[RECORD];
    make_record(record, writer, written[writer]);
    written[writer]++;
    if (write(conn.fd, record, RECORD) != RECORD)
        wrong("a write of a whole record fails: %s", strerror(errno));
}

static void *writer_of(void *argument)
{
    int writer = *(int *)argument;
    for (int i = 0; i < 20000; i++) {
        write_record(writer);
        if (i % 37 == 0) {
            struct pollfd ready = {.fd = conn.fd, .events = POLLIN};
            poll(&ready, 1, 0);
        }
    }
    return NULL;
}

static void finish(pthread_t reading)
{
    close(conn.fd); /* the end of the stream, for the reader */
    pthread_join(reading, NULL);
    RAW(close, conn.peer, 0, 0, 0);
}

static void threads(void)
{
    pthread_t reading, writing[WRITERS];
    int numbers[WRITERS];
    conn = open_holding();
    arrives(conn.peer, "ab");
    pthread_create(&reading, NULL, reader, NULL);
    for (int i = 0; i < WRITERS; i++) {
        numbers[i] = i;
        pthread_create(&writing[i], NULL, writer_of, &numbers[i]);
    }
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writing[i], NULL);
    finish(reading);
}

static sigjmp_buf back;
static volatile sig_atomic_t may_jump, handled;

static void writes(int number)
{
    (void)number;
    int saved = errno;
    handled++;
    write_record(1);
    errno = saved;
}

static void jumps(int number)
{
    handled++;
    if (handled % 2)
        writes(number);
    if (may_jump) {
        jumped++;
        siglongjmp(back, 1);
    }
}

/* The main thread writes and computes; another storms it with signals, or a timer does. */
static pthread_t victim;
static volatile bool over;

static void *storm(void *unused)
{
    (void)unused;
    while (!over) {
        pthread_kill(victim, SIGUSR1);
        RAW(sched_yield, 0, 0, 0, 0);
    }
    return NULL;
}

/* Without memory the stack does not grow either. */
static void use_stack(void)
{
    volatile char deep[1 << 20];
    for (size_t i = 0; i < sizeof deep; i += PAGE)
        deep[i] = 1;
}

/* From now on nobody gets any memory, or, with RLIM_INFINITY, everybody does. */
static void limit_memory(rlim_t most)
{
    struct rlimit limit;
    if (most != RLIM_INFINITY)
        use_stack();
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = most;
    EXPECT(setrlimit(RLIMIT_AS, &limit) == 0);
}

static void make_small(struct conn of)
{
    int small = 4096;
    setsockopt(of.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    raw(SYS_setsockopt, of.peer, SOL_SOCKET, SO_RCVBUF, (long)&small, sizeof small, 0);
}

enum { ENOUGH = 100 }; /* signals, also on a busy machine */

static void under(void (*handler)(int), bool stormed, bool without_memory)
{
    pthread_t reading, storming;
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    sigset_t signals;
    conn = open_holding();
    arrives(conn.peer, "ab");
    if (stormed) /* and both buffers are full most of the time */
        make_small(conn);
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    pthread_create(&reading, NULL, reader, NULL);
    victim = pthread_self();
    over = false;
    if (stormed)
        pthread_create(&storming, NULL, storm, NULL);
    alarm(0);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
    if (!stormed)
        setitimer(ITIMER_REAL, &often, NULL);
    if (without_memory)
        limit_memory(1);
    double begin = now_ms();
    while (now_ms() - begin < (handled < ENOUGH ? 10000 : 1000)) {
        /* Signals come again only here: siglongjmp itself lets them in before it leaves the stack,
         * and a storm of them fills that. */
        sigsetjmp(back, 0);
        pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
        for (int i = 0; i < 10; i++) {
            may_jump = handler == jumps;
            write_record(0);
            may_jump = 0;
        }
        struct pollfd ready = {.fd = conn.fd, .events = POLLIN};
        poll(&ready, 1, 0);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    over = true;
    if (without_memory)
        limit_memory(RLIM_INFINITY);
    if (stormed)
        pthread_join(storming, NULL);
    signal(SIGUSR1, SIG_IGN);
    signal(SIGALRM, SIG_DFL);
    if (handled < ENOUGH)
        wrong("only %d signals", (int)handled);
    finish(reading);
}

static void timer_writes(void)
{
    under(writes, false, false);
}

static void storm_writes(void)
{
    under(writes, true, false);
}

static void timer_jumps(void)
{
    under(jumps, false, false);
}

static void storm_jumps(void)
{
    under(jumps, true, false);
}

static void storm_writes_without_memory(void)
{
    under(writes, true, true);
}

static void storm_jumps_without_memory(void)
{
    under(jumps, true, true);
}

/* A write of bytes that cannot be read yet: where they are gathered in memory, the fault stops it
 * in the middle. What happens then, happens in the handler; where the kernel copies, it answers
 * EFAULT, and the same happens after that. */
static char *unreadable;
static void (*meanwhile)(void);
static volatile bool jumps_away;

static void thaw(void)
{
    mprotect(unreadable, PAGE, PROT_READ | PROT_WRITE);
}

static void stopped(int number)
{
    (void)number;
    int saved = errno;
    meanwhile();
    thaw();
    errno = saved;
    if (jumps_away)
        siglongjmp(back, 1);
}

static void write_stopped(void (*happens)(void))
{
    char *text = unreadable - 2;
    struct iovec parts[2] = {{text, 2}, {unreadable, 2}};
    meanwhile = happens;
    memcpy(text, "A1A2", 4);
    mprotect(unreadable, PAGE, PROT_NONE);
    if (sigsetjmp(back, 1) != 0)
        return;
    ssize_t n = writev(conn.fd, parts, 2);
    if (n == -1 && errno == EFAULT) {
        meanwhile();
        thaw();
        if (jumps_away)
            return;
        n = writev(conn.fd, parts, 2);
    }
    EXPECT(n == 4);
}

static void *writes_b(void *unused)
{
    EXPECT(write(conn.fd, "<b>", 3) == 3);
    return unused;
}

/* The other thread must not wait for the one that waits for it. */
static void another_writes(void)
{
    pthread_t other;
    pthread_create(&other, NULL, writes_b, NULL);
    pthread_join(other, NULL);
}

static void same_writes(void)
{
    writes_b(NULL);
}

static void another_sends(void)
{
    int value;
    EXPECT(ioctl(conn.fd, SIOCOUTQ, &value) == 0); /* sends first */
    arrives(conn.peer, "ab");
}

static void deadline_sends(void)
{
    compute_ms(from_environment("LIFE_DELAY_MS", 0) + 1);
    arrives(conn.peer, "ab");
}

static void stops(void)
{
    static const struct {
        void (*happens)(void);
        const char *arrives;
        bool jumps;
    } ways[] = {
        {another_writes, "ab<b>A1A2", false}, {another_writes, "ab<b>", true},
        {same_writes, "ab<b>A1A2", false},    {same_writes, "ab<b>", true},
        {another_sends, "A1A2", false},       {deadline_sends, "A1A2", false},
    };
    struct sigaction action = {.sa_handler = stopped, .sa_flags = SA_NODEFER};
    char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unreadable = pages + PAGE;
    sigaction(SIGSEGV, &action, NULL);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        conn = open_holding();
        jumps_away = ways[i].jumps;
        write_stopped(ways[i].happens);
        arrives(conn.peer, ways[i].arrives);
        hold(conn); /* it goes on gathering */
        arrives(conn.peer, "ab");
        close_conn(conn);
    }
}

static const struct scenario scenarios[] = {
    {"threads", threads},
    {"timer-writes", timer_writes},
    {"storm-writes", storm_writes},
    {"timer-jumps", timer_jumps},
    {"storm-jumps", storm_jumps},
    {"stops", stops},
    {"storm-writes-without-memory", storm_writes_without_memory},
    {"storm-jumps-without-memory", storm_jumps_without_memory},
};

GATHER_MAIN(scenarios)
