/* SPDX-License-Identifier: MIT */
/* What is gathered in memory where it cannot leave at once, because the peer takes nothing and both
 * buffers are full, and where its descriptor begins a new life. */
#include "gather.h"

#include <linux/capability.h>
#include <pthread.h>

enum { SMALL = 8192, OUT_OF_THE_WAY = 128, PIECE = 97 };

static void wait_a_moment(void)
{
    poll(NULL, 0, 1);
}

/* Nothing is gathered after it, on connections of later either. */
static void stops_by(long number)
{
    struct conn conn = open_holding();
    EXPECT(syscall(number, 0, NULL) == -1);
    at_once(conn.peer, "ab");
    close_conn(conn);
    conn = open_conn();
    gathers_no_more(conn);
    close_conn(conn);
}

static void stops(void)
{
    stops_by(SYS_io_uring_setup);
}

static void stops_for_aio(void)
{
    stops_by(SYS_io_setup);
}

/* Nor on a descriptor by whose duplicate was written, however often what it holds leaves. */
static void duplicated(void)
{
    struct conn conn = open_holding();
    int copy = dup(conn.fd);
    EXPECT(write(copy, "c", 1) == 1);
    arrives(conn.peer, "abc");
    for (int i = 0; i < 3; i++) {
        gathers_no_more(conn);
        wait_a_moment();
    }
    close(copy);
    close_conn(conn);
}

/* A reset that nobody asked about is not told on the next connection of that number. */
static void new_life(void)
{
    struct linger none = {1, 0};
    struct conn conn = open_conn(), next;
    int error = -1;
    socklen_t len = sizeof error;
    raw(SYS_setsockopt, conn.peer, SOL_SOCKET, SO_LINGER, (long)&none, sizeof none, 0);
    hold(conn);
    RAW(close, conn.peer, 0, 0, 0);
    wait_a_moment();
    close(conn.fd);
    next = open_conn();
    EXPECT(next.fd == conn.fd);
    hold(next);
    EXPECT(getsockopt(next.fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0);
    arrives(next.peer, "ab");
    close_conn(next);
}

static int pipe_ends[2];

static void *splices(void *conn)
{
    if (splice(pipe_ends[0], NULL, ((struct conn *)conn)->fd, NULL, 4, 0) != 4)
        wrong("nothing was spliced");
    return NULL;
}

/* What was to leave together with what is spliced does not wait for the pipe. */
static void splice_waits(void)
{
    struct conn conn = open_holding();
    pthread_t thread;
    EXPECT(pipe2(pipe_ends, O_CLOEXEC) == 0);
    pthread_create(&thread, NULL, splices, &conn);
    arrives(conn.peer, "ab");
    RAW(write, pipe_ends[1], "pipe", 4, 0);
    pthread_join(thread, NULL);
    arrives(conn.peer, "pipe");
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    close_conn(conn);
}

static struct conn open_small(int flags, int size)
{
    struct conn conn = open_conn();
    int small = SMALL;
    setsockopt(conn.fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    raw(SYS_setsockopt, conn.peer, SOL_SOCKET, SO_RCVBUF, (long)&small, sizeof small, 0);
    fcntl(conn.fd, F_SETFL, flags);
    return conn;
}

/* One whose buffer nobody can make larger: it is as large as an ordinary process gets it. */
static struct conn open_largest(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct mine[2];
    EXPECT(RAW(capget, &header, mine, 0, 0) == 0);
    mine[0].effective &= ~(1u << CAP_NET_ADMIN);
    EXPECT(RAW(capset, &header, mine, 0, 0) == 0);
    return open_small(O_NONBLOCK, 1 << 30);
}

/* Until nothing moves any more; how many bytes were taken. */
static size_t fill(int fd)
{
    static const char piece[PIECE];
    size_t taken = 0, before;
    do {
        before = taken;
        for (ssize_t n; (n = write(fd, piece, sizeof piece)) > 0;)
            taken += (size_t)n;
        /* What is tried again may make room. */
        compute_ms(30 + from_environment("LIFE_DELAY_MS", 0));
    } while (taken != before);
    return taken;
}

/* What the peer has now, or why not. */
static long receive(int peer, size_t most)
{
    char data[4096];
    return raw(SYS_recvfrom, peer, (long)data, (long)(most < sizeof data ? most : sizeof data),
               MSG_DONTWAIT, 0, 0);
}

static size_t take(int peer, size_t most)
{
    long n = receive(peer, most);
    return n > 0 ? (size_t)n : 0;
}

/* So many arrive, and then the stream ends. */
static void take_all(int peer, size_t left)
{
    double begin = now_ms();
    while (left > 0 && look_again(begin, 3000))
        left -= take(peer, left);
    EXPECT(left == 0);
    ends(peer, 0);
    RAW(close, peer, 0, 0, 0);
}

struct pair {
    struct conn owing, full;
    size_t bytes;
};

static void *reads_late(void *pair)
{
    struct pair *both = pair;
    at_once(both->owing.peer, "ab");
    for (size_t got = 0; got < both->bytes; RAW(sched_yield, 0, 0, 0, 0))
        got += take(both->full.peer, both->bytes - got);
    return NULL;
}

/* A write that blocks is a wait, for other connections, too. */
static void blocks(void)
{
    static const char piece[PIECE];
    struct pair both = {open_conn(), open_small(0, SMALL), 1000 * sizeof piece};
    pthread_t thread;
    hold(both.owing);
    pthread_create(&thread, NULL, reads_late, &both);
    for (int i = 0; i < 1000; i++)
        EXPECT(write(both.full.fd, piece, sizeof piece) == sizeof piece);
    shutdown(both.full.fd, SHUT_WR);
    pthread_join(thread, NULL);
    close_conn(both.full);
    close_conn(both.owing);
}

static volatile sig_atomic_t pipes;

static void counts(int number)
{
    (void)number;
    pipes++;
}

/* The peer takes nothing before the close: its time in ms. */
static double close_full(struct conn conn, size_t *taken, struct linger linger)
{
    *taken = fill(conn.fd);
    setsockopt(conn.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    double begin = now_ms();
    close(conn.fd);
    return now_ms() - begin;
}

static void closes(void)
{
    size_t taken;
    struct conn conn = open_largest(), other;
    EXPECT(close_full(conn, &taken, (struct linger){0, 0}) < 1500);
    take_all(conn.peer, taken);
    /* It waits as long as it was asked to, and no longer. */
    conn = open_largest();
    double time = close_full(conn, &taken, (struct linger){1, 1});
    EXPECT(time > 900 && time < 1900);
    /* The rest leaves later, and nobody waits for that. */
    for (double begin = now_ms();
         RAW(fcntl, OUT_OF_THE_WAY, F_GETFD, 0, 0) >= 0 && look_again(begin, 2000); compute_ms(1))
        taken -= take(conn.peer, 500);
    other = open_holding();
    arrives(other.peer, "ab");
    close_conn(other);
    take_all(conn.peer, taken);
    /* What SO_LINGER throws away stays away. */
    conn = open_largest();
    EXPECT(close_full(conn, &taken, (struct linger){1, 0}) < 1500);
    long n;
    double begin = now_ms();
    do
        n = receive(conn.peer, taken);
    while (n > 0 || (n == -EAGAIN && look_again(begin, 2000)));
    EXPECT(n == -ECONNRESET);
    RAW(close, conn.peer, 0, 0, 0);
}

static void shuts(void)
{
    struct conn conn = open_largest();
    signal(SIGPIPE, counts);
    size_t taken = fill(conn.fd);
    EXPECT(shutdown(conn.fd, SHUT_WR) == 0);
    EXPECT(write(conn.fd, "x", 1) == -1 && errno == EPIPE && pipes == 1);
    take_all(conn.peer, taken);
    close(conn.fd);
}

/* The process ends before the peer takes anything. */
static void exits(void)
{
    struct sockaddr_in address;
    int small = SMALL, listener = raw_listener(0, &address);
    size_t *taken = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    raw(SYS_setsockopt, listener, SOL_SOCKET, SO_RCVBUF, (long)&small, sizeof small, 0);
    double begin = now_ms();
    pid_t pid = fork();
    if (pid == 0) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
        if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
            _exit(1);
        fcntl(fd, F_SETFL, O_NONBLOCK);
        *taken = fill(fd);
        exit(0);
    }
    int peer = (int)RAW(accept4, listener, 0, 0, SOCK_CLOEXEC);
    child_ended(pid, 0);
    EXPECT(now_ms() - begin < 1900);
    take_all(peer, *taken);
    RAW(close, listener, 0, 0, 0);
}

static const struct scenario scenarios[] = {
    {"stops", stops},           {"stops-for-aio", stops_for_aio},
    {"duplicated", duplicated}, {"new-life", new_life},
    {"blocks", blocks},         {"splice-waits", splice_waits},
    {"closes", closes},         {"shuts", shuts},
    {"exits", exits},
};

GATHER_MAIN(scenarios)
