/* SPDX-License-Identifier: MIT */
/* Writes that have to wait for room while this thread owes an acknowledgement on another
 * connection: each is one call to the kernel, as the program made it. See promise.h. */
#include "promise.h"

#include <linux/errqueue.h>
#include <sys/ioctl.h>

enum {
    SENDS = 30,
    LARGE = 60000,
    SMALL = 4096,
};

static char *large;
static volatile sig_atomic_t stop, broken_pipes;
static size_t most_taken; /* of one read */

static int unacknowledged(int fd)
{
    int bytes = 0;
    RAW(ioctl, fd, SIOCOUTQ, &bytes, 0);
    return bytes;
}

/* Until there is something, and nothing moves any more. */
static void settle_down(int fd)
{
    double begin = now_ms();
    int before;
    do {
        before = unacknowledged(fd);
        compute_ms(50);
    } while ((before == 0 || unacknowledged(fd) != before) && look_again(begin, 3000));
}

static void *reads_on(void *peer)
{
    char *data = malloc(most_taken);
    while (raw(SYS_recvfrom, *(int *)peer, (long)data, (long)most_taken, 0, 0, 0) > 0)
        compute_ms(0.2);
    free(data);
    return NULL;
}

/* How many sends the kernel has told the end of, and the highest number of one. */
struct told {
    unsigned count;
    int highest;
};

static bool hear_of_one(int fd, struct told *told)
{
    char control[128];
    struct msghdr message = {.msg_control = control, .msg_controllen = sizeof control};
    if (raw(SYS_recvmsg, fd, (long)&message, MSG_ERRQUEUE | MSG_DONTWAIT, 0, 0, 0) < 0)
        return false;
    struct sock_extended_err error;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    EXPECT(header != NULL);
    if (!header)
        return false;
    memcpy(&error, CMSG_DATA(header), sizeof error);
    EXPECT(error.ee_origin == SO_EE_ORIGIN_ZEROCOPY);
    told->count += error.ee_data - error.ee_info + 1;
    if ((int)error.ee_data > told->highest)
        told->highest = (int)error.ee_data;
    return true;
}

/* A program reuses a buffer when the kernel has told the number of its send. */
static void zero_copy(void)
{
    struct conn conn = open_conversing(), owing = open_conn();
    struct told told = {0, -1};
    int on = 1, size = SMALL;
    pthread_t reader;
    most_taken = 20000;
    EXPECT(setsockopt(conn.fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on) == 0);
    EXPECT(setsockopt(conn.fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size) == 0);
    pthread_create(&reader, NULL, reads_on, &conn.peer);
    for (int i = 0; i < SENDS; i++) {
        owe(owing);
        EXPECT(send(conn.fd, large, LARGE, MSG_ZEROCOPY) == LARGE);
        while (hear_of_one(conn.fd, &told))
            ;
    }
    for (double begin = now_ms(); told.count < SENDS && look_again(begin, 2000);)
        hear_of_one(conn.fd, &told);
    while (hear_of_one(conn.fd, &told))
        ;
    if (told.count != SENDS || told.highest != SENDS - 1)
        wrong("%d sends, and %u told of, the last as %d", SENDS, told.count, told.highest);
    shutdown(conn.fd, SHUT_WR);
    pthread_join(reader, NULL);
    close_conn(owing);
    close_conn(conn);
}

static void on_signal(int number)
{
    if (number == SIGPIPE)
        broken_pipes++;
    else
        stop = 1;
}

static void handle(int number)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(number, &action, NULL);
}

typedef ssize_t writes(int fd, const char *data, size_t size);

static ssize_t by_write(int fd, const char *data, size_t size)
{
    return write(fd, data, size);
}

static ssize_t by_send(int fd, const char *data, size_t size)
{
    return send(fd, data, size, 0);
}

static struct {
    int fd;
    pid_t thread;
    volatile bool over;
} writer;

/* Tells the writer to stop once it has no room any more: again, in case it was not yet waiting. */
static void *tells_to_stop(void *unused)
{
    settle_down(writer.fd);
    while (!writer.over) {
        RAW(tgkill, getpid(), writer.thread, SIGUSR1, 0);
        compute_ms(50);
    }
    return unused;
}

/* Nobody reads, and a signal ends it. */
static void until_stopped(writes *call)
{
    struct conn conn = open_conversing(), owing = open_conn();
    pthread_t other;
    ssize_t n = 0;
    handle(SIGUSR1);
    stop = 0;
    writer.fd = conn.fd;
    writer.thread = gettid();
    writer.over = false;
    pthread_create(&other, NULL, tells_to_stop, NULL);
    while (!stop) {
        owe(owing);
        n = call(conn.fd, large, LARGE);
    }
    EXPECT(n > 0 && n < LARGE);
    writer.over = true;
    pthread_join(other, NULL);
    close_conn(owing);
    close_conn(conn);
}

static void interrupted(void)
{
    until_stopped(by_write);
    until_stopped(by_send);
}

/* Reads nothing, and goes once the writer has no room any more. */
static void *resets(void *peer_and_writer)
{
    const struct conn *conn = peer_and_writer;
    struct linger at_once_gone = {1, 0};
    settle_down(conn->fd);
    raw(SYS_setsockopt, conn->peer, SOL_SOCKET, SO_LINGER, (long)&at_once_gone, sizeof at_once_gone,
        0);
    RAW(close, conn->peer, 0, 0, 0);
    return NULL;
}

static void is_told_of_the_reset(writes *call)
{
    struct conn conn = open_conversing(), owing = open_conn();
    pthread_t peer;
    handle(SIGPIPE);
    broken_pipes = 0;
    pthread_create(&peer, NULL, resets, &conn);
    ssize_t n;
    do {
        owe(owing);
        n = call(conn.fd, large, LARGE);
    } while (n == LARGE);
    EXPECT(n > 0);
    n = call(conn.fd, large, 1);
    if (n != -1 || errno != ECONNRESET || broken_pipes)
        wrong("%zd with errno %d and %d SIGPIPE after a reset", n, errno, broken_pipes);
    EXPECT(call(conn.fd, large, 1) == -1 && errno == EPIPE && broken_pipes == 1);
    pthread_join(peer, NULL);
    close(conn.fd);
    close_conn(owing);
}

static void reset(void)
{
    is_told_of_the_reset(by_write);
    is_told_of_the_reset(by_send);
}

static const struct scenario scenarios[] = {
    {"zero-copy", zero_copy},
    {"interrupted", interrupted},
    {"reset", reset},
};

int main(int argc, char **argv)
{
    large = calloc(1, LARGE);
    return life_main(argc, argv, scenarios, sizeof scenarios / sizeof *scenarios);
}
