/* SPDX-License-Identifier: MIT */
/* The buffers of gather.h's sockets: their memory, the word that guards each, and who may hold it.
 * For gather.c alone. Must never wait for somebody who may be waiting for us: an append may stand
 * still for good, interrupted by a signal handler that writes to the same socket or jumps away, so
 * whoever finds one revokes it, and its owner, if he ever goes on, does it again. A flush may not
 * stand still: it runs with all signals blocked, where a handler could run, and never blocks, so
 * others may wait for it. errno is unchanged; all is async-signal-safe. */
#ifndef NS_GATHER_BLOCK_H
#define NS_GATHER_BLOCK_H

#include "fdtable.h"

/* The state word. An append takes it to APPENDING with the thread's token, copies behind what is
 * used, and takes it back with more used; where that fails it was revoked. The version changes with
 * every flush, so that a word seen again is the same buffer. */
#define NS_BLOCK_DEAD (UINT64_C(1) << 63) /* the rest of the word is the next block's page */
#define NS_BLOCK_FLUSHING (UINT64_C(1) << 62)
#define NS_BLOCK_APPENDING (UINT64_C(1) << 61)
#define NS_BLOCK_FAILED (UINT64_C(1) << 60)
#define NS_BLOCK_ENDING (UINT64_C(1) << 59)
#define NS_BLOCK_SPOILT (UINT64_C(1) << 58) /* an append may still write behind what was used */
#define NS_BLOCK_USED ((UINT64_C(1) << NS_BLOCK_USED_BITS) - 1)
#define NS_BLOCK_VERSION (UINT32_MAX & ~NS_BLOCK_USED)
enum {
    NS_BLOCK_USED_BITS = 17,
    NS_BLOCK_TOKEN_SHIFT = 32,
    NS_BLOCK_TOKEN_MASK = (1 << 26) - 1,
};

struct ns_block {
    _Atomic uint64_t state;
    _Atomic int error;     /* of the flush that failed */
    _Atomic uint8_t after; /* enum ns_gather_after */
    uint32_t patience_us;  /* until a rest is tried again; for whoever flushes */
    char data[];
};

typedef struct ns_block *_Atomic ns_block_entry;

/* The blocks of 1024 descriptors. Neither they nor a block are ever freed: somebody may be in it.
 */
extern ns_block_entry *_Atomic ns_block_chunks[NS_FD_CHUNKS];

/* Where fd's block is put; NULL: no descriptor near it has ever had one. */
static inline ns_block_entry *ns_block_place(int fd)
{
    unsigned number = (unsigned)fd;
    if (number >= NS_FD_CHUNK * NS_FD_CHUNKS)
        return NULL;
    /* acquire: pairs with the exchange that published zeroed memory */
    ns_block_entry *chunk =
        atomic_load_explicit(&ns_block_chunks[number / NS_FD_CHUNK], memory_order_acquire);
    return chunk ? chunk + number % NS_FD_CHUNK : NULL;
}

/* The block of fd, NULL if it has none. */
static inline struct ns_block *ns_block_of(int fd)
{
    ns_block_entry *place = ns_block_place(fd);
    return place ? atomic_load_explicit(place, memory_order_acquire) : NULL;
}

/* The block of fd, made if there is none; NULL: no memory, or none that a child would find empty.
 */
struct ns_block *ns_block_make(int fd);

/* block is dead as state says: put its successor in its place. */
void ns_block_replace(int fd, struct ns_block *block, uint64_t state);

/* The append that holds the block will not end, or not in time: go on in a new block. Its owner may
 * still write to the old one, which nobody uses again; that is a block lost, and where it happens
 * too often nothing is gathered any more. Without memory what was used can still be sent from the
 * old one, since he writes behind it; only nothing can be appended until there is memory. */
void ns_block_take_over(int fd, struct ns_block *block, uint64_t state);

/* Somebody has the block, in this state. tries: how often the caller has been here. */
void ns_block_resolve(int fd, struct ns_block *block, uint64_t state, unsigned tries);

/* A block that is taken for a flush. */
struct ns_taken {
    struct ns_block *block;
    uint64_t state;   /* before it was */
    bool masked;      /* all signals are blocked meanwhile, but for those that were */
    uint64_t signals; /* before; if masked */
};

/* Take the block of fd, which has one. A signal handler that came in between, or jumped away, could
 * not know whether the bytes have left. So there is none: either no handler can run in this
 * process, or signals are blocked. */
struct ns_taken ns_block_take(int fd);

/* state: the new one. release, at least: whoever takes the block next sees its bytes. */
void ns_block_let_go(const struct ns_taken *taken, uint64_t state);

#endif
