/* SPDX-License-Identifier: MIT */
/* See gather_block.h. Owns the memory, and what is known of this process' signal handlers. */
#include "gather_block.h"

#include "gather.h"
#include "handler.h"
#include "mutant.h"
#include "real.h"
#include "settle.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PAGE_BITS = 12 };

ns_block_entry *_Atomic ns_block_chunks[NS_FD_CHUNKS];
static _Atomic uint32_t block_size; /* 0: no rule gathers, or start-up is not done */
static _Atomic bool interruptible;  /* a signal handler may soon run in this process */
static _Atomic bool awaited;        /* and no flush is under way any more that did not know */

void ns_gather_open(uint32_t most_bytes)
{
    uint32_t page = 1 << PAGE_BITS;
    block_size = ((uint32_t)sizeof(struct ns_block) + most_bytes + page - 1) & ~(page - 1);
    if (ns_has_handler(NULL)) /* installed past us, or before we were loaded */
        ns_gather_interruptible();
}

bool ns_gather_wanted(void)
{
    return block_size != 0;
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

static ns_block_entry *make_entry(int fd)
{
    ns_block_entry *place = ns_block_place(fd), *none = NULL;
    if (place || (unsigned)fd >= NS_FD_CHUNK * NS_FD_CHUNKS)
        return place;
    ns_block_entry *made = map(NS_FD_CHUNK * sizeof(ns_block_entry), false);
    if (made && !atomic_compare_exchange_strong(&ns_block_chunks[fd / NS_FD_CHUNK], &none, made))
        munmap((void *)made, NS_FD_CHUNK * sizeof(ns_block_entry));
    return ns_block_place(fd);
}

struct ns_block *ns_block_make(int fd)
{
    ns_block_entry *place = block_size ? make_entry(fd) : NULL;
    if (!place)
        return NULL;
    if (!atomic_load(place)) {
        struct ns_block *made = map(block_size, true), *none = NULL;
        if (made && !atomic_compare_exchange_strong(place, &none, made))
            munmap(made, block_size);
    }
    return atomic_load(place);
}

void ns_block_replace(int fd, struct ns_block *block, uint64_t state)
{
    struct ns_block *next;
    uint64_t address = (state & ~NS_BLOCK_DEAD) << PAGE_BITS;
    memcpy(&next, &address, sizeof next);
    atomic_compare_exchange_strong(ns_block_place(fd), &block, next);
}

void ns_block_take_over(int fd, struct ns_block *block, uint64_t state)
{
    enum { MOST = 1024 };
    static _Atomic unsigned count;
    uint64_t kept = state & (NS_BLOCK_USED | NS_BLOCK_VERSION);
    struct ns_block *next = map(block_size, true);
    if (!next) {
        atomic_compare_exchange_strong(&block->state, &state, kept | NS_BLOCK_SPOILT);
        return;
    }
    memcpy(next->data, block->data, state & NS_BLOCK_USED);
    atomic_store(&next->state, kept);
    atomic_store(&next->after, atomic_load(&block->after));
    uint64_t address = 0;
    memcpy(&address, &next, sizeof next);
    uint64_t successor = NS_BLOCK_DEAD | address >> PAGE_BITS;
    if (!atomic_compare_exchange_strong(&block->state, &state, successor)) {
        munmap(next, block_size); /* it has ended: nobody has seen this one */
        return;
    }
    ns_block_replace(fd, block, successor);
    if (atomic_fetch_add(&count, 1) == MOST)
        ns_gather_stop();
}

static bool is_mine(uint64_t state)
{
    return (state >> NS_BLOCK_TOKEN_SHIFT & NS_BLOCK_TOKEN_MASK) ==
           (ns_thread.token & NS_BLOCK_TOKEN_MASK);
}

void ns_block_resolve(int fd, struct ns_block *block, uint64_t state, unsigned tries)
{
    enum { SPINS = 100, PATIENCE = SPINS + 20, NAP_NS = 50000 };
    if (state & NS_BLOCK_DEAD) {
        ns_block_replace(fd, block, state);
    } else if (state & NS_BLOCK_APPENDING && (is_mine(state) || tries > PATIENCE) &&
               !NS_MUTANT(gather_revoked)) {
        ns_block_take_over(fd, block, state);
    } else if (tries > SPINS) {
        int saved = errno;
        struct timespec nap = {.tv_nsec = NAP_NS};
        ns_real.syscall(SYS_nanosleep, &nap, NULL); /* by number: no place to be cancelled at */
        errno = saved;
    }
}

static uint64_t signals_set(uint64_t mask)
{
    uint64_t before = 0;
    if (!NS_MUTANT(gather_signals))
        ns_real.syscall(SYS_rt_sigprocmask, (long)SIG_SETMASK, &mask, &before, sizeof mask);
    return before;
}

static struct ns_block *begin_flush(int fd, uint64_t *state)
{
    for (unsigned tries = 0;; tries++) {
        struct ns_block *block = ns_block_of(fd);
        *state = atomic_load(&block->state);
        if (*state & (NS_BLOCK_DEAD | NS_BLOCK_FLUSHING | NS_BLOCK_APPENDING))
            ns_block_resolve(fd, block, *state, tries);
        else if (atomic_compare_exchange_strong(&block->state, state, *state | NS_BLOCK_FLUSHING))
            return block;
    }
}

struct ns_taken ns_block_take(int fd)
{
    for (;;) {
        struct ns_taken taken = {.masked = atomic_load(&interruptible)};
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

void ns_block_let_go(const struct ns_taken *taken, uint64_t state)
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
        struct ns_block *block = ns_block_of(fd);
        if (!block ||
            (atomic_load(&block->state) & (NS_BLOCK_DEAD | NS_BLOCK_FLUSHING)) != NS_BLOCK_FLUSHING)
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
        if (!ns_block_place(fd))
            fd += NS_FD_CHUNK - 1;
        else if (!NS_MUTANT(gather_awaited))
            await_flush(fd);
    atomic_store(&awaited, true);
    errno = saved;
}
