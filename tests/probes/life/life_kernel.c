/* SPDX-License-Identifier: MIT */
/* A connection with kTLS, whose bytes the kernel puts into records. See life.h. */
#include "life.h"

#include <linux/tls.h>

#ifndef SOL_TLS
#define SOL_TLS 282
#endif
#ifndef TCP_ULP
#define TCP_ULP 31
#endif

static const struct tls12_crypto_info_aes_gcm_128 keys = {
    .info = {.version = TLS_1_2_VERSION, .cipher_type = TLS_CIPHER_AES_GCM_128}};

/* No byte of a record is held. */
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

/* Held bytes leave before the records begin. If the kernel has no kTLS, the failed call changes
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
    /* A raw system call has made the connection, and begun the records. */
    conn = raw_conn(-1);
    EXPECT(begin_tls(conn.peer) == 0 && begin_tls(conn.fd) == 0);
    EXPECT(raw(SYS_setsockopt, conn.fd, SOL_TLS, TLS_TX, (long)&keys, sizeof keys, 0) == 0);
    send_records(conn);
}

LIFE_MAIN
