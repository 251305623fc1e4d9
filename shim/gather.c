/* SPDX-License-Identifier: MIT */
/* What is gathered in user memory: appended, sent, moved. Owns no memory of its own
 * (gather_block.h). Must never wait but for a flush, and never send a byte twice. */
#include "gather.h"

#include "engine.h"
#include "flusher.h"
#include "gather_block.h"
#include "mutant.h"
#include "real.h"
#include "sock.h"

#include <netinet/tcp.h>
#include <string.h>
#include <sys/syscall.h>

/* See hold_address in interpose_write.c: whatever the descriptor has become, only TCP takes this.
 */
static const sa_family_t hold_address = 0xffff;

static _Atomic bool stopped;

void ns_gather_stop(void)
{
    atomic_store(&stopped, !NS_MUTANT(gather_stops));
}

static bool any_lies_nowhere(const struct iovec *vector, size_t size)
{
    for (;; vector++) {
        if (ns_lies_nowhere(vector->iov_base) && vector->iov_len)
            return true;
        if (size <= vector->iov_len)
            return false;
        size -= vector->iov_len;
    }
}

/* Take the block for an append of size bytes, if it is free and has room for them: *seen is its
 * state before, and *locked while it is taken. */
__attribute__((always_inline)) static inline bool begin_append(struct ns_sock *slot,
                                                               struct ns_block *block, size_t size,
                                                               uint64_t *seen, uint64_t *locked)
{
    const struct ns_rule *rule = NS_GET(slot, rule);
    uint64_t state = *seen = atomic_load(&block->state);
    if (state & ~(NS_BLOCK_USED | NS_BLOCK_VERSION) || !rule ||
        (state & NS_BLOCK_USED) + size > rule->max_bytes)
        return false;
    *locked = state | NS_BLOCK_APPENDING |
              (uint64_t)(ns_thread.token & NS_BLOCK_TOKEN_MASK) << NS_BLOCK_TOKEN_SHIFT;
    if (!atomic_compare_exchange_strong(&block->state, &state, *locked))
        return false;
    /* Only now is it certain: whoever ends the gathering here takes the block first. */
    if (__builtin_expect(NS_GET(slot, kind) == NS_FD_GATHERS &&
                             !atomic_load_explicit(&stopped, memory_order_relaxed),
                         1))
        return true;
    atomic_compare_exchange_strong(&block->state, locked, *seen);
    return false;
}

/* Is there a mark already? While the block is taken nobody clears it without a look at what has
 * been appended. */
static inline bool is_marked(struct ns_sock *slot)
{
    return atomic_load(&slot->held_until) > NS_HELD_OVERDUE || NS_MUTANT(gather_marked);
}

static char *end_of(struct ns_block *block, uint64_t state)
{
    return block->data + (state & NS_BLOCK_USED);
}

static void copy(char *to, const struct iovec *vector, size_t size)
{
    while (size > vector->iov_len) {
        memcpy(to, vector->iov_base, vector->iov_len);
        to += vector->iov_len;
        size -= vector->iov_len;
        vector++;
    }
    memcpy(to, vector->iov_base, size);
}

/* The block could not be taken for an append, as seen. Is it worth another try? */
static bool make_way(int fd, struct ns_sock *slot, struct ns_block *block, uint64_t seen,
                     size_t size, unsigned tries)
{
    const struct ns_rule *rule = NS_GET(slot, rule);
    if (seen & (NS_BLOCK_DEAD | NS_BLOCK_FLUSHING | NS_BLOCK_APPENDING)) {
        ns_block_resolve(fd, block, seen, tries);
        return true;
    }
    if (seen & (NS_BLOCK_FAILED | NS_BLOCK_ENDING) || !rule ||
        (seen & NS_BLOCK_USED) + size > rule->max_bytes)
        return false;
    if (seen & NS_BLOCK_SPOILT) {
        ns_block_take_over(fd, block, seen);
        return ns_block_of(fd) != block;
    }
    return NS_GET(slot, kind) == NS_FD_GATHERS &&
           !atomic_load_explicit(&stopped, memory_order_relaxed);
}

/* This thread owes a push of what it has appended. */
static void owe(int fd, struct ns_sock *slot)
{
    if (NS_GET(slot, lister) != ns_thread.token && !NS_MUTANT(gather_owed))
        ns_owe(fd, slot);
    ns_engine_holds_on(fd);
}

bool ns_gather_append(int fd, struct ns_sock *slot, const struct iovec *vector, size_t size)
{
    bool watched = true;
    if (!NS_MUTANT(gather_nowhere) && any_lies_nowhere(vector, size))
        return false;
    for (unsigned tries = 0;; tries++) {
        struct ns_block *block = ns_block_of(fd);
        uint64_t seen, locked;
        if (!block)
            return false;
        if (!begin_append(slot, block, size, &seen, &locked)) {
            if (!make_way(fd, slot, block, seen, size, tries))
                return false;
            continue;
        }
        if (!is_marked(slot))
            watched = ns_engine_mark(fd, slot);
        copy(end_of(block, seen), vector, size);
        if (atomic_compare_exchange_strong(&block->state, &locked, seen + size))
            break;
    }
    owe(fd, slot);
    if (__builtin_expect(!watched, 0))
        ns_gather_flush(fd, slot, 0);
    return true;
}

bool ns_gather_more(int fd, struct ns_sock *slot, const void *data, size_t size)
{
    uint64_t seen, locked;
    struct ns_block *block = ns_block_of(fd);
    if (!block || (!NS_MUTANT(gather_nowhere) && ns_lies_nowhere(data)) ||
        !begin_append(slot, block, size, &seen, &locked))
        return false;
    bool marked = is_marked(slot);
    if (__builtin_expect(marked, 1))
        memcpy(end_of(block, seen), data, size);
    if (!atomic_compare_exchange_strong(&block->state, &locked, marked ? seen + size : seen) ||
        !marked)
        return false;
    if (__builtin_expect(NS_GET(slot, lister) != ns_thread.token || !ns_engine_holding(fd), 0))
        owe(fd, slot);
    return true;
}

uint32_t ns_gather_size(int fd)
{
    struct ns_block *block = ns_block_of(fd);
    uint64_t state = block ? atomic_load(&block->state) : 0;
    if (state & NS_BLOCK_DEAD) {
        ns_block_replace(fd, block, state);
        return ns_gather_size(fd);
    }
    return (uint32_t)(state & NS_BLOCK_USED);
}

uint32_t ns_gather_room(int fd, const struct ns_sock *slot)
{
    const struct ns_rule *rule = NS_GET(slot, rule);
    uint32_t size = ns_gather_size(fd);
    return rule && rule->max_bytes > size ? rule->max_bytes - size : 0;
}

/* A rest stays: when to try again. Ever more rarely while nothing moves. */
static void try_again(int fd, struct ns_sock *slot, struct ns_block *block, bool moved)
{
    enum { PATIENCE_MOST_US = 16000 };
    const struct ns_rule *rule = NS_GET(slot, rule);
    uint32_t least = rule ? rule->max_delay_us : NS_MAX_DELAY_US_DEFAULT;
    if (moved || block->patience_us < least)
        block->patience_us = least;
    else if (block->patience_us < PATIENCE_MOST_US)
        block->patience_us *= 2;
    atomic_store(&slot->held_until, ns_flusher_now() + (uint64_t)block->patience_us * 1000);
    if (!NS_MUTANT(gather_retry))
        ns_flusher_stuck(fd);
}

/* Hand the block's used bytes to the kernel. Returns how many stay; sets *stale if fd is no TCP
 * connection any more. */
static uint32_t deliver(int fd, struct ns_block *block, uint32_t used, int flags, bool *stale)
{
    long sent = ns_real.syscall(SYS_sendto, (long)fd, block->data, (size_t)used,
                                (long)(MSG_DONTWAIT | MSG_NOSIGNAL | flags), &hold_address,
                                sizeof hold_address);
    if (sent > 0) {
        uint32_t rest = used - (uint32_t)sent;
        memmove(block->data, block->data + sent, rest);
        return rest;
    }
    if (sent == 0 || errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM || errno == EINTR)
        return used;
    *stale = ns_engine_is_stale(errno);
    if (!*stale && !NS_MUTANT(gather_error))
        atomic_store(&block->error, errno);
    return 0;
}

/* The flush itself: the block is taken. Returns the state to release it with. */
static uint64_t flush_taken(int fd, struct ns_sock *slot, struct ns_block *block, uint64_t state,
                            unsigned how, bool *stale)
{
    uint32_t used = (uint32_t)(state & NS_BLOCK_USED), rest = used;
    bool ours = NS_GET(slot, kind) == NS_FD_GATHERS;
    if (!ours)
        rest = 0; /* closed by a way that we did not see, and the number is another's */
    else if (used)
        rest = deliver(fd, block, used, how & NS_GATHER_MORE ? MSG_MORE : 0, stale);
    else if (atomic_load(&slot->held_until) && !(how & NS_GATHER_MORE))
        ns_sock_set(fd, IPPROTO_TCP, TCP_NODELAY, 1); /* sent with MSG_MORE, and nothing followed */
    if (how & NS_GATHER_DROP)
        rest = 0;
    if (rest)
        try_again(fd, slot, block, rest < used);
    else if (ours)
        atomic_store(&slot->held_until, 0);
    uint64_t flags =
        how & NS_GATHER_END && !NS_MUTANT(gather_ends) ? NS_BLOCK_ENDING : state & NS_BLOCK_ENDING;
    if (atomic_load(&block->error))
        flags |= NS_BLOCK_FAILED;
    if (how & NS_GATHER_DROP) {
        NS_PUT(slot, kind, NS_FD_OTHER);
        flags = 0;
    } else if (ours && flags == NS_BLOCK_ENDING && !rest &&
               atomic_load(&block->after) == NS_GATHER_STAY) {
        NS_PUT(slot, kind, NS_FD_RULED);
        flags = 0;
    }
    uint64_t version = (state + (UINT64_C(1) << NS_BLOCK_USED_BITS)) & NS_BLOCK_VERSION;
    return flags | (state & NS_BLOCK_SPOILT) | version | rest;
}

/* All that was gathered has left, or is lost. */
static void finish(int fd, struct ns_sock *slot, struct ns_block *block)
{
    switch ((enum ns_gather_after)atomic_exchange(&block->after, NS_GATHER_STAY)) {
    case NS_GATHER_CLOSE: /* nobody else knows this descriptor */
        ns_fd_reset(slot);
        if (!NS_MUTANT(gather_closes_rest))
            ns_real.syscall(SYS_close, (long)fd);
        break;
    case NS_GATHER_SHUT:
        NS_REAL(shutdown)(fd, SHUT_WR);
        break;
    case NS_GATHER_STAY:
        break;
    }
}

static enum ns_gather_left left_of(uint64_t state)
{
    if (state & NS_BLOCK_USED)
        return NS_GATHER_REST;
    return state & NS_BLOCK_FAILED ? NS_GATHER_FAILED : NS_GATHER_NOTHING;
}

enum ns_gather_left ns_gather_flush(int fd, struct ns_sock *slot, unsigned how)
{
    struct ns_block *block = ns_block_of(fd);
    if (!block)
        return NS_GATHER_NOTHING;
    uint64_t state = atomic_load(&block->state);
    if (!(how & (NS_GATHER_END | NS_GATHER_DROP)) && !atomic_load(&slot->held_until) &&
        !(state & (NS_BLOCK_DEAD | NS_BLOCK_FLUSHING | NS_BLOCK_APPENDING | NS_BLOCK_USED)) &&
        !atomic_load(&block->after))
        return left_of(state);
    int saved = errno;
    bool stale = false;
    struct ns_taken taken = ns_block_take(fd);
    block = taken.block;
    state = flush_taken(fd, slot, block, taken.state, how, &stale);
    if (!(state & NS_BLOCK_USED) && atomic_load(&block->after))
        finish(fd, slot, block);
    ns_block_let_go(&taken, state);
    if (stale)
        ns_engine_heal(fd, slot);
    errno = saved;
    return left_of(state);
}

void ns_gather_begin(int fd, struct ns_sock *slot)
{
    struct ns_block *block = atomic_load(&stopped) ? NULL : ns_block_make(fd);
    if (!block)
        return;
    uint64_t state = atomic_load(&block->state);
    if (state & NS_BLOCK_SPOILT)
        ns_block_take_over(fd, block, state);
    struct ns_taken taken = ns_block_take(fd);
    block = taken.block;
    if (taken.state & NS_BLOCK_SPOILT) {
        ns_block_let_go(&taken, taken.state);
        return;
    }
    if (!NS_MUTANT(gather_new_life))
        atomic_store(&block->error, 0); /* of the number's earlier life, as its bytes */
    atomic_store(&block->after, NS_GATHER_STAY);
    block->patience_us = 0;
    NS_PUT(slot, kind, NS_FD_GATHERS);
    ns_block_let_go(&taken, (taken.state + (UINT64_C(1) << NS_BLOCK_USED_BITS)) & NS_BLOCK_VERSION);
}

int ns_gather_error(int fd)
{
    struct ns_block *block = ns_block_of(fd);
    return block && atomic_load(&block->error) ? atomic_exchange(&block->error, 0) : 0;
}

void ns_gather_broken(int fd, struct ns_sock *slot)
{
    if (NS_MUTANT(gather_broken))
        return;
    NS_PUT(slot, no_hold, 1);
    do
        ns_gather_flush(fd, slot, NS_GATHER_END);
    while (ns_gather_error(fd));
}

enum ns_gather_after ns_gather_after(int fd)
{
    struct ns_block *block = ns_block_of(fd);
    return block ? (enum ns_gather_after)atomic_load(&block->after) : NS_GATHER_STAY;
}

void ns_gather_then(int fd, enum ns_gather_after after)
{
    struct ns_block *block = ns_block_of(fd);
    if (block)
        atomic_store(&block->after, (uint8_t)after);
}

void ns_gather_move(int fd, int to, struct ns_sock *slot)
{
    struct ns_taken from = ns_block_take(fd), into = ns_block_take(to);
    uint64_t used = from.state & NS_BLOCK_USED;
    memcpy(into.block->data, from.block->data, used);
    try_again(to, slot, into.block, false);
    ns_block_let_go(&into, NS_BLOCK_ENDING | used);
    ns_block_let_go(&from, ((from.state + (UINT64_C(1) << NS_BLOCK_USED_BITS)) & NS_BLOCK_VERSION) |
                               (from.state & NS_BLOCK_SPOILT));
}
