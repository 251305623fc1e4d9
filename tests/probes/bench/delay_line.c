/* SPDX-License-Identifier: MIT */
/* A line between two network namespaces: a TUN device in the namespace in which it is started, and
 * another in its own. `nsenter --net=/proc/PID/ns/net` with this process's PID starts a program at
 * the far end. Packets keep their order. Either direction has
 *   DELAY_US  a delay
 *   -l        a loss, in percent
 *   -j        jitter: each packet takes up to so many microseconds longer
 *   -r        a bottleneck of so many kbit/s, and before it
 *   -q        a queue of so many bytes (16 000); packets that do not fit are dropped
 * On SIGUSR1 it prints how many packets, segments with data and pure ACKs have left each end. Exits
 * with 77 if there are no TUN devices; then a test is skipped. */
#include "system.h"

#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/sysmacros.h>

#define NEAR_ADDRESS "10.99.0.1"
#define FAR_ADDRESS "10.99.0.2"

enum {
    SLOTS = 32768, /* packets on their way in one direction; then the device's queue fills */
    ROOM = 1536,   /* bytes for a packet */
    TUN_MISSING = 77,
};

struct packet {
    int64_t due_ns;
    size_t size;
    char bytes[ROOM];
};

static struct {
    long delay_us, loss, jitter_us, kbit, queue;
} line = {.delay_us = -1, .queue = 16000};

static struct direction {
    int from, to;
    struct packet *packets; /* a ring */
    uint32_t first, end;
    int64_t idle_ns; /* when the bottleneck has sent what is in its queue */
    unsigned long seen, data, acks, dropped;
} both[2];

static volatile sig_atomic_t asked;

static void ask(int signal)
{
    (void)signal;
    asked = 1;
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* From 0 to most - 1. */
static int64_t chance(int64_t most)
{
    static uint64_t x;
    if (!x)
        x = (uint64_t)getpid() * UINT64_C(0x9e3779b97f4a7c15);
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return (int64_t)((x >> 20) % (uint64_t)most);
}

static void fail(const char *what, int status)
{
    fprintf(stderr, "delay_line: %s: %s\n", what, strerror(errno));
    exit(status);
}

/* Containers often have the driver but not its node in /dev. */
static int open_driver(void)
{
    char own[] = "/tmp/tun-XXXXXX", path[sizeof own + 4];
    int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    if (fd >= 0 || errno != ENOENT || mkdtemp(own) == NULL)
        return fd;
    snprintf(path, sizeof path, "%s/tun", own);
    if (mknod(path, S_IFCHR | 0600, makedev(10, 200)) == 0)
        fd = open(path, O_RDWR | O_CLOEXEC);
    unlink(path);
    rmdir(own);
    return fd;
}

/* Packets that the caller's network namespace sends to this device are read from the descriptor,
 * and packets written there arrive in the namespace. Its queue is long enough to lose nothing. */
static int make_device(const char *name, const char *own, const char *peer)
{
    struct ifreq device = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    char command[200];
    int fd = open_driver();
    if (fd < 0)
        fail("/dev/net/tun", TUN_MISSING);
    snprintf(device.ifr_name, sizeof device.ifr_name, "%s", name);
    if (ioctl(fd, TUNSETIFF, &device) != 0)
        fail("TUNSETIFF", errno == EBUSY ? 1 : TUN_MISSING);
    snprintf(command, sizeof command,
             "ip link set lo up && ip addr add %s peer %s dev %s && "
             "ip link set %s mtu 1500 txqueuelen 10000 up",
             own, peer, name, name);
    if (system(command) != 0 || fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
        fail(command, 1);
    return fd;
}

static void prepare(struct direction *direction, int from, int to)
{
    /* Only used pages take memory. */
    void *room = mmap(NULL, SLOTS * sizeof(struct packet), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        fail("mmap", 1);
    direction->from = from;
    direction->to = to;
    direction->packets = room;
}

static void count(struct direction *direction, const unsigned char *ip, size_t size)
{
    size_t header = (size_t)(ip[0] & 15) * 4, data;
    direction->seen++;
    if (ip[0] >> 4 != 4 || ip[9] != IPPROTO_TCP || size < header + 20)
        return;
    data = size - header - (size_t)(ip[header + 12] >> 4) * 4;
    if (data > 0)
        direction->data++;
    else if ((ip[header + 13] & 0x17) == 0x10) /* ACK, without SYN, FIN and RST */
        direction->acks++;
}

static void report(void)
{
    asked = 0;
    for (int i = 0; i < 2; i++)
        printf("%s packets %lu data %lu acks %lu dropped %lu\n", i ? "far" : "near", both[i].seen,
               both[i].data, both[i].acks, both[i].dropped);
    fflush(stdout);
}

static bool has_room(const struct direction *direction)
{
    return direction->end - direction->first < SLOTS;
}

/* When a packet of size bytes has passed the bottleneck; -1 if its queue is full. */
static int64_t pass(struct direction *direction, int64_t now, size_t size)
{
    int64_t begin = direction->idle_ns > now ? direction->idle_ns : now;
    if (!line.kbit)
        return now;
    if ((begin - now) * line.kbit / 8000000 + (int64_t)size > line.queue)
        return -1;
    direction->idle_ns = begin + (int64_t)size * 8000000 / line.kbit;
    return direction->idle_ns;
}

/* Takes a packet from the device. Returns whether there was one. */
static bool take(struct direction *direction)
{
    struct packet *packet = &direction->packets[direction->end % SLOTS];
    ssize_t size;
    int64_t due;
    if (!has_room(direction))
        return false;
    size = read(direction->from, packet->bytes, ROOM);
    if (size < 0 && errno != EAGAIN && errno != EINTR)
        fail("read", 1);
    if (size <= 0)
        return false;
    count(direction, (unsigned char *)packet->bytes, (size_t)size);
    due = pass(direction, now_ns(), (size_t)size);
    if (due < 0 || chance(100) < line.loss) {
        direction->dropped++;
        return true;
    }
    due += line.delay_us * 1000 + (line.jitter_us ? chance(line.jitter_us * 1000) : 0);
    if (direction->first != direction->end) {
        int64_t before = direction->packets[(direction->end - 1) % SLOTS].due_ns;
        due = due > before ? due : before;
    }
    packet->size = (size_t)size;
    packet->due_ns = due;
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

static int64_t next_due(void)
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
static void wait_for_work(void)
{
    struct pollfd polled[2];
    struct timespec timeout = {0}, *limit = NULL;
    int64_t due = next_due();
    if (due != INT64_MAX) {
        int64_t left = due - now_ns();
        if (left <= 0)
            return;
        timeout.tv_sec = (time_t)(left / 1000000000);
        timeout.tv_nsec = (long)(left % 1000000000);
        limit = &timeout;
    }
    for (int i = 0; i < 2; i++)
        polled[i] = (struct pollfd){.fd = both[i].from, .events = has_room(&both[i]) ? POLLIN : 0};
    if (ppoll(polled, 2, limit, NULL) < 0 && errno != EINTR)
        fail("ppoll", 1);
}

static void carry(void)
{
    for (;;) {
        for (int i = 0; i < 2; i++) {
            deliver(&both[i]);
            while (take(&both[i]))
                deliver(&both[1 - i]);
        }
        if (asked)
            report();
        wait_for_work();
    }
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

static bool read_options(int argc, char **argv)
{
    char *after = "";
    int option;
    while ((option = getopt(argc, argv, "l:j:r:q:")) != -1) {
        long *value = option == 'l'   ? &line.loss
                      : option == 'j' ? &line.jitter_us
                      : option == 'r' ? &line.kbit
                      : option == 'q' ? &line.queue
                                      : NULL;
        if (!value)
            return false;
        *value = strtol(optarg, &after, 10);
        if (*after != '\0' || *value < 0)
            return false;
    }
    if (optind + 1 == argc)
        line.delay_us = strtol(argv[optind], &after, 10);
    return line.delay_us >= 0 && *after == '\0';
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = ask};
    int near, far;
    if (!read_options(argc, argv)) {
        fprintf(stderr, "Usage: delay_line [-l PERCENT] [-j US] [-r KBIT] [-q BYTES] DELAY_US\n");
        return 2;
    }
    near = make_device("near", NEAR_ADDRESS, FAR_ADDRESS);
    if (unshare(CLONE_NEWNET) != 0)
        fail("a network namespace", TUN_MISSING);
    far = make_device("far", FAR_ADDRESS, NEAR_ADDRESS);
    prepare(&both[0], near, far);
    prepare(&both[1], far, near);
    be_punctual();
    stay_on_this_processor();
    sigaction(SIGUSR1, &action, NULL);
    printf("near %s far %s delay_us %ld\n", NEAR_ADDRESS, FAR_ADDRESS, line.delay_us);
    fflush(stdout);
    carry();
}
