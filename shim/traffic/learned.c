/* SPDX-License-Identifier: MIT */
/* See learned.h. Owns the table. An entry is only a hint about ACKs: lost updates, a key that two
 * peers share and whatever a child with other rights stores cost a segment or a delayed ACK. */
#include "traffic/learned.h"

#include "conn/kernel.h"

#include <errno.h>
#include <sys/mman.h>

enum {
    ENTRIES = 256,   /* ns_conn.peer is the index; 0: not known yet */
    KNOWN_BITS = 11, /* low bits of an entry: ns_ack_learn; the others are the key */
};
_Static_assert((NS_ACK_HELPS + NS_ACK_TERMS * NS_ACK_PLACES) >> KNOWN_BITS == 0, "it fits");

static _Atomic uint32_t own[ENTRIES];
static _Atomic uint32_t *_Atomic shared; /* NULL: own is used */

static _Atomic uint32_t *entry_at(unsigned index)
{
    _Atomic uint32_t *table = atomic_load_explicit(&shared, memory_order_acquire);
    return &(table ? table : own)[index];
}

void ns_learned_share(void)
{
    _Atomic uint32_t *none = NULL;
    int saved = errno;
    void *page = MAP_FAILED;
    if (!atomic_load(&shared))
        page = mmap(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED && !atomic_compare_exchange_strong(&shared, &none, page))
        munmap(page, sizeof own); /* another thread was faster */
    errno = saved;
}

bool ns_learned_begin(int fd, struct ns_conn *conn, struct ns_ack_state *state)
{
    if (NS_GET(conn, peer))
        return false;
    bool server = NS_GET(conn, role) == NS_ROLE_SERVER;
    struct ns_address peer = server ? ns_kernel_local(fd) : ns_kernel_remote(fd);
    uint32_t key = peer.port * 2u + server;
    for (size_t i = 0; i < sizeof peer.addr; i++)
        key = (key ^ peer.addr.s6_addr[i]) * 16777619u; /* FNV-1a */
    unsigned index = key % (ENTRIES - 1);
    _Atomic uint32_t *entry;
    uint32_t value;
    key &= ~0u << KNOWN_BITS;
    /* A few slots from the key's own on: two peers that took each other's would learn nothing. */
    int left = 5;
    do {
        entry = entry_at(index = index % (ENTRIES - 1) + 1);
        value = atomic_load_explicit(entry, memory_order_relaxed);
    } while (--left && value && (value & ~0u << KNOWN_BITS) != key);
    if ((value & ~0u << KNOWN_BITS) != key)
        atomic_store_explicit(entry, value = key, memory_order_relaxed);
    NS_PUT(conn, peer, (uint8_t)index);
    ns_ack_begin(state, value & ~(~0u << KNOWN_BITS));
    return true;
}

void ns_learned_change(struct ns_conn *conn, struct ns_ack_state before, struct ns_ack_state *after)
{
    unsigned index = NS_GET(conn, peer);
    if (!index)
        return;
    _Atomic uint32_t *entry = entry_at(index);
    uint32_t value = atomic_load_explicit(entry, memory_order_relaxed);
    unsigned known = value & ~(~0u << KNOWN_BITS), now = ns_ack_learn(known, before, after);
    if (now != known)
        atomic_store_explicit(entry, (value & ~0u << KNOWN_BITS) | now, memory_order_relaxed);
}
