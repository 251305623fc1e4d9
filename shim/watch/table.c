/* SPDX-License-Identifier: MIT */
/* See table.h. Owns the memory of connections and limits it. */
#include "watch/table.h"

#include "process/scope.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

/* The list of a socket and its other end. */
static struct ns_connection **ends_of(struct ns_table *table, const struct ns_diag_key *key)
{
    const struct inet_diag_sockid *id = &key->id;
    uint32_t mixed = (uint32_t)(id->idiag_sport ^ id->idiag_dport) * 0x9e37U;
    /* An IPv4-mapped address has its IPv4 address in the last word. */
    mixed ^= key->family == AF_INET ? id->idiag_src[0] ^ id->idiag_dst[0]
                                    : id->idiag_src[3] ^ id->idiag_dst[3];
    return &table->ends[(mixed ^ mixed >> 16) % NS_TABLE_ENDS];
}

struct ns_connection *ns_table_other_end(struct ns_table *table, const struct ns_netns *netns,
                                         const struct ns_diag_key *key)
{
    struct ns_connection *connection = *ends_of(table, key);
    struct ns_address local, remote;
    if (connection) {
        local = ns_diag_local(key);
        remote = ns_diag_remote(key);
    }
    /* Each namespace has its own loopback addresses. */
    while (connection && !(ns_address_is_same(&connection->watched.local, &remote) &&
                           ns_address_is_same(&connection->watched.remote, &local) &&
                           (connection->netns == netns || !ns_address_is_loopback(&local))))
        connection = connection->next;
    return connection;
}

enum { EPHEMERAL_FIRST = 32768 }; /* the default range of ephemeral ports */

/* The listener may be closed: a port with connections to several ephemeral ports had one. */
static void find_closed_listener(const struct ns_table *table, struct ns_netns *netns,
                                 const struct ns_diag_key *key)
{
    if (ns_ports_have(netns->listened, ntohs(key->id.idiag_sport)) ||
        ns_ports_have(netns->listened, ntohs(key->id.idiag_dport)) ||
        ntohs(key->id.idiag_dport) < EPHEMERAL_FIRST)
        return;
    for (size_t i = 0; i < table->n_live; i++) {
        const struct inet_diag_sockid *id = &table->live[i]->key.id;
        if (table->live[i]->netns == netns && id->idiag_sport == key->id.idiag_sport &&
            id->idiag_dport != key->id.idiag_dport && ntohs(id->idiag_dport) >= EPHEMERAL_FIRST)
            ns_ports_add(netns->listened, ntohs(key->id.idiag_sport));
    }
}

bool ns_table_is_server(const struct ns_netns *netns, const struct ns_diag_key *key)
{
    uint16_t local = ntohs(key->id.idiag_sport), remote = ntohs(key->id.idiag_dport);
    /* Anybody may have listened on a port that is a client's now. */
    const uint8_t *const ports[] = {netns->listens, netns->listened};
    for (size_t i = 0; i < sizeof ports / sizeof ports[0]; i++)
        if (ns_ports_have(ports[i], local) != ns_ports_have(ports[i], remote))
            return ns_ports_have(ports[i], local);
    return local < EPHEMERAL_FIRST && remote >= EPHEMERAL_FIRST;
}

bool ns_table_was_busy(const struct ns_look *look)
{
    return look->unsent || look->unacked || look->since_sent_ms < NS_TABLE_BUSY_MS ||
           look->since_received_ms < NS_TABLE_BUSY_MS;
}

struct ns_connection *ns_table_take(struct ns_table *table, struct ns_owned *place,
                                    struct ns_netns *netns, const struct ns_diag_socket *seen,
                                    uint64_t tick_ns, bool *full)
{
    struct ns_connection *connection = place->connection;
    *full = false;
    if (connection)
        return connection;
    if (table->n_live >= NS_TABLE_EAGER && !ns_table_was_busy(&seen->look))
        return NULL;
    *full = table->n_live + table->n_ended >= NS_TABLE_MOST;
    if (*full)
        return NULL;
    connection = ns_allocate(1, sizeof *connection);
    NS_GROW(table->live, table->n_live);
    find_closed_listener(table, netns, &seen->key);
    connection->position = table->n_live;
    table->live[table->n_live++] = connection;
    connection->key = seen->key;
    connection->netns = netns;
    connection->watched.inode = seen->inode;
    connection->watched.pid = place->pid;
    connection->watched.started = place->started;
    connection->watched.is_peer = !place->chosen;
    connection->watched.is_mptcp = seen->is_mptcp;
    memcpy(connection->watched.name, place->name, sizeof place->name);
    connection->watched.local = ns_diag_local(&seen->key);
    connection->watched.remote = ns_diag_remote(&seen->key);
    ns_judge_begin(&connection->watched.judge, tick_ns);
    place->connection = connection;
    if (place->chosen) {
        struct ns_connection **ends = ends_of(table, &connection->key);
        connection->next = *ends;
        *ends = connection;
    }
    return connection;
}

void ns_table_set_role(struct ns_connection *connection)
{
    if (connection->was_held)
        return;
    bool is_server = ns_table_is_server(connection->netns, &connection->key);
    connection->watched.role = is_server ? NS_ROLE_SERVER : NS_ROLE_CLIENT;
}

void ns_table_remove(struct ns_table *table, struct ns_connection *connection, bool ended)
{
    struct ns_owned *place = ns_owners_place(&table->owners, connection->watched.inode, false);
    if (place && place->connection == connection)
        place->connection = NULL;
    for (struct ns_connection **at = ends_of(table, &connection->key); *at; at = &(*at)->next)
        if (*at == connection) {
            *at = connection->next;
            break;
        }
    table->live[connection->position] = table->live[--table->n_live];
    table->live[connection->position]->position = connection->position;
    connection->watched.ended = ended;
    ns_table_set_role(connection);
    if (!ended) {
        free(connection);
        return;
    }
    NS_GROW(table->ended, table->n_ended);
    table->ended[table->n_ended++] = connection;
}

void ns_table_forget_ended(struct ns_table *table)
{
    for (size_t i = 0; i < table->n_ended; i++)
        free(table->ended[i]);
    table->n_ended = 0;
}

void ns_table_release(struct ns_table *table)
{
    ns_table_forget_ended(table);
    for (size_t i = 0; i < table->n_live; i++)
        free(table->live[i]);
    free(table->live);
    free(table->ended);
    ns_owners_release(&table->owners);
}
