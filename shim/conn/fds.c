/* SPDX-License-Identifier: MIT */
/* The descriptor table. Owns the chunks; never frees one, since a reader may be in it. Must never
 * take a lock or allocate with malloc: signal handlers and vfork children come here.
 * Async-signal-safe. */
#include "conn/fds.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

_Atomic unsigned ns_fd_limit;
static _Atomic unsigned used; /* no TCP socket has this number or a higher one */

/* The first chunk is static: a program with fewer descriptors than that costs no system call here,
 * and untouched pages of it cost no memory. */
static struct ns_sock first[NS_FD_CHUNK] __attribute__((aligned(64)));
struct ns_sock *_Atomic ns_fd_chunks[NS_FD_CHUNKS] = {first};

void ns_fd_open(unsigned limit)
{
    unsigned most = NS_FD_CHUNK * NS_FD_CHUNKS;
    atomic_store(&ns_fd_limit, limit < most ? limit : most);
}

static struct ns_sock *chunk_make(unsigned index)
{
    size_t size = NS_FD_CHUNK * sizeof(struct ns_sock);
    int saved = errno;
    void *chunk = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = saved;
    if (chunk == MAP_FAILED)
        return NULL;
    struct ns_sock *expected = NULL;
    /* release: whoever sees the pointer sees the kernel's zeroes */
    if (atomic_compare_exchange_strong_explicit(&ns_fd_chunks[index], &expected, chunk,
                                                memory_order_release, memory_order_acquire))
        return chunk;
    munmap(chunk, size);
    errno = saved;
    return expected;
}

struct ns_sock *ns_fd_make(int fd)
{
    unsigned number = (unsigned)fd;
    if (number >= atomic_load_explicit(&ns_fd_limit, memory_order_relaxed))
        return NULL;
    unsigned end = atomic_load_explicit(&used, memory_order_relaxed);
    while (end <= number && !atomic_compare_exchange_weak(&used, &end, number + 1))
        ;
    struct ns_sock *slot = ns_fd_slot(fd);
    if (slot)
        return slot;
    struct ns_sock *chunk = chunk_make(number / NS_FD_CHUNK);
    return chunk ? chunk + number % NS_FD_CHUNK : NULL;
}

void ns_fd_reset(struct ns_sock *slot)
{
    /* First, so that another thread stops using the rest. */
    NS_PUT(slot, kind, NS_FD_UNKNOWN);
    atomic_store(&slot->held_until, 0);
    NS_PUT(slot, role, NS_ROLE_UNKNOWN);
    NS_PUT(slot, send, NS_SEND_APP);
    NS_PUT(slot, ack, NS_ACK_APP);
    NS_PUT(slot, nonblock, 0);
    NS_PUT(slot, app_nodelay, 0);
    NS_PUT(slot, kernel_nodelay, 0);
    NS_PUT(slot, app_corks, 0);
    NS_PUT(slot, steady, 0);
    NS_PUT(slot, lowat, 0);
    NS_PUT(slot, listener, 0);
    NS_PUT(slot, wrote, 0);
    NS_PUT(slot, joins, 0);
    NS_PUT(slot, twin, 0);
    NS_PUT(slot, heard, 0);
    NS_PUT(slot, ack_state, 0);
    NS_PUT(slot, burst, 0);
    NS_PUT(slot, burst_epoch, 0);
    NS_PUT(slot, rule, NULL);
    NS_PUT(slot, delack, 0);
    struct ns_view *view = NS_GET(slot, view);
    if (view) {
        NS_PUT(view, told, 0);
        NS_PUT(view, deferred, 0);
    }
    /* lister stays, as the thread's list does */
}

void ns_fd_each(void (*visit)(int fd, struct ns_sock *slot, void *context), void *context)
{
    unsigned end = atomic_load_explicit(&used, memory_order_relaxed);
    for (unsigned number = 0; number < end; number++) {
        struct ns_sock *slot = ns_fd_slot((int)number);
        if (!slot) /* the whole chunk was never used */
            number |= NS_FD_CHUNK - 1;
        else if (ns_fd_is_tcp(slot))
            visit((int)number, slot, context);
    }
}

static void copy_to_twin(int fd, struct ns_sock *slot, void *context)
{
    struct ns_sock *from = context;
    (void)fd;
    if (slot == from || NS_GET(slot, twin) != NS_GET(from, twin))
        return;
    NS_PUT(slot, role, NS_GET(from, role));
    NS_PUT(slot, send, NS_GET(from, send));
    NS_PUT(slot, ack, NS_GET(from, ack));
    NS_PUT(slot, rule, NS_GET(from, rule));
    NS_PUT(slot, app_nodelay, NS_GET(from, app_nodelay));
    NS_PUT(slot, kernel_nodelay, NS_GET(from, kernel_nodelay));
    NS_PUT(slot, app_corks, NS_GET(from, app_corks));
    NS_PUT(slot, steady, NS_GET(from, steady));
    NS_PUT(slot, wrote, NS_GET(from, wrote));
    NS_PUT(slot, burst_epoch, 0);
    NS_PUT(slot, nonblock, NS_GET(from, nonblock));
    NS_PUT(slot, lowat, NS_GET(from, lowat));
    NS_PUT(slot, delack, NS_GET(from, delack));
    NS_PUT(slot, kind, NS_GET(from, kind));
}

void ns_fd_share(struct ns_sock *slot)
{
    if (NS_GET(slot, twin))
        ns_fd_each(copy_to_twin, slot);
}

void ns_fd_twin(struct ns_sock *source, struct ns_sock *slot)
{
    static _Atomic uint32_t twins;
    uint32_t none = 0;
    if (!NS_GET(source, twin)) /* another thread may duplicate it, too: one name for all */
        atomic_compare_exchange_strong(&source->twin, &none, atomic_fetch_add(&twins, 1) + 1);
    NS_PUT(slot, twin, NS_GET(source, twin));
}
