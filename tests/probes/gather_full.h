/* SPDX-License-Identifier: MIT */
/* What the programs about a peer that reads slowly, or not yet, share: connections with small
 * buffers, filled with bytes that are counted. */
#ifndef PROBES_GATHER_FULL_H
#define PROBES_GATHER_FULL_H

#include "gather.h"

#include <linux/capability.h>

static unsigned next_byte, expected_byte;

__attribute__((unused)) static struct conn open_sized(int flags, int size)
{
    struct conn conn = open_conn();
    int small = 8192;
    setsockopt(conn.fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    raw(SYS_setsockopt, conn.peer, SOL_SOCKET, SO_RCVBUF, (long)&small, sizeof small, 0);
    if (flags)
        fcntl(conn.fd, F_SETFL, flags);
    next_byte = expected_byte = 0;
    return conn;
}

__attribute__((unused)) static struct conn open_small(int flags)
{
    return open_sized(flags, 8192);
}

/* One whose buffer nobody can make larger: it is as large as an ordinary process gets it. */
__attribute__((unused)) static struct conn open_largest(int flags)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct mine[2];
    EXPECT(RAW(capget, &header, mine, 0, 0) == 0);
    mine[0].effective &= ~(1u << CAP_NET_ADMIN);
    EXPECT(RAW(capset, &header, mine, 0, 0) == 0);
    return open_sized(flags, 1 << 30);
}

/* One small write; how many bytes it took. */
__attribute__((unused)) static ssize_t put_piece(int fd)
{
    unsigned char piece[97];
    for (unsigned i = 0; i < sizeof piece; i++)
        piece[i] = (unsigned char)((next_byte + i) % 251);
    ssize_t n = write(fd, piece, sizeof piece);
    if (n > 0)
        next_byte += (unsigned)n;
    return n;
}

/* What the peer has now, at most so much. */
__attribute__((unused)) static long take(int peer, size_t most)
{
    unsigned char data[4096];
    long n = raw(SYS_recvfrom, peer, (long)data, (long)(most < sizeof data ? most : sizeof data),
                 MSG_DONTWAIT, 0, 0);
    for (long i = 0; i < n; i++)
        if (data[i] != expected_byte++ % 251) {
            wrong("byte %u is %u", expected_byte - 1, data[i]);
            return -1;
        }
    return n;
}

/* Until all has arrived, or nothing comes for two seconds. */
__attribute__((unused)) static void take_all(int peer)
{
    double begin = now_ms();
    while (expected_byte < next_byte && look_again(begin, 2000))
        if (take(peer, 4096) > 0)
            begin = now_ms();
    if (expected_byte != next_byte)
        wrong("%u bytes of %u arrived", expected_byte, next_byte);
}

__attribute__((unused)) static void fill(int fd)
{
    ssize_t n;
    do
        n = put_piece(fd);
    while (n > 0);
    EXPECT(n == -1 && errno == EAGAIN);
}

/* And until what the two ends still move has moved. */
__attribute__((unused)) static void fill_up(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    do
        fill(fd);
    while (poll(&ready, 1, 50) > 0);
}

__attribute__((unused)) static void *slow_reader(void *peer)
{
    while (expected_byte < next_byte || expected_byte < 200000) {
        long n = take(*(int *)peer, 1000);
        if (n == 0 || (n < 0 && n != -EAGAIN))
            break;
        RAW(sched_yield, 0, 0, 0, 0);
    }
    return NULL;
}

#endif
