/* SPDX-License-Identifier: MIT */
/* Question and answer over one connection by io_uring, each message in one piece or in two.
 * Usage: uring_rounds client CONNECT WRITE READ PIECES [--warmup N] HOST PORT COUNT
 *        uring_rounds server ACCEPT WRITE READ PIECES PORT
 * CONNECT, ACCEPT, WRITE and READ are libc or ring; WRITE and READ may also both be "file": the
 * ring's requests for any file. A server serves one connection and ends. With URING_ENTER=syscall
 * in the environment the ring is made and entered by syscall() and not by liburing. */
#include "rounds.h"

#include <liburing.h>

static int connection;
static bool ring_connects, ring_writes, ring_reads, files;
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

static void say_piece(const char *text, size_t size)
{
    if (!ring_writes) {
        write_all(connection, text, size);
        return;
    }
    if (files)
        io_uring_prep_write(io_uring_get_sqe(&ring), connection, text, (unsigned)size, 0);
    else
        io_uring_prep_send(io_uring_get_sqe(&ring), connection, text, size, MSG_NOSIGNAL);
    if (enter() != (int)size)
        die("a send of the ring was short");
}

static bool hear_text(char *text)
{
    if (!ring_reads && !read_all(connection, text, MESSAGE))
        return false;
    for (size_t got = 0; ring_reads && got < MESSAGE;) {
        int result;
        if (files)
            io_uring_prep_read(io_uring_get_sqe(&ring), connection, text + got,
                               (unsigned)(MESSAGE - got), 0);
        else
            io_uring_prep_recv(io_uring_get_sqe(&ring), connection, text + got, MESSAGE - got, 0);
        if ((result = enter()) < 0)
            refuse("recv", result);
        if (result == 0)
            return false;
        got += (size_t)result;
    }
    return true;
}

static void accept_at(const char *port)
{
    int listener = listen_at(port);
    if (ring_connects) {
        io_uring_prep_accept(io_uring_get_sqe(&ring), listener, NULL, NULL, 0);
        if ((connection = enter()) < 0)
            refuse("accept", connection);
    } else {
        connection = accept_one(listener);
    }
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

static int client_begins(const char *host, const char *port, const struct socket_options *options)
{
    connection = ring_connects ? connect_by_ring(host, port) : connect_to(host, port, options);
    return connection;
}

int main(int argc, char **argv)
{
    const char *how = getenv("URING_ENTER");
    int error;
    if (argc < 6)
        usage_error("needs a role, CONNECT, WRITE, READ and PIECES");
    ring_connects = strcmp(argv[2], "ring") == 0;
    files = strcmp(argv[3], "file") == 0;
    ring_writes = strcmp(argv[3], "libc") != 0;
    ring_reads = strcmp(argv[4], "libc") != 0;
    in_pieces = strcmp(argv[5], "2") == 0;
    by_number = how != NULL && strcmp(how, "syscall") == 0;
    if (by_number) {
        struct io_uring_params params = {0};
        int fd = (int)syscall(SYS_io_uring_setup, 8, &params);
        error = fd < 0 ? -errno : io_uring_queue_mmap(fd, &params, &ring);
        ring.ring_fd = fd; /* liburing 2.9 leaves it at 0 */
    } else {
        error = io_uring_queue_init(8, &ring, 0);
    }
    if (error < 0)
        refuse("no io_uring", error);
    if (strcmp(argv[1], "client") == 0) {
        ask(argc - 5, argv + 5);
    } else {
        accept_at(argv[6]);
        serve();
    }
    return 0;
}
