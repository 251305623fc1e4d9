/* SPDX-License-Identifier: MIT */
/* See sampler.h. Owns which connections are under close look, and gives what is seen to their
 * judges. */
#include "watch/sampler.h"

#include "base/clock.h"

#include <string.h>

#define MS 1000000U

enum {
    INTERVAL_MS = 2,
    INTERVAL_MANY_MS = 4, /* where connections have to take turns */
    TURN_MS = 250,
    BUSY_MS = 2000,  /* since the last traffic */
    IDLE_ROUNDS = 5, /* one without traffic is looked at in each fifth round */
    LATE_MS = 20,    /* a hold lasts 40 ms, and two looks must fall into it */
    SHARE = 20,      /* looks take one part in so many of a processor */
    ROOM_LEAST = 16,
    SEARCH_MOST = 8192, /* connections that are gone through for the next turn */
};

void ns_sampler_begin(struct ns_sampler *closely, uint64_t interval_ns)
{
    *closely = (struct ns_sampler){
        .room = ROOM_LEAST,
        .idle = true,
        .fixed = interval_ns != 0,
        .interval = interval_ns ? interval_ns : INTERVAL_MS * MS,
    };
}

bool ns_sampler_was_busy(const struct ns_look *look)
{
    return look->unsent || look->unacked || look->since_sent_ms < BUSY_MS ||
           look->since_received_ms < BUSY_MS;
}

bool ns_sampler_is_busy(const struct ns_connection *connection, uint64_t now)
{
    return connection->suspect || (connection->watched.active_at &&
                                   connection->watched.active_at + (uint64_t)BUSY_MS * MS > now);
}

static void take_look(const struct ns_sampler_call *call, struct ns_connection *connection,
                      const struct ns_look *seen)
{
    struct ns_hold hold;
    bool moves = seen->unsent || seen->unacked ||
                 (connection->looks > 0 && (seen->sent_segments != connection->sent_segments ||
                                            seen->received != connection->received));

    connection->watched.traffic |= moves;
    if (moves)
        connection->watched.active_at = seen->at;
    else if (connection->looks == 0 && ns_sampler_was_busy(seen))
        connection->watched.active_at = seen->at;
    connection->sent_segments = seen->sent_segments;
    connection->received = seen->received;
    connection->suspect = seen->unsent > 0 && seen->unsent < seen->mss && seen->unacked > 0;
    connection->looks++;
    call->tally->looks++;
    if (!ns_judge_look(&connection->watched.judge, seen, &hold))
        return;
    connection->was_held = true;
    if (call->held)
        call->held(call->context, &connection->watched, &hold);
}

void ns_sampler_leave(struct ns_sampler *closely, struct ns_connection *connection)
{
    for (size_t i = 0; connection->is_close && i < closely->n; i++)
        if (closely->connections[i] == connection) {
            closely->connections[i] = closely->connections[--closely->n];
            connection->is_close = false;
        }
}

static void bring(struct ns_sampler *closely, struct ns_connection *connection, uint64_t now)
{
    if (connection->is_close)
        return;
    /* One that has nothing to tell gives way; where all have, the new one waits for its turn. */
    for (size_t i = 0; i < closely->n && closely->n >= closely->room; i++)
        if (!ns_sampler_is_busy(closely->connections[i], now)) {
            ns_sampler_leave(closely, closely->connections[i]);
            break;
        }
    if (closely->n >= closely->room)
        return;
    closely->connections[closely->n++] = connection;
    connection->is_close = true;
}

void ns_sampler_take(struct ns_sampler *closely, const struct ns_sampler_call *call,
                     struct ns_connection *connection, const struct ns_look *seen)
{
    take_look(call, connection, seen);
    if (ns_sampler_is_busy(connection, seen->at))
        bring(closely, connection, seen->at);
}

/* The next turn: those that may be held stay, then come those with traffic, then, where all fit in,
 * the others. */
static void next_turn(struct ns_sampler *closely, const struct ns_table *table, uint64_t now)
{
    size_t kept = 0, search = table->n_live < SEARCH_MOST ? table->n_live : SEARCH_MOST;

    for (size_t i = 0; i < closely->n; i++) {
        struct ns_connection *connection = closely->connections[i];

        connection->is_close = connection->suspect && kept < closely->room;
        if (connection->is_close)
            closely->connections[kept++] = connection;
    }
    closely->n = kept;
    for (size_t i = 0; i < search && closely->n < closely->room; i++) {
        struct ns_connection *connection = table->live[closely->cursor++ % table->n_live];

        if (table->n_live <= closely->room || ns_sampler_is_busy(connection, now))
            bring(closely, connection, now);
    }
    closely->turn_ends = now + (uint64_t)TURN_MS * MS;
}

struct asking {
    struct ns_connection **connections;
    const struct ns_sampler_call *call;
    struct ns_connection **gone;
    size_t *n_gone;
};

static void take_answer(void *context, size_t position, const struct ns_diag_socket *seen)
{
    struct asking *asking = context;
    struct ns_connection *connection = asking->connections[position];
    struct ns_look look;

    if (!seen || seen->inode != connection->watched.inode)
        asking->gone[(*asking->n_gone)++] = connection;
    else if (ns_diag_look(seen, &look))
        take_look(asking->call, connection, &look);
}

/* Those that are due and in the same namespace as the first, at most as many as one question holds.
 * Takes them off the list. */
static size_t choose(struct ns_connection **due, size_t *n_due, struct ns_connection **chosen)
{
    struct ns_netns *space = due[0]->space;
    size_t n = 0, left = 0;

    for (size_t i = 0; i < *n_due; i++)
        if (n < NS_DIAG_AT_ONCE && due[i]->space == space)
            chosen[n++] = due[i];
        else
            due[left++] = due[i];
    *n_due = left;
    return n;
}

static int ask(const struct ns_sampler_call *call, struct ns_connection **due, size_t n_due,
               struct ns_connection **gone, size_t *n_gone)
{
    struct ns_connection *chosen[NS_DIAG_AT_ONCE];
    const struct ns_diag_key *keys[NS_DIAG_AT_ONCE];
    int error = 0;

    while (n_due > 0 && !error) {
        size_t n = choose(due, &n_due, chosen);
        struct asking asking = {chosen, call, gone, n_gone};

        for (size_t i = 0; i < n; i++)
            keys[i] = &chosen[i]->key;
        error = ns_diag_ask(chosen[0]->space->fd, keys, n, take_answer, &asking);
    }
    return error;
}

/* So many that the looks take their share of the time and no more. */
static void make_room(struct ns_sampler *closely, const struct ns_table *table, uint64_t took,
                      size_t looks)
{
    uint64_t each = took / looks, room;

    closely->cost = closely->cost ? (closely->cost * 7 + each) / 8 : each;
    if (!closely->fixed)
        closely->interval =
            (uint64_t)(table->n_live > closely->room ? INTERVAL_MANY_MS : INTERVAL_MS) * MS;
    room = closely->interval / SHARE / (closely->cost ? closely->cost : 1);
    closely->room = room < ROOM_LEAST        ? ROOM_LEAST
                    : room > NS_SAMPLER_MOST ? NS_SAMPLER_MOST
                                             : (size_t)room;
}

int ns_sampler_look(struct ns_sampler *closely, const struct ns_sampler_call *call,
                    struct ns_table *table, uint64_t now,
                    struct ns_connection *gone[NS_SAMPLER_MOST], size_t *n_gone)
{
    struct ns_connection *due[NS_SAMPLER_MOST];
    size_t n_due = 0, n;
    bool was_busy = !closely->idle;
    uint64_t begin;
    int error;

    *n_gone = 0;
    if (now < ns_sampler_due(closely))
        return 0;
    if (now >= closely->turn_ends)
        next_turn(closely, table, now);
    closely->rounds++;
    n = 0;
    for (size_t i = 0; i < closely->n; i++)
        n += ns_sampler_is_busy(closely->connections[i], now);
    closely->idle = n == 0;
    for (size_t i = 0; i < closely->n; i++)
        if (n == 0 || closely->rounds % IDLE_ROUNDS == 0 ||
            ns_sampler_is_busy(closely->connections[i], now))
            due[n_due++] = closely->connections[i];
    if (closely->last && was_busy && now - closely->last > (uint64_t)LATE_MS * MS)
        call->tally->missed++;
    closely->last = now;
    if (n_due == 0)
        return 0;
    call->tally->rounds++;
    n = n_due;
    begin = ns_clock_now(CLOCK_THREAD_CPUTIME_ID);
    error = ask(call, due, n_due, gone, n_gone);
    make_room(closely, table, ns_clock_now(CLOCK_THREAD_CPUTIME_ID) - begin, n);
    return error;
}

uint64_t ns_sampler_due(const struct ns_sampler *closely)
{
    uint64_t apart = closely->interval * (closely->idle ? IDLE_ROUNDS : 1);

    return closely->last ? closely->last + apart : 0;
}
