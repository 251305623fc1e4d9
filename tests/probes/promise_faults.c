/* SPDX-License-Identifier: MIT */
/* Prints what comes of a pointer that points nowhere, call by call, each in a process of its own:
 * while an acknowledgement is owed on another connection and while it is owed on the same one. What
 * the kernel says, and where libc itself reads the pointer first, is the same without a library. */
#include "promise.h"

#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

static char *nowhere; /* mapped, and not to be read or written */
static int fd, epoll;
static int fresh; /* a socket that nobody has connected */
static fd_set all;
static struct iovec bad_one, good_one, bad_vector[2];
static struct msghdr bad_message;
static char byte;
static int value;
static struct timespec moment = {0, 1000000};
static struct pollfd ready;
static struct epoll_event event;

#define NOWHERE(type) ((type *)(void *)nowhere)

/* Fresh ones for each call: it may write into them. */
static void prepare(struct conn conn)
{
    fd = conn.fd;
    fresh = socket(AF_INET, SOCK_STREAM, 0);
    good_one = (struct iovec){&byte, 1};
    bad_one = (struct iovec){nowhere, 1};
    bad_vector[0] = good_one;
    bad_vector[1] = bad_one;
    bad_message = (struct msghdr){.msg_iov = NOWHERE(struct iovec), .msg_iovlen = 1};
    ready = (struct pollfd){.fd = fd, .events = POLLIN};
    event = (struct epoll_event){.events = EPOLLIN};
    FD_ZERO(&all);
    FD_SET(fd, &all);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    raw(SYS_fcntl, fd, F_SETFL, 0, 0, 0, 0);
}

#define CALLS(CALL)                                                                                \
    CALL(read(fd, nowhere, 1))                                                                     \
    CALL(recv(fd, nowhere, 1, 0))                                                                  \
    CALL(recvfrom(fd, nowhere, 1, 0, NULL, NULL))                                                  \
    CALL(recvfrom(fd, &byte, 1, MSG_DONTWAIT, NULL, NOWHERE(socklen_t)))                           \
    CALL(readv(fd, NOWHERE(struct iovec), 1))                                                      \
    CALL(readv(fd, &bad_one, 1))                                                                   \
    CALL(preadv2(fd, NOWHERE(struct iovec), 1, -1, 0))                                             \
    CALL(recvmsg(fd, NOWHERE(struct msghdr), 0))                                                   \
    CALL(recvmsg(fd, NULL, 0))                                                                     \
    CALL(recvmsg(fd, NOWHERE(struct msghdr), MSG_DONTWAIT))                                        \
    CALL(recvmsg(fd, &bad_message, 0))                                                             \
    CALL(recvmmsg(fd, NOWHERE(struct mmsghdr), 1, 0, NULL))                                        \
    CALL(recvmmsg(fd, NOWHERE(struct mmsghdr), 1, MSG_DONTWAIT, NULL))                             \
    CALL(write(fd, nowhere, 1))                                                                    \
    CALL(write(fd, nowhere, 60000))                                                                \
    CALL(send(fd, nowhere, 1, 0))                                                                  \
    CALL(send(fd, nowhere, 1, MSG_MORE))                                                           \
    CALL(sendto(fd, nowhere, 1, 0, NULL, 0))                                                       \
    CALL(sendto(fd, &byte, 1, 0, NOWHERE(struct sockaddr), sizeof(struct sockaddr_in)))            \
    CALL(sendmsg(fresh, NOWHERE(struct msghdr), MSG_FASTOPEN))                                     \
    CALL(sendto(fresh, &byte, 1, MSG_FASTOPEN, NOWHERE(struct sockaddr),                           \
                sizeof(struct sockaddr_in)))                                                       \
    CALL(writev(fd, NOWHERE(struct iovec), 1))                                                     \
    CALL(writev(fd, &bad_one, 1))                                                                  \
    CALL(writev(fd, bad_vector, 2))                                                                \
    CALL(pwritev2(fd, NOWHERE(struct iovec), 1, -1, 0))                                            \
    CALL(sendmsg(fd, NOWHERE(struct msghdr), 0))                                                   \
    CALL(sendmsg(fd, NULL, 0))                                                                     \
    CALL(sendmsg(fd, &bad_message, 0))                                                             \
    CALL(sendmmsg(fd, NOWHERE(struct mmsghdr), 1, 0))                                              \
    CALL(sendfile(fd, 0, NOWHERE(off_t), 1))                                                       \
    CALL(poll(NOWHERE(struct pollfd), 1, 1))                                                       \
    CALL(poll(NOWHERE(struct pollfd), 1, 0))                                                       \
    CALL(ppoll(NOWHERE(struct pollfd), 1, &moment, NULL))                                          \
    CALL(ppoll(&ready, 1, NOWHERE(struct timespec), NULL))                                         \
    CALL(ppoll(&ready, 1, &moment, NOWHERE(sigset_t)))                                             \
    CALL(select(fd + 1, NOWHERE(fd_set), NULL, NULL, NULL))                                        \
    CALL(select(fd + 1, &all, NOWHERE(fd_set), NULL, NULL))                                        \
    CALL(select(fd + 1, NULL, NULL, NOWHERE(fd_set), NULL))                                        \
    CALL(select(fd + 1, &all, NULL, NULL, NOWHERE(struct timeval)))                                \
    CALL(pselect(fd + 1, NOWHERE(fd_set), NULL, NULL, &moment, NULL))                              \
    CALL(pselect(fd + 1, &all, NULL, NULL, NOWHERE(struct timespec), NULL))                        \
    CALL(pselect(fd + 1, &all, NULL, NULL, &moment, NOWHERE(sigset_t)))                            \
    CALL(epoll_wait(epoll, NOWHERE(struct epoll_event), 1, 1))                                     \
    CALL(epoll_pwait(epoll, &event, 1, 1, NOWHERE(sigset_t)))                                      \
    CALL(epoll_pwait2(epoll, &event, 1, NOWHERE(struct timespec), NULL))                           \
    CALL(epoll_pwait2(epoll, &event, 1, &moment, NOWHERE(sigset_t)))                               \
    CALL(nanosleep(NOWHERE(struct timespec), NULL))                                                \
    CALL(clock_nanosleep(CLOCK_MONOTONIC, 0, NOWHERE(struct timespec), NULL))                      \
    CALL(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, nowhere, sizeof(int)))                           \
    CALL(setsockopt(fd, IPPROTO_TCP, TCP_CORK, nowhere, sizeof(int)))                              \
    CALL(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, nowhere, sizeof(int)))                            \
    CALL(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, NOWHERE(socklen_t)))

typedef long calls(void);

/* Each as a function, so that its number and text are in one list. */
#define TEXT(expression) #expression,
static const char *const texts[] = {CALLS(TEXT)};

static long make_call(int number)
{
    enum { FIRST = __COUNTER__ + 1 };
#define CASE(expression)                                                                           \
    case __COUNTER__ - FIRST:                                                                      \
        return (long)(expression);
    switch (number) {
        CALLS(CASE)
    default:
        return 0;
    }
}

/* What the call comes to, in a child where the acknowledgement is owed. */
static void in_a_child(int number, bool elsewhere)
{
    int ends[2];
    struct told {
        long result;
        int error;
    } told = {0, 0};
    EXPECT(pipe2(ends, O_CLOEXEC) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct conn conn = open_conn(), other = open_conn();
        prepare(conn);
        owe(elsewhere ? other : conn);
        value = 1; /* so that it comes at once */
        raw(SYS_setsockopt, conn.peer, IPPROTO_TCP, TCP_NODELAY, (long)&value, sizeof value, 0);
        answer(conn.peer, "to be read");
        alarm(3);
        errno = 0;
        told.result = make_call(number);
        told.error = errno;
        RAW(write, ends[1], &told, sizeof told, 0);
        _exit(0);
    }
    RAW(close, ends[1], 0, 0, 0);
    int status = ended_within(pid, 5000);
    RAW(read, ends[0], &told, sizeof told, 0);
    RAW(close, ends[0], 0, 0, 0);
    const char *error = strerrorname_np(told.error);
    printf("%s: %s: ", elsewhere ? "owed elsewhere" : "owed here", texts[number]);
    if (status == 0)
        printf("%ld %s\n", told.result, told.error ? error : "0");
    else
        printf("signal %d\n", status & 127);
}

int main(void)
{
    results =
        mmap(NULL, sizeof *results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        in_a_child((int)i, false);
        in_a_child((int)i, true);
    }
    /* One of this process's own, for whoever asks whether it was governed. */
    close_conn(open_conversing());
    return results->wrong != 0;
}
