/* SPDX-License-Identifier: MIT */
/* A process with many sockets or many threads, for a counter of instructions. The peers' data is
 * written and read by libc's functions directly, so that only the named work is pending.
 * Usage: bench_scale calls SOCKETS THREADS COUNT: each thread writes 100 * COUNT bytes to a
 *                                         its own connection, and makes a call that could wait
 *                                         after each, while SOCKETS more are open;
 *        bench_scale pipe|tcp|read|poll|select SOCKETS 1 COUNT: 100 * COUNT bytes are written to a
 *                                         pipe or to a connection, or read from a connection that
 *                                         writes nothing, or a pipe is asked for room as often;
 *        bench_scale ready SOCKETS: half of the sockets are accepted, and each has written and
 *                                         read a byte; says "ready", and ends when its standard
 *                                         input does. */
#include "bench.h"

/* The number of ports from which to connect to one address is limited. */
enum { BATCH = 100, TO_ONE_LISTENER = 10000 };

static ssize_t (*read_directly)(int, void *, size_t);
static ssize_t (*write_directly)(int, const void *, size_t);
static size_t count;

struct pair {
    int near, far;
    pthread_t thread;
};

static void open_sockets(size_t sockets)
{
    for (size_t i = 0; i < sockets; i++)
        if (socket(AF_INET, SOCK_STREAM, 0) < 0)
            die_errno("socket");
}

static struct pair *open_pairs(size_t pairs)
{
    struct sockaddr_in address;
    struct pair *made = calloc(pairs, sizeof(*made));
    int listener = -1;
    if (made == NULL)
        die("no memory");
    for (size_t i = 0; i < pairs; i++) {
        if (i % TO_ONE_LISTENER == 0) {
            close(listener);
            listener = loopback_listener(&address);
        }
        open_near_and_far(listener, &address, &made[i].near, &made[i].far);
    }
    close(listener);
    return made;
}

static void empty(int fd, size_t bytes)
{
    char taken[BATCH];
    while (bytes > 0) {
        ssize_t got = read_directly(fd, taken, bytes);
        if (got <= 0)
            die_errno("read");
        bytes -= (size_t)got;
    }
}

static void *write_batches(void *argument)
{
    const struct pair *pair = argument;
    for (size_t i = 0; i < count; i++) {
        for (int j = 0; j < BATCH; j++)
            if (write(pair->near, "x", 1) != 1 || poll(NULL, 0, 0) != 0)
                die_errno("write");
        empty(pair->far, BATCH);
    }
    return NULL;
}

static void run_threads(size_t threads)
{
    struct pair *pairs = open_pairs(threads);
    for (size_t i = 0; i < threads; i++)
        if (pthread_create(&pairs[i].thread, NULL, write_batches, &pairs[i]) != 0)
            die("pthread_create fails");
    for (size_t i = 0; i < threads; i++)
        pthread_join(pairs[i].thread, NULL);
}

/* Is there room in fd? */
static bool has_room(bool selects, int fd)
{
    fd_set writes;
    FD_ZERO(&writes);
    FD_SET(fd, &writes);
    struct pollfd room = {.fd = fd, .events = POLLOUT};
    return selects ? select(fd + 1, NULL, &writes, NULL, NULL) == 1 : poll(&room, 1, -1) == 1;
}

static void read_bytes(void)
{
    char byte, batch[BATCH] = {0};
    const struct pair *pair = open_pairs(1);
    for (size_t i = 0; i < count; i++) {
        if (write_directly(pair->near, batch, BATCH) != BATCH)
            die_errno("write");
        for (int j = 0; j < BATCH; j++)
            if (read(pair->far, &byte, 1) != 1)
                die_errno("read");
    }
}

/* Calls of one thread, with nothing pending. */
static void run_calls(const char *kind)
{
    int ends[2];
    bool selects = strcmp(kind, "select") == 0, asks = selects || strcmp(kind, "poll") == 0;
    if (pipe(ends) != 0)
        die_errno("pipe");
    struct pair pair = {.near = ends[1], .far = ends[0]};
    if (strcmp(kind, "tcp") == 0)
        pair = *open_pairs(1);
    for (size_t i = 0; i < count; i++) {
        for (int j = 0; j < BATCH; j++)
            if (asks ? !has_room(selects, pair.near) : write(pair.near, "x", 1) != 1)
                die_errno(kind);
        if (!asks)
            empty(pair.far, BATCH);
    }
}

static int be_ready(size_t sockets)
{
    allow_files(sockets + 10);
    struct pair *pairs = open_pairs(sockets / 2);
    char byte = 'x';
    for (size_t i = 0; i < sockets / 2; i++) {
        write_all(pairs[i].near, &byte, 1);
        read_all(pairs[i].far, &byte, 1);
        write_all(pairs[i].far, &byte, 1);
        read_all(pairs[i].near, &byte, 1);
    }
    puts("ready");
    fflush(stdout);
    return (int)read_some(STDIN_FILENO, &byte, 1);
}

int main(int argc, char **argv)
{
    size_t sockets, also;
    if (argc == 3 && strcmp(argv[1], "ready") == 0)
        return be_ready(parse_count(argv[2]));
    if (argc != 5)
        usage_error("needs calls|pipe|tcp|read|poll|select SOCKETS THREADS COUNT");
    sockets = parse_count(argv[2]);
    also = parse_count(argv[3]);
    count = parse_count(argv[4]);
    allow_files(sockets + 2 * also + 64);
    *(void **)&read_directly = libc_symbol("read");
    *(void **)&write_directly = libc_symbol("write");
    open_sockets(sockets);
    if (strcmp(argv[1], "calls") == 0)
        run_threads(also);
    else if (strcmp(argv[1], "read") == 0)
        read_bytes();
    else
        run_calls(argv[1]);
    return 0;
}
