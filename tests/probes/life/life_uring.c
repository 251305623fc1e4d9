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
