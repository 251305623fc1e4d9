/* SPDX-License-Identifier: MIT */
/* Question and answer over one connection by io_uring, each message in one piece or in two.
 * Usage: uring_rounds client CONNECT WRITE READ PIECES [--warmup N] HOST PORT COUNT
 *        uring_rounds server ACCEPT WRITE READ PIECES PORT
 * CONNECT, ACCEPT, WRITE and READ are libc or ring; WRITE and READ may also both be "file": the
 * ring's requests for any file. A server serves one connection and ends. With URING_ENTER=syscall
 * in the environment the ring is made and entered by syscall() and not by liburing. */
#include "../../examples/common.h"

#include <arpa/inet.h>
#include <liburing.h>
#include <sys/syscall.h>

enum { MESSAGE = 15, FIRST_PIECE = 8 };

struct end {
    int fd;
    bool ring_writes, ring_reads, files, pieces;
};

static struct io_uring ring;
static bool by_number;

static void refuse(const char *what, int error)
{
    die("%s: %s", what, strerror(-error));
}

/* Makes the request that was prepared, waits for it, and returns its result. */
static int enter(void)
{
    struct io_uring_cqe *done = NULL;
    int result;

    if (by_number) {
        /* io_uring_submit's own work, without its system call */
        unsigned tail = *ring.sq.ktail, mask = *ring.sq.kring_mask, count = 0;
        for (; ring.sq.sqe_head != ring.sq.sqe_tail; count++)
            ring.sq.array[tail++ & mask] = ring.sq.sqe_head++ & mask;
        __atomic_store_n(ring.sq.ktail, tail, __ATOMIC_RELEASE);
        result = (int)syscall(SYS_io_uring_enter, ring.ring_fd, count, 1, IORING_ENTER_GETEVENTS,
                              NULL, 0);
        if (result < 0 || io_uring_peek_cqe(&ring, &done) < 0)
            die_errno("io_uring_enter");
    } else {
        if ((result = io_uring_submit_and_wait(&ring, 1)) < 0)
            refuse("io_uring_submit_and_wait", result);
        if ((result = io_uring_wait_cqe(&ring, &done)) < 0)
            refuse("io_uring_wait_cqe", result);
    }
    result = done->res;
    io_uring_cqe_seen(&ring, done);
    return result;
}

static void say_piece(const struct end *end, const char *text, size_t size)
{
    if (!end->ring_writes) {
        write_all(end->fd, text, size);
        return;
    }
    if (end->files)
        io_uring_prep_write(io_uring_get_sqe(&ring), end->fd, text, (unsigned)size, 0);
    else
        io_uring_prep_send(io_uring_get_sqe(&ring), end->fd, text, size, MSG_NOSIGNAL);
    if (enter() != (int)size)
        die("a send of the ring was short");
}

static void say(const struct end *end, size_t number)
{
    char text[32];

    snprintf(text, sizeof(text), "message %06zu\n", number % 1000000);
    if (end->pieces) {
        say_piece(end, text, FIRST_PIECE);
        say_piece(end, text + FIRST_PIECE, MESSAGE - FIRST_PIECE);
    } else {
        say_piece(end, text, MESSAGE);
    }
}

static bool hear(const struct end *end, size_t number)
{
    char text[32] = "", expected[32];

    if (!end->ring_reads && !read_all(end->fd, text, MESSAGE))
        return false;
    for (size_t got = 0; end->ring_reads && got < MESSAGE;) {
        int result;
        if (end->files)
            io_uring_prep_read(io_uring_get_sqe(&ring), end->fd, text + got,
                               (unsigned)(MESSAGE - got), 0);
        else
            io_uring_prep_recv(io_uring_get_sqe(&ring), end->fd, text + got, MESSAGE - got, 0);
        if ((result = enter()) < 0)
            refuse("recv", result);
        if (result == 0)
            return false;
        got += (size_t)result;
    }
    snprintf(expected, sizeof(expected), "message %06zu\n", number % 1000000);
    if (strcmp(text, expected) != 0)
        die("message %zu arrived as: %s", number, text);
    return true;
}

/* The program has not set TCP_NODELAY, and is not to see that the library has. Where a listener has
 * no limit of the ACK, the library cannot know that it was itself. */
static void check_nodelay(int fd)
{
    enum { DELACK_MAX_US = 46 };
    int value = 0, limit;
    socklen_t len = sizeof(value);

    if (getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &len) == 0 && value &&
        getsockopt(fd, IPPROTO_TCP, DELACK_MAX_US, &limit, &len) == 0)
        die("TCP_NODELAY is %d", value);
}

static void serve(struct end *end, bool ring_accepts, const char *port)
{
    struct socket_options none = {.sndbuf = -1};
    int listener = listen_on(parse_number(port, "PORT", 0, 65535), &none);

    if (ring_accepts) {
        io_uring_prep_accept(io_uring_get_sqe(&ring), listener, NULL, NULL, 0);
        if ((end->fd = enter()) < 0)
            refuse("accept", end->fd);
    } else {
        end->fd = accept_one(listener);
    }
    for (size_t number = 0; hear(end, number); number++)
        say(end, number);
    check_nodelay(end->fd);
}

/* The address is numeric. */
static int connect_by_ring(const char *host, const char *port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)parse_number(port, "PORT", 0, 65535))};
    int fd = socket(AF_INET, SOCK_STREAM, 0), result;

    inet_pton(AF_INET, host, &address.sin_addr);
    io_uring_prep_connect(io_uring_get_sqe(&ring), fd, (struct sockaddr *)&address,
                          sizeof(address));
    if ((result = enter()) < 0)
        refuse("connect", result);
    return fd;
}

static void ask(struct end *end, bool ring_connects, int argc, char **argv)
{
    static const struct option options[] = {ALL_OPTIONS, END_OF_OPTIONS};
    struct common common = COMMON_DEFAULTS;
    struct rounds rounds;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        common_option(option, &common, "Usage: see the source\n");
    if (argc - optind != 3)
        usage_error("needs HOST PORT COUNT");
    rounds_prepare(&rounds, parse_count(argv[optind + 2]), common.warmup);
    end->fd = ring_connects ? connect_by_ring(argv[optind], argv[optind + 1])
                            : connect_to(argv[optind], argv[optind + 1], &common.socket);
    while (rounds_left(&rounds)) {
        rounds_begin(&rounds, end->fd);
        say(end, rounds.seen);
        if (!hear(end, rounds.seen))
            die("the server closed the connection after %zu rounds", rounds.seen);
        rounds_end(&rounds);
    }
    check_nodelay(end->fd);
    print_rounds(&rounds, end->fd);
}

int main(int argc, char **argv)
{
    struct end end = {.fd = -1};
    const char *how = getenv("URING_ENTER");
    int error;

    if (argc < 6)
        usage_error("needs a role, CONNECT, WRITE, READ and PIECES");
    bool ring_connects = strcmp(argv[2], "ring") == 0;
    end.files = strcmp(argv[3], "file") == 0;
    end.ring_writes = strcmp(argv[3], "libc") != 0;
    end.ring_reads = strcmp(argv[4], "libc") != 0;
    end.pieces = strcmp(argv[5], "2") == 0;
    by_number = how != NULL && strcmp(how, "syscall") == 0;
    if (by_number) {
        struct io_uring_params params = {0};
        int fd = (int)syscall(SYS_io_uring_setup, 8, &params);
        error = fd < 0 ? -errno : io_uring_queue_mmap(fd, &params, &ring);
    } else {
        error = io_uring_queue_init(8, &ring, 0);
    }
    if (error < 0)
        refuse("no io_uring", error);
    if (strcmp(argv[1], "client") == 0)
        ask(&end, ring_connects, argc - 5, argv + 5);
    else
        serve(&end, ring_connects, argv[6]);
    return 0;
}
