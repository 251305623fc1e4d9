/* SPDX-License-Identifier: MIT */
/* See watch.h. Owns when which question is asked. Three kinds of rounds, each as often as its own
 * cost allows:
 *   - descriptors: which sockets the processes have (owners.h);
 *   - lists: all TCP sockets of the namespaces, which finds new connections and those that have
 * gone, and tells which of many have something to send;
 *   - looks: at single connections, every 2 ms, those first that may be held (closely.h).
 *
 * TCP_NODELAY and TCP_CORK are not asked for. sock_diag(7) does not tell them, and the other way,
 * pidfd_getfd(2) and getsockopt, makes this process a holder of the socket: a close of the program
 * meanwhile would send its FIN only with ours, and wait there if it lingers. It is not needed
 * either: with TCP_NODELAY a small segment leaves at once, and what is corked does not leave when
 * the acknowledgement comes, so that the judge sees by the release which of them it was. */
#include "watch/watch.h"

#include "watch/clock.h"
#include "watch/closely.h"
#include "watch/table.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>

#define MS 1000000U

enum {
    DESCRIPTORS_MS = 8,
    DESCRIPTORS_CALM_MS = 20, /* where no socket was new for some time */
    CALM_MS = 2000,
    LIST_MS = 50, /* where nothing new is known of */
    LIST_RARE_MS = 1000,
    LIST_WANTED_MS = 5, /* where a socket was found that no list has had */
    LIST_TRIES = 3,     /* it may be connected later, or never, or not be TCP */
    SHARE = 50,         /* a kind of round takes one part in so many of a processor */
    SHARE_WANTED = 20,
    SHARE_CALM = 100,
    DETAILS_MOST = 2000, /* connections: of more, lists tell only which have something to send */
};

/* When a kind of round is due, and what one costs. */
struct pace {
    uint64_t last, cost;
};

struct ns_watch {
    struct ns_table table;
    struct ns_closely closely;
    struct pace descriptors, lists;
    uint64_t tick;
    uint64_t fresh_at;     /* when a descriptor round found a new socket last */
    bool owners_wanted;    /* a list had a socket whose owner is not known */
    unsigned lists_wanted; /* so many lists more, since sockets were found that no list has had */
    uint32_t list;         /* number of the last one */
    bool all;
    struct ns_watch_tally tally;
};

static uint64_t due(const struct pace *pace, uint64_t least_ms, unsigned share)
{
    uint64_t apart = pace->cost * share > least_ms * MS ? pace->cost * share : least_ms * MS;

    return pace->last ? pace->last + apart : 0;
}

static void done(struct pace *pace, uint64_t begin)
{
    uint64_t end = ns_clock_now(CLOCK_MONOTONIC), cost = end - begin;

    pace->last = end;
    pace->cost = pace->cost ? (pace->cost * 3 + cost) / 4 : cost;
}

struct listing {
    struct ns_watch *watch;
    struct ns_space *space;
    struct ns_closely_call *call;
};

static void take_listed(void *context, const struct ns_diag_socket *seen)
{
    struct listing *listing = context;
    struct ns_watch *watch = listing->watch;
    struct ns_connection *connection;
    struct ns_owned *place;
    bool full;

    if (seen->state == TCP_LISTEN)
        ns_space_set_listened(listing->space, ntohs(seen->key.id.idiag_sport));
    /* Without an inode nobody has accepted it yet, or it is closed and its last bytes are on their
     * way. */
    if (seen->state == TCP_LISTEN || seen->inode == 0)
        return;
    place = ns_owners_place(&watch->table.owners, seen->inode, true);
    if (!place)
        return;
    if (place->pid == 0) {
        watch->owners_wanted |= !place->listed;
        place->listed = true;
        place->stamp = watch->table.owners.stamp;
        return;
    }
    watch->tally.connections++;
    connection = ns_table_take(&watch->table, place, listing->space, seen, watch->tick, &full);
    watch->tally.forgotten += full;
    if (!connection)
        return;
    connection->list = watch->list;
    ns_closely_take(&watch->closely, listing->call, connection, seen);
    watch->tally.busy += ns_closely_is_busy(connection, seen->at);
}

/* What ends with fewer than two looks is as good as not seen. */
static void end(struct ns_watch *watch, struct ns_connection *connection)
{
    watch->tally.forgotten += connection->looks < 2;
    ns_closely_leave(&watch->closely, connection);
    ns_table_end(&watch->table, connection);
}

static int make_list(struct ns_watch *watch, struct ns_closely_call *call)
{
    const uint32_t states = 1U << TCP_ESTABLISHED | 1U << TCP_FIN_WAIT1 | 1U << TCP_FIN_WAIT2 |
                            1U << TCP_CLOSE_WAIT | 1U << TCP_LISTEN;
    struct ns_owners *owners = &watch->table.owners;
    uint64_t begin = ns_clock_now(CLOCK_MONOTONIC);
    bool details = watch->tally.connections < DETAILS_MOST;
    int error = 0;

    watch->list++;
    watch->tally.rounds++;
    watch->tally.connections = watch->tally.busy = 0;
    for (size_t i = 0; i < owners->n_spaces && !error; i++) {
        struct listing listing = {watch, owners->spaces[i], call};

        if (listing.space->fd >= 0)
            error = ns_diag_dump(listing.space->fd, states, details, take_listed, &listing);
    }
    for (size_t i = 0; i < watch->table.n_live && !error;) {
        if (watch->table.live[i]->list == watch->list)
            i++;
        else
            end(watch, watch->table.live[i]); /* the last one takes its place */
    }
    watch->lists_wanted -= watch->lists_wanted > 0;
    done(&watch->lists, begin);
    return error;
}

static int read_descriptors(struct ns_watch *watch)
{
    uint64_t begin = ns_clock_now(CLOCK_MONOTONIC);
    int error = ns_owners_round(&watch->table.owners);

    watch->owners_wanted = false;
    if (watch->table.owners.fresh > 0) {
        watch->lists_wanted = LIST_TRIES;
        watch->fresh_at = begin;
    }
    done(&watch->descriptors, begin);
    return error;
}

/* Chosen processes have few descriptors, whose table tells at once what is new. Of all processes it
 * costs more than a list, which tells when it is worth it. */
static uint64_t descriptors_due(const struct ns_watch *watch)
{
    bool calm = watch->descriptors.last - watch->fresh_at > (uint64_t)CALM_MS * MS;
    uint64_t soon = calm ? due(&watch->descriptors, DESCRIPTORS_CALM_MS, SHARE_CALM)
                         : due(&watch->descriptors, DESCRIPTORS_MS, SHARE);

    return !watch->all || watch->owners_wanted ? soon : soon + 1000 * (uint64_t)MS;
}

/* Where every connection is under close look, a list has nothing to tell but what nobody asked for.
 */
static uint64_t lists_due(const struct ns_watch *watch)
{
    if (watch->lists_wanted > 0)
        return due(&watch->lists, LIST_WANTED_MS, SHARE_WANTED);
    if (!watch->all && ns_closely_has(&watch->closely, watch->tally.connections))
        return due(&watch->lists, LIST_RARE_MS, SHARE);
    return due(&watch->lists, LIST_MS, SHARE);
}

int ns_watch_open(const struct ns_watch_wish *wish, struct ns_watch **out)
{
    struct ns_watch *watch = calloc(1, sizeof(*watch));
    struct timespec tick;
    int error = watch ? 0 : -ENOMEM;
    size_t there = 0;

    if (error)
        return error;
    clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
    watch->tick = (uint64_t)tick.tv_nsec;
    watch->all = watch->table.owners.all = wish->all;
    watch->table.owners.children = wish->children;
    ns_closely_begin(&watch->closely, wish->interval_ns);
    for (size_t i = 0; i < wish->n_pids && !wish->all; i++)
        there += ns_owners_add(&watch->table.owners, wish->pids[i]) == 0;
    if (!wish->all && there == 0)
        error = -ESRCH;
    if (!error)
        error = read_descriptors(watch);
    if (!error && !wish->all && watch->table.owners.n_processes == 0)
        error = -ESRCH;
    if (!error && !wish->all && watch->table.owners.denied == watch->table.owners.n_processes)
        error = -EACCES;
    if (!error)
        error = make_list(watch, &(struct ns_closely_call){&watch->tally, NULL, NULL});
    if (error)
        ns_watch_close(watch);
    else
        *out = watch;
    return error;
}

void ns_watch_close(struct ns_watch *watch)
{
    ns_table_release(&watch->table);
    free(watch);
}

int ns_watch_add(struct ns_watch *watch, pid_t pid)
{
    return ns_owners_add(&watch->table.owners, pid);
}

int ns_watch_look(struct ns_watch *watch, uint64_t now, uint64_t *next,
                  void (*held)(void *context, struct ns_watched *watched,
                               const struct ns_hold *hold),
                  void *context)
{
    uint64_t busy = ns_clock_now(CLOCK_THREAD_CPUTIME_ID);
    struct ns_closely_call call = {&watch->tally, held, context};
    struct ns_connection *gone[NS_CLOSELY_MOST];
    size_t n_gone = 0;
    int error = 0;

    if (now >= descriptors_due(watch))
        error = read_descriptors(watch);
    if (!error && now >= lists_due(watch))
        error = make_list(watch, &call);
    if (!error)
        error = ns_closely_look(&watch->closely, &call, &watch->table, now, gone, &n_gone);
    for (size_t i = 0; i < n_gone; i++)
        end(watch, gone[i]);
    *next = ns_closely_due(&watch->closely);
    if (descriptors_due(watch) < *next)
        *next = descriptors_due(watch);
    if (lists_due(watch) < *next)
        *next = lists_due(watch);
    watch->tally.busy_ns += ns_clock_now(CLOCK_THREAD_CPUTIME_ID) - busy;
    return error;
}

void ns_watch_each(struct ns_watch *watch, bool (*visit)(void *context, struct ns_watched *watched),
                   void *context)
{
    for (size_t i = 0; i < watch->table.n_live; i++)
        if (!visit(context, &watch->table.live[i]->watched))
            return;
    for (size_t i = 0; i < watch->table.n_ended; i++)
        if (!visit(context, &watch->table.ended[i]->watched))
            return;
}

void ns_watch_forget_ended(struct ns_watch *watch)
{
    ns_table_forget_ended(&watch->table);
}

void ns_watch_tally(const struct ns_watch *watch, struct ns_watch_tally *tally)
{
    *tally = watch->tally;
    tally->denied = watch->table.owners.denied;
    tally->close = (unsigned)watch->closely.n;
}
