/* SPDX-License-Identifier: MIT */
/* See socket.h. Owns a connection's kind and rule. Never changes a socket that no rule matches. */
#include "socket/socket.h"

#include "report/status.h"
#include "conn/kernel.h"
#include "conn/process.h"
#include "report/report.h"
#include "socket/option.h"
#include "traffic/learned.h"
#include "traffic/pending.h"

#include <errno.h>
#include <netinet/tcp.h>

static const struct ns_ruleset *rules;
static _Atomic bool unseen; /* something may write to any connection unseen (io_uring) */
_Atomic uint64_t ns_socket_unasked;

void ns_socket_open(const struct ns_ruleset *ruleset)
{
    rules = ruleset;
    atomic_store(&ns_socket_unasked, UINT64_MAX);
    ns_option_open(ruleset);
}

bool ns_socket_all_unseen(void)
{
    return atomic_exchange(&unseen, true);
}

/* The rule of conn, which is counted once, also if it is chosen before the connection is made. */
static void put_rule(struct ns_conn *conn, const struct ns_rule *rule)
{
    const struct ns_rule *before = NS_GET(conn, rule);
    if (before == rule)
        return;
    NS_PUT(conn, rule, rule);
    if (!before)
        NS_COUNT(sockets);
    ns_status_took(rule);
}

/* The socket is left alone. */
static void no_rule_matches(int fd, struct ns_conn *conn, enum ns_conn_kind kind)
{
    NS_PUT(conn, rule, NULL);
    NS_PUT(conn, send, NS_SEND_APP);
    NS_PUT(conn, ack, NS_ACK_APP);
    ns_enforce_nodelay(fd, conn); /* it may have inherited the option from a listener */
    ns_delack_unbound(fd, conn);
    if (kind == NS_CONN_MANAGED)
        NS_COUNT(left_alone);
    ns_report_left_alone(fd, kind == NS_CONN_LISTENER);
    NS_PUT(conn, kind, kind == NS_CONN_LISTENER ? NS_CONN_LISTENER : NS_CONN_ALONE);
}

static void take_rule(int fd, struct ns_conn *conn, const struct ns_rule *rule, bool rings)
{
    NS_PUT(conn, send, (uint8_t)rule->send);
    NS_PUT(conn, ack, (uint8_t)rule->ack);
    if (rule->send == NS_SEND_AUTO_CORK && NS_GET(&ns_stats, unheld) >= NS_UNHELD_MOST)
        ns_conn_no_batch(conn, NS_WAS_LATE);
    if (rings)
        ns_conn_no_batch(conn, NS_RING);
    if (ns_conn_wants_nodelay(conn) == 0 || NS_GET(conn, no_batch))
        ns_enforce_nodelay(fd, conn);
    if (!NS_GET(conn, kernel_nodelay))
        ns_option_changed();
    if (rings) /* its reads will not be seen either */
        ns_delack_bound(fd, conn);
}

void ns_socket_expect_unseen(int fd, struct ns_conn *conn)
{
    if (NS_GET(conn, flags) & NS_LISTENER_SETTLED && NS_GET(conn, rule))
        take_rule(fd, conn, NS_GET(conn, rule), true);
    if (NS_GET(conn, kind) != NS_CONN_FRESH)
        return;
    const struct ns_socket_facts facts = {.role = NS_ROLE_CLIENT};
    const struct ns_rule *rule = NULL;
    if (!rules->needs_remote && !rules->needs_local)
        rule = ns_match_socket(rules, &facts);
    if (!rule)
        return;
    take_rule(fd, conn, rule, true);
    put_rule(conn, rule);
}

void ns_socket_goes_on(int fd, struct ns_conn *conn)
{
    uint8_t flags = NS_GET(conn, flags);
    NS_PUT(conn, flags, flags & (uint8_t)~NS_ASK_AGAIN);
    if (flags & NS_ASK_AGAIN) {
        NS_PUT(conn, kind, NS_CONN_ASK);
        ns_socket_use(fd, false);
    } else if (NS_GET(conn, kind) == NS_CONN_MANAGED && NS_GET(conn, rule)) {
        ns_conn_ack_put(conn, (struct ns_ack_state){.interactive = 1, .here = 1});
        take_rule(fd, conn, NS_GET(conn, rule), atomic_load(&unseen));
    }
    if (ns_conn_is_tracked(conn) && atomic_load(&unseen))
        ns_socket_expect_unseen(fd, conn);
}

/* Give the socket its rule (NULL: leave it alone). kind is what it becomes with one. TCP_NODELAY
 * and TCP_DELACK_MAX_US are set when they first matter; at once if something may use the connection
 * unseen, or accept it from a listener. */
static void apply(int fd, struct ns_conn *conn, const struct ns_rule *rule, enum ns_conn_kind kind)
{
    bool listens = kind == NS_CONN_LISTENER, rings = atomic_load(&unseen);
    /* On a listener only what all of its connections get is set. */
    bool partly = listens && !(NS_GET(conn, flags) & NS_LISTENER_SETTLED);
    ns_option_apply(fd, conn, partly ? NULL : rule);
    if (!rule) {
        no_rule_matches(fd, conn, kind);
        return;
    }
    put_rule(conn, rule);
    if (!listens || (rings && !partly))
        take_rule(fd, conn, rule, rings);
    NS_DEBUG_RULE(fd, rule, listens);
    NS_PUT(conn, kind, (uint8_t)kind);
}

void ns_socket_created(int fd, int domain, int type, int protocol)
{
    if (fd < 0 || ns_has_other_fds())
        return;
    if (!ns_kernel_is_tcp(domain, type, protocol) || ns_process_is_disabled()) {
        ns_fd_set(fd, domain == AF_UNIX ? NS_FD_UNIX : NS_FD_OTHER);
        return;
    }
    struct ns_conn *conn = ns_fd_make(fd);
    if (!conn) {
        ns_report_not_in_table();
        return;
    }
    NS_DEBUG(fd, "TCP socket made; its rule comes with connect or listen");
    NS_PUT(conn, nonblock, (type & SOCK_NONBLOCK) != 0);
    NS_PUT(conn, kind, NS_CONN_FRESH);
    if (atomic_load(&unseen)) /* it may be connected unseen, too */
        ns_socket_expect_unseen(fd, conn);
}

void ns_socket_connecting(int fd, const struct sockaddr *remote, socklen_t len)
{
    /* connect() with AF_UNSPEC removes the limit of delayed ACKs (tcp_disconnect, net/ipv4/tcp.c):
     * it is set again when it next matters. */
    if (ns_process_is_disabled() || ns_has_other_fds())
        return;
    struct ns_conn *conn = ns_socket_use(fd, true);
    if (!conn)
        return;
    uint8_t kind = NS_GET(conn, kind);
    if (kind == NS_CONN_MANAGED && NS_GET(conn, delack) == NS_DELACK_OURS)
        NS_PUT(conn, delack, NS_DELACK_UNASKED);
    /* After a failed connect a socket may be connected to another address. */
    bool again = kind == NS_CONN_MANAGED && rules->needs_remote &&
                 NS_GET(conn, role) == NS_ROLE_CLIENT && !ns_kernel_remote(fd).known;
    if (kind != NS_CONN_FRESH && !again)
        return;
    struct ns_socket_facts facts = {.role = NS_ROLE_CLIENT};
    if (rules->needs_remote) {
        const socklen_t least = sizeof *remote, most = sizeof(struct sockaddr_in6);
        uintptr_t known = (uintptr_t)&least;
        if (len < least || !ns_kernel_can_read(remote, len < most ? len : most, &known))
            return; /* the kernel will refuse it */
        facts.remote = ns_address_from(remote, len);
        if (!facts.remote.known)
            return; /* the kernel will refuse it, or it is AF_UNSPEC */
    }
    if (rules->needs_local) {
        facts.local = ns_kernel_local(fd);
        facts.local.known = facts.local.known && facts.local.port != 0; /* bound */
    }
    NS_DEBUG(fd, "about to connect");
    NS_PUT(conn, role, NS_ROLE_CLIENT);
    apply(fd, conn, ns_match_socket(rules, &facts), NS_CONN_MANAGED);
}

/* inherited: from another program, which may have made it without the rule's options. */
static void listening(int fd, struct ns_conn *conn, bool inherited)
{
    bool settled = false;
    ns_learned_share();
    struct ns_address local = {.known = false};
    if (rules->needs_local)
        local = ns_kernel_local(fd);
    const struct ns_rule *rule = ns_match_listener(rules, &local, &settled);
    NS_DEBUG(fd, settled ? "listens; what it accepts has its rule, too"
                         : "listens; what it accepts is matched one by one");
    NS_PUT(conn, role, NS_ROLE_SERVER);
    uint8_t kept = NS_GET(conn, flags) & (NS_COUNTED | NS_LOWAT);
    NS_PUT(conn, flags, kept | (settled && !inherited ? NS_LISTENER_SETTLED : 0));
    apply(fd, conn, rule, NS_CONN_LISTENER);
}

void ns_socket_listening(int fd)
{
    struct ns_conn *conn = ns_has_other_fds() ? NULL : ns_socket_use(fd, true);
    if (conn && NS_GET(conn, kind) == NS_CONN_FRESH)
        listening(fd, conn, false);
}

static const struct ns_rule *rule_of_connection(int fd, struct ns_conn *conn)
{
    struct ns_socket_facts facts = {.role = (enum ns_role)NS_GET(conn, role)};
    if (rules->needs_remote)
        facts.remote = ns_kernel_remote(fd);
    if (rules->needs_local)
        facts.local = ns_kernel_local(fd);
    return ns_match_socket(rules, &facts);
}

/* The new entry for fd, which the table does not know: a new connection object with one reference
 * or one of the values of fds.h. What may be no socket gets a socket call only if it is TCP: a
 * filter may kill for one (systemd's SystemCallFilter=~@network-io). */
static struct ns_conn *found(int fd, enum ns_arrival how)
{
    if (how != NS_USED_AS_SOCKET && !ns_kernel_may_be_tcp(fd))
        return NS_FD_UNKNOWN;
    struct ns_kernel_kind kind = ns_kernel_ask(fd);
    if (!kind.tcp) /* the number of what is no socket may become another file's unseen */
        return kind.domain == AF_UNIX ? NS_FD_UNIX : kind.domain < 0 ? NS_FD_UNKNOWN : NS_FD_OTHER;
    struct ns_conn *conn = ns_conn_make();
    if (!conn)
        return NS_FD_UNKNOWN;
    NS_DEBUG(fd, "TCP socket that came from outside; its rule comes with its first use");
    NS_PUT(conn, nonblock, kind.nonblock);
    NS_PUT(conn, kind, NS_CONN_ASK);
    return conn;
}

void ns_socket_arrived(int fd, enum ns_arrival how)
{
    if (!ns_fd_has_place(fd) || ns_has_other_fds() ||
        (how != NS_HANDED_ON && !ns_fd_may_be_socket(ns_fd_lookup(fd))))
        return;
    if (ns_socket_may_be_inherited(fd))
        atomic_fetch_and(&ns_socket_unasked, ~(UINT64_C(1) << fd));
    if (ns_process_is_disabled())
        ns_fd_set(fd, NS_FD_UNKNOWN);
    else if (how == NS_HANDED_ON)
        ns_fd_set(fd, found(fd, how));
    else /* inherited, or made or duplicated without the library's knowledge */
        ns_fd_fill(fd, found(fd, how));
}

/* Choose the rule of a socket that came from outside. */
static void choose(int fd, struct ns_conn *conn)
{
    struct ns_kernel_kind kind = ns_kernel_ask(fd);
    if (!kind.tcp) {
        ns_fd_set(fd, NS_FD_UNKNOWN);
        return;
    }
    int nodelay = ns_kernel_get(fd, IPPROTO_TCP, TCP_NODELAY) > 0;
    /* The library may have set it before the socket was connected unseen. */
    bool own = NS_GET(conn, app_nodelay) || !NS_GET(conn, kernel_nodelay);
    NS_DEBUG(fd, "first used");
    NS_PUT(conn, app_nodelay, (uint8_t)(nodelay && own));
    NS_PUT(conn, kernel_nodelay, (uint8_t)nodelay);
    if (ns_kernel_get(fd, IPPROTO_TCP, TCP_CORK) > 0)
        NS_PUT(conn, app_corks, NS_CORKS_OPTION | NS_CORKS_BYTES);
    ns_conn_set_lowat(conn, ns_kernel_get(fd, SOL_SOCKET, SO_RCVLOWAT) != 1);
    ns_delack_found(fd, conn);
    if (ns_kernel_has_ulp(fd)) /* kTLS: its records are not held */
        ns_conn_no_batch(conn, NS_NO_PUSH);
    NS_PUT(conn, in_flight, NS_FLIGHT_UNSEEN);
    ns_conn_ack_put(conn, (struct ns_ack_state){.interactive = 1, .here = 1});
    if (kind.listens)
        listening(fd, conn, true);
    else if (kind.connected)
        apply(fd, conn, rule_of_connection(fd, conn), NS_CONN_MANAGED);
    else /* its rule comes with connect() */
        NS_PUT(conn, kind, NS_CONN_FRESH);
}

struct ns_conn *ns_socket_use(int fd, bool sockets_only)
{
    if (sockets_only || ns_socket_may_be_inherited(fd))
        ns_socket_arrived(fd, sockets_only ? NS_USED_AS_SOCKET : NS_USED);
    struct ns_conn *conn = ns_fd_conn(fd);
    if (!conn || !ns_conn_is_tracked(conn))
        return NULL;
    /* With another descriptor table fd is most likely the same socket, but that is not certain. */
    if (NS_GET(conn, kind) == NS_CONN_ASK && !ns_has_other_fds())
        choose(fd, conn);
    return ns_conn_is_tracked(conn) ? conn : NULL;
}

struct ns_conn *ns_socket_managed_slowly(int fd, bool sockets_only)
{
    struct ns_conn *conn = ns_socket_use(fd, sockets_only);
    if (conn && NS_GET(conn, kind) == NS_CONN_FRESH && !ns_has_other_fds() &&
        ns_kernel_remote(fd).known) {
        /* Connected by a raw system call, by io_uring, or with MSG_FASTOPEN. */
        NS_PUT(conn, role, NS_ROLE_CLIENT);
        NS_PUT(conn, kind, NS_CONN_ASK);
        conn = ns_socket_use(fd, false);
    }
    return conn && NS_GET(conn, kind) == NS_CONN_MANAGED ? conn : NULL;
}

void ns_socket_accepted(int listener, int fd, int flags)
{
    if (fd < 0 || ns_has_other_fds())
        return;
    struct ns_conn *from = ns_socket_use(listener, true);
    if (!from || NS_GET(from, kind) != NS_CONN_LISTENER) {
        struct ns_conn *entry = ns_fd_has_place(listener) ? ns_fd_lookup(listener) : NS_FD_UNKNOWN;
        ns_fd_set(fd, from ? NS_FD_UNKNOWN : ns_fd_is_conn(entry) ? NS_FD_OTHER : entry);
        return;
    }
    struct ns_conn *conn = ns_fd_make(fd);
    if (!conn)
        return;
    NS_DEBUG_FROM(fd, "accepted from the listener", listener);
    NS_PUT(conn, role, NS_ROLE_SERVER);
    NS_PUT(conn, nonblock, (flags & SOCK_NONBLOCK) != 0);
    /* The kernel copies these options from the listener (tcp_create_openreq_child). */
    NS_PUT(conn, app_nodelay, NS_GET(from, app_nodelay));
    NS_PUT(conn, kernel_nodelay, NS_GET(from, kernel_nodelay));
    NS_PUT(conn, app_corks, NS_GET(from, app_corks));
    NS_PUT(conn, delack, NS_GET(from, delack));
    ns_conn_set_lowat(conn, NS_GET(from, flags) & NS_LOWAT);
    ns_option_inherit(conn, from);
    if (ns_process_is_disabled()) { /* inherited options stay hidden from the application */
        NS_PUT(conn, kind, NS_CONN_MANAGED);
        NS_PUT(conn, flags, NS_GET(conn, flags) | NS_ASK_AGAIN);
        return;
    }
    apply(fd, conn,
          NS_GET(from, flags) & NS_LISTENER_SETTLED ? NS_GET(from, rule)
                                                    : rule_of_connection(fd, conn),
          NS_CONN_MANAGED);
}

void ns_socket_closing(int fd)
{
    if (ns_has_other_fds())
        return;
    struct ns_conn *conn = ns_fd_conn(fd);
    bool referred = conn && ns_conn_ref(conn);
    /* This comes first, so that work that becomes pending from now on is listed under other
     * numbers. */
    if (ns_fd_has_place(fd))
        ns_fd_set(fd, NS_FD_UNKNOWN);
    if (!referred)
        return;
    NS_DEBUG(fd, "closed");
    /* The last close of a socket sends held bytes with its FIN, but this one may not be the last: a
     * duplicate, a child or a thread inside a read may keep the socket open. And a close with
     * unread data is a reset (RFC 2525, 2.17), which drops unsent bytes. */
    ns_push(fd, conn);
    if (NS_GET(conn, references) > 1)
        ns_acknowledge(fd, conn); /* what is pending: it is on no list of the other descriptors */
    ns_conn_unref(conn);
}
