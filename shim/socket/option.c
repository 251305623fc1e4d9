/* SPDX-License-Identifier: MIT */
/* See option.h. Owns the values that the application has set: TCP_NODELAY, TCP_CORK and others.
 * Must never write through the application's const pointers; reads a value only if the kernel would
 * accept its length. */
#include "socket/option.h"

#include "base/real.h"
#include "conn/delack.h"
#include "conn/kernel.h"
#include "socket/socket.h"
#include "socket/rewrite.h"
#include "traffic/out.h"
#include "traffic/push.h"

#include <limits.h>
#include <netinet/tcp.h>
#include <string.h>

/* The application has removed its cork. Nagle's algorithm, if on, may hold the last segment. */
static void uncorked(int fd, struct ns_conn *conn)
{
    bool bytes = NS_GET(conn, app_corks) & NS_CORKS_BYTES;
    NS_PUT(conn, app_corks, 0);
    if (NS_GET(conn, kind) != NS_CONN_MANAGED || !bytes)
        return;
    ns_push_carries_ack(conn);
    if (NS_GET(conn, send) == NS_SEND_FLUSH_BEFORE_READ)
        ns_hold_mark(fd, conn);
    else if (NS_GET(conn, in_flight))
        ns_enforce_nodelay(fd, conn);
    NS_PUT(conn, in_flight, NS_FLIGHT_SEEN);
}

/* TCP_QUICKACK of the application: it chooses the kernel's mode for now (tcp(7)). */
static void note_quickack(struct ns_conn *conn, int value)
{
    struct ns_ack_state state = ns_conn_ack(conn);
    state.interactive = value % 2 == 0;
    if (value)
        state.pending = 0;
    ns_conn_ack_put(conn, state);
}

/* A program that sets the option after a message and clears it again does its own pushes: Nagle's
 * algorithm stays on for its next message, until a wait. */
static void note_nodelay(int fd, struct ns_conn *conn, bool on)
{
    bool flushed = !on && NS_GET(conn, app_nodelay) && NS_GET(conn, in_flight);
    bool nagle = ns_send_modes[NS_GET(conn, send)].option == TCP_NODELAY;
    NS_PUT(conn, app_nodelay, on);
    NS_PUT(conn, kernel_nodelay, on);
    NS_PUT(conn, writer, 0);
    if (on && nagle)
        NS_PUT(conn, held, 0); /* what was held has left */
    else if (flushed && nagle && NS_GET(conn, kind) == NS_CONN_MANAGED && !NS_GET(conn, no_batch) &&
             !NS_GET(conn, app_corks))
        ns_hold_mark(fd, conn);
}

/* After the kernel has accepted the application's value. */
static void note_tcp(int fd, struct ns_conn *conn, int option, int value)
{
    switch (option) {
    case TCP_NODELAY:
        note_nodelay(fd, conn, value != 0);
        ns_socket_changed();
        if (NS_GET(conn, kind) != NS_CONN_LISTENER &&
            NS_GET(conn, no_batch) & (NS_UNSEEN | NS_RING))
            ns_delack_bound(fd, conn);
        if (NS_GET(conn, kind) != NS_CONN_MANAGED || NS_GET(conn, no_batch))
            ns_enforce_nodelay(fd, conn); /* otherwise it is set before the next write */
        break;
    case TCP_CORK:
        if (value)
            NS_PUT(conn, app_corks, NS_CORKS_OPTION);
        else
            uncorked(fd, conn);
        break;
    case TCP_QUICKACK:
        note_quickack(conn, value);
        break;
    case NS_DELACK_OPTION:
        NS_PUT(conn, delack, NS_DELACK_THEIRS);
        break;
    case TCP_ULP:
    case TCP_FASTOPEN_CONNECT:
    case TCP_REPAIR:
        ns_conn_no_batch(conn, NS_NO_PUSH);
        break;
    default:
        break;
    }
}

int ns_option_set(int fd, struct ns_conn *conn, int level, int option, const void *value,
                  socklen_t len)
{
    int given = 1, result = 1;
    uintptr_t known = (uintptr_t)&given;
    /* The kernel reads the length as an int and refuses a negative one. */
    bool readable = value && len >= sizeof given && len <= INT_MAX;
    if (readable && ns_rewrite_has(level, option) &&
        ns_kernel_can_read(value, sizeof given, &known)) {
        memcpy(&given, value, sizeof given);
        result = ns_rewrite_set(fd, conn, level, option, given);
        ns_socket_changed();
    }
    if (result <= 0) {
        if (result < 0)
            errno = -result;
        return result < 0 ? -1 : 0;
    }
    if (level == IPPROTO_TCP && (option == TCP_CORK || option == TCP_ULP))
        ns_push(fd, conn); /* held bytes leave before the application's own corking begins */
    result = NS_REAL(setsockopt)(fd, level, option, value, len);
    if (result != 0)
        return result;
    if (readable)
        memcpy(&given, value, sizeof given);
    if (level == IPPROTO_TCP)
        note_tcp(fd, conn, option, given);
    else if (level == SOL_SOCKET && option == SO_RCVLOWAT)
        ns_conn_set_lowat(conn, given != 1);
    return result;
}

/* Should the application get another value than the kernel's *answer? Then *answer is replaced. -1:
 * the application asked for a part of the value. */
static bool answer_of(const struct ns_conn *conn, int level, int option, int *answer)
{
    if (level == IPPROTO_TCP && option == TCP_NODELAY) {
        *answer = NS_GET(conn, app_nodelay);
        return true;
    }
    if (level == IPPROTO_TCP && option == TCP_CORK && NS_GET(conn, held)) {
        *answer = NS_GET(conn, app_corks) & NS_CORKS_OPTION;
        return true;
    }
    if (level == IPPROTO_TCP && option == NS_DELACK_OPTION) {
        /* Set by the library in this process, or in a forked child. */
        int delack = NS_GET(conn, delack);
        bool ours = *answer == NS_DELACK_US ? delack != NS_DELACK_THEIRS
                                            : *answer < 0 && delack == NS_DELACK_OURS;
        if (ours)
            *answer = ns_delack_of_fresh();
        return ours;
    }
    return ns_rewrite_answer(conn, level, option, answer);
}

void ns_option_answer(const struct ns_conn *conn, int level, int option, void *value,
                      const socklen_t *len)
{
    int answer = -1;
    if (!value || *len > sizeof answer)
        return;
    if (*len == sizeof answer)
        memcpy(&answer, value, sizeof answer);
    if (answer_of(conn, level, option, &answer))
        memcpy(value, &answer, *len); /* the kernel cuts an int the same way */
}

int ns_option_get(int fd, struct ns_conn *conn, int level, int option, void *value, socklen_t *len)
{
    int result = NS_REAL(getsockopt)(fd, level, option, value, len);
    /* A child of vfork gives no socket its rule. */
    if (result == 0 && NS_GET(conn, kind) != NS_CONN_ASK)
        ns_option_answer(conn, level, option, value, len);
    return result;
}
