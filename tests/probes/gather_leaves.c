/* SPDX-License-Identifier: MIT */
/* A connection is closed, or its process ends, while both the kernel's buffer and ours are full:
 * nothing is lost, and nobody waits longer than without the shim. */
#include "gather_full.h"

#include <pthread.h>
#include <sys/resource.h>

/* Nothing is lost, and the close does not wait. */
static void closes(void)
{
    struct rlimit files, few;
    getrlimit(RLIMIT_NOFILE, &files);
    for (int way = 0; way < 3; way++) {
        struct conn conn = open_small(O_NONBLOCK);
        fill(conn.fd);
        if (way == 1)
            EXPECT(shutdown(conn.fd, SHUT_WR) == 0);
        if (way == 1)
            EXPECT(send(conn.fd, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
        int lowest = (int)RAW(dup, 0, 0, 0, 0), highest = lowest > conn.peer ? lowest : conn.peer;
        few = (struct rlimit){(rlim_t)highest + 1, files.rlim_max};
        if (way == 2) /* no descriptor is left for the rest */
            setrlimit(RLIMIT_NOFILE, &few);
        double begin = now_ms();
        close(conn.fd);
        EXPECT(now_ms() - begin < 500);
        setrlimit(RLIMIT_NOFILE, &files);
        RAW(close, lowest, 0, 0, 0);
        take_all(conn.peer);
        ends(conn.peer, 0);
        RAW(close, conn.peer, 0, 0, 0);
    }
    compute_ms(30); /* the descriptors that the rests left by are closed by now */
}

static struct conn lingering(struct conn conn, int time)
{
    struct linger linger = {1, time};
    EXPECT(setsockopt(conn.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    fill_up(conn.fd);
    return conn;
}

/* A close with SO_LINGER waits as long as that says, whether the socket blocks or not. */
static void lingers(void)
{
    for (int way = 0; way < 3; way++) {
        struct conn conn = way == 2 ? open_largest(O_NONBLOCK) : open_small(O_NONBLOCK);
        lingering(conn, 1);
        if (way == 1)
            fcntl(conn.fd, F_SETFL, 0);
        double begin = now_ms();
        close(conn.fd);
        EXPECT(now_ms() - begin > 900);
        EXPECT(now_ms() - begin < 1900);
        take_all(conn.peer);
        ends(conn.peer, 0);
        RAW(close, conn.peer, 0, 0, 0);
    }
    /* No time at all: a reset, as the program asked. */
    struct conn conn = lingering(open_small(O_NONBLOCK), 0);
    double begin = now_ms();
    long n;
    close(conn.fd);
    EXPECT(now_ms() - begin < 500);
    do
        n = take(conn.peer, 4096);
    while (n > 0 || (n == -EAGAIN && look_again(begin, 2000)));
    EXPECT(n == -ECONNRESET);
    RAW(close, conn.peer, 0, 0, 0);
    /* A peer that does take is waited for, and no longer than it needs. */
    pthread_t reading;
    conn = lingering(open_small(O_NONBLOCK), 4);
    pthread_create(&reading, NULL, slow_reader, &conn.peer);
    begin = now_ms();
    close(conn.fd);
    EXPECT(now_ms() - begin < 3000);
    pthread_join(reading, NULL);
    EXPECT(expected_byte == next_byte);
    RAW(close, conn.peer, 0, 0, 0);
}

static void raises(void)
{
    raise(SIGTERM);
}

static void kills(void)
{
    kill(getpid(), SIGTERM);
}

static void exits_normally(void)
{
    exit(0);
}

static void becomes_true(void)
{
    execl("/bin/true", "true", (char *)NULL);
}

static void aborts(void)
{
    abort();
}

/* The process ends at once after a write that the kernel did not take. */
static void exits(void)
{
    static const struct {
        void (*go)(void);
        int status;
    } ways[] = {
        {exits_normally, 0}, {becomes_true, 0}, {raises, SIGTERM},
        {kills, SIGTERM},    {aborts, SIGABRT},
    };
    struct rlimit no_core = {0, 0};
    struct sockaddr_in address;
    int listener = raw_listener(0, &address);
    unsigned *sent = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    setrlimit(RLIMIT_CORE, &no_core);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        next_byte = expected_byte = 0;
        pid_t pid = fork();
        if (pid == 0) {
            int small = 8192, fd = socket(AF_INET, SOCK_STREAM, 0);
            setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
            if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
                _exit(1);
            fcntl(fd, F_SETFL, O_NONBLOCK);
            fill(fd);
            *sent = next_byte;
            ways[i].go();
        }
        int peer = (int)RAW(accept4, listener, 0, 0, SOCK_CLOEXEC);
        child_ended(pid, ways[i].status);
        next_byte = *sent;
        take_all(peer);
        ends(peer, 0);
        RAW(close, peer, 0, 0, 0);
    }
    RAW(close, listener, 0, 0, 0);
}

/* The peer takes nothing for longer than a fork waits for it: the rest is the parent's all the
 * same, and nobody else keeps the connection open. */
static void forks(void)
{
    int way[2];
    char byte;
    struct conn conn = open_largest(O_NONBLOCK);
    EXPECT(pipe2(way, O_CLOEXEC) == 0);
    fill(conn.fd);
    close(conn.fd);
    pid_t pid = fork();
    if (pid == 0) {
        close(way[1]);
        RAW(close, conn.peer, 0, 0, 0);
        _exit(read(way[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(way[0]);
    take_all(conn.peer);
    ends(conn.peer, 0);
    close(way[1]);
    child_ended(pid, 0);
    RAW(close, conn.peer, 0, 0, 0);
}

static const struct scenario scenarios[] = {
    {"closes", closes}, {"lingers", lingers}, {"exits", exits}, {"forks", forks}};

GATHER_MAIN(scenarios)
