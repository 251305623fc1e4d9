/* SPDX-License-Identifier: MIT */
/* Programs that do not use TCP, and a TCP client. The scenarios begin after a call of getppid,
 * which nothing else here makes, so that a trace of system calls shows the end of start-up. */
#include "life.h"

static void *reads_pipe(void *ends_of_pipe)
{
    char data[8];
    while (read(*(int *)ends_of_pipe, data, sizeof data) > 0)
        ;
    return NULL;
}

SCENARIO_NAMED(pipes, "pipes")
{
    int way[2];
    char data[8];
    EXPECT(pipe2(way, 0) == 0);
    for (int i = 0; i < 20; i++) {
        struct pollfd ready = {.fd = way[0], .events = POLLIN};
        EXPECT(write(way[1], "pipe", 4) == 4);
        EXPECT(poll(&ready, 1, -1) == 1);
        EXPECT(read(way[0], data, sizeof data) == 4);
    }
    close(way[1]);
    close(way[0]);
}

static int ends_at_once(void *unused)
{
    (void)unused;
    return 0;
}

static int becomes_sleep(void *unused)
{
    char *arguments[] = {"sleep", "60", NULL}, *environment[] = {NULL};
    (void)unused;
    return execve("/bin/sleep", arguments, environment);
}

static int stays(void *unused)
{
    (void)unused;
    pause();
    return 0;
}

/* Makes and closes descriptors after children that have shared the memory. */
static void after_child(int (*child)(void *), bool waits)
{
    static char stack[256 * 1024];
    char byte;
    int way[2];
    EXPECT(pipe2(way, O_CLOEXEC) == 0);
    pid_t pid = clone(child, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
    EXPECT(pid > 0);
    RAW(close, way[1], 0, 0, 0);
    if (waits) /* the pipe ends with the child, or with its exec */
        EXPECT(RAW(read, way[0], &byte, 1, 0) == 0);
    RAW(getpgid, 0, 0, 0, 0);
    pipes();
    RAW(kill, pid, SIGKILL, 0, 0);
    RAW(wait4, pid, NULL, 0, 0);
}

SCENE("after-end", after_child(ends_at_once, true))
SCENE("after-exec", after_child(becomes_sleep, true))
SCENE("beside-child", after_child(stays, false))

SCENARIO("threads")
{
    int way[2];
    pthread_t thread;
    EXPECT(pipe2(way, 0) == 0);
    close(way[1]);
    pthread_create(&thread, NULL, reads_pipe, way);
    pthread_join(thread, NULL);
    close(way[0]);
}

SCENARIO("datagrams")
{
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof address;
    char data[8];
    int to = socket(AF_INET, SOCK_DGRAM, 0), from = socket(AF_INET, SOCK_DGRAM, 0), one = 1;
    EXPECT(bind(to, (struct sockaddr *)&address, len) == 0);
    EXPECT(getsockname(to, (struct sockaddr *)&address, &len) == 0);
    EXPECT(connect(from, (struct sockaddr *)&address, len) == 0);
    setsockopt(from, SOL_SOCKET, SO_BROADCAST, &one, sizeof one);
    for (int i = 0; i < 20; i++) {
        EXPECT(send(from, "udp", 3, 0) == 3);
        EXPECT(recv(to, data, sizeof data, 0) == 3);
    }
    close(dup(from));
    close(from);
    close(to);
}

SCENARIO("unix")
{
    int way[2];
    char data[8];
    struct epoll_event event = {.events = EPOLLIN};
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, way) == 0);
    int epoll = epoll_create1(0);
    EXPECT(epoll_ctl(epoll, EPOLL_CTL_ADD, way[0], &event) == 0);
    for (int i = 0; i < 20; i++) {
        EXPECT(write(way[1], "unix", 4) == 4);
        EXPECT(epoll_wait(epoll, &event, 1, -1) == 1);
        EXPECT(read(way[0], data, sizeof data) == 4);
    }
    close(epoll);
    close(way[0]);
    close(way[1]);
}

/* Ten requests in one piece, each answered before it is read, on each of two connections. */
SCENARIO("requests")
{
    char data[8];
    for (int connection = 0; connection < 2; connection++) {
        struct conn conn = open_conn();
        for (int i = 0; i < 10; i++) {
            EXPECT(write(conn.fd, "ask", 3) == 3);
            answer(conn.peer, "told");
            EXPECT(read(conn.fd, data, 4) == 4);
        }
        close_conn(conn);
    }
}

/* A server, and then a pipe that gets a connection's number. */
SCENARIO("serves")
{
    struct sockaddr_in address;
    char data[8];
    int listener = seen_listener(&address), way[2];
    for (int i = 0; i < 3; i++) {
        int client = raw_client(&address);
        int fd = accept(listener, NULL, NULL);
        answer(client, "ask");
        EXPECT(read(fd, data, sizeof data) == 3);
        EXPECT(write(fd, "told", 4) == 4);
        RAW(close, client, 0, 0, 0);
        close(fd);
    }
    int spare =
        dup(1); /* so that the pipe's reading end has the number of the accepted connection */
    EXPECT(pipe2(way, 0) == 0);
    for (int i = 0; i < 3; i++) {
        EXPECT(write(way[1], "pipe", 4) == 4);
        EXPECT(read(way[0], data, sizeof data) == 4);
    }
    close(way[0]);
    close(way[1]);
    close(spare);
    close(listener);
}

/* A connection for each request. */
static void one_shots(bool to_eof)
{
    for (int i = 0; i < 4; i++) {
        struct conn conn = open_conn();
        char data[8];
        EXPECT(write(conn.fd, "request", 7) == 7);
        answer(conn.peer, "answer");
        EXPECT(read(conn.fd, data, sizeof data) == 6);
        if (to_eof) {
            struct pollfd end = {.fd = conn.fd, .events = POLLRDHUP};
            RAW(shutdown, conn.peer, SHUT_WR, 0, 0);
            RAW(ppoll, &end, 1, NULL, NULL); /* unseen, so that no later call waits */
            EXPECT(read(conn.fd, data, sizeof data) == 0);
        }
        close_conn(conn);
    }
}

SCENE("one-shots", one_shots(false))
SCENE("one-shots-to-eof", one_shots(true))

int main(int argc, char **argv)
{
    make_results();
    RAW(getppid, 0, 0, 0, 0);
    if (argc < 2 || !run_scenario(argv[1], strlen(argv[1])))
        return 2;
    return results->wrong != 0;
}
