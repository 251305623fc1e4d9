/* SPDX-License-Identifier: MIT */
/* See recorder.h. Owns the record's memory and the connections. Must never write to memory that the
 * file system may refuse to back: that is a SIGBUS (mmap(2)). */
#include "observe/recorder.h"

#include "base/clock.h"
#include "base/system.h"
#include "conn/kernel.h"
#include "observe/record_file.h"
#include "observe/sample.h"
#include "report/log.h"

#include <netinet/tcp.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* linux/mman.h, 4.14 */
#endif

enum { PIECE_UNKNOWN, PIECE_BACKED, PIECE_REFUSED };

/* In memory that only a process with a record has. */
struct recorder {
    struct ns_record_head *head; /* of the mapped file */
    uint32_t generation;
    _Atomic uint32_t turn; /* where the search for a slot that has become free begins */
    _Atomic uint8_t pieces[NS_RECORD_PIECES];
    struct ns_observed conns[NS_RECORD_SLOTS];
};

/* A page that the kernel empties in a forked child, however that was made: so no process writes to
 * its parent's record. That stays mapped, since the memory of other threads may be shared. */
struct state {
    struct recorder *_Atomic recorder;
    _Atomic uint8_t progress; /* of making it, which is tried once, whether it works or not */
};
enum { UNTRIED, MAKING, TRIED };

static struct state *state; /* NULL: nothing is recorded */
static enum ns_experiment experiment;
static _Atomic bool stopped;
static _Atomic uint32_t generation; /* of the last record of this process or of an ancestor */

void ns_recorder_open(const char *directory, enum ns_experiment what)
{
    experiment = what;
    ns_record_file_open(directory);
    if (!ns_record_file_is_open())
        return;
    void *page =
        mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED && madvise(page, sizeof *state, MADV_WIPEONFORK) == 0)
        state = page;
}

/* acquire: pairs with the release in ns_recorder_make */
static struct recorder *current(void)
{
    return state ? atomic_load_explicit(&state->recorder, memory_order_acquire) : NULL;
}

bool ns_recorder_is_open(void)
{
    return state && !atomic_load_explicit(&stopped, memory_order_relaxed) &&
           (NS_GET(state, progress) != TRIED || current());
}

void ns_recorder_stop(void)
{
    atomic_store(&stopped, true);
    ns_log_silence(true);
}

enum ns_experiment ns_recorder_experiment(void)
{
    return experiment;
}

/* --- making it --- */

/* A recorder and its file; path becomes the file's name. NULL, with nothing left behind, if one of
 * them cannot be made. */
static struct recorder *make(char *path)
{
    struct recorder *made = mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool backed = false;
    if (made == MAP_FAILED)
        return NULL;
    made->head = ns_record_file_make(path, experiment, &backed);
    if (!made->head) {
        munmap(made, sizeof *made);
        return NULL;
    }
    for (int i = 0; i < (backed ? NS_RECORD_PIECES : 1); i++)
        atomic_store(&made->pieces[i], PIECE_BACKED);
    made->generation = atomic_fetch_add(&generation, 1) + 1;
    return made;
}

static void log_failure(const char *path)
{
    struct ns_line line;
    if (!NS_DEBUGS)
        return;
    ns_line_begin(&line);
    ns_line_add(&line, "nothing is recorded: the record could not be made: ");
    ns_line_add(&line, path);
    ns_line_write(&line);
}

/* Another thread makes the record: wait for it, or the first requests of this one would be missed.
 * At most 10 ms, since this may be a signal handler that has interrupted the other. That may even
 * have been left by siglongjmp, so after a wait in vain no thread waits again. */
static void wait_for_maker(void)
{
    const struct timespec moment = {.tv_nsec = 100000};
    uint8_t making = MAKING;
    int saved = errno;
    for (int i = 0; i < 100 && atomic_load(&state->progress) == MAKING; i++)
        NS_SYSTEM(SYS_nanosleep, &moment, NULL);
    atomic_compare_exchange_strong(&state->progress, &making, TRIED);
    errno = saved;
}

void ns_recorder_make(void)
{
    uint8_t untried = UNTRIED;
    if (!ns_recorder_is_open() || current())
        return;
    if (!atomic_compare_exchange_strong(&state->progress, &untried, MAKING)) {
        wait_for_maker();
        return;
    }
    char path[PATH_MAX] = "";
    int saved = errno;
    struct recorder *made = make(path);
    if (made) /* release: with its contents */
        atomic_store_explicit(&state->recorder, made, memory_order_release);
    else
        log_failure(path);
    atomic_store(&state->progress, TRIED);
    errno = saved;
}

/* --- its parts --- */

/* May those bytes of the record be written? Asks the file system to back them if that has not been
 * done. */
static bool is_backed(struct recorder *of, size_t offset, size_t size)
{
    for (size_t piece = offset / NS_RECORD_PIECE; piece <= (offset + size - 1) / NS_RECORD_PIECE;
         piece++) {
        uint8_t known = atomic_load_explicit(&of->pieces[piece], memory_order_relaxed);
        if (known == PIECE_UNKNOWN) {
            size_t begins = piece * NS_RECORD_PIECE, left = NS_RECORD_FILE_SIZE - begins;
            size_t length = left < NS_RECORD_PIECE ? left : NS_RECORD_PIECE;
            int saved = errno;
            bool works = ns_record_file_back((char *)of->head + begins, length) == 0;
            errno = saved;
            known = works ? PIECE_BACKED : PIECE_REFUSED;
            atomic_store_explicit(&of->pieces[piece], known, memory_order_relaxed);
        }
        if (known != PIECE_BACKED)
            return false;
    }
    return true;
}

static size_t slot_offset(uint32_t number)
{
    return NS_RECORD_SLOTS_AT + (size_t)number * sizeof(struct ns_record_slot);
}

static size_t event_offset(uint32_t number)
{
    return NS_RECORD_EVENTS_AT + (size_t)number * sizeof(struct ns_record_event);
}

struct ns_observed *ns_recorder_at(uint32_t number)
{
    struct recorder *of = current();
    return of && number < NS_RECORD_SLOTS ? &of->conns[number] : NULL;
}

uint32_t ns_recorder_number(const struct ns_observed *conn)
{
    struct recorder *of = current();
    uintptr_t distance = of ? (uintptr_t)conn - (uintptr_t)of->conns : UINTPTR_MAX;
    return distance < sizeof of->conns ? (uint32_t)(distance / sizeof *conn) : NS_RECORD_SLOTS;
}

static struct ns_record_slot *slot_at(struct recorder *of, uint32_t number)
{
    return (struct ns_record_slot *)((char *)of->head + slot_offset(number));
}

struct ns_record_slot *ns_recorder_slot(const struct ns_observed *conn)
{
    struct recorder *of = current();
    uint32_t number = ns_recorder_number(conn);
    return number < NS_RECORD_SLOTS ? slot_at(of, number) : NULL;
}

uint32_t ns_recorder_generation(void)
{
    struct recorder *of = current();
    return of ? of->generation : 0;
}

/* --- connections --- */

static void put_address(struct ns_record_address *recorded, const struct ns_address *address)
{
    uint64_t halves[2];
    memcpy(halves, &address->addr, sizeof halves);
    NS_PUT(recorded, addr[0], halves[0]);
    NS_PUT(recorded, addr[1], halves[1]);
    NS_PUT(recorded, port, address->port);
    NS_PUT(recorded, known, address->known);
}

static bool is_same(const struct ns_record_address *recorded, const struct ns_address *address)
{
    uint64_t halves[2];
    memcpy(halves, &address->addr, sizeof halves);
    return NS_GET(recorded, known) == address->known && NS_GET(recorded, port) == address->port &&
           NS_GET(recorded, addr[0]) == halves[0] && NS_GET(recorded, addr[1]) == halves[1];
}

/* A connection without a slot. */
struct newcomer {
    int fd;
    uint64_t cookie;
    enum ns_role role;
    struct ns_address local, remote;
};

/* May its counts be added to those of the slot: is it the same service in the same role? */
static bool goes_with(const struct ns_record_slot *slot, const struct newcomer *one)
{
    if (NS_GET(slot, role) != one->role)
        return false;
    return one->role == NS_ROLE_SERVER ? is_same(&slot->local, &one->local)
                                       : is_same(&slot->remote, &one->remote);
}

static bool has_ended(const struct ns_observed *conn)
{
    return ns_sample_cookie(NS_GET(conn, fd)) != NS_GET(conn, cookie);
}

/* Memory for the newcomer: of a connection that has ended and whose slot fits, or unused. Its
 * cookie is 0 until begin(), so that no other thread finds it. */
static struct ns_observed *choose(struct recorder *of, const struct newcomer *one)
{
    enum { TRIES = 16 }; /* each costs a system call */
    uint32_t used = atomic_load(&of->head->slots), turn = atomic_load(&of->turn);
    for (uint32_t i = 0; i < used && i < TRIES; i++) {
        uint32_t number = (turn + i) % used;
        struct ns_observed *conn = &of->conns[number];
        uint64_t was = atomic_load(&conn->cookie);
        if (!was || !has_ended(conn))
            continue;
        NS_PUT(slot_at(of, number), ended, 1);
        if (goes_with(slot_at(of, number), one) &&
            atomic_compare_exchange_strong(&conn->cookie, &was, 0)) {
            atomic_store(&of->turn, number);
            return conn;
        }
    }
    atomic_store(&of->turn, turn + TRIES);
    do {
        if (used >= NS_RECORD_SLOTS ||
            !is_backed(of, slot_offset(used), sizeof(struct ns_record_slot)))
            return NULL;
    } while (!atomic_compare_exchange_weak(&of->head->slots, &used, used + 1));
    return &of->conns[used];
}

static void begin(struct recorder *of, struct ns_observed *conn, const struct newcomer *one)
{
    struct ns_record_slot *slot = slot_at(of, (uint32_t)(conn - of->conns));
    if (!NS_GET(slot, lives))
        NS_PUT(slot, first, ns_clock_now(CLOCK_MONOTONIC));
    NS_PUT(slot, role, one->role);
    put_address(&slot->local, &one->local);
    put_address(&slot->remote, &one->remote);
    NS_PUT(slot, nodelay, ns_kernel_get(one->fd, IPPROTO_TCP, TCP_NODELAY) > 0);
    NS_PUT(slot, ended, 0);
    NS_PUT(slot, lives, NS_GET(slot, lives) + 1);
    NS_PUT(conn, life, NS_GET(slot, lives));
    NS_PUT(conn, fd, one->fd);
    NS_PUT(conn, owner, 0);
    NS_PUT(conn, flags, 0);
    NS_PUT(conn, delays, 0);
    NS_PUT(conn, wait_began, 0);
    NS_PUT(conn, read_at, 0);
    NS_PUT(conn, late_ns, 0);
    NS_PUT(conn, received, 0);
    NS_PUT(conn, sampled_at, 0);
    NS_PUT(conn, mss, 0);
    NS_PUT(conn, unanswered, 0);
    NS_PUT(conn, waited_at, 0);
    NS_PUT(conn, n_writes, 0);
    atomic_store(&conn->cookie, one->cookie);
}

struct ns_observed *ns_recorder_find(uint64_t cookie)
{
    struct recorder *of = current();
    uint32_t used = of ? atomic_load(&of->head->slots) : 0;
    for (uint32_t i = 0; i < used; i++)
        if (NS_GET(&of->conns[i], cookie) == cookie)
            return &of->conns[i];
    return NULL;
}

struct ns_observed *ns_recorder_add(int fd, uint64_t cookie, enum ns_role role, bool *full)
{
    struct newcomer one = {.fd = fd, .cookie = cookie, .role = role};
    one.remote = ns_kernel_remote(fd);
    if (!one.remote.known) /* reset meanwhile, or not connected yet */
        return NULL;
    ns_recorder_make();
    struct recorder *of = current();
    if (!of)
        return NULL;
    if (role != NS_ROLE_CLIENT)
        one.local = ns_kernel_local(fd);
    struct ns_observed *conn = choose(of, &one);
    if (conn)
        begin(of, conn, &one);
    else
        NS_ADD(of->head->slots_lost, 1);
    *full = !conn;
    return conn;
}

/* --- samples --- */

unsigned ns_recorder_sixteenths(void)
{
    struct recorder *of = current();
    return of ? atomic_load(&of->head->events) / (NS_RECORD_EVENTS / 16) : 0;
}

void ns_recorder_put(const struct ns_observed *conn, const struct ns_look *sample)
{
    struct recorder *of = current();
    uint32_t slot = ns_recorder_number(conn);
    if (!of || slot >= NS_RECORD_SLOTS)
        return;
    uint32_t number = atomic_load(&of->head->events);
    do {
        if (number >= NS_RECORD_EVENTS ||
            !is_backed(of, event_offset(number), sizeof(struct ns_record_event))) {
            NS_ADD(of->head->events_lost, 1);
            return;
        }
    } while (!atomic_compare_exchange_weak(&of->head->events, &number, number + 1));
    struct ns_record_event *event =
        (struct ns_record_event *)((char *)of->head + event_offset(number));
    event->slot = slot;
    event->life = NS_GET(conn, life);
    event->n_writes = NS_GET(conn, n_writes);
    for (int i = 0; i < NS_RECORD_SIZES; i++)
        event->sizes[i] = (uint32_t)i < event->n_writes ? NS_GET(conn, sizes[i]) : 0;
    event->look = *sample;
    /* release: a reader that finds it complete finds the rest */
    atomic_store_explicit(&event->complete, 1, memory_order_release);
}
