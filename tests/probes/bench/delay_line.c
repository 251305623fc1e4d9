/* SPDX-License-Identifier: MIT */
/* A wire with a given delay: a TUN device in the namespace in which it is started, and another in
 * its own network namespace. Between them each packet takes DELAY_US either way, in order, and
 * without loss or with the given loss in percent. `nsenter --net=/proc/PID/ns/net` with this
 * process's PID starts a program at the far end. */
#include "tun.h"

#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>

#define NEAR_ADDRESS "10.99.0.1"
#define FAR_ADDRESS "10.99.0.2"

enum {
    SLOTS = 32768, /* packets on their way in one direction; then the device's queue fills */
    ROOM = 1536,   /* bytes for a packet */
};

struct packet {
    int64_t due_ns;
    size_t size;
    char bytes[ROOM];
};

struct direction {
    int from, to;
    struct packet *packets; /* a ring */
    uint32_t first, end;
    uint64_t chance; /* the state of the random generator, seeded with the process id */
    unsigned loss;   /* percent */
};

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static struct direction make_direction(int from, int to, unsigned loss)
{
    /* Only used pages take memory. */
    void *room = mmap(NULL, SLOTS * sizeof(struct packet), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (room == MAP_FAILED)
        tun_fail("mmap", 1);
    return (struct direction){
        .from = from,
        .to = to,
        .packets = room,
        .chance = (uint64_t)getpid() * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)from,
        .loss = loss,
    };
}

static bool has_room(const struct direction *direction)
{
    return direction->end - direction->first < SLOTS;
}

/* Does the wire lose this packet? */
static bool is_lost(struct direction *direction)
{
    uint64_t x = direction->chance;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    direction->chance = x;
    return (x >> 32) % 100 < direction->loss;
}

/* Takes a packet from the device. Returns whether there was one. */
static bool take(struct direction *direction, int64_t delay_ns)
{
    struct packet *packet = &direction->packets[direction->end % SLOTS];
    ssize_t size;
    if (!has_room(direction))
        return false;
    size = read(direction->from, packet->bytes, ROOM);
    if (size < 0 && errno != EAGAIN && errno != EINTR)
        tun_fail("read", 1);
    if (size <= 0)
        return false;
    if (is_lost(direction))
        return true;
    packet->size = (size_t)size;
    packet->due_ns = now_ns() + delay_ns;
    direction->end++;
    return true;
}

static void deliver(struct direction *direction)
{
    while (direction->first != direction->end) {
        const struct packet *packet = &direction->packets[direction->first % SLOTS];
        if (now_ns() < packet->due_ns)
            return;
        /* A write fails for packets of a protocol that is switched off at the interface. */
        if (write(direction->to, packet->bytes, packet->size) < 0 && errno == EAGAIN)
            return;
        direction->first++;
    }
}

static int64_t next_due(const struct direction *both)
{
    int64_t due = INT64_MAX;
    for (int i = 0; i < 2; i++) {
        const struct packet *first = &both[i].packets[both[i].first % SLOTS];
        if (both[i].first != both[i].end && first->due_ns < due)
            due = first->due_ns;
    }
    return due;
}

/* Waits until a packet comes or is due. */
static void wait_for_work(const struct direction *both)
{
    struct pollfd polled[2];
    struct timespec timeout = {0}, *limit = NULL;
    int64_t due = next_due(both);
    if (due != INT64_MAX) {
        int64_t left = due - now_ns();
        if (left <= 0)
            return;
        timeout.tv_sec = left / 1000000000;
        timeout.tv_nsec = left % 1000000000;
        limit = &timeout;
    }
    for (int i = 0; i < 2; i++)
        polled[i] = (struct pollfd){.fd = both[i].from, .events = has_room(&both[i]) ? POLLIN : 0};
    if (ppoll(polled, 2, limit, NULL) < 0 && errno != EINTR)
        tun_fail("ppoll", 1);
}

static void carry(struct direction *both, int64_t delay_ns)
{
    for (;;) {
        for (int i = 0; i < 2; i++) {
            deliver(&both[i]);
            while (take(&both[i], delay_ns))
                deliver(&both[1 - i]);
        }
        wait_for_work(both);
    }
}

static int open_far_end(void)
{
    int control, fd;
    if (unshare(CLONE_NEWNET) != 0)
        tun_fail("a network namespace", TUN_MISSING);
    fd = tun_create("far", FAR_ADDRESS, NEAR_ADDRESS);
    control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    tun_set_up(control, "lo");
    close(control);
    return fd;
}

/* Takes a real-time priority, so that other processes do not delay packets, if this is permitted.
 */
static void be_punctual(void)
{
    struct sched_param least = {.sched_priority = sched_get_priority_min(SCHED_FIFO)};
    sched_setscheduler(0, SCHED_FIFO, &least);
}

/* A packet is queued on the CPU on which it was written. The next one, written on another CPU,
 * could overtake it. */
static void stay_on_this_processor(void)
{
    int here = sched_getcpu();
    cpu_set_t one;
    CPU_ZERO(&one);
    if (here >= 0)
        CPU_SET((size_t)here, &one);
    sched_setaffinity(0, sizeof(one), &one);
}

int main(int argc, char **argv)
{
    struct direction both[2];
    char *after = NULL;
    long delay_us = argc == 2 || argc == 3 ? strtol(argv[1], &after, 10) : -1;
    long loss = 0;
    int near, far;
    if (argc == 3 && *after == '\0')
        loss = strtol(argv[2], &after, 10);
    if (delay_us < 0 || *after != '\0' || loss < 0 || loss > 100) {
        fprintf(stderr, "Usage: delay_line DELAY_US [LOSS_PERCENT]\n");
        return 2;
    }
    near = tun_create("near", NEAR_ADDRESS, FAR_ADDRESS);
    far = open_far_end();
    both[0] = make_direction(near, far, (unsigned)loss);
    both[1] = make_direction(far, near, (unsigned)loss);
    be_punctual();
    stay_on_this_processor();
    printf("near %s far %s delay_us %ld\n", NEAR_ADDRESS, FAR_ADDRESS, delay_us);
    fflush(stdout);
    carry(both, delay_us * 1000);
}
