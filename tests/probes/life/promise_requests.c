/* SPDX-License-Identifier: MIT */
/* Connections that carry one request and one answer each, for strace: after the call of getppid
 * nothing but what they need. Usage: promise_requests client|client-to-eof PORT, promise_requests
 * server, which prints its port, or promise_requests peer-server|peer-client PORT, which makes bare
 * system calls only. */
#include "life.h"

enum { CONNECTIONS = 4, ANSWER = 1000 };

static char data[ANSWER];
static uint16_t port;

/* As a library or without one, to what serves with bare calls. */
static void client(bool to_eof)
{
    struct sockaddr_in address = loopback(htons(port));
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        EXPECT(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
        EXPECT(write(fd, "request", 7) == 7);
        EXPECT(read(fd, data, sizeof data) == ANSWER);
        if (to_eof) {
            struct pollfd end = {.fd = fd, .events = POLLRDHUP};
            RAW(ppoll, &end, 1, NULL, NULL); /* unseen: nobody is to wait below */
            EXPECT(read(fd, data, sizeof data) == 0);
        }
        close(fd);
    }
}

SCENE("client", client(false))
SCENE("client-to-eof", client(true))

static int listen_and_tell(void)
{
    struct sockaddr_in address;
    int fd = seen_listener(&address);
    printf("listening on port %d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

SCENARIO("server")
{
    int listener = listen_and_tell();
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = accept(listener, NULL, NULL);
        EXPECT(read(fd, data, sizeof data) == 7);
        EXPECT(write(fd, data, ANSWER) == ANSWER);
        close(fd);
    }
    close(listener);
}

SCENARIO("peer-server")
{
    struct sockaddr_in address;
    int listener = raw_listener(0, &address);
    printf("listening on port %d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        int fd = (int)RAW(accept4, listener, 0, 0, 0);
        raw(SYS_recvfrom, fd, (long)data, sizeof data, 0, 0, 0);
        raw(SYS_sendto, fd, (long)data, ANSWER, MSG_NOSIGNAL, 0, 0);
        RAW(close, fd, 0, 0, 0);
    }
}

SCENARIO("peer-client")
{
    struct sockaddr_in address = loopback(htons(port));
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = raw_client(&address);
        EXPECT(raw(SYS_sendto, fd, (long)"request", 7, 0, 0, 0) == 7);
        EXPECT(raw(SYS_recvfrom, fd, (long)data, ANSWER, MSG_WAITALL, 0, 0) == ANSWER);
        EXPECT(raw(SYS_recvfrom, fd, (long)data, ANSWER, 0, 0, 0) == 0);
        RAW(close, fd, 0, 0, 0);
    }
}

int main(int argc, char **argv)
{
    make_results();
    alarm(20);
    port = argc > 2 ? (uint16_t)atoi(argv[2]) : 0;
    RAW(getppid, 0, 0, 0, 0);
    if (argc < 2 || !run_scenario(argv[1], strlen(argv[1])))
        return 2;
    return results->wrong != 0;
}
