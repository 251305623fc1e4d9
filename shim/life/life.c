/* SPDX-License-Identifier: MIT */
/* See life.h. Owns the slot's kind and rule. Must never touch a socket that no rule matches. */
#include "life/life.h"

#include "life/option.h"
#include "conn/process.h"
#include "traffic/push.h"
#include "base/real.h"
#include "traffic/settle.h"
#include "conn/kernel.h"
#include "conn/report.h"
#include "base/stats.h"
#include "conn/status.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <unistd.h>

static const struct ns_ruleset *rules;
static _Atomic bool aside;  /* no system call of ours any more */
static _Atomic bool forked; /* from a process that may still use the same sockets */
static _Atomic bool unseen; /* somebody may write to any connection past us */
static _Atomic bool bare;   /* some socket is not yet as it is to be handed on */

void ns_life_open(const struct ns_ruleset *ruleset)
{
    rules = ruleset;
    ns_option_open(ruleset);
}

bool ns_life_is_aside(void)
{
    return atomic_load_explicit(&aside, memory_order_relaxed);
}

/* What the kernel's TCP_NODELAY is to be under the slot's rule. */
static int wanted_nodelay(const struct ns_sock *slot)
{
    switch ((enum ns_send)NS_GET(slot, send)) {
    case NS_SEND_NODELAY:
    case NS_SEND_AUTO_CORK:
    case NS_SEND_ADAPTIVE:
        return 1;
    case NS_SEND_FLUSH_BEFORE_READ: /* what the application sends at once is not Nagle's to hold */
    case NS_SEND_APP:
        break;
    }
    return NS_GET(slot, app_nodelay);
}

void ns_life_enforce_nodelay(int fd, struct ns_sock *slot)
{
    int wanted = wanted_nodelay(slot);
    if (wanted == NS_GET(slot, kernel_nodelay) || NS_GET(slot, joins) || ns_life_is_aside())
        return;
    if (ns_sock_set(fd, IPPROTO_TCP, TCP_NODELAY, wanted) == 0)
        NS_PUT(slot, kernel_nodelay, (uint8_t)wanted);
    else
        NS_PUT(slot, steady, NS_STEADY_NEVER); /* nor could it be pushed */
    if (wanted && NS_GET(slot, kernel_nodelay))
        NS_COUNT(nodelay);
    NS_DEBUG_FROM(fd, "TCP_NODELAY in the kernel is", NS_GET(slot, kernel_nodelay));
}

/* The slot's rule says nothing of this socket. */
static void leave_alone(int fd, struct ns_sock *slot, enum ns_fd_kind kind)
{
    NS_PUT(slot, send, NS_SEND_APP);
    NS_PUT(slot, ack, NS_ACK_APP);
    ns_life_enforce_nodelay(fd, slot); /* a listener's rule may have left its own */
    ns_option_unbound_delayed_ack(fd, slot);
    if (kind == NS_FD_RULED)
        NS_COUNT(left_alone);
    ns_report_left_alone(fd, kind == NS_FD_LISTENER);
    NS_PUT(slot, kind, kind == NS_FD_LISTENER ? NS_FD_LISTENER : NS_FD_OTHER);
}

/* Give the socket its rule (NULL: leave it alone). kind is what it becomes if it has one. What
 * TCP_NODELAY and TCP_DELACK_MAX_US are for is set where it first matters; on a listener once, for
 * every connection that it will accept. */
static void apply(int fd, struct ns_sock *slot, const struct ns_rule *rule, enum ns_fd_kind kind)
{
    uint8_t listener = NS_GET(slot, listener);
    bool listens = kind == NS_FD_LISTENER;
    /* What its connections do not all have, a listener must not set, nor what would stay on
     * somebody else's. */
    bool partly = listens && (!(listener & NS_LISTENER_SETTLED) || listener & NS_LISTENER_ADOPTED);
    ns_option_apply(fd, slot, partly ? NULL : rule);
    if (!rule) {
        leave_alone(fd, slot, kind);
        return;
    }
    NS_PUT(slot, rule, rule);
    NS_PUT(slot, send, (uint8_t)rule->send);
    NS_PUT(slot, ack, (uint8_t)rule->ack);
    if (atomic_load(&unseen))
        NS_PUT(slot, steady, NS_GET(slot, steady) | NS_STEADY_UNSEEN);
    if (listens ? !partly : wanted_nodelay(slot) == 0 || NS_GET(slot, steady))
        ns_life_enforce_nodelay(fd, slot);
    if (listens || !NS_GET(slot, kernel_nodelay))
        atomic_store_explicit(&bare, true, memory_order_relaxed);
    if (rule->ack == NS_ACK_BEFORE_WAIT && listens && !partly)
        ns_option_bound_delayed_ack(fd, slot);
    NS_COUNT(sockets);
    NS_DEBUG_RULE(fd, rule, listens);
    ns_status_took(rule);
    NS_PUT(slot, kind, (uint8_t)kind);
    ns_fd_share(slot);
}

void ns_life_created(int fd, int domain, int type, int protocol)
{
    bool tcp = ns_sock_is_tcp(domain, type, protocol) && !atomic_load(&aside);
    struct ns_sock *slot = tcp ? ns_fd_make(fd) : ns_fd_slot(fd);
    if (!slot)
        return;
    ns_fd_reset(slot);
    NS_PUT(slot, domain, (uint8_t)domain);
    NS_PUT(slot, nonblock, (type & SOCK_NONBLOCK) != 0);
    NS_PUT(slot, kind, tcp ? NS_FD_FRESH : NS_FD_OTHER);
    if (tcp)
        NS_DEBUG(fd, "TCP socket made; its rule comes with connect or listen");
}

void ns_life_connecting(int fd, const struct sockaddr *remote, socklen_t len)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    if (!slot)
        return;
    uint8_t kind = NS_GET(slot, kind);
    /* A socket whose connect failed may be connected to somebody else. */
    bool again = kind == NS_FD_RULED && rules->needs_remote &&
                 NS_GET(slot, role) == NS_ROLE_CLIENT && !ns_sock_remote(fd).known;
    if (kind != NS_FD_FRESH && !again)
        return;
    struct ns_socket_facts facts = {.role = NS_ROLE_CLIENT};
    if (rules->needs_remote) { /* only then: the kernel may find the pointer bad, and we would crash
                                */
        facts.remote = ns_address_from(remote, len);
        if (!facts.remote.known)
            return; /* the kernel will refuse it, or AF_UNSPEC */
    }
    if (rules->needs_local) {
        facts.local = ns_sock_local(fd);
        facts.local.known = facts.local.known && facts.local.port != 0; /* bound */
    }
    NS_DEBUG(fd, "about to connect");
    NS_PUT(slot, role, NS_ROLE_CLIENT);
    apply(fd, slot, ns_match_socket(rules, &facts), NS_FD_RULED);
}

static void listening(int fd, struct ns_sock *slot, uint8_t adopted)
{
    bool settled = false;
    struct ns_address local = {.known = false};
    if (rules->needs_local)
        local = ns_sock_local(fd);
    const struct ns_rule *rule = ns_match_listener(rules, &local, &settled);
    NS_DEBUG(fd, settled ? "listens; what it accepts has its rule, too"
                         : "listens; what it accepts is matched one by one");
    NS_PUT(slot, role, NS_ROLE_SERVER);
    NS_PUT(slot, listener, adopted | (settled ? NS_LISTENER_SETTLED : 0));
    apply(fd, slot, rule, NS_FD_LISTENER);
}

void ns_life_listening(int fd)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    if (slot && NS_GET(slot, kind) == NS_FD_FRESH)
        listening(fd, slot, 0);
}

static const struct ns_rule *rule_of_connection(int fd, struct ns_sock *slot)
{
    struct ns_socket_facts facts = {.role = (enum ns_role)NS_GET(slot, role)};
    if (rules->needs_remote)
        facts.remote = ns_sock_remote(fd);
    if (rules->needs_local)
        facts.local = ns_sock_local(fd);
    return ns_match_socket(rules, &facts);
}

void ns_life_accepted(int listener, int fd, int flags)
{
    struct ns_sock *from = ns_fd_slot(listener);
    if (from && NS_GET(from, kind) == NS_FD_ASK)
        ns_life_adopt(listener, from);
    bool tcp = from && NS_GET(from, kind) == NS_FD_LISTENER;
    struct ns_sock *slot = tcp ? ns_fd_make(fd) : ns_fd_slot(fd);
    if (!slot)
        return;
    ns_fd_reset(slot);
    if (!tcp) {
        NS_PUT(slot, kind, from && NS_GET(from, kind) == NS_FD_OTHER ? NS_FD_OTHER : NS_FD_UNKNOWN);
        return;
    }
    NS_DEBUG_FROM(fd, "accepted from the listener", listener);
    NS_PUT(slot, domain, NS_GET(from, domain));
    NS_PUT(slot, role, NS_ROLE_SERVER);
    NS_PUT(slot, nonblock, (flags & SOCK_NONBLOCK) != 0);
    /* What the kernel copies from the listener (tcp_create_openreq_child): three options. */
    NS_PUT(slot, app_nodelay, NS_GET(from, app_nodelay));
    NS_PUT(slot, kernel_nodelay, NS_GET(from, kernel_nodelay));
    NS_PUT(slot, delack, NS_GET(from, delack));
    NS_PUT(slot, lowat, NS_GET(from, lowat));
    ns_option_inherit(slot, from);
    if (atomic_load(&aside)) { /* what it has inherited from a rule is still not told */
        NS_PUT(slot, send, NS_SEND_APP);
        NS_PUT(slot, ack, NS_ACK_APP);
        NS_PUT(slot, kind, NS_FD_RULED);
        return;
    }
    apply(fd, slot,
          NS_GET(from, listener) & NS_LISTENER_SETTLED ? NS_GET(from, rule)
                                                       : rule_of_connection(fd, slot),
          NS_FD_RULED);
}

void ns_life_inherited(int fd, bool touch)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    if (ns_is_elsewhere())
        return;
    if (ns_life_is_aside()) {
        if (slot)
            ns_fd_reset(slot);
        return;
    }
    struct ns_sock_kind kind = ns_sock_ask(fd);
    if (!kind.tcp) {
        slot = ns_fd_make(fd); /* so that nobody need ask again */
        if (slot) {
            ns_fd_reset(slot);
            NS_PUT(slot, kind, kind.domain == -EBADF ? NS_FD_UNKNOWN : NS_FD_OTHER);
        }
        return;
    }
    slot = ns_fd_make(fd);
    if (!slot)
        return;
    ns_fd_reset(slot);
    NS_PUT(slot, domain, (uint8_t)kind.domain);
    NS_PUT(slot, nonblock, kind.nonblock);
    NS_PUT(slot, listener, NS_HANDED_ON);
    NS_PUT(slot, kind, NS_FD_ASK);
    NS_DEBUG(fd, "TCP socket that came from outside; its rule comes with its first use");
    if (touch && (kind.connected || kind.listens) && ns_life_adopt(fd, slot))
        ns_life_unseen(fd);
}

void ns_life_meet(int fd)
{
    if ((unsigned)fd >= atomic_load_explicit(&ns_fd_limit, memory_order_relaxed) ||
        ns_life_is_aside())
        return;
    ns_life_inherited(fd, false);
    struct ns_sock *slot = ns_fd_slot(fd);
    if (slot) /* made here, or a duplicate, past us */
        NS_PUT(slot, listener, 0);
}

struct ns_sock *ns_life_adopt(int fd, struct ns_sock *slot)
{
    if (NS_GET(slot, kind) == NS_FD_FRESH && !ns_is_elsewhere() && ns_sock_remote(fd).known) {
        NS_PUT(slot, role, NS_ROLE_CLIENT); /* by a raw call, by io_uring, or MSG_FASTOPEN */
        NS_PUT(slot, kind, NS_FD_ASK);
    }
    if (NS_GET(slot, kind) != NS_FD_ASK || ns_is_elsewhere())
        return NULL;
    struct ns_sock_kind kind = ns_sock_ask(fd);
    if (!kind.tcp) {
        ns_fd_reset(slot);
        return NULL;
    }
    int nodelay = ns_sock_get(fd, IPPROTO_TCP, TCP_NODELAY) > 0;
    /* Of a shim in the program that handed it on: see mark_as_ours. */
    bool ours = NS_GET(slot, listener) & NS_HANDED_ON && ns_option_has_bound(fd, slot);
    NS_DEBUG(fd, ours ? "first used; another shim has set TCP_NODELAY" : "first used");
    NS_PUT(slot, app_nodelay, (uint8_t)(nodelay && !ours));
    NS_PUT(slot, kernel_nodelay, (uint8_t)nodelay);
    NS_PUT(slot, lowat, ns_sock_get(fd, SOL_SOCKET, SO_RCVLOWAT) != 1);
    if (ns_sock_has_ulp(fd)) /* kTLS: MSG_MORE would leave a record open */
        NS_PUT(slot, steady, NS_STEADY_NEVER);
    NS_PUT(slot, wrote, 1); /* as far as we know */
    ns_fd_ack_put(slot, (struct ns_ack_state){.interactive = 1});
    if (kind.listens) {
        listening(fd, slot, NS_LISTENER_ADOPTED);
        return NULL;
    }
    if (!kind.connected) { /* a socket to connect: its rule comes with connect() */
        NS_PUT(slot, kind, NS_FD_FRESH);
        return NULL;
    }
    apply(fd, slot, rule_of_connection(fd, slot), NS_FD_RULED);
    return NS_GET(slot, kind) == NS_FD_RULED ? slot : NULL;
}

void ns_life_heal(int fd, struct ns_sock *slot)
{
    int saved = errno;
    if (ns_is_elsewhere())
        return;
    NS_DEBUG(fd, "a call failed as it does on no TCP socket: asked again what it is");
    if (!atomic_load(&aside) && ns_sock_ask(fd).tcp)
        /* A kernel that will not have our address: then plain writes. */
        NS_PUT(slot, steady, NS_STEADY_NEVER);
    else
        ns_fd_reset(slot);
    errno = saved;
}

void ns_life_duplicated(int from, int to)
{
    struct ns_sock *source = ns_fd_slot(from);
    struct ns_sock *slot = ns_fd_slot(to);
    if (from == to)
        return;
    if (slot)
        ns_fd_reset(slot);
    if (!source || !ns_fd_is_tcp(source)) {
        if (slot && source)
            NS_PUT(slot, kind, NS_GET(source, kind));
        return;
    }
    if (NS_GET(source, kind) == NS_FD_FRESH) /* two slots could not agree on its later rule */
        ns_option_apply(from, source, NULL);
    /* Its debt to push stays behind, and from may be closed where we cannot see it. */
    ns_push(from, source);
    slot = ns_fd_make(to);
    if (!slot) { /* beyond the table: what is written there nobody sees */
        ns_life_unseen(from);
        return;
    }
    /* What the application put into one and the kernel shares. Debts stay with the descriptor that
     * made them; pushing through either pushes for both. */
    NS_DEBUG_FROM(to, "has the rule of the socket that it is a duplicate of,", from);
    NS_PUT(slot, role, NS_GET(source, role));
    NS_PUT(slot, send, NS_GET(source, send));
    NS_PUT(slot, ack, NS_GET(source, ack));
    NS_PUT(slot, nonblock, NS_GET(source, nonblock));
    NS_PUT(slot, app_nodelay, NS_GET(source, app_nodelay));
    NS_PUT(slot, kernel_nodelay, NS_GET(source, kernel_nodelay));
    NS_PUT(slot, app_corks, NS_GET(source, app_corks));
    NS_PUT(slot, steady, NS_GET(source, steady));
    NS_PUT(slot, wrote, NS_GET(source, wrote));
    NS_PUT(slot, lowat, NS_GET(source, lowat));
    NS_PUT(slot, listener, NS_GET(source, listener));
    NS_PUT(slot, delack, NS_GET(source, delack));
    NS_PUT(slot, domain, NS_GET(source, domain));
    NS_PUT(slot, ack_state, NS_GET(source, ack_state));
    NS_PUT(slot, rule, NS_GET(source, rule));
    ns_option_inherit(slot, source);
    ns_fd_twin(source, slot);
    NS_PUT(slot, kind, NS_GET(source, kind));
    if (to <= STDERR_FILENO) /* stdio */
        ns_life_unseen(to);
}

void ns_life_closing(int fd)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    if (!slot || NS_GET(slot, kind) == NS_FD_UNKNOWN)
        return;
    if (ns_fd_is_tcp(slot))
        NS_DEBUG(fd, "closed");
    /* A close that is the last one sends what is held with its FIN, but who knows whether it is: a
     * duplicate, a child, a thread that is inside a read keep the socket open for 200 ms. And a
     * close with data unread is a reset (RFC 2525, 2.17), which drops what has not left. */
    ns_push(fd, slot);
    ns_fd_reset(slot);
}

struct range {
    unsigned low, high;
};

static void close_if_within(int fd, struct ns_sock *slot, void *context)
{
    const struct range *range = context;
    (void)slot;
    if ((unsigned)fd >= range->low && (unsigned)fd <= range->high)
        ns_life_closing(fd);
}

void ns_life_closing_range(unsigned low, unsigned high)
{
    struct range range = {low, high};
    ns_fd_each(close_if_within, &range);
}

/* What is set on a listener stays there: it is to be as its application has it. From now on what
 * it accepts is treated one by one. */
static void give_back(int fd, struct ns_sock *slot)
{
    if (NS_GET(slot, listener) & NS_LISTENER_ADOPTED)
        return;
    NS_DEBUG(fd,
             "listener given back as the program has it; what it accepts is treated one by one");
    NS_PUT(slot, listener, NS_GET(slot, listener) | NS_LISTENER_ADOPTED);
    if (NS_GET(slot, kernel_nodelay) != NS_GET(slot, app_nodelay) &&
        ns_sock_set(fd, IPPROTO_TCP, TCP_NODELAY, NS_GET(slot, app_nodelay)) == 0)
        NS_PUT(slot, kernel_nodelay, NS_GET(slot, app_nodelay));
    ns_option_unbound_delayed_ack(fd, slot);
}

/* A connection whose TCP_NODELAY is ours has the bound, and no other: so whoever else comes to have
 * it does not take that for the program's own. */
static void mark_as_ours(int fd, struct ns_sock *slot)
{
    if (NS_GET(slot, app_nodelay))
        ns_option_unbound_delayed_ack(fd, slot);
    else if (NS_GET(slot, ack) == NS_ACK_BEFORE_WAIT)
        ns_option_bound_delayed_ack(fd, slot);
}

static void is_unseen(int fd, struct ns_sock *slot)
{
    ns_push(fd, slot);
    if (NS_GET(slot, kind) == NS_FD_RULED)
        ns_life_enforce_nodelay(fd, slot);
}

void ns_life_unseen(int fd)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    if (!slot || !ns_fd_is_tcp(slot) || ns_life_is_aside() || ns_is_elsewhere())
        return;
    if (NS_GET(slot, kind) == NS_FD_ASK && !ns_life_adopt(fd, slot))
        return;
    NS_DEBUG(fd, "stdio, another process or a bare call writes to it: nothing is held or joined");
    if (NS_GET(slot, kind) == NS_FD_LISTENER)
        give_back(fd, slot);
    if (NS_GET(slot, kind) == NS_FD_FRESH)
        ns_option_apply(fd, slot, NULL);
    NS_PUT(slot, steady, NS_GET(slot, steady) | NS_STEADY_UNSEEN);
    is_unseen(fd, slot);
    if (NS_GET(slot, kind) == NS_FD_RULED)
        mark_as_ours(fd, slot); /* and bound the ACKs of waits that we will not see, either */
    ns_fd_share(slot);
}

static void each_enforced(int fd, struct ns_sock *slot, void *context)
{
    (void)context;
    if (NS_GET(slot, kind) == NS_FD_RULED)
        is_unseen(fd, slot);
}

/* Another program may come to have these. A listener is as it was. */
static void each_handed_on(int fd, struct ns_sock *slot, void *context)
{
    bool listens = NS_GET(slot, kind) == NS_FD_LISTENER;
    int flags = listens ? NS_REAL(fcntl)(fd, F_GETFD) : 0;
    if (listens && flags >= 0 && !(flags & FD_CLOEXEC))
        give_back(fd, slot);
    NS_DEBUG(fd, "may be handed on to another program");
    each_enforced(fd, slot, context);
    if (NS_GET(slot, kind) == NS_FD_RULED)
        mark_as_ours(fd, slot);
}

static void each_unseen(int fd, struct ns_sock *slot, void *context)
{
    NS_PUT(slot, steady, NS_GET(slot, steady) | NS_STEADY_UNSEEN);
    each_enforced(fd, slot, context);
}

void ns_life_all_unseen(void)
{
    if (!atomic_exchange(&unseen, true))
        ns_fd_each(each_unseen, NULL);
}

void ns_life_changed(void)
{
    atomic_store_explicit(&bare, true, memory_order_relaxed);
}

void ns_life_handing_on(bool replaced)
{
    if (ns_life_is_aside())
        return;
    ns_option_commit();
    ns_settle_process(); /* other threads' too: in the child nobody would know of them */
    if (replaced && atomic_exchange(&bare, false))
        ns_fd_each(each_handed_on, NULL);
}

void ns_life_forked(void)
{
    atomic_store(&forked, true);
}

static void put_aside(int fd, struct ns_sock *slot, void *context)
{
    (void)context;
    if (NS_GET(slot, kind) == NS_FD_LISTENER)
        give_back(fd, slot);
    else if (NS_GET(slot, kind) != NS_FD_RULED)
        ns_fd_reset(slot);
    NS_PUT(slot, send, NS_SEND_APP);
    NS_PUT(slot, ack, NS_ACK_APP);
    if (NS_GET(slot, kind) == NS_FD_RULED && !atomic_load(&forked)) {
        ns_life_enforce_nodelay(fd, slot);
        ns_option_unbound_delayed_ack(fd, slot);
    }
    NS_PUT(slot, rule, NULL);
    NS_PUT(slot, ack_state, 0);
}

/* As without us, from now on: the options are the application's own again. But a process that was
 * forked may share its sockets with one that counts on them. */
void ns_life_stand_aside(void)
{
    if (ns_life_is_aside())
        return;
    ns_option_commit();
    ns_settle_process();
    ns_fd_each(put_aside, NULL);
    atomic_store(&aside, true);
    ns_process_silence();
    ns_status_aside("it installed a seccomp filter");
    ns_report_aside();
}
