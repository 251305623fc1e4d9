/* SPDX-License-Identifier: MIT */
/* See rewrite.h. Owns ns_view: the values that getsockopt returns, and those that the application
 * set before its socket's rule was known. */
#include "socket/rewrite.h"

#include "conn/fds.h"
#include "conn/kernel.h"
#include "conn/process.h"

#include <limits.h>

/* Options that any rule of this process rewrites: one bit for each index. */
static uint32_t rewritten;

void ns_rewrite_open(const struct ns_ruleset *rules)
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

bool ns_rewrite_waits(const struct ns_conn *conn)
{
    const struct ns_view *view = view_of(conn);
    return NS_GET(conn, kind) == NS_CONN_FRESH && view && NS_GET(view, deferred);
}

void ns_rewrite_set_waiting(int fd, const struct ns_conn *conn)
{
    const struct ns_view *view = view_of(conn);
    for (int index = 0; index < NS_SOCKOPT_COUNT; index++)
        if (NS_GET(view, deferred) & UINT32_C(1) << index)
            ns_kernel_set(fd, ns_sockopts[index].level, ns_sockopts[index].option,
                          atomic_load_explicit(&view->asked[index], memory_order_relaxed));
}

void ns_rewrite_apply(int fd, struct ns_conn *conn, const struct ns_rule *rule)
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

void ns_rewrite_inherit(struct ns_conn *conn, const struct ns_conn *from)
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

bool ns_rewrite_has(int level, int option)
{
    int index = rewritten ? ns_sockopt_by_number(level, option) : -1;
    return index >= 0 && rewritten & UINT32_C(1) << index;
}

int ns_rewrite_set(int fd, struct ns_conn *conn, int level, int option, int value)
{
    int index = ns_sockopt_by_number(level, option);
    if (NS_GET(conn, kind) == NS_CONN_FRESH)
        return set_deferred(fd, conn, index, value);
    const struct ns_rule *rule = ns_process_is_disabled() ? NULL : NS_GET(conn, rule);
    const struct ns_sockopt_action *action = rule ? &rule->sockopts[index] : NULL;
    return action && action->verb > NS_SOCKOPT_PASS ? set_ruled(fd, conn, index, action, value) : 1;
}

bool ns_rewrite_answer(const struct ns_conn *conn, int level, int option, int *answer)
{
    const struct ns_view *view = view_of(conn);
    int index = view ? ns_sockopt_by_number(level, option) : -1;
    if (index < 0 || !(NS_GET(view, hidden) & UINT32_C(1) << index))
        return false;
    *answer = atomic_load_explicit(&view->value[index], memory_order_relaxed);
    return true;
}
