/* SPDX-License-Identifier: MIT */
/* Socket options. Owns ns_view: what the application has been told, and what it asked for before
 * its socket's rule was known. Must never write through the application's const pointers, and reads
 * a value only where the kernel would have accepted its length. Async-signal-safe. */
#include "life/option.h"

#include "life/life.h"
#include "traffic/push.h"
#include "base/real.h"
#include "conn/kernel.h"

#include <limits.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/mman.h>

#ifndef TCP_ULP
#define TCP_ULP 31 /* linux/tcp.h, 4.13 */
#endif
#ifndef TCP_FASTOPEN_CONNECT
#define TCP_FASTOPEN_CONNECT 30 /* linux/tcp.h, 4.11 */
#endif
#define TCP_DELACK_MAX_US_NUMBER 46 /* linux/tcp.h, recent kernels */

/* The least that a kernel with HZ=250 takes, two ticks; others round up or refuse. */
enum { DELACK_MAX_US = 8000, SLAB_SIZE = 64 * 1024 };

/* Options that some rule of this process rewrites, by index. */
static uint32_t rewritten;

/* -1: not asked yet, 0: this kernel has no such option, otherwise what a socket has by itself. */
static _Atomic int delack_default = -1;

void ns_option_open(const struct ns_ruleset *rules)
{
    for (size_t r = 0; r < rules->n_rules; r++)
        for (size_t i = 0; i < rules->rules[r]->n_sockopts; i++)
            if (rules->rules[r]->sockopts[i].verb != NS_SOCKOPT_PASS)
                rewritten |= UINT32_C(1) << rules->rules[r]->sockopts[i].option;
}

/* Views come from slabs that are never given back: a reader may be in any of them. */
struct slab {
    _Atomic unsigned used;
    struct ns_view views[];
};
enum { VIEWS_PER_SLAB = (SLAB_SIZE - sizeof(struct slab)) / sizeof(struct ns_view) };

static struct slab *slab_make(struct slab *_Atomic *current, struct slab *full)
{
    int saved = errno;
    void *slab = mmap(NULL, SLAB_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = saved;
    if (slab == MAP_FAILED)
        return NULL;
    struct slab *expected = full;
    if (atomic_compare_exchange_strong(current, &expected, (struct slab *)slab))
        return slab;
    munmap(slab, SLAB_SIZE);
    return expected; /* another thread was faster */
}

/* The view of a slot, made if need be; NULL without memory. */
static struct ns_view *view_make(struct ns_sock *slot)
{
    static struct slab *_Atomic current;
    struct ns_view *view = NS_GET(slot, view);
    if (view)
        return view;
    struct slab *slab = atomic_load(&current);
    for (;;) {
        unsigned index = slab ? atomic_fetch_add(&slab->used, 1) : VIEWS_PER_SLAB;
        if (index < VIEWS_PER_SLAB) {
            view = &slab->views[index];
            break;
        }
        slab = slab_make(&current, slab);
        if (!slab)
            return NULL;
    }
    struct ns_view *expected = NULL;
    return atomic_compare_exchange_strong(&slot->view, &expected, view) ? view : expected;
}

static bool is_deferred(const struct ns_view *view, int index)
{
    return view && NS_GET(view, deferred) & UINT32_C(1) << index;
}

/* From now on the application is told value. */
static void tell(struct ns_view *view, int index, int value)
{
    atomic_store_explicit(&view->value[index], value, memory_order_relaxed);
    atomic_fetch_or(&view->told, UINT32_C(1) << index);
}

/* What the kernel would have answered to the application's own request. */
static void tell_as_asked(struct ns_sock *slot, struct ns_view *view, int index, int asked)
{
    const struct ns_sockopt *row = &ns_sockopts[index];
    int told;
    if (ns_sock_would_be(NS_GET(slot, domain), row->level, row->option, asked, &told) == 0)
        tell(view, index, told);
}

/* Set an option to something else than the application sees. */
static int set_hidden(int fd, struct ns_view *view, int index, int value)
{
    const struct ns_sockopt *row = &ns_sockopts[index];
    if (!(NS_GET(view, told) & UINT32_C(1) << index)) {
        int before = ns_sock_get(fd, row->level, row->option);
        tell(view, index, before);
    }
    return ns_sock_set(fd, row->level, row->option, value);
}

/* The application asks for value of a table option, and the rule has something to say about it. */
static int set_ruled(int fd, struct ns_sock *slot, const struct ns_sockopt_action *action,
                     int value)
{
    const struct ns_sockopt *row = &ns_sockopts[action->option];
    int index = (int)action->option;
    struct ns_view *view = view_make(slot);
    if (!view)
        return ns_sock_set(fd, row->level, row->option, value);
    if (action->verb == NS_SOCKOPT_IGNORE) {
        tell_as_asked(slot, view, index, value);
        return 0;
    }
    int told, rewritten_value = ns_sockopt_rewrite(action, value);
    if (rewritten_value == value && !(NS_GET(view, told) & UINT32_C(1) << index))
        return ns_sock_set(fd, row->level, row->option, value);
    /* What the kernel would not have taken is an error whatever it is given instead. */
    int judged = ns_sock_would_be(NS_GET(slot, domain), row->level, row->option, value, &told);
    if (judged < 0)
        return judged;
    int result = ns_sock_set(fd, row->level, row->option, rewritten_value);
    if (result == 0 && judged == 0)
        tell(view, index, told);
    return result;
}

/* Asked for on a fresh socket: only its later rule says what to do. Judged by the kernel now, on a
 * socket of the same kind. */
static int set_deferred(int fd, struct ns_sock *slot, int index, int value)
{
    const struct ns_sockopt *row = &ns_sockopts[index];
    struct ns_view *view = view_make(slot);
    if (!view)
        return ns_sock_set(fd, row->level, row->option, value);
    int told;
    int result = ns_sock_would_be(NS_GET(slot, domain), row->level, row->option, value, &told);
    if (result > 0) /* nobody to ask: no descriptor left */
        return ns_sock_set(fd, row->level, row->option, value);
    if (result < 0)
        return result;
    tell(view, index, told);
    atomic_store_explicit(&view->asked[index], value, memory_order_relaxed);
    atomic_fetch_or(&view->deferred, UINT32_C(1) << index);
    return 0;
}

/* Give the kernel what the application is told it has. */
static void undo(int fd, struct ns_view *view, int index)
{
    const struct ns_sockopt *row = &ns_sockopts[index];
    int value = atomic_load_explicit(&view->value[index], memory_order_relaxed);
    atomic_fetch_and(&view->told, ~(UINT32_C(1) << index));
    /* What the kernel computes by itself until it is told cannot be given back. */
    if (index != NS_SOCKOPT_SO_SNDBUF && index != NS_SOCKOPT_SO_RCVBUF &&
        index != NS_SOCKOPT_TCP_MAXSEG && index != NS_SOCKOPT_TCP_WINDOW_CLAMP)
        ns_sock_set(fd, row->level, row->option, value);
}

static void commit(int fd, struct ns_sock *slot, void *context)
{
    struct ns_view *view = NS_GET(slot, view);
    (void)context;
    if (NS_GET(slot, kind) == NS_FD_FRESH && view && NS_GET(view, deferred))
        ns_option_apply(fd, slot, NULL);
}

void ns_option_commit(void)
{
    if (rewritten)
        ns_fd_each(commit, NULL);
}

void ns_option_apply(int fd, struct ns_sock *slot, const struct ns_rule *rule)
{
    struct ns_view *view = NS_GET(slot, view);
    if (!rewritten)
        return;
    for (int index = 0; index < NS_SOCKOPT_COUNT; index++) {
        const struct ns_sockopt *row = &ns_sockopts[index];
        const struct ns_sockopt_action *action = rule ? ns_sockopt_action(rule, index) : NULL;
        bool acts = action && action->verb != NS_SOCKOPT_PASS;
        bool asked = is_deferred(view, index);
        if (index == NS_SOCKOPT_SO_RCVLOWAT && (acts || asked))
            NS_PUT(slot, lowat, 1);
        if (asked) {
            int value = atomic_load_explicit(&view->asked[index], memory_order_relaxed);
            atomic_fetch_and(&view->deferred, ~(UINT32_C(1) << index));
            if (acts) {
                set_ruled(fd, slot, action, value);
                continue;
            }
            atomic_fetch_and(&view->told, ~(UINT32_C(1) << index));
            ns_sock_set(fd, row->level, row->option, value);
        } else if (acts && action->verb == NS_SOCKOPT_SET && view_make(slot)) {
            set_hidden(fd, NS_GET(slot, view), index, action->value);
        } else if (!acts && view && NS_GET(view, told) & UINT32_C(1) << index) {
            undo(fd, view, index); /* another rule's: of the listener, or of an earlier connect */
        }
    }
}

void ns_option_inherit(struct ns_sock *slot, const struct ns_sock *from)
{
    struct ns_view *source = NS_GET(from, view);
    if (!source || !NS_GET(source, told))
        return;
    struct ns_view *view = view_make(slot);
    if (!view)
        return;
    for (int index = 0; index < NS_SOCKOPT_COUNT; index++)
        atomic_store_explicit(&view->value[index], source->value[index], memory_order_relaxed);
    NS_PUT(view, told, NS_GET(source, told));
}

/* -EOPNOTSUPP is MPTCP's answer, which says nothing of the process's next socket: only what a TCP
 * socket answers is kept. */
void ns_option_bound_delayed_ack(int fd, struct ns_sock *slot)
{
    int by_itself = atomic_load_explicit(&delack_default, memory_order_relaxed);
    if (by_itself == 0 || NS_GET(slot, delack))
        return;
    if (by_itself < 0)
        by_itself = ns_sock_get(fd, IPPROTO_TCP, TCP_DELACK_MAX_US_NUMBER);
    if (by_itself == -EOPNOTSUPP || (by_itself > 0 && by_itself <= DELACK_MAX_US)) {
        /* Which says nothing of the next, either. A shim in the process that made it may have. */
        NS_PUT(slot, delack, by_itself == DELACK_MAX_US ? NS_DELACK_OURS : NS_DELACK_THEIRS);
        return;
    }
    int error = by_itself;
    if (by_itself > 0)
        error = ns_sock_set(fd, IPPROTO_TCP, TCP_DELACK_MAX_US_NUMBER, DELACK_MAX_US);
    if (error == -EOPNOTSUPP || error == -EBADF || error == -ENOTSOCK) /* closed past us */
        return;
    if (error == 0)
        NS_PUT(slot, delack, NS_DELACK_OURS);
    else
        by_itself = 0; /* this kernel has no such option, or not with this value */
    atomic_store_explicit(&delack_default, by_itself, memory_order_relaxed);
}

bool ns_option_has_bound(int fd, struct ns_sock *slot)
{
    if (ns_sock_get(fd, IPPROTO_TCP, TCP_DELACK_MAX_US_NUMBER) != DELACK_MAX_US)
        return false;
    NS_PUT(slot, delack, NS_DELACK_OURS);
    return true;
}

/* What a socket has by itself, as far as is known: TCP_DELACK_MAX, include/net/tcp.h. */
static int delack_of_fresh(void)
{
    enum { TCP_DELACK_MAX_US_KERNEL = 200000 };
    int known = atomic_load_explicit(&delack_default, memory_order_relaxed);
    return known > 0 ? known : TCP_DELACK_MAX_US_KERNEL;
}

void ns_option_unbound_delayed_ack(int fd, struct ns_sock *slot)
{
    if (NS_GET(slot, delack) != NS_DELACK_OURS)
        return;
    ns_sock_set(fd, IPPROTO_TCP, TCP_DELACK_MAX_US_NUMBER, delack_of_fresh());
    NS_PUT(slot, delack, NS_DELACK_UNASKED);
}

/* The application has uncorked. The last segment is left to Nagle where that is on. */
static void uncorked(int fd, struct ns_sock *slot)
{
    bool bytes = NS_GET(slot, app_corks) & NS_CORKS_BYTES;
    NS_PUT(slot, app_corks, 0);
    if (NS_GET(slot, kind) != NS_FD_RULED || !bytes)
        return;
    struct ns_ack_state state = ns_fd_ack(slot);
    ns_ack_wrote(&state); /* what was corked carries it */
    ns_fd_ack_put(slot, state);
    if (NS_GET(slot, send) == NS_SEND_FLUSH_BEFORE_READ)
        ns_join_owed(fd, slot);
    else if (NS_GET(slot, wrote))
        ns_life_enforce_nodelay(fd, slot);
    NS_PUT(slot, wrote, 1);
}

/* Whether the kernel delays ACKs is the application's wish for once (tcp(7)). */
static void note_quickack(struct ns_sock *slot, int value)
{
    struct ns_ack_state state = ns_fd_ack(slot);
    state.interactive = value % 2 == 0;
    if (value)
        state.owed = 0;
    ns_fd_ack_put(slot, state);
}

/* After the kernel took the application's value. */
static void note_tcp(int fd, struct ns_sock *slot, int option, int value)
{
    switch (option) {
    case TCP_NODELAY:
        NS_PUT(slot, app_nodelay, value != 0);
        NS_PUT(slot, kernel_nodelay, value != 0);
        if (value)
            NS_PUT(slot, joins, 0); /* what was joined has left */
        ns_life_changed();
        /* The bound is what tells others that TCP_NODELAY is ours: see life.c. */
        if (value && NS_GET(slot, steady) & NS_STEADY_UNSEEN)
            ns_option_unbound_delayed_ack(fd, slot);
        if (NS_GET(slot, kind) != NS_FD_RULED || NS_GET(slot, steady))
            ns_life_enforce_nodelay(fd, slot); /* elsewhere before the next write */
        break;
    case TCP_CORK:
        if (value)
            NS_PUT(slot, app_corks, NS_CORKS_OPTION);
        else
            uncorked(fd, slot);
        break;
    case TCP_QUICKACK:
        note_quickack(slot, value);
        break;
    case TCP_DELACK_MAX_US_NUMBER:
        NS_PUT(slot, delack, NS_DELACK_THEIRS);
        break;
    case TCP_ULP:
    case TCP_FASTOPEN_CONNECT:
    case TCP_REPAIR:
        NS_PUT(slot, steady, NS_STEADY_NEVER);
        break;
    default:
        break;
    }
}

int ns_option_set(int fd, struct ns_sock *slot, int level, int option, const void *value,
                  socklen_t len)
{
    /* To the kernel the length is an int, and a negative one is refused. */
    bool readable = value && len >= sizeof(int) && len <= INT_MAX;
    int index = readable && rewritten ? ns_sockopt_by_number(level, option) : -1;
    if (index >= 0 && rewritten & UINT32_C(1) << index) {
        int asked, result = 1;
        memcpy(&asked, value, sizeof asked);
        const struct ns_rule *rule = NS_GET(slot, rule);
        const struct ns_sockopt_action *action = rule ? ns_sockopt_action(rule, index) : NULL;
        if (NS_GET(slot, kind) == NS_FD_FRESH)
            result = set_deferred(fd, slot, index, asked);
        else if (action && action->verb != NS_SOCKOPT_PASS)
            result = set_ruled(fd, slot, action, asked);
        if (result <= 0) {
            if (result < 0)
                errno = -result;
            return result < 0 ? -1 : 0;
        }
    }
    if (level == IPPROTO_TCP && (option == TCP_CORK || option == TCP_ULP))
        ns_push(fd, slot); /* ours leaves before the application's own corking begins */
    int result = NS_REAL(setsockopt)(fd, level, option, value, len);
    if (result != 0)
        return result;
    int given = 1;
    if (readable)
        memcpy(&given, value, sizeof given);
    if (level == IPPROTO_TCP)
        note_tcp(fd, slot, option, given);
    else if (level == SOL_SOCKET && option == SO_RCVLOWAT)
        NS_PUT(slot, lowat, given != 1);
    ns_fd_share(slot);
    return result;
}

/* What the application is to be told instead of *answer, which the kernel says (-1: only a part of
 * it was asked for); false: just that. */
static bool answer_of(const struct ns_sock *slot, int level, int option, int *answer)
{
    if (level == IPPROTO_TCP && option == TCP_NODELAY) {
        *answer = NS_GET(slot, app_nodelay);
        return true;
    }
    if (level == IPPROTO_TCP && option == TCP_DELACK_MAX_US_NUMBER) {
        /* Set by us through this descriptor; or through a duplicate, or by a forked child. */
        int delack = NS_GET(slot, delack);
        bool ours = *answer == DELACK_MAX_US ? delack != NS_DELACK_THEIRS
                                             : *answer < 0 && delack == NS_DELACK_OURS;
        if (ours)
            *answer = delack_of_fresh();
        return ours;
    }
    struct ns_view *view = NS_GET(slot, view);
    int index = view ? ns_sockopt_by_number(level, option) : -1;
    if (index < 0 || !(NS_GET(view, told) & UINT32_C(1) << index))
        return false;
    *answer = atomic_load_explicit(&view->value[index], memory_order_relaxed);
    return true;
}

int ns_option_get(int fd, struct ns_sock *slot, int level, int option, void *value, socklen_t *len)
{
    int result = NS_REAL(getsockopt)(fd, level, option, value, len);
    int answer = -1;
    if (result != 0 || !value || *len > sizeof answer)
        return result;
    if (*len == sizeof answer)
        memcpy(&answer, value, sizeof answer);
    if (answer_of(slot, level, option, &answer))
        memcpy(value, &answer, *len); /* the kernel cuts an int the same way */
    return result;
}
