/* SPDX-License-Identifier: MIT */
/* What the kernel does with a connection's bytes besides sending them: MSG_ZEROCOPY and kTLS. See
 * life.h. */
#include "life.h"

#include <linux/errqueue.h>
#include <linux/tls.h>

#ifndef SOL_TLS
#define SOL_TLS 282
#endif
#ifndef TCP_ULP
#define TCP_ULP 31
#endif

/* The notifications of zero-copy sends that are there, in order from next on: the next after. */
static unsigned notified(int fd, unsigned next, unsigned until)
{
    double begin = now_ms();
    while (next < until && look_again(begin, 2000)) {
        char control[128];
        struct msghdr message = {.msg_control = control, .msg_controllen = sizeof control};
        if (recvmsg(fd, &message, MSG_ERRQUEUE) < 0) {
            EXPECT(errno == EAGAIN);
            continue;
        }
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        struct sock_extended_err error = {0};
        EXPECT(header && header->cmsg_level == SOL_IP && header->cmsg_type == IP_RECVERR);
        if (header)
            memcpy(&error, CMSG_DATA(header), sizeof error);
        EXPECT(error.ee_origin == SO_EE_ORIGIN_ZEROCOPY && error.ee_errno == 0);
        EXPECT(error.ee_info == next && error.ee_data >= next);
        next = error.ee_data + 1;
    }
    return next;
}

/* A send with MSG_ZEROCOPY in the middle of a burst: in order, and each told once, by its number.
 */
SCENARIO("zero-copy")
{
    struct conn conn = open_conn();
    int one = 1;
    unsigned next = 0;
    EXPECT(setsockopt(conn.fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof one) == 0);
    for (unsigned i = 1; i <= 4; i++) {
        static char text[] = "two three ";
        struct iovec parts[] = {{text, 4}, {text + 4, 6}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        put(conn.fd, "one ");
        if (i % 2)
            EXPECT(send(conn.fd, text, 10, MSG_ZEROCOPY) == 10);
        else
            EXPECT(sendmsg(conn.fd, &message, MSG_ZEROCOPY) == 10);
        put(conn.fd, "four");
        arrives(conn.peer, "one two three four");
        next = notified(conn.fd, next, i);
        EXPECT(next == i);
    }
    struct msghdr none = {.msg_iov = NULL};
    EXPECT(recvmsg(conn.fd, &none, MSG_ERRQUEUE) == -1 && errno == EAGAIN);
    still_governed(conn);
    close_conn(conn);
}

static const struct tls12_crypto_info_aes_gcm_128 keys = {
    .info = {.version = TLS_1_2_VERSION, .cipher_type = TLS_CIPHER_AES_GCM_128}};

/* Of a record nothing is held. */
static void send_records(struct conn conn)
{
    EXPECT(raw(SYS_setsockopt, conn.peer, SOL_TLS, TLS_RX, (long)&keys, sizeof keys, 0) == 0);
    for (int i = 0; i < 4; i++) {
        int held = results->held;
        put(conn.fd, "one ");
        EXPECT(send(conn.fd, "two ", 4, 0) == 4);
        put(conn.fd, "three");
        EXPECT(results->held == held);
        arrives(conn.peer, "one two three");
    }
    close_conn(conn);
}

static long begin_tls(int fd)
{
    return raw(SYS_setsockopt, fd, IPPROTO_TCP, TCP_ULP, (long)"tls", 3, 0);
}

/* Held bytes leave before the records begin. Where the kernel has no kTLS, the refusal changes
 * nothing. */
SCENARIO("kernel-tls")
{
    struct conn conn = open_conn();
    long peer = begin_tls(conn.peer);
    put(conn.fd, "plain ");
    put(conn.fd, "text");
    int result = setsockopt(conn.fd, IPPROTO_TCP, TCP_ULP, "tls", 3);
    at_once(conn.peer, "plain text");
    EXPECT(result == (peer == 0 ? 0 : -1) && (result == 0 || errno == -peer));
    if (result != 0) {
        printf("no kTLS here: %s\n", strerror(errno));
        still_governed(conn);
        close_conn(conn);
        return;
    }
    EXPECT(setsockopt(conn.fd, SOL_TLS, TLS_TX, &keys, sizeof keys) == 0);
    send_records(conn);
    /* Somebody else has made the connection, and begun the records. */
    conn = raw_conn(-1);
    EXPECT(begin_tls(conn.peer) == 0 && begin_tls(conn.fd) == 0);
    EXPECT(raw(SYS_setsockopt, conn.fd, SOL_TLS, TLS_TX, (long)&keys, sizeof keys, 0) == 0);
    send_records(conn);
}

LIFE_MAIN
