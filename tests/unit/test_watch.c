/* SPDX-License-Identifier: MIT */
/* The table of watched connections, and the choice of those that are sampled. */
#include "watch/table.h"

#include "looks.h"
#include "unit.h"

static struct ns_table table;
static struct ns_netns nets[2];
static struct ns_sampler sampler;
static unsigned holds;

static void held(void *context, struct ns_watched *watched, const struct ns_hold *hold)
{
    holds += context == &holds && watched && hold;
}

/* The socket of a chosen process, with loopback addresses. */
static struct ns_connection *take(uint64_t inode, struct ns_netns *net, uint16_t local,
                                  uint16_t remote)
{
    struct ns_diag_socket seen = {.inode = inode, .key.family = AF_INET};
    struct ns_owned *place = ns_owners_place(&table.owners, inode, true);
    bool full;
    seen.key.id = (struct inet_diag_sockid){.idiag_sport = htons(local),
                                            .idiag_dport = htons(remote),
                                            .idiag_src = {htonl(INADDR_LOOPBACK)},
                                            .idiag_dst = {htonl(INADDR_LOOPBACK)}};
    place->chosen = true;
    return ns_table_take(&table, place, net, &seen, TICK, &full);
}

static struct ns_connection *other_end(const struct ns_connection *connection)
{
    struct ns_diag_key key = ns_diag_other_end(&connection->key);
    return ns_table_other_end(&table, connection->netns, &key);
}

CHECK(check_table)
{
    /* Each network namespace has its own loopback addresses. */
    struct ns_connection *one = take(1, &nets[0], 40000, 80), *two = take(2, &nets[1], 40000, 80),
                         *third = take(3, &nets[0], 40001, 80);
    OK(take(2, &nets[1], 40000, 80) == two, "a socket has one connection");
    OK(other_end(one) == one && other_end(two) == two && other_end(third) == third,
       "each is found from its other end");
    ns_table_remove(&table, third, true);
    OK(table.n_ended == 1 && table.ended[0] == third && third->watched.ended && !other_end(third) &&
           other_end(one) == one,
       "one that has ended is kept until it was reported");
    ns_table_forget_ended(&table);
    OK(table.n_ended == 0 && table.n_live == 2 && table.live[0] == one && table.live[1] == two,
       "the others stay");
    ns_table_remove(&table, one, false);
    struct ns_diag_key key = ns_diag_other_end(&two->key);
    OK(!ns_table_other_end(&table, &nets[0], &key) && other_end(two) == two &&
           table.live[0] == two && !ns_owners_place(&table.owners, 1, false)->connection,
       "one that was removed is not found any more, and the others are");
    for (uint64_t inode = 10; inode < 3010; inode++)
        ns_owners_place(&table.owners, inode, true);
    table.owners.stamp += 1000;
    for (uint64_t inode = 3010; inode < 6010; inode++)
        ns_owners_place(&table.owners, inode, true);
    unsigned old = 0, recent = 0;
    for (uint64_t inode = 10; inode < 6010; inode++)
        *(inode < 3010 ? &old : &recent) += ns_owners_place(&table.owners, inode, false) != NULL;
    OK(recent == 3000 && !old && table.owners.used < 4000 &&
           ns_owners_place(&table.owners, 2, false)->connection == two,
       "sockets that were not seen for long are forgotten, those of connections are not");
}

CHECK(check_roles)
{
    struct ns_connection *client = take(7001, &nets[0], 50000, 40000),
                         *server = take(7002, &nets[0], 40000, 50000);
    ns_table_set_role(server);
    OK(server->watched.role == NS_ROLE_CLIENT, "without a listener two high ports are of clients");
    take(7003, &nets[0], 40000, 50001);
    ns_table_set_role(server);
    ns_table_set_role(client);
    OK(server->watched.role == NS_ROLE_SERVER && client->watched.role == NS_ROLE_CLIENT,
       "a port with two connections had a listener");
}

/* Is it sampled after this sample? */
static bool is_sampled_after(struct ns_connection *connection, const struct ns_look *look)
{
    ns_sampler_take(&sampler, connection, look);
    return connection->is_sampled && ns_sampler_is_busy(connection, look->at);
}

CHECK(check_sampler)
{
    enum { LONG_AGO_MS = 60000 };
    struct ns_connection *one[20];
    struct talk talk;
    talk_begin(&talk);
    ns_sampler_begin(&sampler, TICK, held, &holds);
    talk.now.since_sent_ms = talk.now.since_received_ms = LONG_AGO_MS;
    for (unsigned i = 0; i < 20; i++)
        one[i] = take(8000 + i, &nets[0], (uint16_t)(50000 + i), 80);
    OK(!is_sampled_after(one[0], &talk.now), "an idle connection is not sampled at once");
    talk_pass(&talk, 10 * MS);
    talk.now.unacked = 1;
    OK(is_sampled_after(one[0], &talk.now), "one with segments in flight is");
    for (unsigned i = 1; i < 20; i++) {
        struct ns_look look = talk.now;
        look.unacked = i % 3 == 0;
        look.unsent = i % 3 == 1;
        look.since_received_ms = i % 3 == 2 ? 0 : LONG_AGO_MS;
        OK(is_sampled_after(one[i], &look) == (i < sampler.room),
           "one with traffic is, if there is room: %u", i);
    }
    OK(!holds && !one[0]->was_held, "none of them was held");
    talk_pass(&talk, (uint64_t)NS_TABLE_BUSY_MS * MS);
    OK(is_sampled_after(one[19], &talk.now) && sampler.n == sampler.room,
       "one with traffic takes the place of an idle one");
    ns_sampler_leave(&sampler, one[19]);
    OK(!one[19]->is_sampled && sampler.n == sampler.room - 1, "until it leaves");
    OK(sampler.tally.looks == 22, "each sample is counted");
    ns_table_release(&table);
}
