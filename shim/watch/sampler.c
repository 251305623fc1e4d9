/* SPDX-License-Identifier: MIT */
/* See table.h. Owns the set of sampled connections, and passes samples to their judges. */
#include "watch/table.h"

#include "base/clock.h"

#define MS 1000000U

enum {
    INTERVAL_MS = 2,
    INTERVAL_MANY_MS = 4, /* if connections take turns */
    TURN_MS = 250,
    IDLE_ROUNDS = 5, /* connections without traffic are sampled in every fifth round */
    LATE_MS = 20,    /* a hold lasts 40 ms and needs two samples */
    SHARE = 20,      /* samples take 1/SHARE of a processor */
    ROOM_LEAST = 16,
    SEARCH_MOST = 8192, /* connections that are considered for the next turn */
};

void ns_sampler_begin(struct ns_sampler *sampler, uint64_t tick_ns, ns_watch_held held,
                      void *context)
{
    *sampler = (struct ns_sampler){
        .room = ROOM_LEAST,
        .idle = true,
        .interval = INTERVAL_MS * MS,
        .fine = tick_ns / 2,
        .held = held,
        .context = context,
    };
}

bool ns_sampler_is_busy(const struct ns_connection *connection, uint64_t now)
{
    return connection->suspect ||
           (connection->watched.active_at &&
            connection->watched.active_at + (uint64_t)NS_TABLE_BUSY_MS * MS > now);
}

static void take_look(struct ns_sampler *sampler, struct ns_connection *connection,
                      const struct ns_look *seen)
{
    const struct ns_look *last = &connection->watched.judge.last;
    struct ns_hold hold;
    bool moves = seen->unsent || seen->unacked ||
                 (last->at > 0 &&
                  (seen->sent_segments != last->sent_segments || seen->received != last->received));
    connection->watched.traffic |= moves;
    if (moves || (last->at == 0 && ns_table_was_busy(seen)))
        connection->watched.active_at = seen->at;
    connection->suspect = seen->unsent > 0 && seen->unsent < seen->mss && seen->unacked > 0;
    sampler->tally.looks++;
    if (!ns_judge_look(&connection->watched.judge, seen, &hold))
        return;
    ns_table_set_role(connection);
    connection->was_held = true;
    if (sampler->held)
        sampler->held(sampler->context, &connection->watched, &hold);
}

void ns_sampler_leave(struct ns_sampler *sampler, struct ns_connection *connection)
{
    for (size_t i = 0; connection->is_sampled && i < sampler->n; i++)
        if (sampler->connections[i] == connection) {
            sampler->connections[i] = sampler->connections[--sampler->n];
            connection->is_sampled = false;
        }
}

static void bring(struct ns_sampler *sampler, struct ns_connection *connection, uint64_t now)
{
    if (connection->is_sampled)
        return;
    /* Replace one without traffic; if all have traffic, the new one waits for its turn. */
    for (size_t i = 0; i < sampler->n && sampler->n >= sampler->room; i++)
        if (!ns_sampler_is_busy(sampler->connections[i], now)) {
            ns_sampler_leave(sampler, sampler->connections[i]);
            break;
        }
    if (sampler->n >= sampler->room)
        return;
    sampler->connections[sampler->n++] = connection;
    connection->is_sampled = true;
}

void ns_sampler_take(struct ns_sampler *sampler, struct ns_connection *connection,
                     const struct ns_look *seen)
{
    take_look(sampler, connection, seen);
    if (ns_sampler_is_busy(connection, seen->at))
        bring(sampler, connection, seen->at);
}

/* Begin the next turn: those that may be held stay, then come those with traffic, then, if all fit,
 * the others. */
static void next_turn(struct ns_sampler *sampler, const struct ns_table *table, uint64_t now)
{
    size_t kept = 0, search = table->n_live < SEARCH_MOST ? table->n_live : SEARCH_MOST;
    for (size_t i = 0; i < sampler->n; i++) {
        struct ns_connection *connection = sampler->connections[i];
        connection->is_sampled = connection->suspect && kept < sampler->room;
        if (connection->is_sampled)
            sampler->connections[kept++] = connection;
    }
    sampler->n = kept;
    for (size_t i = 0; i < search && sampler->n < sampler->room; i++) {
        struct ns_connection *connection = table->live[sampler->cursor++ % table->n_live];
        if (table->n_live <= sampler->room || ns_sampler_is_busy(connection, now))
            bring(sampler, connection, now);
    }
    sampler->turn_ends = now + (uint64_t)TURN_MS * MS;
}

static void take_answer(void *context, const struct ns_diag_socket *seen)
{
    struct ns_sampler *sampler = context;
    struct ns_connection *connection = sampler->asked[seen->position];
    if (seen->inode != connection->watched.inode)
        sampler->gone[sampler->n_gone++] = connection;
    else if (seen->look.at > 0)
        take_look(sampler, connection, &seen->look);
}

/* Adjust the number of sampled connections to the cost of a sample. */
static void make_room(struct ns_sampler *sampler, const struct ns_table *table, uint64_t took,
                      size_t looks)
{
    uint64_t each = took / looks, room;
    sampler->cost = sampler->cost ? (sampler->cost * 7 + each) / 8 : each;
    sampler->interval =
        (uint64_t)(table->n_live > sampler->room ? INTERVAL_MANY_MS : INTERVAL_MS) * MS;
    room = sampler->interval / SHARE / (sampler->cost ? sampler->cost : 1);
    sampler->room = room < ROOM_LEAST        ? ROOM_LEAST
                    : room > NS_SAMPLER_MOST ? NS_SAMPLER_MOST
                                             : (size_t)room;
}

/* Do samples half a tick apart show more of one of them, and does it cost no more than a full room?
 */
static bool has_close(const struct ns_sampler *sampler)
{
    bool close = false;
    for (size_t i = 0; i < sampler->n; i++)
        close |= ns_judge_is_close(&sampler->connections[i]->watched.judge);
    return close && sampler->n * sampler->interval <= sampler->room * sampler->fine;
}

int ns_sampler_look(struct ns_sampler *sampler, const struct ns_table *table, uint64_t now)
{
    const struct ns_diag_key *keys[NS_DIAG_AT_ONCE];
    size_t busy = 0, looks = 0, n = 0;
    int error = 0;
    bool was_busy = !sampler->idle;
    sampler->n_gone = 0;
    if (now < ns_sampler_due(sampler))
        return 0;
    if (now >= sampler->turn_ends)
        next_turn(sampler, table, now);
    sampler->rounds++;
    for (size_t i = 0; i < sampler->n; i++)
        busy += ns_sampler_is_busy(sampler->connections[i], now);
    sampler->idle = busy == 0;
    if (sampler->last && was_busy && now - sampler->last > (uint64_t)LATE_MS * MS)
        sampler->tally.missed++;
    sampler->last = now;
    bool all = busy == 0 || sampler->rounds % IDLE_ROUNDS == 0;
    uint64_t begin = ns_clock_now(CLOCK_THREAD_CPUTIME_ID);
    for (size_t i = 0; i < sampler->n && !error; i++) {
        struct ns_connection *connection = sampler->connections[i];
        if (all || ns_sampler_is_busy(connection, now)) {
            sampler->asked[n] = connection;
            keys[n++] = &connection->key;
            looks++;
        }
        /* A request is about sockets of one namespace. */
        if (n == NS_DIAG_AT_ONCE || i + 1 == sampler->n ||
            sampler->connections[i + 1]->netns != connection->netns) {
            error = n > 0 ? ns_diag_ask(connection->netns->fd, keys, n, take_answer, sampler) : 0;
            n = 0;
        }
    }
    sampler->close = has_close(sampler);
    if (looks == 0)
        return 0;
    sampler->tally.rounds++;
    make_room(sampler, table, ns_clock_now(CLOCK_THREAD_CPUTIME_ID) - begin, looks);
    return error;
}

uint64_t ns_sampler_due(const struct ns_sampler *sampler)
{
    uint64_t apart = sampler->interval * (sampler->idle ? IDLE_ROUNDS : 1);
    if (sampler->close && apart > sampler->fine)
        apart = sampler->fine;
    return sampler->last ? sampler->last + apart : 0;
}
