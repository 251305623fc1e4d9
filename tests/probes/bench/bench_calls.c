/* SPDX-License-Identifier: MIT */
/* Measures the additional cost of a call with a preloaded library. The same call is made in short
 * batches, through the linked name and directly in libc, in random order, so that both have the
 * same conditions. Without a preloaded library the difference is the error of the method. Usage:
 * bench_calls pipe|tcp|poll BATCHES prints one line; bench_calls pipe|tcp|poll BATCHES --plain
 * makes the calls only, for a counter of instructions. */
#include "bench.h"

#include <poll.h>

enum { BATCH = 100 };

typedef ssize_t (*write_call)(int, const void *, size_t);
typedef int (*poll_call)(struct pollfd *, nfds_t, int);

static write_call write_directly;
static ssize_t (*read_directly)(int, void *, size_t);
static poll_call poll_directly;

/* The two ends of the pipe or connection. Data is read by libc's function directly, so that no ACK
 * is pending. */
static int near_end, far_end;

static void open_pipe(void)
{
    int ends[2];
    if (pipe(ends) != 0)
        die_errno("pipe");
    far_end = ends[0];
    near_end = ends[1];
}

static void open_tcp(void)
{
    struct sockaddr_in address;
    int listener = loopback_listener(&address);
    open_near_and_far(listener, &address, &near_end, &far_end);
    close(listener);
}

static void empty(void)
{
    char bytes[BATCH];
    for (size_t have = 0; have < BATCH;) {
        ssize_t got = read_directly(far_end, bytes, BATCH - have);
        if (got <= 0)
            die_errno("read");
        have += (size_t)got;
    }
}

static int64_t batch_of_writes(write_call call)
{
    int64_t begun = now_ns();
    for (int i = 0; i < BATCH; i++)
        if (call(near_end, "x", 1) != 1)
            die_errno("write");
    begun = now_ns() - begun;
    empty();
    return begun;
}

/* A wait that does not block: the pipe has room. */
static int64_t batch_of_polls(poll_call call)
{
    struct pollfd one = {.fd = near_end, .events = POLLOUT};
    int64_t begun = now_ns();
    for (int i = 0; i < BATCH; i++)
        if (call(&one, 1, -1) != 1)
            die_errno("poll");
    return now_ns() - begun;
}

static int64_t run_batch(bool polls, bool directly)
{
    if (polls)
        return batch_of_polls(directly ? poll_directly : poll);
    return batch_of_writes(directly ? write_directly : write);
}

static void compare(bool polls, size_t batches)
{
    int64_t *direct = numbers(batches), *through = numbers(batches), *added = numbers(batches);
    uint32_t state = 1;
    for (size_t i = 0; i < batches; i++) {
        bool first;
        state = state * 1664525u + 1013904223u;
        first = (state >> 16 & 1) != 0;
        for (int turn = 0; turn < 2; turn++) {
            bool directly = (turn == 0) == first;
            (directly ? direct : through)[i] = run_batch(polls, directly);
        }
        added[i] = through[i] - direct[i];
    }
    printf("added_ns %.2f direct_ns %.1f through_ns %.1f\n",
           (double)quantile(added, batches, 50) / BATCH,
           (double)quantile(direct, batches, 50) / BATCH,
           (double)quantile(through, batches, 50) / BATCH);
    free(direct);
    free(through);
    free(added);
}

int main(int argc, char **argv)
{
    size_t batches;
    bool polls;
    if (argc < 3)
        usage_error("needs pipe|tcp|poll BATCHES [--plain]");
    polls = strcmp(argv[1], "poll") == 0;
    batches = parse_count(argv[2]);
    *(void **)&write_directly = libc_symbol("write");
    *(void **)&read_directly = libc_symbol("read");
    *(void **)&poll_directly = libc_symbol("poll");
    if (strcmp(argv[1], "tcp") == 0)
        open_tcp();
    else
        open_pipe();
    if (argc == 3)
        compare(polls, batches);
    else
        for (size_t i = 0; i < batches; i++)
            run_batch(polls, false);
    return 0;
}
