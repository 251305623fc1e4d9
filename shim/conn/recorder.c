/* SPDX-License-Identifier: MIT */
/* See recorder.h. Owns the record's memory, the seats, and which connection has which of them. Must
 * never touch memory that the file system may refuse to back: that is a SIGBUS (mmap(2)). */
#include "conn/recorder.h"

#include "base/clock.h"
#include "report/log.h"
#include "report/stats.h"
#include "base/system.h"
#include "conn/kernel.h"
#include "conn/process.h"
#include "conn/record_file.h"

#include <string.h>
#include <sys/mman.h>

enum { PIECE_UNKNOWN, PIECE_BACKED, PIECE_REFUSED };

/* In memory that only a process that observes has. */
struct recorder {
    struct ns_record_head *head; /* of the mapped file */
    uint32_t generation;
    _Atomic uint32_t turn; /* where the search for a slot that is free again begins */
    _Atomic uint8_t pieces[NS_RECORD_PIECES];
    struct ns_seat seats[NS_RECORD_SLOTS];
};

static enum ns_experiment experiments;
static struct recorder *_Atomic recorder;
/* Of making the record, which is tried once in a process, whether it works or not. */
static _Atomic uint8_t progress;
enum { UNTRIED, MAKING, TRIED };
static _Atomic uint32_t generation;

void ns_recorder_open(const char *directory, enum ns_experiment experiment)
{
    ns_record_file_open(directory);
    experiments = experiment;
}

enum ns_experiment ns_recorder_experiment(void)
{
    return experiments;
}

/* --- making it --- */

/* A recorder and its file, whose name becomes path. NULL if one of the two cannot be made; then
 * nothing of them is left. */
static struct recorder *make(char *path)
{
    struct recorder *made = mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool backed = false;
    if (made == MAP_FAILED)
        return NULL;
    made->head = ns_record_file_make(path, experiments, &backed);
    if (!made->head) {
        munmap(made, sizeof *made);
        return NULL;
    }
    for (int i = 0; i < (backed ? NS_RECORD_PIECES : 1); i++)
        atomic_store(&made->pieces[i], PIECE_BACKED);
    made->generation = atomic_load(&generation);
    return made;
}

static void tell_of_failure(const char *path)
{
    struct ns_line line;
    if (!ns_log_enabled(NS_LOG_DEBUG))
        return;
    ns_line_begin(&line);
    ns_line_add(&line, "nothing is recorded: the record could not be made: ");
    ns_line_add(&line, path);
    ns_line_write(&line);
}

/* Threads that connect at the same time would miss their first requests: they let the one that
 * makes the record finish, for 10 ms at most, since this may be a signal handler that has
 * interrupted it. It may even have left it by siglongjmp, or ended the thread: whoever has waited
 * in vain is the last one that waits. */
static void let_make(void)
{
    const struct timespec moment = {.tv_nsec = 100000};
    uint8_t making = MAKING;
    int saved = errno;
    for (int i = 0; i < 100 && atomic_load(&progress) == MAKING; i++)
        NS_SYSTEM(SYS_nanosleep, &moment, NULL);
    atomic_compare_exchange_strong(&progress, &making, TRIED);
    errno = saved;
}

void ns_recorder_make(void)
{
    uint8_t untried = UNTRIED;
    if (!ns_record_file_is_open() ||
        atomic_load_explicit(&progress, memory_order_relaxed) == TRIED ||
        ns_process_is_disabled() || ns_has_other_fds())
        return;
    if (!atomic_compare_exchange_strong(&progress, &untried, MAKING)) {
        let_make();
        return;
    }
    char path[PATH_MAX] = "";
    int saved = errno;
    struct recorder *made = make(path);
    if (made) /* release: with what it was made with */
        atomic_store_explicit(&recorder, made, memory_order_release);
    else
        tell_of_failure(path);
    atomic_store(&progress, TRIED);
    errno = saved;
}

/* The parent's record stays mapped: a call that began before the fork may still write to it. */
void ns_recorder_forked(void)
{
    if (!ns_record_file_is_open())
        return;
    atomic_fetch_add(&generation, 1);
    atomic_store(&recorder, NULL);
    atomic_store(&progress, UNTRIED);
}

uint32_t ns_recorder_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_relaxed);
}

/* acquire: pairs with the release in ns_recorder_make */
static struct recorder *current(void)
{
    return atomic_load_explicit(&recorder, memory_order_acquire);
}

/* --- its parts --- */

/* May those bytes of the record be written? Has them backed if nobody has asked yet. */
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

struct ns_seat *ns_recorder_at(uint32_t number)
{
    struct recorder *of = current();
    return of && number < NS_RECORD_SLOTS ? &of->seats[number] : NULL;
}

/* NS_RECORD_SLOTS for a seat of the parent's record. */
uint32_t ns_recorder_number(const struct ns_seat *seat)
{
    struct recorder *of = current();
    uintptr_t distance = of ? (uintptr_t)seat - (uintptr_t)of->seats : UINTPTR_MAX;
    return distance < sizeof of->seats ? (uint32_t)(distance / sizeof *seat) : NS_RECORD_SLOTS;
}

/* --- who has which slot --- */

static struct ns_record_slot *slot_at(struct recorder *of, uint32_t number)
{
    return (struct ns_record_slot *)((char *)of->head + slot_offset(number));
}

struct ns_record_slot *ns_recorder_slot(const struct ns_seat *seat)
{
    struct recorder *of = current();
    uint32_t number = ns_recorder_number(seat);
    return number < NS_RECORD_SLOTS ? slot_at(of, number) : NULL;
}

/* Is its connection closed? Its memory is another one's then, or nobody's. */
static bool has_ended(const struct ns_seat *seat)
{
    const struct ns_conn *conn = atomic_load(&seat->conn);
    return NS_GET(conn, kind) != NS_CONN_RULED || NS_GET(conn, seat) != NS_GET(seat, tag);
}

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

struct newcomer {
    const struct ns_conn *conn;
    enum ns_role role;
    struct ns_address local, remote;
};

/* May the newcomer go on with what is counted there: is it the same to whoever reads it? */
static bool goes_with(const struct ns_record_slot *slot, const struct newcomer *one)
{
    if (NS_GET(slot, role) != one->role)
        return false;
    return one->role == NS_ROLE_SERVER ? is_same(&slot->local, &one->local)
                                       : is_same(&slot->remote, &one->remote);
}

/* A seat for the newcomer: one whose connection has ended and whose slot it may go on with, or a
 * fresh one. It is nobody's until seat_it, so that no other thread writes to it. */
static struct ns_seat *choose(struct recorder *of, const struct newcomer *one)
{
    enum { TRIES = 64 }; /* so that many connections at a time cost no long search */
    uint32_t used = atomic_load(&of->head->slots), turn = atomic_load(&of->turn);
    for (uint32_t i = 0; i < used && i < TRIES; i++) {
        uint32_t number = (turn + i) % used;
        struct ns_seat *seat = &of->seats[number];
        const struct ns_conn *was = atomic_load(&seat->conn);
        if (!was || !has_ended(seat))
            continue;
        NS_PUT(slot_at(of, number), ended, 1);
        if (goes_with(slot_at(of, number), one) &&
            atomic_compare_exchange_strong(&seat->conn, &was, NULL)) {
            atomic_store(&of->turn, number);
            return seat;
        }
    }
    atomic_store(&of->turn, turn + TRIES);
    do {
        if (used >= NS_RECORD_SLOTS ||
            !is_backed(of, slot_offset(used), sizeof(struct ns_record_slot)))
            return NULL;
    } while (!atomic_compare_exchange_weak(&of->head->slots, &used, used + 1));
    return &of->seats[used];
}

static void seat_it(struct recorder *of, struct ns_seat *seat, struct ns_conn *conn, int fd,
                    const struct newcomer *one)
{
    uint32_t number = (uint32_t)(seat - of->seats);
    struct ns_record_slot *slot = slot_at(of, number);
    uint64_t tag = (uint64_t)of->generation << 32 | (number + 1);
    if (!NS_GET(slot, lives))
        NS_PUT(slot, first, ns_clock_now(CLOCK_MONOTONIC));
    NS_PUT(slot, role, one->role);
    put_address(&slot->local, &one->local);
    put_address(&slot->remote, &one->remote);
    NS_PUT(slot, ended, 0);
    NS_PUT(slot, lives, NS_GET(slot, lives) + 1);
    NS_PUT(seat, life, NS_GET(slot, lives));
    NS_PUT(seat, fd, fd);
    NS_PUT(seat, flags, 0);
    NS_PUT(seat, wait_began, 0);
    NS_PUT(seat, read_at, 0);
    NS_PUT(seat, late_ns, 0);
    NS_PUT(seat, received, 0);
    NS_PUT(seat, looked_at, 0);
    NS_PUT(seat, mss, 0);
    NS_PUT(seat, unanswered, 0);
    NS_PUT(seat, n_writes, 0);
    NS_PUT(seat, tag, tag);
    NS_PUT(conn, seat, tag);
    atomic_store(&seat->conn, one->conn);
}

struct ns_seat *ns_recorder_find(const struct ns_conn *conn)
{
    struct recorder *of = current();
    uint64_t tag = NS_GET(conn, seat);
    uint32_t number = (uint32_t)tag - 1;
    if (!of || tag >> 32 != of->generation || number >= NS_RECORD_SLOTS ||
        NS_GET(&of->seats[number], conn) != conn)
        return NULL;
    return &of->seats[number];
}

/* ns_conn.seat of a connection for which there was no slot: so that nobody asks again. */
static uint64_t no_seat(const struct recorder *of)
{
    return (uint64_t)of->generation << 32 | UINT32_MAX;
}

struct ns_seat *ns_recorder_seat(int fd, struct ns_conn *conn)
{
    struct ns_seat *seat = ns_recorder_find(conn);
    if (seat)
        return seat;
    ns_recorder_make();
    struct recorder *of = current();
    if (!of || NS_GET(conn, seat) == no_seat(of))
        return NULL;
    struct newcomer one = {
        .conn = conn,
        .role = (enum ns_role)NS_GET(conn, role),
        .remote = ns_kernel_peer(fd, NS_GET(conn, domain)),
    };
    if (one.role != NS_ROLE_CLIENT)
        one.local = ns_kernel_local(fd);
    if (!one.remote.known) /* reset meanwhile, or not connected yet */
        return NULL;
    seat = choose(of, &one);
    if (seat) {
        seat_it(of, seat, conn, fd, &one);
    } else {
        NS_ADD(of->head->slots_lost, 1);
        NS_PUT(conn, seat, no_seat(of));
    }
    return seat;
}

/* --- looks --- */

unsigned ns_recorder_sixteenths(void)
{
    struct recorder *of = current();
    return of ? atomic_load(&of->head->events) / (NS_RECORD_EVENTS / 16) : 0;
}

void ns_recorder_put(const struct ns_seat *seat, const struct ns_look *look)
{
    struct recorder *of = current();
    uint32_t slot = ns_recorder_number(seat);
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
    event->life = NS_GET(seat, life);
    event->n_writes = NS_GET(seat, n_writes);
    for (int i = 0; i < NS_RECORD_SIZES; i++)
        event->sizes[i] = (uint32_t)i < event->n_writes ? NS_GET(seat, sizes[i]) : 0;
    event->look = *look;
    /* release: whoever finds it complete finds the rest */
    atomic_store_explicit(&event->complete, 1, memory_order_release);
}
