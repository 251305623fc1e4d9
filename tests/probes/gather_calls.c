/* SPDX-License-Identifier: MIT */
/* Each call that has to send what is gathered: two small writes, the call, and the bytes are at the
 * peer. */
#include "gather.h"

#include <linux/errqueue.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

static struct timespec moment = {.tv_nsec = 1000000};

static void sends_bytes(void)
{
    char large[20000], got[20000], control[CMSG_SPACE(sizeof(int))] = {0};
    struct conn conn = open_holding();
    memset(large, 'x', sizeof large);
    EXPECT(write(conn.fd, large, sizeof large) == sizeof large); /* over the rest of the buffer */
    at_once(conn.peer, "abxxxx");
    for (size_t n = 6; n < sizeof large + 2;) {
        long more = raw(SYS_recvfrom, conn.peer, (long)got, sizeof got, 0, 0, 0);
        n += more > 0 ? (size_t)more : sizeof large;
    }
    hold(conn);
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    EXPECT(sendfile(conn.fd, file, NULL, 4) == 4);
    close(file);
    at_once(conn.peer, "ab\177ELF");
    hold(conn);
    struct iovec one = {large, 2};
    struct msghdr message = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){
        .cmsg_level = IPPROTO_IP, .cmsg_type = IP_TTL, .cmsg_len = CMSG_LEN(sizeof(int))};
    EXPECT(sendmsg(conn.fd, &message, 0) == 2);
    at_once(conn.peer, "abxx");
    hold(conn);
    struct mmsghdr many[2] = {{.msg_hdr = {.msg_iov = &one, .msg_iovlen = 1}},
                              {.msg_hdr = {.msg_iov = &one, .msg_iovlen = 1}}};
    EXPECT(sendmmsg(conn.fd, many, 2, 0) == 2);
    at_once(conn.peer, "abxxxx");
    hold(conn);
    int ends_of[2];
    EXPECT(pipe(ends_of) == 0 && write(ends_of[1], "pipe", 4) == 4);
    EXPECT(splice(ends_of[0], NULL, conn.fd, NULL, 4, 0) == 4);
    close(ends_of[0]);
    close(ends_of[1]);
    at_once(conn.peer, "abpipe");
    hold(conn);
    EXPECT(send(conn.fd, "end", 3, MSG_EOR) == 3);
    at_once(conn.peer, "abend");
    hold(conn);
    EXPECT(send(conn.fd, "copied", 6, MSG_ZEROCOPY) == 6);
    at_once(conn.peer, "abcopied");
    hold(conn);
    EXPECT(send(conn.fd, "m", 1, MSG_MORE) == 1);
    at_once(conn.peer, "ab");
    EXPECT(send(conn.fd, "n", 1, 0) == 1);
    at_once(conn.peer, "mn");
    hold(conn);
    EXPECT(syscall(SYS_write, conn.fd, "raw", 3) == 3);
    at_once(conn.peer, "abraw");
    gathers_no_more(conn);
    close_conn(conn);
}

static void asks(void)
{
    struct tcp_info info;
    socklen_t len = sizeof info;
    int value = -1, on = 1;
    struct conn conn = open_holding();
    EXPECT(ioctl(conn.fd, SIOCOUTQ, &value) == 0);
    at_once(conn.peer, "ab");
    hold(conn);
    EXPECT(getsockopt(conn.fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0);
    at_once(conn.peer, "ab");
    hold(conn);
    EXPECT(setsockopt(conn.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
    at_once(conn.peer, "ab");
    hold(conn);
    EXPECT(setsockopt(conn.fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on) == 0);
    at_once(conn.peer, "ab");
    close_conn(conn);
}

static void waits(void)
{
    char data[8];
    struct conn conn = open_holding();
    nanosleep(&moment, NULL);
    at_once(conn.peer, "ab");
    hold(conn);
    struct pollfd ready = {.fd = conn.fd, .events = POLLIN};
    EXPECT(poll(&ready, 1, 1) == 0);
    at_once(conn.peer, "ab");
    hold(conn);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, conn.fd, &event);
    EXPECT(epoll_wait(epoll, &event, 1, 1) == 0);
    at_once(conn.peer, "ab");
    close(epoll);
    hold(conn);
    answer(conn.peer, "answer");
    EXPECT(read(conn.fd, data, sizeof data) == 6);
    at_once(conn.peer, "ab");
    hold(conn);
    compute_ms(from_environment("LIFE_DELAY_MS", 0) + 1);
    arrives(conn.peer, "ab"); /* by the deadline */
    close_conn(conn);
}

/* Written on one connection in pieces of which each fits, and together do not. */
static void fills(void)
{
    char piece[300], got[300];
    struct conn conn = open_holding();
    arrives(conn.peer, "ab");
    memset(piece, 'p', sizeof piece);
    for (int i = 0; i < 40; i++)
        EXPECT(write(conn.fd, piece, sizeof piece) == sizeof piece);
    /* A whole buffer left before there was a wait. */
    EXPECT(unread(conn.peer) + unsent(conn.fd) >= 8000);
    for (int i = 0; i < 40; i++)
        EXPECT(raw(SYS_recvfrom, conn.peer, (long)got, sizeof got, MSG_WAITALL, 0, 0) ==
               sizeof got);
    struct iovec two[2] = {{"one ", 4}, {"two", 3}};
    EXPECT(writev(conn.fd, two, 2) == 7);
    struct msghdr message = {.msg_iov = two, .msg_iovlen = 2};
    EXPECT(sendmsg(conn.fd, &message, 0) == 7);
    EXPECT(write(conn.fd, "", 0) == 0);
    nanosleep(&moment, NULL);
    at_once(conn.peer, "one twoone two");
    close_conn(conn);
}

static void shuts(void)
{
    struct conn conn = open_holding();
    EXPECT(shutdown(conn.fd, SHUT_WR) == 0);
    at_once(conn.peer, "ab");
    ends(conn.peer, 0);
    EXPECT(send(conn.fd, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    close_conn(conn);
    conn = open_holding();
    close(conn.fd);
    at_once(conn.peer, "ab");
    ends(conn.peer, 0);
    RAW(close, conn.peer, 0, 0, 0);
    for (int time = 0; time < 2; time++) {
        struct linger linger = {1, time};
        conn = open_conn();
        setsockopt(conn.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
        hold(conn);
        close(conn.fd);
        at_once(conn.peer, "ab");
        ends(conn.peer, time ? 0 : -ECONNRESET);
        RAW(close, conn.peer, 0, 0, 0);
    }
}

/* To ourselves: it leaves the process, and comes in as one that somebody else has, too. */
static int by_message(int fd)
{
    int way[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, way) == 0);
    send_right(way[0], fd);
    int copy = receive_right(way[1]);
    close(way[0]);
    close(way[1]);
    return copy;
}

/* From now on somebody else may write there. */
static void shares(void)
{
    struct conn conn = open_holding();
    struct conn copy = {by_message(conn.fd), conn.peer};
    EXPECT(copy.fd >= 0);
    at_once(conn.peer, "ab");
    gathers_no_more(conn);
    gathers_no_more(copy);
    EXPECT(write(copy.fd, "one ", 4) == 4 && write(conn.fd, "two ", 4) == 4 &&
           write(copy.fd, "three", 5) == 5);
    arrives(conn.peer, "one two three");
    close(copy.fd);
    close_conn(conn);
}

static pid_t by_fork(struct conn conn)
{
    pid_t pid = fork();
    if (pid == 0) {
        hold(conn);
        _exit(0); /* and nothing twice */
    }
    return pid;
}

/* A program that writes "ab" on the descriptor that it has as its output. */
static char *const writes_ab[] = {"sh", "-c", "printf a; printf b", NULL};

static pid_t by_spawn(struct conn conn)
{
    pid_t pid = -1;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, conn.fd, 1);
    EXPECT(posix_spawn(&pid, "/bin/sh", &actions, NULL, writes_ab, NULL) == 0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

static pid_t by_spawnp(struct conn conn)
{
    pid_t pid = -1;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, conn.fd, 1);
    EXPECT(posix_spawnp(&pid, "sh", &actions, NULL, writes_ab, environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

static pid_t by_vfork(struct conn conn)
{
    pid_t pid = vfork();
    if (pid == 0) {
        dup2(conn.fd, 1);
        execv("/bin/sh", writes_ab);
        _exit(1);
    }
    return pid;
}

static pid_t by_system(struct conn conn)
{
    char command[64];
    snprintf(command, sizeof command, "(printf a; printf b) >&%d", conn.fd);
    EXPECT(system(command) == 0);
    return -1;
}

static pid_t by_popen(struct conn conn)
{
    char command[64];
    snprintf(command, sizeof command, "(printf a; printf b) >&%d", conn.fd);
    FILE *stream = popen(command, "r");
    EXPECT(stream && pclose(stream) == 0);
    return -1;
}

/* The child writes after what its parent has gathered, and before what that writes then. */
static void starts(void)
{
    static pid_t (*const ways[])(struct conn) = {
        by_fork, by_spawn, by_spawnp, by_vfork, by_system, by_popen,
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct conn conn = open_holding();
        pid_t pid = ways[i](conn);
        if (pid > 0)
            child_ended(pid, 0);
        arrives(conn.peer, "abab");
        gathers_no_more(conn);
        EXPECT(unread(conn.peer) == 0);
        close_conn(conn);
    }
}

/* What stdio writes does not pass through us. */
static void stdio(void)
{
    struct conn conn = open_holding();
    EXPECT(dprintf(conn.fd, "%d ", 42) == 3);
    at_once(conn.peer, "ab42 ");
    gathers_no_more(conn);
    close_conn(conn);
    conn = open_holding();
    FILE *stream = fdopen(conn.fd, "w");
    at_once(conn.peer, "ab");
    EXPECT(write(conn.fd, "c", 1) == 1);
    fprintf(stream, "d");
    fflush(stream);
    EXPECT(write(conn.fd, "e", 1) == 1);
    at_once(conn.peer, "cde");
    fclose(stream);
    RAW(close, conn.peer, 0, 0, 0);
#ifdef SYS_io_uring_setup
    conn = open_holding();
    EXPECT(syscall(SYS_io_uring_setup, 0, NULL) == -1);
    at_once(conn.peer, "ab");
    gathers_no_more(conn);
    close_conn(conn);
#endif
}

/* Its socket is connected before its connect has returned: from the second burst on. */
static void connects(void)
{
    struct sockaddr_in address;
    int listener = raw_listener(0, &address), before = *in_memory;
    struct conn conn = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)};
    if (connect(conn.fd, (struct sockaddr *)&address, sizeof address) != 0)
        EXPECT(errno == EINPROGRESS);
    conn.peer = (int)RAW(accept4, listener, 0, 0, SOCK_CLOEXEC);
    RAW(close, listener, 0, 0, 0);
    struct pollfd ready = {.fd = conn.fd, .events = POLLOUT};
    EXPECT(poll(&ready, 1, 1000) == 1);
    for (int i = 0; i < 3; i++) {
        hold(conn);
        nanosleep(&moment, NULL);
        at_once(conn.peer, "ab");
    }
    EXPECT(!gathers_in_memory() || *in_memory > before);
    close_conn(conn);
}

/* Whoever starts an exec has told the kernel's buffer everything, and stays with it. */
static void fails_to_exec(void)
{
    struct conn conn = open_holding();
    EXPECT(execl("/nonexistent", "nonexistent", (char *)NULL) == -1 && errno == ENOENT);
    at_once(conn.peer, "ab");
    gathers_no_more(conn);
    struct conn later = open_conn();
    gathers_no_more(later);
    close_conn(later);
    close_conn(conn);
}

static const struct scenario scenarios[] = {
    {"sends", sends_bytes}, {"asks", asks},
    {"waits", waits},       {"fills", fills},
    {"shuts", shuts},       {"shares", shares},
    {"starts", starts},     {"stdio", stdio},
    {"connects", connects}, {"fails-to-exec", fails_to_exec},
};

GATHER_MAIN(scenarios)
