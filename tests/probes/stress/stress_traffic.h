/* SPDX-License-Identifier: MIT */
/* Writes and reads of stress.c: the next bytes of a stream, by any call. */
#pragma once

#include "stress.h"

static const unsigned char *bytes_at(const struct end *from, uint64_t offset)
{
    return pattern + (from->base + offset) % PERIOD;
}

/* size bytes from data in one to three parts. */
static int cut(struct worker *w, const unsigned char *data, size_t size, struct iovec parts[3])
{
    int count = 0;
    union {
        const unsigned char *given;
        unsigned char *taken; /* no write changes it */
    } at = {.given = data};
    while (size) {
        size_t part = count == 2 ? size : 1 + below(w, (unsigned)size);
        parts[count++] = (struct iovec){at.taken, part};
        at.given += part;
        size -= part;
    }
    return count;
}

static ssize_t write_once(struct worker *w, struct end *end, const unsigned char *data, size_t size)
{
    struct iovec parts[3];
    off_t offset = data - pattern;
    int fd = copy_of(w, end);
    switch (below(w, 8)) {
    case 0:
        return writev(fd, parts, cut(w, data, size, parts));
    case 1:
        return send(fd, data, size, MSG_NOSIGNAL);
    case 2:
        return send(fd, data, size, MSG_DONTWAIT);
    case 3:
        return sendfile(fd, pattern_fd, &offset, size);
    default:
        return write(fd, data, size);
    }
}

/* Are bytes unsent in the kernel, with nothing in flight, and does this not change? */
static bool is_held(int fd)
{
    for (int looks = 0; looks < 20; looks++) {
        int queued = 0, unsent = 0;
        /* The order matters: bytes that leave in between make the two values differ. */
        RAW(ioctl, fd, SIOCOUTQNSD, &unsent, 0);
        RAW(ioctl, fd, SIOCOUTQ, &queued, 0);
        if (unsent == 0 || queued > unsent || !judges_holding)
            return false;
        raw_sleep(1000000);
    }
    return true;
}

/* A thread's bytes must have left before the thread waits. */
static void wait_after_writing(struct worker *w, const struct end *end)
{
    struct timespec moment = {.tv_nsec = 20000};
    struct pollfd quiet = {.fd = w->listener, .events = POLLIN};
    switch (below(w, 5)) {
    case 0:
    case 1:
        nanosleep(&moment, NULL);
        break;
    case 2:
    case 3:
        poll(&quiet, 1, 1);
        break;
    default:
        return; /* from a later wait */
    }
    if (is_held(end->fds[0]))
        LATE("bytes were held across a wait");
}

/* The caller has the end's lock for writing. */
static void write_burst(struct worker *w, struct end *end, const struct end *to, unsigned pieces)
{
    uint64_t got = __atomic_load_n(&to->got, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < pieces; i++) {
        uint64_t sent = atomic_load(&end->sent);
        size_t size = 1 + below(w, below(w, 8) ? 64 : PIECE_MOST);
        if (sent + size > got + UNREAD_MOST)
            break;
        errno = 12345;
        ssize_t n = write_once(w, end, bytes_at(end, sent), size);
        /* The kernel decides how much fits, and everything must fit. */
        if (n != (ssize_t)size || errno != 12345) {
            WRONG("a write of %zu: %zd, errno %d", size, n, errno);
            break;
        }
        atomic_store(&end->sent, sent + size);
        w->writes++;
    }
    if (pieces > 1)
        wait_after_writing(w, end);
}

static ssize_t read_once(struct worker *w, struct end *end, unsigned char *data, size_t size,
                         uint64_t there)
{
    struct iovec parts[2] = {{data, size / 2}, {data + size / 2, size - size / 2}};
    int fd = copy_of(w, end);
    ssize_t peeked;
    w->impatient = end->nonblock;
    switch (below(w, 8)) {
    case 0:
        return readv(fd, parts, 2);
    case 1:
        w->impatient = true;
        return recv(fd, data, size, MSG_DONTWAIT);
    case 2: /* all sent bytes have arrived, or are in flight */
        return recv(fd, data, size < there ? size : (size_t)there, MSG_WAITALL);
    case 3:
        peeked = recv(fd, data, size, MSG_PEEK);
        return peeked > 0 ? read(fd, data, (size_t)peeked) : peeked;
    default:
        return read(fd, data, size);
    }
}

/* Reads once, and checks the bytes. Returns the result of the read. */
static ssize_t read_checked(struct worker *w, struct end *end, const struct end *from, size_t size)
{
    unsigned char data[2 * PIECE_MOST];
    uint64_t sent = atomic_load(&from->sent); /* less than got while a child writes */
    uint64_t there = sent > end->got ? sent - end->got : 1;
    ssize_t n = read_once(w, end, data, size, there);
    if (n <= 0)
        return n;
    if (memcmp(data, bytes_at(from, end->got), (size_t)n) != 0)
        WRONG("bytes %llu to %llu are others", (unsigned long long)end->got,
              (unsigned long long)end->got + (unsigned)n);
    __atomic_store_n(&end->got, end->got + (size_t)n, __ATOMIC_RELAXED);
    w->reads++;
    w->bytes += (size_t)n;
    return n;
}

/* Reads some of the bytes that were sent to the end. The caller holds its lock for reading. */
static void read_some(struct worker *w, struct end *end, const struct end *from)
{
    while (atomic_load(&from->sent) > end->got && below(w, 4)) {
        ssize_t n = read_checked(w, end, from, 1 + below(w, 2 * PIECE_MOST));
        if (n < 0 && errno == EAGAIN && w->impatient) {
            struct pollfd ready = {.fd = copy_of(w, end), .events = POLLIN};
            if (poll(&ready, 1, -1) != 1)
                WRONG("poll: errno %d", errno);
        } else if (n <= 0) {
            WRONG("a read with bytes on their way: %zd, errno %d", n, errno);
            return;
        }
    }
}

/* Reads the rest and the end of the stream. After a reset bytes may be lost. */
static void read_to_end(struct worker *w, struct end *end, const struct end *from, bool reset)
{
    for (;;) {
        struct pollfd ready = {.fd = copy_of(w, end), .events = POLLIN};
        if (poll(&ready, 1, 9000) != 1) {
            WRONG("a stream does not end");
            return;
        }
        ssize_t n = read_checked(w, end, from, 2 * PIECE_MOST);
        if (n == 0 || (reset && n < 0 && errno == ECONNRESET))
            break;
        if (n < 0 && (errno != EAGAIN || !w->impatient)) {
            WRONG("a read at the end of a stream: errno %d", errno);
            return;
        }
    }
    if (!reset && end->got != atomic_load(&from->sent))
        WRONG("a stream of %llu bytes ends after %llu",
              (unsigned long long)atomic_load(&from->sent), (unsigned long long)end->got);
}
