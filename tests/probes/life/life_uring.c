/* SPDX-License-Identifier: MIT */
/* io_uring on sockets that the program also uses by ordinary calls: the rings are entered by raw
 * system calls, which no preloaded library sees. Without an argument: exits with 4 if io_uring is
 * not permitted. See life.h. */
#include "life.h"

#include <liburing.h>

static struct io_uring ring;

/* Makes one request, waits for it, and returns its result. */
static int enter(void)
{
    struct io_uring_cqe *done = NULL;
    int result = io_uring_submit_and_wait(&ring, 1);
    if (result < 0 || io_uring_wait_cqe(&ring, &done) < 0)
        return result;
    result = done->res;
    io_uring_cqe_seen(&ring, done);
    return result;
}

static void ring_sends(int fd, const char *text)
{
    io_uring_prep_send(io_uring_get_sqe(&ring), fd, text, strlen(text), MSG_NOSIGNAL);
    EXPECT(enter() == (int)strlen(text));
}

/* Writes and the ring's sends alternate, before, within and after held bursts. */
SCENARIO("sends")
{
    struct conn conn = open_conn();
    for (int i = 0; i < 5; i++) {
        put(conn.fd, "one ");
        put(conn.fd, "two ");
        ring_sends(conn.fd, "three ");
        put(conn.fd, "four ");
        ring_sends(conn.fd, "five ");
        put(conn.fd, "six");
        arrives(conn.peer, "one two three four five six");
    }
    still_governed(conn);
    put(conn.fd, "last ");
    ring_sends(conn.fd, "words");
    close(conn.fd);
    at_once(conn.peer, "last words");
    ends(conn.peer, 0);
}

/* The ring receives a part of the answer, and a read receives the rest. */
SCENARIO("receives")
{
    struct conn conn = open_conn();
    char data[16] = "", rest[8]; /* valgrind does not see that the ring fills it */
    for (int i = 0; i < 5; i++) {
        struct io_uring_cqe *done = NULL;
        put(conn.fd, "held ");
        put(conn.fd, "request");
        io_uring_prep_recv(io_uring_get_sqe(&ring), conn.fd, data, 7, MSG_WAITALL);
        EXPECT(io_uring_submit(&ring) == 1);
        arrives(conn.peer, "held request");
        answer(conn.peer, "answer and more");
        EXPECT(io_uring_wait_cqe(&ring, &done) == 0 && done->res == 7 &&
               memcmp(data, "answer ", 7) == 0);
        io_uring_cqe_seen(&ring, done);
        EXPECT(read(conn.fd, rest, sizeof rest) == 8 && memcmp(rest, "and more", 8) == 0);
    }
    still_governed(conn);
    put(conn.fd, "to be reset");
    struct linger none = {1, 0};
    raw(SYS_setsockopt, conn.peer, SOL_SOCKET, SO_LINGER, (long)&none, sizeof none, 0);
    RAW(close, conn.peer, 0, 0, 0);
    io_uring_prep_recv(io_uring_get_sqe(&ring), conn.fd, data, 1, 0);
    EXPECT(enter() == -ECONNRESET);
    EXPECT(send(conn.fd, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    close(conn.fd);
}

/* The ring closes a connection, and a UDP socket takes its number: its datagrams stay apart. */
SCENARIO("becomes-udp")
{
    struct conn conn = open_conn();
    int receiver;
    put(conn.fd, "tcp");
    io_uring_prep_close(io_uring_get_sqe(&ring), conn.fd);
    EXPECT(enter() == 0);
    at_once(conn.peer, "tcp");
    poll(NULL, 0,
         0); /* the burst is over: inside a burst the library could not notice the replacement */
    int sender = raw_udp(&receiver);
    if (sender != conn.fd) {
        EXPECT(RAW(dup3, sender, conn.fd, O_CLOEXEC, 0) == conn.fd);
        RAW(close, sender, 0, 0, 0);
    }
    for (int i = 0; i < 3; i++) {
        EXPECT(write(conn.fd, "one", 3) == 3);
        EXPECT(write(conn.fd, "two", 3) == 3);
        ring_sends(conn.fd, "three");
        datagram(receiver, "one");
        datagram(receiver, "two");
        datagram(receiver, "three");
    }
    RAW(close, receiver, 0, 0, 0);
    close_conn(conn);
}

int main(int argc, char **argv)
{
    int error = io_uring_queue_init(8, &ring, 0);
    if (error < 0) {
        fprintf(stderr, "no io_uring: %s\n", strerror(-error));
        return 4;
    }
    if (argc < 2)
        return 0;
    int result = life_main(argc, argv);
    io_uring_queue_exit(&ring);
    return result;
}
