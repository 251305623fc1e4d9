/* SPDX-License-Identifier: MIT */
/* See handover.h. */
#include "socket/handover.h"

#include "base/real.h"
#include "conn/kernel.h"
#include "conn/process.h"
#include "report/report.h"
#include "report/status.h"
#include "socket/option.h"
#include "socket/socket.h"
#include "traffic/pending.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <unistd.h>

/* The ACKs of waits that will not be seen are limited, too, but not for what is only written to: a
 * limit would stay for the process that reads. TCP_NODELAY would send what the program itself
 * corks. */
static void push_and_limit(int fd, struct ns_conn *conn)
{
    ns_push(fd, conn);
    if (NS_GET(conn, kind) != NS_CONN_MANAGED || NS_GET(conn, app_corks))
        return;
    ns_enforce_nodelay(fd, conn);
    if (fd != STDOUT_FILENO && fd != STDERR_FILENO)
        ns_delack_bound(fd, conn);
}

void ns_handover_unseen(int fd)
{
    if (ns_process_is_disabled() || ns_has_other_fds())
        return;
    ns_socket_managed(fd, false); /* it may be inherited, or connected unseen */
    struct ns_conn *conn = ns_socket_use(fd, false);
    if (!conn)
        return;
    NS_DEBUG(fd, "stdio, another process or a system call by number writes to it: nothing is held");
    if (NS_GET(conn, kind) == NS_CONN_FRESH)
        ns_option_apply(fd, conn, NULL);
    ns_conn_no_batch(conn, NS_UNSEEN);
    push_and_limit(fd, conn);
}

/* Has the program set options that still wait for the rule? Its parent may have connected the
 * socket since the fork. */
static bool waits(int fd, const struct ns_conn *conn)
{
    if (!ns_option_waits(conn) || ns_conn_is_own(conn))
        return ns_option_waits(conn);
    struct ns_kernel_kind kind = ns_kernel_ask(fd);
    return kind.tcp && !kind.connected && !kind.listens;
}

/* From now on its options are the program's own. */
static void give_up(int fd, struct ns_conn *conn)
{
    NS_PUT(conn, send, NS_SEND_APP);
    NS_PUT(conn, ack, NS_ACK_APP);
    if (!ns_conn_is_own(conn))
        return;
    ns_enforce_nodelay(fd, conn);
    ns_delack_unbound(fd, conn);
}

/* Another program may get this socket. how: enum ns_start. A child sets on a socket of its parent
 * only what the program itself has asked for. */
static void each_handed_on(int fd, struct ns_conn *conn, void *how)
{
    bool own = ns_conn_is_own(conn), concerned = own || ns_option_waits(conn);
    int flags = concerned ? NS_QUIETLY(NS_REAL(fcntl)(fd, F_GETFD)) : -1;
    if (flags < 0 || flags & FD_CLOEXEC)
        return;
    NS_DEBUG(fd, "may be handed on to another program");
    if (waits(fd, conn))
        ns_option_set_waiting(fd, conn);
    if (!own)
        return;
    if (*(enum ns_start *)how == NS_EXEC && NS_GET(conn, kind) == NS_CONN_LISTENER)
        give_up(fd, conn); /* what the library has set would stay there */
    push_and_limit(fd, conn);
}

static void each_unseen(int fd, struct ns_conn *conn, void *context)
{
    (void)context;
    ns_conn_no_batch(conn, NS_RING);
    if (!ns_conn_is_own(conn))
        return;
    push_and_limit(fd, conn);
    ns_socket_expect_unseen(fd, conn);
}

void ns_handover_all_unseen(void)
{
    ns_process_notice();
    if (!ns_socket_all_unseen())
        ns_fd_each(each_unseen, NULL);
}

void ns_handover_begins(enum ns_start how)
{
    /* Pending work in a child of vfork belongs to its parent, which sends it itself. The question
     * also forgets an earlier vfork, so that the child does. */
    if (ns_has_other_fds() || ns_process_is_disabled())
        return;
    ns_flush_process(); /* other threads' too: the child has only this thread */
    ns_process_notice();
    if (how != NS_EXEC && ns_fd_any())
        atomic_fetch_add(&ns_process_children, 1);
    if (how != NS_FORK && ns_fd_any() && (ns_option_take_changed() || how == NS_EXEC))
        ns_fd_each(each_handed_on, &how);
}

/* From now on the socket is left alone. */
static void leave_alone(int fd, struct ns_conn *conn)
{
    uint8_t kind = NS_GET(conn, kind);
    ns_push(fd, conn);
    if (kind != NS_CONN_LISTENER && kind != NS_CONN_MANAGED)
        NS_PUT(conn, kind, NS_CONN_ALONE);
    give_up(fd, conn);
    NS_PUT(conn, ack_state, 0);
}

static void disable_one(int fd, struct ns_conn *conn, void *context)
{
    (void)context;
    if (ns_conn_is_own(conn) && ns_option_waits(conn))
        ns_option_apply(fd, conn, NULL);
    ns_socket_use(fd, false);
    if (NS_GET(conn, kind) == NS_CONN_FRESH)
        NS_PUT(conn, flags, NS_GET(conn, flags) | NS_ASK_AGAIN);
    leave_alone(fd, conn);
}

void ns_handover_passes(int fd)
{
    struct ns_conn *conn = ns_fd_conn(fd);
    if (!conn || !ns_conn_is_tracked(conn) || ns_process_is_disabled() || ns_has_other_fds())
        return;
    NS_DEBUG(fd, "is passed to another process: from now on it is left alone here");
    ns_push(fd, conn);
    ns_process_notice();
    if (ns_conn_is_own(conn) || waits(fd, conn))
        ns_option_apply(fd, conn, NULL);
    NS_PUT(conn, flags, NS_GET(conn, flags) & (uint8_t)~NS_LISTENER_SETTLED);
    int nodelay = ns_kernel_get(fd, IPPROTO_TCP, TCP_NODELAY);
    if (nodelay > 0 && NS_GET(conn, kind) == NS_CONN_ASK && !NS_GET(conn, kernel_nodelay))
        NS_PUT(conn, app_nodelay, 1); /* it came from outside so, and was not used */
    if (nodelay >= 0)                 /* a child may have set it */
        NS_PUT(conn, kernel_nodelay, (uint8_t)nodelay);
    leave_alone(fd, conn);
    NS_PUT(conn, rule, NULL);
}

void ns_handover_kept(int fd)
{
    struct ns_conn *conn = ns_fd_conn(fd);
    if (conn && !NS_GET(conn, rule) && !ns_process_is_disabled() && !ns_has_other_fds())
        NS_PUT(conn, kind, NS_CONN_ASK);
}

void ns_handover_disable(void)
{
    if (!ns_process_is_disabled()) { /* another thread may be at it, and not at the end */
        ns_process_notice();
        ns_fd_each(disable_one, NULL);
    }
    if (atomic_fetch_add(&ns_process_filters, 1))
        return;
    ns_status_disabled("it installed a seccomp filter");
    ns_report_disabled(true);
}

void ns_handover_enable(void)
{
    if (atomic_fetch_sub(&ns_process_filters, 1) != 1)
        return;
    ns_report_disabled(false);
    ns_status_enabled();
    for (unsigned fd = 0; fd < atomic_load(&ns_fd_used); fd++) {
        struct ns_conn *conn = ns_fd_conn((int)fd);
        if (conn)
            ns_socket_goes_on((int)fd, conn);
    }
}

void ns_handover_duplicated(int from, int to)
{
    if (from == to || to < 0 || ns_has_other_fds())
        return;
    if (ns_socket_may_be_inherited(from)) /* the other number may have been asked about earlier */
        ns_socket_arrived(from, NS_USED);
    struct ns_conn *conn = ns_fd_has_place(from) ? ns_fd_lookup(from) : NS_FD_UNKNOWN;
    if (!ns_fd_is_conn(conn) || !ns_conn_ref(conn)) {
        ns_fd_set(to, ns_fd_is_conn(conn) ? NS_FD_UNKNOWN : conn);
        return;
    }
    if (!ns_fd_names(from, conn)) { /* another thread has closed it, and conn may be another's */
        ns_conn_unref(conn);
        ns_fd_set(to, NS_FD_UNKNOWN);
        return;
    }
    NS_DEBUG_FROM(to, "the same connection as", from);
    if (!ns_fd_set(to, conn)) /* beyond the table: writes there are not seen */
        ns_handover_unseen(from);
    else if (to <= STDERR_FILENO && ns_conn_is_tracked(conn)) /* stdio */
        ns_handover_unseen(to);
}

void ns_handover_started_with(int fd)
{
    ns_socket_arrived(fd, NS_HANDED_ON);
    /* inetd starts a server with one connection on several of 0 to 2, and systemd also on 3. */
    for (int other = 0; other < fd && other <= STDERR_FILENO; other++)
        if (ns_fd_conn(fd) && ns_fd_conn(other) && ns_kernel_is_same(fd, other)) {
            ns_handover_duplicated(other, fd);
            return;
        }
    if (ns_socket_managed(fd, false))
        ns_handover_unseen(fd);
}
