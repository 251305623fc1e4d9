/* SPDX-License-Identifier: MIT */
/* A socket's life: when its rule is chosen, and what the rule sets there. Owns the slot's kind and
 * rule. Must never touch a socket that no rule matches. errno is unchanged; async-signal-safe. */
#include "engine.h"

#include "flusher.h"
#include "gather_socket.h"
#include "option.h"
#include "sock.h"
#include "stats.h"
#include "status.h"

#include <netinet/tcp.h>
#include <unistd.h>

static const struct ns_ruleset *rules;

void ns_engine_open(const struct ns_ruleset *ruleset)
{
    rules = ruleset;
    ns_option_open(ruleset);
    uint32_t most = 0;
    for (size_t i = 0; i < ruleset->n_rules; i++)
        if (ns_rule_gathers(ruleset->rules[i]) && ruleset->rules[i]->max_bytes > most)
            most = ruleset->rules[i]->max_bytes;
    if (most)
        ns_gather_open(most);
}

void ns_engine_stand_aside(void)
{
    if (NS_MUTANT(stand_aside))
        return;
    ns_option_commit();
    ns_engine_leaving();
    ns_flusher_stop(false);
    ns_fd_open(0);
    ns_status_aside("it installed a seccomp filter");
}

void ns_engine_leaving(void)
{
    ns_settle_process();
    if (ns_gather_wanted())
        ns_gather_stop_all();
}

void ns_engine_may_gather(int fd, struct ns_sock *slot)
{
    const struct ns_rule *rule = NS_GET(slot, rule);
    if (rule && ns_rule_gathers(rule) && NS_GET(slot, kind) == NS_FD_RULED &&
        !NS_GET(slot, no_hold) && !NS_GET(slot, app_corks) &&
        /* Two writers would each gather for themselves, and mix up the order. */
        !(NS_GET(slot, listener) & NS_CONNECTION_SHARED))
        ns_gather_begin(fd, slot);
}

void ns_engine_bypassed(int fd)
{
    struct ns_sock *slot = fd >= 0 ? ns_fd_slot(fd) : NULL;
    if (slot && NS_GET(slot, kind) >= NS_FD_GATHERS)
        ns_gather_end(fd, slot);
    else if (fd < 0 && ns_gather_wanted())
        ns_gather_stop_all();
}

void ns_engine_connected(int fd)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    if (slot && NS_GET(slot, kind) == NS_FD_RULED)
        ns_engine_may_gather(fd, slot);
}

/* What the kernel's TCP_NODELAY is to be under the slot's rule. */
static int wanted_nodelay(const struct ns_sock *slot)
{
    switch ((enum ns_send)NS_GET(slot, send)) {
    case NS_SEND_NODELAY:
    case NS_SEND_AUTO_CORK:
    case NS_SEND_ADAPTIVE:
        return !NS_MUTANT(nodelay);
    case NS_SEND_FLUSH_BEFORE_READ: /* what the application sends at once is not Nagle's to hold */
    case NS_SEND_APP:
        break;
    }
    return NS_GET(slot, app_nodelay);
}

void ns_rule_enforce_nodelay(int fd, struct ns_sock *slot)
{
    int wanted = wanted_nodelay(slot);
    if (wanted == NS_GET(slot, kernel_nodelay))
        return;
    if (ns_sock_set(fd, IPPROTO_TCP, TCP_NODELAY, wanted) == 0)
        NS_PUT(slot, kernel_nodelay, (uint8_t)wanted);
    else
        NS_PUT(slot, no_hold, 1); /* nor could it be pushed */
}

/* Give the socket its rule (NULL: leave it alone). kind is what it becomes if it has one. */
static void apply(int fd, struct ns_sock *slot, const struct ns_rule *rule, enum ns_fd_kind kind)
{
    /* What its connections do not all have, a listener must not set. */
    bool partly = kind == NS_FD_LISTENER && !(NS_GET(slot, listener) & NS_LISTENER_SETTLED);
    ns_option_apply(fd, slot, partly ? NULL : rule);
    if (!rule) {
        NS_PUT(slot, send, NS_SEND_APP);
        NS_PUT(slot, ack, NS_ACK_APP);
        ns_rule_enforce_nodelay(fd, slot); /* a listener's rule may have left its own */
        ns_option_unbound_delayed_ack(fd, slot);
        if (kind == NS_FD_RULED)
            NS_COUNT(left_alone);
        NS_PUT(slot, kind, kind == NS_FD_LISTENER ? NS_FD_LISTENER : NS_FD_OTHER);
        return;
    }
    NS_PUT(slot, rule, rule);
    NS_PUT(slot, send, (uint8_t)rule->send);
    NS_PUT(slot, ack, (uint8_t)rule->ack);
    if (kind != NS_FD_LISTENER || !NS_MUTANT(nodelay_on_listener))
        ns_rule_enforce_nodelay(fd, slot);
    if (rule->ack == NS_ACK_BEFORE_WAIT && !partly)
        ns_option_bound_delayed_ack(fd, slot);
    NS_COUNT(sockets);
    ns_status_took(rule);
    NS_PUT(slot, kind, (uint8_t)kind);
    ns_fd_share(slot);
}

/* Start the deadline thread for a connection that will hold bytes. Called from connect and accept
 * and at start-up, not from the first write or read: those may stand in a signal handler. An
 * adaptive one may never hold a byte: see ns_flusher_want. */
static void prepare(const struct ns_sock *slot)
{
    if (NS_GET(slot, kind) == NS_FD_RULED && NS_GET(slot, send) == NS_SEND_AUTO_CORK)
        ns_flusher_prepare();
}

void ns_engine_created(int fd, int domain, int type, int protocol)
{
    bool tcp = ns_sock_is_tcp(domain, type, protocol);
    struct ns_sock *slot = tcp ? ns_fd_make(fd) : ns_fd_slot(fd);
    if (!slot)
        return;
    ns_fd_reset(slot);
    if (!tcp)
        return;
    NS_PUT(slot, domain, (uint8_t)domain);
    NS_PUT(slot, nonblock, (type & SOCK_NONBLOCK) != 0);
    NS_PUT(slot, kind, NS_FD_FRESH);
}

void ns_engine_connecting(int fd, const struct sockaddr *remote, socklen_t len)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    if (!slot)
        return;
    if (NS_GET(slot, kind) >= NS_FD_GATHERS)
        ns_gather_end(fd, slot); /* AF_UNSPEC, and then to somebody else */
    uint8_t kind = NS_GET(slot, kind);
    /* A socket whose connect failed may be connected to somebody else. */
    bool again =
        kind == NS_FD_RULED && NS_GET(slot, role) == NS_ROLE_CLIENT && !ns_sock_remote(fd).known;
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
    NS_PUT(slot, role, NS_ROLE_CLIENT);
    apply(fd, slot, ns_match_socket(rules, &facts), NS_FD_RULED);
    prepare(slot);
}

void ns_engine_listening(int fd)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    if (!slot || NS_GET(slot, kind) != NS_FD_FRESH)
        return;
    bool settled = false;
    struct ns_address local = {.known = false};
    if (rules->needs_local)
        local = ns_sock_local(fd);
    const struct ns_rule *rule = ns_match_listener(rules, &local, &settled);
    NS_PUT(slot, role, NS_ROLE_SERVER);
    NS_PUT(slot, listener, settled ? NS_LISTENER_SETTLED : 0);
    apply(fd, slot, rule, NS_FD_LISTENER);
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

/* A connection of a listener that came from outside may have been made before we set anything
 * there. */
static void from_older_queue(int fd, struct ns_sock *slot)
{
    uint8_t nodelay = ns_sock_get(fd, IPPROTO_TCP, TCP_NODELAY) > 0;
    if (nodelay == NS_GET(slot, kernel_nodelay))
        return;
    NS_PUT(slot, kernel_nodelay, nodelay);
    NS_PUT(slot, delack, 0);
}

void ns_engine_accepted(int listener, int fd, int flags)
{
    struct ns_sock *from = ns_fd_slot(listener);
    if (from && NS_GET(from, kind) == NS_FD_ASK) {
        ns_engine_adopt(listener, from);
        from = ns_fd_slot(listener);
    }
    bool tcp = from && NS_GET(from, kind) == NS_FD_LISTENER;
    struct ns_sock *slot = tcp ? ns_fd_make(fd) : ns_fd_slot(fd);
    if (!slot)
        return;
    ns_fd_reset(slot);
    if (!tcp)
        return;
    NS_PUT(slot, domain, NS_GET(from, domain));
    NS_PUT(slot, role, NS_ROLE_SERVER);
    NS_PUT(slot, nonblock, (flags & SOCK_NONBLOCK) != 0);
    /* What the kernel copies from the listener (tcp_create_openreq_child): three options. */
    NS_PUT(slot, app_nodelay, NS_GET(from, app_nodelay));
    NS_PUT(slot, kernel_nodelay, NS_GET(from, kernel_nodelay));
    NS_PUT(slot, delack, NS_GET(from, delack));
    NS_PUT(slot, lowat, NS_GET(from, lowat));
    ns_option_inherit(slot, from);
    if (NS_GET(from, listener) & NS_LISTENER_ADOPTED)
        from_older_queue(fd, slot);
    const struct ns_rule *rule = NS_GET(from, listener) & NS_LISTENER_SETTLED
                                     ? NS_GET(from, rule)
                                     : rule_of_connection(fd, slot);
    apply(fd, slot, rule, NS_FD_RULED);
    prepare(slot);
    ns_engine_may_gather(fd, slot);
}

void ns_engine_inherited(int fd, bool touch)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    struct ns_sock_kind kind = ns_sock_ask(fd);
    if (!kind.tcp) {
        if (slot && NS_GET(slot, kind) != NS_FD_OTHER)
            ns_fd_reset(slot);
        return;
    }
    slot = ns_fd_make(fd);
    if (!slot)
        return;
    ns_fd_reset(slot);
    NS_PUT(slot, domain, (uint8_t)kind.domain);
    NS_PUT(slot, nonblock, kind.nonblock);
    NS_PUT(slot, kind, NS_FD_ASK);
    if (touch && !NS_MUTANT(inherited_at_start) && (kind.connected || kind.listens) &&
        ns_engine_adopt(fd, slot))
        prepare(slot);
}

/* The first use of a socket that came from outside, or of a fresh one that was connected by a way
 * we did not see. Returns the slot if a rule governs it as a connection. */
struct ns_sock *ns_engine_adopt(int fd, struct ns_sock *slot)
{
    if (NS_GET(slot, kind) == NS_FD_READS)
        ns_gather_end(fd, slot);
    if (NS_GET(slot, kind) == NS_FD_GATHERS || NS_GET(slot, kind) == NS_FD_RULED)
        return slot;
    if (NS_GET(slot, kind) == NS_FD_FRESH && ns_sock_remote(fd).known)
        NS_PUT(slot, kind, NS_FD_ASK); /* connected by a raw call, or by io_uring */
    if (NS_GET(slot, kind) != NS_FD_ASK)
        return NULL;
    struct ns_sock_kind kind = ns_sock_ask(fd);
    if (!kind.tcp) {
        ns_fd_reset(slot);
        return NULL;
    }
    int nodelay = ns_sock_get(fd, IPPROTO_TCP, TCP_NODELAY) > 0;
    NS_PUT(slot, app_nodelay, (uint8_t)nodelay);
    NS_PUT(slot, kernel_nodelay, (uint8_t)nodelay);
    NS_PUT(slot, lowat, ns_sock_get(fd, SOL_SOCKET, SO_RCVLOWAT) != 1);
    NS_PUT(slot, no_hold, ns_sock_has_ulp(fd));   /* kTLS: MSG_MORE would leave a record open */
    NS_PUT(slot, listener, NS_CONNECTION_SHARED); /* who knows with whom */
    if (kind.listens) {
        NS_PUT(slot, kind, NS_FD_FRESH);
        ns_engine_listening(fd);
        NS_PUT(slot, listener, NS_GET(slot, listener) | NS_LISTENER_ADOPTED);
        return NULL;
    }
    if (!kind.connected) { /* a socket to connect: its rule comes with connect() */
        NS_PUT(slot, kind, NS_FD_FRESH);
        return NULL;
    }
    apply(fd, slot, rule_of_connection(fd, slot), NS_FD_RULED);
    return NS_GET(slot, kind) == NS_FD_RULED ? slot : NULL;
}

/* Does the gathering on source survive a duplicate, as long as nobody writes by that one? By 0 to 2
 * stdio may, which nobody sees. */
static bool goes_on_gathering(int fd, struct ns_sock *source, int to)
{
    if (to <= STDERR_FILENO && !NS_MUTANT(gather_stdio))
        return false;
    if (NS_GET(source, kind) == NS_FD_GATHERS)
        return ns_gather_flush(fd, source, 0) != NS_GATHER_REST && !NS_MUTANT(gather_goes_on);
    return NS_GET(source, kind) == NS_FD_READS;
}

void ns_engine_duplicated(int from, int to)
{
    struct ns_sock *source = ns_fd_slot(from);
    struct ns_sock *slot = ns_fd_slot(to);
    if (from == to || NS_MUTANT(follow_duplicates))
        return;
    if (slot && NS_GET(slot, kind) != NS_FD_OTHER)
        ns_fd_reset(slot);
    if (!source || NS_GET(source, kind) == NS_FD_OTHER)
        return;
    if (NS_GET(source, kind) == NS_FD_FRESH) /* two slots could not agree on its later rule */
        ns_option_apply(from, source, NULL);
    slot = ns_fd_make(to);
    if (!slot) { /* beyond the table: what is written there nobody sees */
        ns_gather_end(from, source);
        return;
    }
    bool goes_on = goes_on_gathering(from, source, to);
    if (!goes_on)
        ns_gather_end(from, source);
    ns_engine_push(
        from, source); /* its mark stays behind, and from may be closed where we cannot see it */
    /* What the application put into one and the kernel shares. Debts stay with the descriptor that
     * made them; pushing through either pushes for both. */
    NS_PUT(slot, role, NS_GET(source, role));
    NS_PUT(slot, send, NS_GET(source, send));
    NS_PUT(slot, ack, NS_GET(source, ack));
    NS_PUT(slot, nonblock, NS_GET(source, nonblock));
    NS_PUT(slot, app_nodelay, NS_GET(source, app_nodelay));
    NS_PUT(slot, kernel_nodelay, NS_GET(source, kernel_nodelay));
    NS_PUT(slot, app_corks, NS_GET(source, app_corks));
    NS_PUT(slot, no_hold, NS_GET(source, no_hold));
    NS_PUT(slot, lowat, NS_GET(source, lowat));
    NS_PUT(slot, listener, NS_GET(source, listener));
    NS_PUT(slot, delack, NS_GET(source, delack));
    NS_PUT(slot, domain, NS_GET(source, domain));
    NS_PUT(slot, rule, NS_GET(source, rule));
    ns_option_inherit(slot, source);
    ns_fd_twin(source, slot);
    uint8_t kind = NS_GET(source, kind);
    if (goes_on) {
        NS_PUT(slot, tempo, kind == NS_FD_READS ? NS_GET(source, tempo) : (uint64_t)from);
        NS_PUT(slot, listener, NS_GET(slot, listener) | NS_CONNECTION_SHARED);
        kind = NS_FD_READS;
    } else if (kind == NS_FD_GATHERS) {
        kind = NS_FD_RULED; /* the rest is the source's */
    }
    NS_PUT(slot, kind, kind);
}

void ns_engine_closing(int fd)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    if (!slot || NS_GET(slot, kind) == NS_FD_OTHER)
        return;
    /* A close that is the last one sends what is held with its FIN, but who knows whether it is: a
     * duplicate, a child, a thread that is inside a read keep the socket open for 200 ms. And a
     * close with data unread is a reset (RFC 2525, 2.17), which drops what has not left. */
    if (NS_GET(slot, kind) == NS_FD_GATHERS)
        ns_gather_closing(fd, slot);
    else if (!NS_MUTANT(push_before_close))
        ns_engine_push(fd, slot);
    if (!NS_MUTANT(forget_before_close))
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
        ns_engine_closing(fd);
}

void ns_engine_closing_range(unsigned low, unsigned high)
{
    struct range range = {low, high};
    if (NS_MUTANT(close_ranges))
        return;
    ns_fd_each(close_if_within, &range);
}

void ns_engine_never_hold(int fd)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    if (!slot || NS_GET(slot, kind) == NS_FD_OTHER)
        return;
    if (NS_GET(slot, kind) == NS_FD_FRESH)
        ns_option_apply(fd, slot, NULL);
    NS_PUT(slot, no_hold, !NS_MUTANT(never_hold_shared));
    ns_gather_end(fd, slot);
    ns_fd_share(slot);
    if (!NS_MUTANT(push_before_sharing))
        ns_engine_push(fd, slot);
}

void ns_engine_handing_on(void)
{
    ns_option_commit();
    if (!NS_MUTANT(push_before_handing_on))
        ns_settle_process(); /* other threads' too: in the child nobody would know of them */
    if (ns_gather_wanted())
        ns_gather_end_all();
}
