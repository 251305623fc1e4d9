/* SPDX-License-Identifier: MIT */
/* See option.h. Owns the values that the application has set (TCP_NODELAY, TCP_CORK and others),
 * and ns_view. Must never write through the application's const pointers; reads a value only if the
 * kernel would accept its length. */
#include "socket/option.h"

#include "base/real.h"
#include "conn/kernel.h"
#include "conn/process.h"
#include "traffic/out.h"

#include <limits.h>
#include <netinet/tcp.h>
#include <string.h>

static _Atomic bool changed; /* see ns_option_changed */

void ns_option_changed(void)
{
    atomic_store_explicit(&changed, true, memory_order_relaxed);
}

bool ns_option_take_changed(void)
{
    return atomic_load(&changed) && atomic_exchange(&changed, false);
}

/* --- options that a rule rewrites ("sockopt" in a policy) --- */

/* Options that any rule of this process rewrites: one bit for each index. */
static uint32_t rewritten;

void ns_option_open(const struct ns_ruleset *rules)
{
    for (size_t r = 0; r < rules->n_rules; r++)
        for (int index = 0; index < NS_SOCKOPT_COUNT; index++)
            if (rules->rules[r]->sockopts[index].verb > NS_SOCKOPT_PASS)
                rewritten |= UINT32_C(1) << index;
}

/* The view of a connection; NULL: no rule has rewritten an option there. */
static struct ns_view *view_of(const struct ns_conn *conn)
{
    return rewritten ? ns_conn_view(conn, false) : NULL;
}

/* From now on getsockopt returns value. */
static void tell(struct ns_view *view, int index, int value)
{
    atomic_store_explicit(&view->value[index], value, memory_order_relaxed);
    atomic_fetch_or(&view->hidden, UINT32_C(1) << index);
}

/* From now on getsockopt returns what it would return after the application's own setsockopt. The
 * kernel doubles the sizes of buffers (sk_setsockopt, net/core/sock.c). */
static void tell_as_asked(struct ns_view *view, int index, int asked)
{
    bool doubles = index == NS_SOCKOPT_SO_SNDBUF || index == NS_SOCKOPT_SO_RCVBUF;
    tell(view, index, doubles && asked <= INT_MAX / 2 ? 2 * asked : asked);
}

/* Set an option, and keep from the application that it has changed. */
static int set_hidden(int fd, struct ns_view *view, int index, int value)
{
    const struct ns_sockopt *row = &ns_sockopts[index];
    if (!(NS_GET(view, hidden) & UINT32_C(1) << index))
        tell(view, index, ns_kernel_get(fd, row->level, row->option));
    return ns_kernel_set(fd, row->level, row->option, value);
}

/* The application sets an option for which the rule has an action. */
static int set_ruled(int fd, struct ns_conn *conn, int index,
                     const struct ns_sockopt_action *action, int value)
{
    const struct ns_sockopt *row = &ns_sockopts[index];
    struct ns_view *view = ns_conn_view(conn, true);
    if (!view)
        return ns_kernel_set(fd, row->level, row->option, value);
    if (action->verb == NS_SOCKOPT_IGNORE) {
        tell_as_asked(view, index, value);
        return 0;
    }
    int rewritten_value = ns_sockopt_rewrite(index, action, value);
    int result = ns_kernel_set(fd, row->level, row->option, rewritten_value);
    bool differs = rewritten_value != value || NS_GET(view, hidden) & UINT32_C(1) << index;
    if (result == 0 && differs)
        tell_as_asked(view, index, value);
    return result;
}

/* Set on a fresh socket: its later rule decides. */
static int set_deferred(int fd, struct ns_conn *conn, int index, int value)
{
    const struct ns_sockopt *row = &ns_sockopts[index];
    struct ns_view *view = ns_conn_view(conn, true);
    if (!view)
        return ns_kernel_set(fd, row->level, row->option, value);
    tell_as_asked(view, index, value);
    atomic_store_explicit(&view->asked[index], value, memory_order_relaxed);
    atomic_fetch_or(&view->deferred, UINT32_C(1) << index);
    return 0;
}

/* Set the option to what the application believes it to be. */
static void undo(int fd, struct ns_view *view, int index)
{
    const struct ns_sockopt *row = &ns_sockopts[index];
    int value = atomic_load_explicit(&view->value[index], memory_order_relaxed);
    atomic_fetch_and(&view->hidden, ~(UINT32_C(1) << index));
    /* Except for values that the kernel computes until they are set. */
    if (index != NS_SOCKOPT_SO_SNDBUF && index != NS_SOCKOPT_SO_RCVBUF &&
        index != NS_SOCKOPT_TCP_MAXSEG && index != NS_SOCKOPT_TCP_WINDOW_CLAMP)
        ns_kernel_set(fd, row->level, row->option, value);
}

bool ns_option_waits(const struct ns_conn *conn)
{
    const struct ns_view *view = NS_GET(conn, kind) == NS_CONN_FRESH ? view_of(conn) : NULL;
    return view && NS_GET(view, deferred);
}

void ns_option_set_waiting(int fd, const struct ns_conn *conn)
{
    const struct ns_view *view = view_of(conn);
    for (int index = 0; index < NS_SOCKOPT_COUNT; index++)
        if (NS_GET(view, deferred) & UINT32_C(1) << index)
            ns_kernel_set(fd, ns_sockopts[index].level, ns_sockopts[index].option,
                          atomic_load_explicit(&view->asked[index], memory_order_relaxed));
}

void ns_option_apply(int fd, struct ns_conn *conn, const struct ns_rule *rule)
{
    struct ns_view *view = rewritten ? ns_conn_view(conn, true) : NULL;
    if (!view)
        return;
    for (int index = 0; index < NS_SOCKOPT_COUNT; index++) {
        const struct ns_sockopt *row = &ns_sockopts[index];
        const struct ns_sockopt_action *action = rule ? &rule->sockopts[index] : NULL;
        bool acts = action && action->verb > NS_SOCKOPT_PASS;
        bool asked = NS_GET(view, deferred) & UINT32_C(1) << index;
        if (index == NS_SOCKOPT_SO_RCVLOWAT && (acts || asked))
            ns_conn_set_lowat(conn, true);
        if (asked) {
            int value = atomic_load_explicit(&view->asked[index], memory_order_relaxed);
            atomic_fetch_and(&view->deferred, ~(UINT32_C(1) << index));
            if (acts) {
                set_ruled(fd, conn, index, action, value);
                continue;
            }
            atomic_fetch_and(&view->hidden, ~(UINT32_C(1) << index));
            ns_kernel_set(fd, row->level, row->option, value);
        } else if (acts && action->verb == NS_SOCKOPT_SET) {
            set_hidden(fd, view, index, action->value);
        } else if (!acts && NS_GET(view, hidden) & UINT32_C(1) << index) {
            undo(fd, view, index); /* from the rule of the listener or of an earlier connect */
        }
    }
}

void ns_option_inherit(struct ns_conn *conn, const struct ns_conn *from)
{
    struct ns_view *source = view_of(from);
    if (!source || !NS_GET(source, hidden))
        return;
    struct ns_view *view = ns_conn_view(conn, true);
    if (!view)
        return;
    for (int index = 0; index < NS_SOCKOPT_COUNT; index++)
        atomic_store_explicit(&view->value[index], source->value[index], memory_order_relaxed);
    NS_PUT(view, hidden, NS_GET(source, hidden));
}

/* The application sets an option that some rule rewrites. Returns 0 or -errno, the application's
 * result; or 1: the caller makes the call as the application asked. */
static int set_rewritten(int fd, struct ns_conn *conn, int index, int value)
{
    if (NS_GET(conn, kind) == NS_CONN_FRESH)
        return set_deferred(fd, conn, index, value);
    const struct ns_rule *rule = ns_process_is_disabled() ? NULL : NS_GET(conn, rule);
    const struct ns_sockopt_action *action = rule ? &rule->sockopts[index] : NULL;
    return action && action->verb > NS_SOCKOPT_PASS ? set_ruled(fd, conn, index, action, value) : 1;
}

/* --- options of the application --- */

/* The application has removed its cork. Nagle's algorithm, if on, may hold the last segment. */
static void uncorked(int fd, struct ns_conn *conn)
{
    bool bytes = NS_GET(conn, app_corks) & NS_CORKS_BYTES;
    NS_PUT(conn, app_corks, 0);
    if (NS_GET(conn, kind) != NS_CONN_MANAGED || !bytes)
        return;
    ns_push_carries_ack(conn);
    if (NS_GET(conn, send) == NS_SEND_FLUSH_BEFORE_READ)
        ns_hold_mark(fd, conn, true);
    else if (NS_GET(conn, in_flight))
        ns_enforce_nodelay(fd, conn);
    NS_PUT(conn, in_flight, NS_FLIGHT_SEEN);
}

/* TCP_QUICKACK of the application: it chooses the kernel's mode for now (tcp(7)). */
static void note_quickack(struct ns_conn *conn, int value)
{
    struct ns_ack_state state = ns_conn_ack(conn);
    state.interactive = value % 2 == 0;
    if (value && ns_ack_is_unanswered(state))
        state.data = NS_ACK_ANSWERED;
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
        ns_hold_mark(fd, conn, true);
}

/* After the kernel has accepted the application's value. */
static void note_tcp(int fd, struct ns_conn *conn, int option, int value)
{
    switch (option) {
    case TCP_NODELAY:
        note_nodelay(fd, conn, value != 0);
        ns_option_changed();
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
    int index = readable && rewritten ? ns_sockopt_by_number(level, option) : -1;
    if (index >= 0 && rewritten & UINT32_C(1) << index &&
        ns_kernel_can_read(value, sizeof given, &known)) {
        memcpy(&given, value, sizeof given);
        result = set_rewritten(fd, conn, index, given);
        ns_option_changed();
    }
    if (result <= 0) {
        if (result < 0)
            errno = -result;
        return result < 0 ? -1 : 0;
    }
    if (level == IPPROTO_TCP &&
        (option == TCP_ULP || (option == TCP_CORK && !ns_push_is_left(conn))))
        ns_push(fd, conn); /* what the library holds leaves before the application's cork begins */
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
    if (level == IPPROTO_TCP && option == TCP_CORK && NS_GET(conn, held) &&
        ns_send_corks(NS_GET(conn, send))) {
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
    const struct ns_view *view = view_of(conn);
    int index = view ? ns_sockopt_by_number(level, option) : -1;
    if (index < 0 || !(NS_GET(view, hidden) & UINT32_C(1) << index))
        return false;
    *answer = atomic_load_explicit(&view->value[index], memory_order_relaxed);
    return true;
}

int ns_option_get(int fd, struct ns_conn *conn, int level, int option, void *value, socklen_t *len)
{
    int result = NS_REAL(getsockopt)(fd, level, option, value, len), answer = -1;
    /* A child of vfork gives no socket its rule. */
    if (result != 0 || NS_GET(conn, kind) == NS_CONN_ASK || !value || *len > sizeof answer)
        return result;
    if (*len == sizeof answer)
        memcpy(&answer, value, sizeof answer);
    if (answer_of(conn, level, option, &answer))
        memcpy(value, &answer, *len); /* the kernel cuts an int the same way */
    return result;
}
