/* SPDX-License-Identifier: MIT */
/* The connections of stress.c. It has both ends of each, which may have several descriptors, and a
 * stream of known bytes in each direction. A writer at an end holds its lock for writing, a reader
 * its lock for reading, and a thread that changes its descriptors both. Locks are only tried, never
 * waited for, so their order does not matter. */
#pragma once

#include "raw.h"
#include "rights.h"

#include <netinet/tcp.h>

enum {
    THREADS = 64,
    LINKS_MOST = 4096,
    COPIES = 4,         /* descriptors of one end */
    PERIOD = 64 * 1024, /* of every stream's bytes */
    UNREAD_MOST = 8192, /* low enough that the kernel's buffers never block a write */
    PIECE_MOST = 4096,
};

struct end {
    pthread_mutex_t writing, reading;
    int fds[COPIES];
    int count;
    bool nonblock;
    /* The stream that this end writes. */
    unsigned base;
    _Atomic uint64_t sent; /* counted when the write has returned */
    /* The other end's stream, which this end reads. */
    uint64_t got;
};

struct link {
    struct end ends[2];
};

struct worker {
    pthread_t thread;
    uint64_t seed;
    struct sockaddr_in address; /* its own listener's, so that it accepts its own connections */
    int listener;
    int pair[2];    /* a way to pass descriptors to itself */
    bool impatient; /* its last read may fail with EAGAIN */
    _Atomic uint64_t began;
    _Atomic unsigned doing; /* as work() draws it */
    uint64_t writes, reads, bytes, forks, opens;
};

static struct link links[LINKS_MOST];
static struct worker workers[THREADS];
static unsigned links_count = 1000;
static unsigned char pattern[2 * PERIOD];
static int pattern_fd; /* the same as a file */
static bool judges_holding;
static _Atomic int wrong_count, late_count;

/* Only the first errors are printed. */
#define WRONG(...)                                                                                 \
    do {                                                                                           \
        if (atomic_fetch_add(&wrong_count, 1) < 20)                                                \
            RAW_SAY("wrong: " __VA_ARGS__);                                                        \
    } while (0)
#define LATE(...)                                                                                  \
    do {                                                                                           \
        if (atomic_fetch_add(&late_count, 1) < 20)                                                 \
            RAW_SAY("late: " __VA_ARGS__);                                                         \
    } while (0)

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static unsigned below(struct worker *w, unsigned n)
{
    w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(w->seed >> 33) % n;
}

static int copy_of(struct worker *w, const struct end *end)
{
    return end->fds[below(w, (unsigned)end->count)];
}

static void raw_sleep(long ns)
{
    struct timespec left = {.tv_nsec = ns};
    while (RAW(nanosleep, &left, &left, 0, 0) == -EINTR)
        ;
}
