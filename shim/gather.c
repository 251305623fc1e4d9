/* SPDX-License-Identifier: MIT */
/* The buffers of sockets that gather in user memory. Owns their memory and the word that guards
 * each. Must never wait for somebody who may be waiting for us: an append may stand still for good,
 * interrupted by a signal handler that writes to the same socket or jumps away, so whoever finds
 * one revokes it, and its owner, if he ever goes on, does it again. A flush may not stand still:
 * it runs with all signals blocked, where a handler could run, and never blocks, so others may wait
 * for it. */
#include "gather.h"

#include "engine.h"
#include "flusher.h"
#include "mutant.h"
#include "real.h"
#include "sock.h"

#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* The state word. An append takes it to APPENDING with the thread's token, copies behind what is
 * used, and takes it back with more used; where that fails it was revoked. The version changes with
 * every flush, so that a word seen again is the same buffer. */
static const uint64_t dead = UINT64_C(1) << 63; /* the rest of the word is the next block's page */
static const uint64_t flushing = UINT64_C(1) << 62;
static const uint64_t appending = UINT64_C(1) << 61;
static const uint64_t failed = UINT64_C(1) << 60;
static const uint64_t ending = UINT64_C(1) << 59;
static const uint64_t spoilt = UINT64_C(1)
                               << 58; /* an append may still write behind what was used */
enum { USED_BITS = 17, TOKEN_SHIFT = 32, TOKEN_MASK = (1 << 26) - 1, PAGE_BITS = 12 };
static const uint64_t used_mask = (1 << USED_BITS) - 1;
static const uint64_t version_mask = UINT32_MAX & ~used_mask;

struct block {
    _Atomic uint64_t state;
    _Atomic int error;     /* of the flush that failed */
    _Atomic uint8_t after; /* enum ns_gather_after */
    uint32_t patience_us;  /* until a rest is tried again; for whoever flushes */
    char data[];
};

typedef struct block *_Atomic entry;

/* The blocks of 1024 descriptors. Neither they nor a block are ever freed: somebody may be in it.
 */
static entry *_Atomic chunks[NS_FD_CHUNKS];
static _Atomic uint32_t block_size; /* 0: no rule gathers, or start-up is not done */
static _Atomic bool stopped;
static _Atomic bool interruptible; /* a signal handler may soon run in this process */
static _Atomic bool awaited;       /* and no flush is under way any more that did not know */

/* See hold_address in interpose_write.c: whatever the descriptor has become, only TCP takes this.
 */
static const sa_family_t hold_address = 0xffff;

/* Installed past us, or before we were loaded. */
static bool has_handler(void)
{
    struct sigaction action;
    for (int number = 1; number < NSIG; number++)
        if (NS_REAL(sigaction)(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL &&
            action.sa_handler != SIG_IGN)
            return true;
    return false;
}

void ns_gather_open(uint32_t most_bytes)
{
    uint32_t page = 1 << PAGE_BITS;
    block_size = ((uint32_t)sizeof(struct block) + most_bytes + page - 1) & ~(page - 1);
    if (has_handler())
        ns_gather_interruptible();
}

bool ns_gather_wanted(void)
{
    return block_size != 0;
}

void ns_gather_stop(void)
{
    atomic_store(&stopped, !NS_MUTANT(gather_stops));
}

static void *map(size_t size, bool wiped)
{
    int saved = errno;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* A child, however made, must not send its parent's bytes again, nor find a block that a thread
     * it does not have was about to release. */
    if (memory != MAP_FAILED && wiped && !NS_MUTANT(gather_wiped) &&
        madvise(memory, size, MADV_WIPEONFORK) != 0) {
        munmap(memory, size);
        memory = MAP_FAILED;
    }
    errno = saved;
    return memory == MAP_FAILED ? NULL : memory;
}

static inline entry *entry_of(int fd)
{
    unsigned number = (unsigned)fd;
    if (number >= NS_FD_CHUNK * NS_FD_CHUNKS)
        return NULL;
    /* acquire: pairs with the exchange that published zeroed memory */
    entry *chunk = atomic_load_explicit(&chunks[number / NS_FD_CHUNK], memory_order_acquire);
    return chunk ? chunk + number % NS_FD_CHUNK : NULL;
}

static entry *make_entry(int fd)
{
    entry *place = entry_of(fd), *none = NULL;
    if (place || (unsigned)fd >= NS_FD_CHUNK * NS_FD_CHUNKS)
        return place;
    entry *made = map(NS_FD_CHUNK * sizeof(entry), false);
    if (made && !atomic_compare_exchange_strong(&chunks[fd / NS_FD_CHUNK], &none, made))
        munmap((void *)made, NS_FD_CHUNK * sizeof(entry));
    return entry_of(fd);
}

static inline struct block *current(int fd)
{
    entry *place = entry_of(fd);
    return place ? atomic_load_explicit(place, memory_order_acquire) : NULL;
}

static void replace(int fd, struct block *block, uint64_t state)
{
    struct block *next;
    uint64_t address = (state & ~dead) << PAGE_BITS;
    memcpy(&next, &address, sizeof next);
    atomic_compare_exchange_strong(entry_of(fd), &block, next);
}

/* The append that holds the block will not end, or not in time: go on in a new block. Its owner may
 * still write to the old one, which nobody uses again; that is a block lost, and where it happens
 * too often nothing is gathered any more. Without memory what was used can still be sent from the
 * old one, since he writes behind it; only nothing can be appended until there is memory. */
static void take_over(int fd, struct block *block, uint64_t state)
{
    enum { MOST = 1024 };
    static _Atomic unsigned count;
    uint64_t kept = state & (used_mask | version_mask);
    struct block *next = map(block_size, true);
    if (!next) {
        atomic_compare_exchange_strong(&block->state, &state, kept | spoilt);
        return;
    }
    memcpy(next->data, block->data, state & used_mask);
    atomic_store(&next->state, kept);
    atomic_store(&next->after, atomic_load(&block->after));
    uint64_t address = 0;
    memcpy(&address, &next, sizeof next);
    uint64_t successor = dead | address >> PAGE_BITS;
    if (!atomic_compare_exchange_strong(&block->state, &state, successor)) {
        munmap(next, block_size); /* it has ended: nobody has seen this one */
        return;
    }
    replace(fd, block, successor);
    if (atomic_fetch_add(&count, 1) == MOST)
        ns_gather_stop();
}

static bool is_mine(uint64_t state)
{
    return (state >> TOKEN_SHIFT & TOKEN_MASK) == (ns_thread.token & TOKEN_MASK);
}

/* Somebody has the block. tries: how often the caller has been here. */
static void resolve(int fd, struct block *block, uint64_t state, unsigned tries)
{
    enum { SPINS = 100, PATIENCE = SPINS + 20, NAP_NS = 50000 };
    if (state & dead) {
        replace(fd, block, state);
    } else if (state & appending && (is_mine(state) || tries > PATIENCE) &&
               !NS_MUTANT(gather_revoked)) {
        take_over(fd, block, state);
    } else if (tries > SPINS) {
        int saved = errno;
        struct timespec nap = {.tv_nsec = NAP_NS};
        ns_real.syscall(SYS_nanosleep, &nap, NULL); /* by number: no place to be cancelled at */
        errno = saved;
    }
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

/* Take the block for an append; NULL if that is not to be. */
static struct block *begin_append(int fd, struct ns_sock *slot, size_t size, uint64_t *locked)
{
    for (unsigned tries = 0;; tries++) {
        struct block *block = current(fd);
        const struct ns_rule *rule = NS_GET(slot, rule);
        if (!block || !rule)
            return NULL;
        uint64_t state = atomic_load(&block->state);
        if (__builtin_expect((state & (dead | flushing | appending)) != 0, 0)) {
            resolve(fd, block, state, tries);
            continue;
        }
        if (state & (failed | ending) || (state & used_mask) + size > rule->max_bytes)
            return NULL;
        if (__builtin_expect((state & spoilt) != 0, 0)) {
            take_over(fd, block, state);
            if (current(fd) == block)
                return NULL;
            continue;
        }
        *locked = state | appending | (uint64_t)(ns_thread.token & TOKEN_MASK) << TOKEN_SHIFT;
        uint64_t free = state;
        if (!atomic_compare_exchange_strong(&block->state, &free, *locked))
            continue;
        /* Only now is it certain: whoever ends the gathering here takes the block first. */
        if (NS_GET(slot, kind) == NS_FD_GATHERS &&
            !atomic_load_explicit(&stopped, memory_order_relaxed))
            return block;
        atomic_compare_exchange_strong(&block->state, locked, state);
        return NULL;
    }
}

static inline void copy(char *to, const struct iovec *vector, size_t size)
{
    while (size > vector->iov_len) {
        memcpy(to, vector->iov_base, vector->iov_len);
        to += vector->iov_len;
        size -= vector->iov_len;
        vector++;
    }
    memcpy(to, vector->iov_base, size);
}

bool ns_gather_append(int fd, struct ns_sock *slot, const struct iovec *vector, size_t size)
{
    bool watched = true;
    uint64_t locked, added;
    struct block *block;
    if (!NS_MUTANT(gather_nowhere) && any_lies_nowhere(vector, size))
        return false;
    do {
        block = begin_append(fd, slot, size, &locked);
        if (!block)
            return false;
        uint64_t used = locked & used_mask;
        added = (locked & (used_mask | version_mask)) + size;
        /* Between here and the end of the append nobody clears it without a look at our bytes. */
        if (atomic_load(&slot->held_until) <= NS_HELD_OVERDUE && !NS_MUTANT(gather_marked))
            watched = ns_engine_mark(fd, slot);
        copy(block->data + used, vector, size);
    } while (!atomic_compare_exchange_strong(&block->state, &locked, added));
    if (NS_GET(slot, lister) != ns_thread.token && !NS_MUTANT(gather_owed))
        ns_owe(fd, slot);
    ns_engine_holds_on(fd);
    if (__builtin_expect(!watched, 0))
        ns_gather_flush(fd, slot, 0);
    return true;
}

uint32_t ns_gather_size(int fd)
{
    struct block *block = current(fd);
    uint64_t state = block ? atomic_load(&block->state) : 0;
    if (state & dead) {
        replace(fd, block, state);
        return ns_gather_size(fd);
    }
    return (uint32_t)(state & used_mask);
}

uint32_t ns_gather_room(int fd, const struct ns_sock *slot)
{
    const struct ns_rule *rule = NS_GET(slot, rule);
    uint32_t size = ns_gather_size(fd);
    return rule && rule->max_bytes > size ? rule->max_bytes - size : 0;
}

static uint64_t signals_set(uint64_t mask)
{
    uint64_t before = 0;
    if (!NS_MUTANT(gather_signals))
        ns_real.syscall(SYS_rt_sigprocmask, (long)SIG_SETMASK, &mask, &before, sizeof mask);
    return before;
}

static struct block *begin_flush(int fd, uint64_t *state)
{
    for (unsigned tries = 0;; tries++) {
        struct block *block = current(fd);
        *state = atomic_load(&block->state);
        if (*state & (dead | flushing | appending))
            resolve(fd, block, *state, tries);
        else if (atomic_compare_exchange_strong(&block->state, state, *state | flushing))
            return block;
    }
}

/* A block that is taken for a flush. */
struct taken {
    struct block *block;
    uint64_t state;   /* before it was */
    bool masked;      /* all signals are blocked meanwhile, but for those that were */
    uint64_t signals; /* before; if masked */
};

/* A signal handler that came in between, or jumped away, could not know whether the bytes have
 * left. So there is none: either no handler can run in this process, or signals are blocked. */
static struct taken take(int fd)
{
    for (;;) {
        struct taken taken = {.masked = atomic_load(&interruptible)};
        if (taken.masked)
            taken.signals = signals_set(UINT64_MAX);
        taken.block = begin_flush(fd, &taken.state);
        /* All sequentially consistent: either ns_gather_interruptible sees that we have the block,
         * or we see here that it has been called. */
        if (taken.masked || !atomic_load(&interruptible))
            return taken;
        atomic_store(&taken.block->state, taken.state);
    }
}

/* state: the new one. release, at least: whoever takes the block next sees its bytes. */
static void let_go(const struct taken *taken, uint64_t state)
{
    atomic_store(&taken->block->state, state);
    if (taken->masked)
        signals_set(taken->signals);
}

static void await_flush(int fd)
{
    enum { NAP_NS = 20000, NAPS_MOST = 50000 }; /* a second: it may have been stopped */
    struct timespec nap = {.tv_nsec = NAP_NS};
    for (unsigned i = 0; i < NAPS_MOST; i++) {
        struct block *block = current(fd);
        if (!block || (atomic_load(&block->state) & (dead | flushing)) != flushing)
            break;
        ns_real.syscall(SYS_nanosleep, &nap, NULL);
    }
}

/* Before start-up is done, too: then every flush blocks signals. Whoever comes while another waits
 * has to wait as well: his handler may run in the same flush. */
void ns_gather_interruptible(void)
{
    if (atomic_load(&awaited) || NS_MUTANT(gather_interruptible))
        return;
    int saved = errno;
    atomic_store(&interruptible, true);
    if (!block_size)
        return;
    /* What entry_of and current load below is not older than what a flush has found there. */
    atomic_thread_fence(memory_order_seq_cst);
    for (int fd = 0; fd < NS_FD_CHUNK * NS_FD_CHUNKS; fd++)
        if (!entry_of(fd))
            fd += NS_FD_CHUNK - 1;
        else if (!NS_MUTANT(gather_awaited))
            await_flush(fd);
    atomic_store(&awaited, true);
    errno = saved;
}

/* A rest stays: when to try again. Ever more rarely while nothing moves. */
static void try_again(int fd, struct ns_sock *slot, struct block *block, bool moved)
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
static uint32_t deliver(int fd, struct block *block, uint32_t used, int flags, bool *stale)
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
static uint64_t flush_taken(int fd, struct ns_sock *slot, struct block *block, uint64_t state,
                            unsigned how, bool *stale)
{
    uint32_t used = (uint32_t)(state & used_mask), rest = used;
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
    uint64_t flags = how & NS_GATHER_END && !NS_MUTANT(gather_ends) ? ending : state & ending;
    if (atomic_load(&block->error))
        flags |= failed;
    if (how & NS_GATHER_DROP) {
        NS_PUT(slot, kind, NS_FD_OTHER);
        flags = 0;
    } else if (ours && flags == ending && !rest && atomic_load(&block->after) == NS_GATHER_STAY) {
        NS_PUT(slot, kind, NS_FD_RULED);
        flags = 0;
    }
    uint64_t version = (state + (UINT64_C(1) << USED_BITS)) & version_mask;
    return flags | (state & spoilt) | version | rest;
}

/* All that was gathered has left, or is lost. */
static void finish(int fd, struct ns_sock *slot, struct block *block)
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
    if (state & used_mask)
        return NS_GATHER_REST;
    return state & failed ? NS_GATHER_FAILED : NS_GATHER_NOTHING;
}

enum ns_gather_left ns_gather_flush(int fd, struct ns_sock *slot, unsigned how)
{
    struct block *block = current(fd);
    if (!block)
        return NS_GATHER_NOTHING;
    uint64_t state = atomic_load(&block->state);
    if (!(how & (NS_GATHER_END | NS_GATHER_DROP)) && !atomic_load(&slot->held_until) &&
        !(state & (dead | flushing | appending | used_mask)) && !atomic_load(&block->after))
        return left_of(state);
    int saved = errno;
    bool stale = false;
    struct taken taken = take(fd);
    block = taken.block;
    state = flush_taken(fd, slot, block, taken.state, how, &stale);
    if (!(state & used_mask) && atomic_load(&block->after))
        finish(fd, slot, block);
    let_go(&taken, state);
    if (stale)
        ns_engine_heal(fd, slot);
    errno = saved;
    return left_of(state);
}

void ns_gather_begin(int fd, struct ns_sock *slot)
{
    entry *place = block_size ? make_entry(fd) : NULL;
    if (!place || atomic_load(&stopped))
        return;
    if (!atomic_load(place)) {
        struct block *made = map(block_size, true), *none = NULL;
        if (!made)
            return;
        if (!atomic_compare_exchange_strong(place, &none, made))
            munmap(made, block_size);
    }
    struct block *block = current(fd);
    uint64_t state = atomic_load(&block->state);
    if (state & spoilt)
        take_over(fd, block, state);
    struct taken taken = take(fd);
    block = taken.block;
    if (taken.state & spoilt) {
        let_go(&taken, taken.state);
        return;
    }
    if (!NS_MUTANT(gather_new_life))
        atomic_store(&block->error, 0); /* of the number's earlier life, as its bytes */
    atomic_store(&block->after, NS_GATHER_STAY);
    block->patience_us = 0;
    NS_PUT(slot, kind, NS_FD_GATHERS);
    let_go(&taken, (taken.state + (UINT64_C(1) << USED_BITS)) & version_mask);
}

int ns_gather_error(int fd)
{
    struct block *block = current(fd);
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
    struct block *block = current(fd);
    return block ? (enum ns_gather_after)atomic_load(&block->after) : NS_GATHER_STAY;
}

void ns_gather_then(int fd, enum ns_gather_after after)
{
    struct block *block = current(fd);
    if (block)
        atomic_store(&block->after, (uint8_t)after);
}

void ns_gather_move(int fd, int to, struct ns_sock *slot)
{
    struct taken from = take(fd), into = take(to);
    uint64_t used = from.state & used_mask;
    memcpy(into.block->data, from.block->data, used);
    try_again(to, slot, into.block, false);
    let_go(&into, ending | used);
    let_go(&from,
           ((from.state + (UINT64_C(1) << USED_BITS)) & version_mask) | (from.state & spoilt));
}
