/* SPDX-License-Identifier: MIT */
/* Threads that write to connections whose peers read slowly, or not for a while, or reset them: by
 * every call, in sizes below and above what is gathered, blocking and not, waiting for edges of
 * epoll, with signals that interrupt all the time. What a call said it took arrives, in order, and
 * then the end of the stream; nobody waits for ever; and errno is what it would have been. */
#include "gather.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/time.h>
#include <sys/uio.h>

enum { WRITERS = 6, PERIOD = 1 << 20, MOST = 60000 };

static unsigned char pattern[2 * PERIOD];
static int pattern_file;
static _Atomic unsigned opened, resets, edges;
static __thread unsigned seed;

static unsigned below(unsigned most)
{
    seed = seed * 1103515245u + 12345u;
    return (seed >> 8) % most;
}

struct stream {
    struct conn conn;
    int epoll;
    bool nonblock, may_be_reset;
    size_t sent; /* what the calls said */
    size_t got;  /* by the peer */
    unsigned seed;
};

static void reset_by_peer(struct stream *stream)
{
    struct linger none = {1, 0};
    raw(SYS_setsockopt, stream->conn.peer, SOL_SOCKET, SO_LINGER, (long)&none, sizeof none, 0);
    RAW(close, stream->conn.peer, 0, 0, 0);
    stream->conn.peer = -1;
    resets++;
}

/* The peer. Ends with the stream, or resets it. */
static void *reads(void *argument)
{
    struct stream *stream = argument;
    unsigned char data[30000];
    seed = stream->seed;
    for (;;) {
        struct timespec pause = {.tv_nsec = below(8) ? 50000 : below(20) * 1000000};
        if (below(3) == 0)
            RAW(nanosleep, &pause, NULL, 0, 0);
        if (stream->may_be_reset && stream->got > 100000) {
            reset_by_peer(stream);
            return NULL;
        }
        long n = raw(SYS_recvfrom, stream->conn.peer, (long)data, 1 + below(sizeof data), 0, 0, 0);
        if (n <= 0) {
            if (n != 0)
                wrong("the stream ends with %ld", n);
            return NULL;
        }
        if (memcmp(data, pattern + stream->got % PERIOD, (size_t)n) != 0) {
            wrong("bytes %zu to %zu are others", stream->got, stream->got + (size_t)n);
            _exit(1);
        }
        stream->got += (size_t)n;
    }
}

static ssize_t write_vector(struct stream *stream, char *data, size_t size, bool message)
{
    struct iovec parts[3];
    size_t first = below((unsigned)size + 1), second = below((unsigned)(size - first) + 1);
    parts[0] = (struct iovec){data, first};
    parts[1] = (struct iovec){data + first, second};
    parts[2] = (struct iovec){data + first + second, size - first - second};
    struct msghdr header = {.msg_iov = parts, .msg_iovlen = 3};
    return message ? sendmsg(stream->conn.fd, &header, MSG_NOSIGNAL)
                   : writev(stream->conn.fd, parts, 3);
}

static ssize_t write_by_pipe(struct stream *stream, const char *data, size_t size)
{
    int way[2];
    EXPECT(pipe2(way, O_CLOEXEC) == 0);
    if (size > 30000)
        size = 30000;
    EXPECT(RAW(write, way[1], data, size, 0) == (long)size);
    ssize_t n = splice(way[0], NULL, stream->conn.fd, NULL, size, 0);
    int saved = errno;
    RAW(close, way[0], 0, 0, 0);
    RAW(close, way[1], 0, 0, 0);
    errno = saved;
    return n;
}

static ssize_t write_some_way(struct stream *stream, size_t size)
{
    int fd = stream->conn.fd;
    char *data = (char *)pattern + stream->sent % PERIOD;
    off_t at = (off_t)(stream->sent % PERIOD);
    switch (below(24)) {
    case 0:
        return sendfile(fd, pattern_file, &at, size);
    case 1:
        return write_by_pipe(stream, data, size);
    case 2:
    case 3:
        return write_vector(stream, data, size, true);
    case 4:
    case 5:
        return write_vector(stream, data, size, false);
    case 6:
        return send(fd, data, size, MSG_MORE | MSG_NOSIGNAL);
    case 7:
        return send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    case 8:
        return sendto(fd, data, size, MSG_NOSIGNAL, NULL, 0);
    case 9: /* and gathers no more; a reset that it meets is not told by it, but by the next */
        if (!stream->may_be_reset && below(50) == 0)
            return syscall(SYS_sendto, fd, data, size, MSG_NOSIGNAL, NULL, 0);
        return write(fd, data, size);
    case 10:
    case 11:
    case 12:
        return send(fd, data, size, MSG_NOSIGNAL);
    default:
        return write(fd, data, size);
    }
}

/* After EAGAIN: the next edge comes once there is room. */
static bool wait_for_edge(struct stream *stream)
{
    struct epoll_event event;
    int n;
    do
        n = epoll_wait(stream->epoll, &event, 1, 8000);
    while (n < 0 && errno == EINTR);
    edges++;
    if (n != 1)
        wrong("no edge comes: %d (%s), %zu bytes sent and %zu arrived, %d unsent", n,
              strerror(errno), stream->sent, stream->got, unsent(stream->conn.fd));
    return n == 1;
}

static void something_else(struct stream *stream)
{
    int fd = stream->conn.fd, value = (int)below(2);
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    struct timespec moment = {.tv_nsec = below(300000)};
    switch (below(9)) {
    case 0:
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, sizeof value);
        break;
    case 1:
        setsockopt(fd, IPPROTO_TCP, TCP_CORK, &value, sizeof value);
        break;
    case 2:
        stream->nonblock = value;
        EXPECT(fcntl(fd, F_SETFL, value ? O_NONBLOCK : 0) == 0);
        break;
    case 3:
        stream->nonblock = value;
        EXPECT(ioctl(fd, FIONBIO, &value) == 0);
        break;
    case 4:
        EXPECT(ioctl(fd, SIOCOUTQ, &value) == 0 && value >= 0);
        break;
    case 5:
        if (below(200) == 0) /* and gathers no more */
            close(dup(fd));
        break;
    case 6:
        nanosleep(&moment, NULL);
        break;
    default:
        poll(&ready, 1, (int)below(2));
    }
}

/* Returns false once the connection is broken. */
static bool step(struct stream *stream)
{
    size_t size = below(10) ? 1 + below(300) : 1 + below(MOST);
    errno = 0;
    ssize_t n = write_some_way(stream, size);
    int error = errno;
    if (n > 0) {
        if ((size_t)n > size)
            wrong("%zd of %zu", n, size);
        stream->sent += (size_t)n;
    } else if (error == EAGAIN) {
        return wait_for_edge(stream);
    } else if (n == 0 || !stream->may_be_reset || (error != ECONNRESET && error != EPIPE)) {
        wrong("a write of %zu: %zd, %s", size, n, strerror(error));
        return false;
    } else {
        /* Told once, and then it is EPIPE. */
        char byte;
        EXPECT(send(stream->conn.fd, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
        EXPECT(write(stream->conn.fd, "x", 1) == -1 && errno == EPIPE);
        EXPECT(read(stream->conn.fd, &byte, 1) == 0);
        return false;
    }
    if (below(8) == 0)
        something_else(stream);
    return true;
}

static void one_stream(void)
{
    pthread_t reading;
    struct stream stream = {.conn = open_conn(), .nonblock = below(2), .seed = below(1 << 16)};
    int small = 4096 << below(4);
    stream.may_be_reset = below(4) == 0;
    setsockopt(stream.conn.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    raw(SYS_setsockopt, stream.conn.peer, SOL_SOCKET, SO_RCVBUF, (long)&small, sizeof small, 0);
    EXPECT(fcntl(stream.conn.fd, F_SETFL, stream.nonblock ? O_NONBLOCK : 0) == 0);
    stream.epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLOUT | EPOLLET};
    epoll_ctl(stream.epoll, EPOLL_CTL_ADD, stream.conn.fd, &event);
    pthread_create(&reading, NULL, reads, &stream);
    opened++;
    unsigned steps = 100 + below(2000);
    bool whole = true;
    while (whole && steps-- > 0)
        whole = step(&stream);
    if (below(3) == 0)
        shutdown(stream.conn.fd, SHUT_WR);
    close(stream.epoll);
    close(stream.conn.fd);
    pthread_join(reading, NULL);
    if (stream.conn.peer >= 0) {
        if (stream.got != stream.sent)
            wrong("%zu bytes were taken, %zu arrived", stream.sent, stream.got);
        RAW(close, stream.conn.peer, 0, 0, 0);
    }
}

static void *writes(void *argument)
{
    double begin = now_ms(), time = from_environment("HOSTILE_SECONDS", 1.5) * 1e3;
    seed = (unsigned)(uintptr_t)argument;
    while (now_ms() - begin < time && !results->wrong)
        one_stream();
    return NULL;
}

static void interrupts(int number)
{
    (void)number;
}

static void hostile(void)
{
    pthread_t threads[WRITERS];
    struct sigaction action = {.sa_handler = interrupts, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
    unsigned first = (unsigned)from_environment("HOSTILE_SEED", (double)(getpid() * 7919 % 65536));
    for (size_t i = 0; i < sizeof pattern; i++)
        pattern[i] = (unsigned char)(i % PERIOD * 2654435761u >> 13);
    pattern_file = memfd_create("pattern", MFD_CLOEXEC);
    EXPECT(RAW(write, pattern_file, pattern, sizeof pattern, 0) == sizeof pattern);
    signal(SIGPIPE, SIG_IGN);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGPROF, &action, NULL);
    setitimer(ITIMER_PROF, &often, NULL);
    struct conn conn = open_holding(); /* that it gathers at all */
    close_conn(conn);
    for (unsigned i = 0; i < WRITERS; i++)
        pthread_create(&threads[i], NULL, writes, (void *)(uintptr_t)(first + i));
    for (unsigned i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    setitimer(ITIMER_PROF, &never, NULL);
    RAW(close, pattern_file, 0, 0, 0);
    if (opened < WRITERS || edges < 10)
        wrong("%u connections, %u edges", opened, edges);
    printf("seed %u connections %u resets %u edges %u\n", first, opened, resets, edges);
    compute_ms(50); /* what leaves after its close has left */
}

static const struct scenario scenarios[] = {{"hostile", hostile}};

GATHER_MAIN(scenarios)
