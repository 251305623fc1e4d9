/* SPDX-License-Identifier: MIT */
/* See watch.h. Owns the schedule. There are three kinds of rounds, each as frequent as its cost
 * allows:
 *   - descriptors: which sockets the processes have (owners.h);
 *   - lists: all TCP sockets of the network namespaces, to find new and ended connections and those
 *     with unsent bytes;
 *   - samples: single connections every 2 ms, first those that may be held (sampler.c).
 *
 * TCP_NODELAY and TCP_CORK are not read. sock_diag(7) does not report them, and pidfd_getfd(2) with
 * getsockopt(2) would make this process an owner of the socket, so that the program's close would
 * not send the FIN before this process's close. The judge does not need them: with TCP_NODELAY a
 * small segment is sent at once, and corked bytes are not sent when the ACK comes. */
#include "watch/watch.h"

#include "base/clock.h"
#include "process/scope.h"
#include "watch/table.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000U

enum {
    DESCRIPTORS_MS = 8,
    OWNERS_MS = 1000,   /* of all processes, if no list needs it */
    EVERYONE_MS = 2000, /* the same for peers, which may be in new namespaces */
    EVERYONE_WANTED_MS = 20,
    LIST_MS = 50,
    LIST_RARE_MS = 1000,
    LIST_WANTED_MS = 5, /* if a socket was found that was in no list */
    /* It may be connected later, as over a long line, or never, or not be TCP: the next lists are
     * 5, 10, 20 ... 640 ms apart. */
    LIST_TRIES = 8,
    SHARE = 50, /* a kind of round takes 1/SHARE of a processor */
    SHARE_WANTED = 20,
    STEP_US = 1000, /* of a long round, between samples */
    PEERS_MOST = 16,
    BEHIND_MOST = 32,
};

/* The schedule of a kind of round. A long round is made in steps. */
struct pace {
    uint64_t last, cost, spent;
    bool goes_on;
};

struct ns_watch {
    struct ns_table table;
    struct ns_sampler sampler;
    struct pace descriptors, lists;
    struct pace everyone; /* rounds that read every process's descriptors, to find peers */
    uint64_t tick;
    bool owners_wanted;    /* a list had a socket without a known owner */
    unsigned lists_wanted; /* further lists, as sockets were found that were in none */
    uint32_t list;         /* the number of the current one */
    struct ns_diag_list part;
    size_t netns;               /* the one being listed */
    struct ns_netns *listed;    /* that of the sockets that take_listed gets */
    pid_t peers[PEERS_MOST];    /* processes at the other ends */
    unsigned n_peers, n_behind; /* n_behind: their connections to further servers */
    unsigned connections, idle, busy;
};

static uint64_t due(const struct pace *pace, uint64_t least_ms, unsigned share)
{
    uint64_t apart = pace->cost * share > least_ms * MS ? pace->cost * share : least_ms * MS;
    return pace->last && !pace->goes_on ? pace->last + apart : 0;
}

static void stepped(struct pace *pace, uint64_t begin, bool goes_on)
{
    uint64_t end = ns_clock_now(CLOCK_MONOTONIC);
    /* Processor time, as rounds take longer on a busy machine without costing more. */
    pace->spent += ns_clock_now(CLOCK_THREAD_CPUTIME_ID) - begin;
    pace->goes_on = goes_on;
    if (goes_on)
        return;
    pace->cost = pace->cost ? (pace->cost * 3 + pace->spent) / 4 : pace->spent;
    pace->spent = 0;
    pace->last = end;
}

/* The place of a process among the peers; watch->n_peers: it is none. */
static unsigned find_peer(const struct ns_watch *watch, pid_t pid)
{
    unsigned i = 0;
    while (i < watch->n_peers && watch->peers[i] != pid)
        i++;
    return i;
}

/* Does a process at the other end of a chosen connection wait for a further server by this one? */
static bool is_behind(const struct ns_watch *watch, const struct ns_owned *place,
                      const struct ns_netns *netns, const struct ns_diag_key *key)
{
    if (place->connection)
        return place->connection->watched.is_behind;
    return watch->n_behind < BEHIND_MOST && find_peer(watch, place->pid) < watch->n_peers &&
           !ns_table_is_server(netns, key);
}

static void take_listed(void *context, const struct ns_diag_socket *seen)
{
    struct ns_watch *watch = context;
    struct ns_netns *netns = watch->listed;
    bool full;
    if (seen->state == TCP_LISTEN) {
        ns_ports_add(netns->listens, ntohs(seen->key.id.idiag_sport));
        ns_ports_add(netns->listened, ntohs(seen->key.id.idiag_sport));
    }
    /* Without an inode it was not accepted yet, or it is closed and still sending. */
    if (seen->state == TCP_LISTEN || seen->inode == 0 || seen->look.at == 0)
        return;
    struct ns_owned *place = ns_owners_place(&watch->table.owners, seen->inode, true);
    struct ns_connection *other = NULL; /* this is the peer of a chosen one */
    bool chosen = watch->table.owners.all || place->chosen;
    if (!chosen && !(other = ns_table_other_end(&watch->table, netns, &seen->key)) &&
        !is_behind(watch, place, netns, &seen->key))
        return;
    if (place->pid == 0 && !place->listed) {
        watch->owners_wanted = true;
        place->listed = true;
        place->stamp = watch->table.owners.stamp;
    }
    /* Its process is not known before a round that begins after this. */
    if (place->pid == 0 && (!other || watch->table.owners.complete <= place->stamp)) {
        if (other)
            other->wants_peer = true;
        return;
    }
    bool is_new = !place->connection;
    watch->connections += chosen;
    struct ns_connection *connection =
        ns_table_take(&watch->table, place, netns, seen, watch->tick, &full);
    if (full && !place->listed) {
        place->listed = true; /* count it once */
        watch->sampler.tally.forgotten++;
    }
    watch->idle += !connection && !full;
    if (!connection)
        return;
    /* The end of a new connection may have been listed before the chosen process's end. */
    if (!is_new && connection->watched.is_behind && (other || chosen)) {
        connection->watched.is_behind = false;
        watch->n_behind--;
    }
    if (is_new && !chosen) {
        connection->watched.is_behind = !other;
        watch->n_behind += !other;
        if (other && watch->n_peers < PEERS_MOST && find_peer(watch, place->pid) == watch->n_peers)
            watch->peers[watch->n_peers++] = place->pid;
    }
    ns_sampler_take(&watch->sampler, connection, &seen->look);
    watch->busy +=
        chosen && connection->list != watch->list && ns_sampler_is_busy(connection, seen->look.at);
    connection->list = watch->list;
    connection->wants_peer |=
        connection->watched.judge.verdict.looks == 1 && place->chosen && !watch->table.owners.all;
}

/* A list takes very much longer than these questions, so that lists are rare. They are still needed
 * for a peer that is not accepted yet, or in another namespace. */
static void ask_for_peers(struct ns_watch *watch)
{
    for (size_t i = 0; i < watch->table.n_live; i++) {
        struct ns_connection *connection = watch->table.live[i];
        const struct ns_diag_key key = ns_diag_other_end(&connection->key), *const keys = &key;
        if (!connection->wants_peer)
            continue;
        connection->wants_peer = false;
        watch->listed = connection->netns;
        ns_diag_ask(watch->listed->fd, &keys, 1, take_listed, watch);
    }
}

/* A connection with fewer than two samples was not really watched. */
static void end(struct ns_watch *watch, struct ns_connection *connection)
{
    watch->sampler.tally.forgotten += connection->watched.judge.verdict.looks < 2;
    ns_sampler_leave(&watch->sampler, connection);
    ns_table_remove(&watch->table, connection, true);
}

static void end_list(struct ns_watch *watch)
{
    struct ns_watch_tally *tally = &watch->sampler.tally;
    struct ns_owners *owners = &watch->table.owners;
    uint64_t now = ns_clock_now(CLOCK_MONOTONIC);
    for (size_t i = 0; i < watch->table.n_live;) {
        struct ns_connection *connection = watch->table.live[i];
        /* Of many connections, idle ones that were never held are not kept. A removed one is
         * replaced by the last one. */
        bool is_spare = watch->table.n_live > NS_TABLE_EAGER && !connection->is_sampled &&
                        !connection->was_held && !ns_sampler_is_busy(connection, now);
        if (connection->list != watch->list) {
            end(watch, connection);
        } else if (is_spare) {
            ns_table_remove(&watch->table, connection, false);
            watch->idle++;
        } else {
            i++;
        }
    }
    for (size_t i = 0; i < watch->table.n_live; i++) /* a namespace may have no process */
        watch->table.live[i]->netns->round = owners->stamp;
    ns_netns_drop_unused(owners, owners->all ? owners->stamp : owners->complete);
    watch->lists_wanted -= watch->lists_wanted > 0;
    tally->connections = watch->connections;
    tally->idle = watch->idle;
    tally->busy = watch->busy;
    tally->rounds++;
}

/* Begin to list the next namespace: 1; 0: there is none. */
static int list_netns(struct ns_watch *watch)
{
    const uint32_t states = NS_DIAG_CONNECTED | 1U << TCP_LISTEN;
    struct ns_owners *owners = &watch->table.owners;
    int error;
    while (watch->netns < owners->n_namespaces && owners->namespaces[watch->netns]->fd < 0)
        watch->netns++;
    if (watch->netns == owners->n_namespaces)
        return 0;
    /* The kernel lists listeners first (inet_diag_dump_icsk, net/ipv4/inet_diag.c). */
    memset(owners->namespaces[watch->netns]->listens, 0, sizeof owners->namespaces[0]->listens);
    error = ns_diag_list_begin(&watch->part, owners->namespaces[watch->netns]->list_fd, states);
    return error ? error : 1;
}

/* 1: there is more; 0: the list is complete. */
static int step_list(struct ns_watch *watch, uint64_t until)
{
    uint64_t begin = ns_clock_now(CLOCK_THREAD_CPUTIME_ID);
    int more = 1;
    if (!watch->lists.goes_on) {
        watch->list++;
        watch->netns = 0;
        watch->connections = watch->idle = watch->busy = 0;
        more = list_netns(watch);
    }
    while (more > 0) {
        watch->listed = watch->table.owners.namespaces[watch->netns];
        more = ns_diag_list_next(&watch->part, take_listed, watch);
        if (more == 0) {
            watch->netns++;
            more = list_netns(watch);
        }
        if (ns_clock_now(CLOCK_MONOTONIC) >= until)
            break;
    }
    if (more == 0) {
        end_list(watch);
        ask_for_peers(watch);
    }
    stepped(&watch->lists, begin, more > 0);
    return more; /* after an error, it is made again when it is due */
}

static uint64_t everyone_due(const struct ns_watch *watch)
{
    if (watch->table.owners.all)
        return UINT64_MAX;
    return due(&watch->everyone, watch->owners_wanted ? EVERYONE_WANTED_MS : EVERYONE_MS, SHARE);
}

static int step_descriptors(struct ns_watch *watch, uint64_t until)
{
    uint64_t begin = ns_clock_now(CLOCK_THREAD_CPUTIME_ID);
    struct ns_owners *owners = &watch->table.owners;
    bool goes_on = watch->descriptors.goes_on || watch->everyone.goes_on;
    int more;
    if (!goes_on) {
        owners->everyone = ns_clock_now(CLOCK_MONOTONIC) >= everyone_due(watch);
        if (owners->all || owners->everyone)
            watch->owners_wanted = false;
    }
    struct pace *pace = owners->everyone ? &watch->everyone : &watch->descriptors;
    more = ns_owners_step(owners, until);
    if (more == 0 && (owners->fresh > 0 || pace == &watch->everyone))
        watch->lists_wanted = LIST_TRIES;
    if (more == 0)
        ask_for_peers(watch);
    stepped(pace, begin, more > 0);
    return more;
}

/* The descriptor tables of some processes show new sockets quickly. Those of all processes cost
 * more than a list, so that they are only read if a list has an unknown socket. */
static uint64_t descriptors_due(const struct ns_watch *watch)
{
    bool rare = watch->table.owners.all && !watch->owners_wanted;
    uint64_t next = due(&watch->descriptors, rare ? OWNERS_MS : DESCRIPTORS_MS, SHARE);
    return next < everyone_due(watch) ? next : everyone_due(watch);
}

/* If all connections are sampled, lists show little that is new. */
static uint64_t lists_due(const struct ns_watch *watch)
{
    bool rare = !watch->table.owners.all && watch->sampler.tally.connections <= watch->sampler.room;
    uint64_t usual = due(&watch->lists, rare ? LIST_RARE_MS : LIST_MS, SHARE);
    uint64_t soon = (uint64_t)LIST_WANTED_MS << (LIST_TRIES - watch->lists_wanted);
    soon = due(&watch->lists, soon, SHARE_WANTED);
    return watch->lists_wanted > 0 && soon < usual ? soon : usual;
}

/* Reads the descriptors of these processes for the first time. Some may have ended since they were
 * chosen. */
static int choose(struct ns_watch *watch, const pid_t **pids)
{
    struct ns_owners *owners = &watch->table.owners;
    const pid_t *const first = *pids;
    bool is_any_there = owners->all;
    int error = 0;
    for (; **pids; ++*pids)
        if ((error = ns_owners_add(owners, **pids, UINT64_MAX)) && error != -ESRCH)
            return error;
    error = step_descriptors(watch, UINT64_MAX);
    for (*pids = first; !error && **pids; *pids += !error) {
        const struct ns_watched_process *process = ns_owners_process(owners, **pids);
        is_any_there |= process != NULL;
        error = process ? process->refusal : 0;
    }
    if (error || is_any_there)
        return error;
    *pids = first;
    return -ESRCH;
}

int ns_watch_open(const pid_t **pids, ns_watch_held held, void *context, struct ns_watch **out)
{
    struct ns_watch *watch = ns_allocate(1, sizeof *watch);
    struct timespec tick;
    ns_netns_raise_limit();
    clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
    watch->tick = (uint64_t)tick.tv_nsec;
    watch->table.owners.all = **pids == 0;
    watch->table.owners.children = true;
    ns_sampler_begin(&watch->sampler, watch->tick, held, context);
    int error = choose(watch, pids);
    if (!error)
        error = step_list(watch, UINT64_MAX);
    if (ns_diag_may_pass(error))
        error = 0;
    /* A list walks the kernel's whole table, which may take 20 ms. The list that finds the first
     * connection of a new program must not wait because of that. */
    watch->lists.cost = 0;
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

int ns_watch_look(struct ns_watch *watch, uint64_t now, uint64_t *next)
{
    uint64_t busy = ns_clock_now(CLOCK_THREAD_CPUTIME_ID);
    int error = ns_sampler_look(&watch->sampler, &watch->table, now);
    for (size_t i = 0; i < watch->sampler.n_gone; i++)
        end(watch, watch->sampler.gone[i]);
    if (error >= 0 && now >= descriptors_due(watch))
        error = step_descriptors(watch, ns_clock_now(CLOCK_MONOTONIC) + STEP_US * 1000);
    if (error >= 0 && now >= lists_due(watch))
        error = step_list(watch, ns_clock_now(CLOCK_MONOTONIC) + STEP_US * 1000);
    *next = ns_sampler_due(&watch->sampler);
    if (descriptors_due(watch) < *next)
        *next = descriptors_due(watch);
    if (lists_due(watch) < *next)
        *next = lists_due(watch);
    watch->sampler.tally.busy_ns += ns_clock_now(CLOCK_THREAD_CPUTIME_ID) - busy;
    return error < 0 ? error : 0;
}

void ns_watch_each(struct ns_watch *watch, void (*visit)(void *context, struct ns_watched *watched),
                   void *context)
{
    for (size_t i = 0; i < watch->table.n_live; i++) {
        ns_table_set_role(watch->table.live[i]);
        visit(context, &watch->table.live[i]->watched);
    }
    for (size_t i = 0; i < watch->table.n_ended; i++)
        visit(context, &watch->table.ended[i]->watched);
    ns_table_forget_ended(&watch->table);
}

struct ns_watched *ns_watch_other_end(struct ns_watch *watch, struct ns_watched *watched)
{
    struct ns_connection *connection = (struct ns_connection *)watched; /* its first member */
    connection = ns_table_other_end(&watch->table, connection->netns, &connection->key);
    if (!connection)
        return NULL;
    ns_table_set_role(connection);
    return &connection->watched;
}

pid_t ns_watch_process(const struct ns_watch *watch, size_t i)
{
    return i < watch->table.owners.n_processes ? watch->table.owners.processes[i].pid : 0;
}

void ns_watch_tally(const struct ns_watch *watch, struct ns_watch_tally *tally)
{
    *tally = watch->sampler.tally;
    tally->denied = watch->table.owners.denied;
    tally->refused = watch->table.owners.refused;
    tally->refusal = watch->table.owners.refusal;
    tally->sampled = (unsigned)watch->sampler.n;
}
