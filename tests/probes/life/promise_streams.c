/* SPDX-License-Identifier: MIT */
/* A stream of stdio over a socket that is not yet connected, an option that the program sets by
 * syscall(), and a cancellation in a call that is not a cancellation point. See promise.h. */
#include "promise.h"

/* Each flush is a small write. */
SCENARIO("fdopen-first")
{
    struct sockaddr_in address;
    struct conn conn;
    int listener = raw_listener(0, &address);
    conn.fd = socket(AF_INET, SOCK_STREAM, 0);
    FILE *stream = fdopen(conn.fd, "r+");
    EXPECT(connect(conn.fd, (struct sockaddr *)&address, sizeof address) == 0);
    conn.peer = raw_accept(listener);
    for (int i = 0; i < 3; i++) {
        EXPECT(fputs("one ", stream) >= 0 && fflush(stream) == 0);
        EXPECT(fputs("two", stream) >= 0 && fflush(stream) == 0);
        at_once(conn.peer, "one two");
    }
    EXPECT(has_nodelay(conn.fd) == (getenv("LD_PRELOAD") != NULL));
    never_asked(conn.fd);
    fclose(stream);
    RAW(close, conn.peer, 0, 0, 0);
}

/* TCP_NODELAY stays on during a stream of writes. */
SCENARIO("own-option")
{
    struct conn conn = open_conversing();
    int on = 1, value = -1;
    socklen_t len = sizeof value;
    EXPECT(syscall(SYS_setsockopt, conn.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
    for (int i = 0; i < 10; i++)
        EXPECT(write(conn.fd, "x", 1) == 1);
    EXPECT(has_nodelay(conn.fd));
    EXPECT(getsockopt(conn.fd, IPPROTO_TCP, TCP_NODELAY, &value, &len) == 0 && value == 1);
    close_conn(conn);
}

static struct {
    struct conn owing;
    int to, file;
    volatile ssize_t sent;
} cancelled;

static void *sends_a_file(void *unused)
{
    owe(cancelled.owing);
    pthread_cancel(pthread_self());
    cancelled.sent = sendfile(cancelled.to, cancelled.file, NULL, 100);
    pthread_testcancel();
    return unused;
}

/* sendfile is not a cancellation point. */
SCENARIO("sendfile-cancelled")
{
    pthread_t thread;
    void *result = NULL;
    int pair[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    cancelled.owing = open_conversing();
    cancelled.to = pair[0];
    cancelled.file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    cancelled.sent = -1;
    pthread_create(&thread, NULL, sends_a_file, NULL);
    pthread_join(thread, &result);
    EXPECT(result == PTHREAD_CANCELED);
    if (cancelled.sent != 100)
        wrong("sendfile with a cancellation pending: %zd", cancelled.sent);
    close(cancelled.file);
    close(pair[0]);
    close(pair[1]);
    close_conn(cancelled.owing);
}

LIFE_MAIN
