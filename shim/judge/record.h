/* SPDX-License-Identifier: MIT */
/* The file in which an observed process leaves what it saw (recorder.h writes it,
 * cli/diagnose/recorded.h reads it): one head, the slots of its connections, and the looks at them.
 * It is sparse, and shared memory while the process runs, so that it outlives a SIGKILL. Never a
 * byte that was sent or received, nor an argument of the program.
 *
 * Everything has a fixed size. Counts are written with relaxed stores by whichever thread uses the
 * connection: two at once may lose one. Times are CLOCK_MONOTONIC in nanoseconds. */
#ifndef NS_RECORD_H
#define NS_RECORD_H

#include "judge/look.h"

#include <stdatomic.h>

#define NS_RECORD_MAGIC UINT64_C(0x4e537265636f7264)

/* A record is PID-TIME.record. */
#define NS_RECORD_SUFFIX ".record"

/* Beside them: a byte for each process that came to make one. */
#define NS_RECORD_PROCESSES "processes"

enum {
    /* Goes up with every change of what follows. */
    NS_RECORD_VERSION = 2,
    NS_RECORD_PROCESSES_MOST = 1024, /* that make a record in one directory */
    NS_RECORD_SLOTS = 8192,
    NS_RECORD_EVENTS = 65536,
    NS_RECORD_SIZES = 6,    /* writes since the last wait whose sizes are kept */
    NS_RECORD_BUCKETS = 32, /* from 2^n to 2^(n+1) microseconds; shorter ones are in the first */
    NS_RECORD_PHASES = 16,  /* parts of a tick */
};

/* What a coin decides at a wait, where the command asked for it. */
enum ns_experiment {
    NS_EXPERIMENT_NONE,
    NS_EXPERIMENT_PUSH,        /* where something is held: TCP_NODELAY set to 1, then to 0 */
    NS_EXPERIMENT_ACKNOWLEDGE, /* where something was read and not answered: TCP_QUICKACK */
};

struct ns_record_head {
    _Atomic uint64_t magic; /* stored last */
    uint32_t version, slot_size, event_size;
    uint32_t n_slots, n_events;   /* that there is room for */
    int32_t pid, parent;          /* as the process sees them: a container has its own numbers */
    uint32_t tick_ns;             /* clock_getres(CLOCK_MONOTONIC_COARSE) */
    uint32_t experiment;          /* enum ns_experiment */
    uint64_t began;               /* when the record was made */
    uint64_t began_real;          /* the same by CLOCK_REALTIME */
    char name[64];                /* as ns_path_program says it, cut */
    char exe[1024];               /* its executable, "" if longer or not known */
    _Atomic uint32_t slots;       /* that were ever used; not above n_slots */
    _Atomic uint32_t events;      /* that were begun; not above n_events */
    _Atomic uint64_t slots_lost;  /* connections for which there was no slot */
    _Atomic uint64_t events_lost; /* looks for which there was no room */
};

struct ns_record_address {
    _Atomic uint64_t addr[2]; /* IPv4 as IPv4-mapped, in the order of the bytes */
    _Atomic uint32_t port;    /* host byte order */
    _Atomic uint32_t known;   /* 0: it is not */
};

/* A connection; or several with the same role and service, one after another: a client that makes a
 * connection for each request has one slot. */
struct ns_record_slot {
    _Atomic uint32_t lives; /* connections that had it; 0: nobody yet */
    _Atomic uint32_t ended; /* 1: the last one is closed, as far as anybody noticed */
    _Atomic uint32_t role;  /* enum ns_role */
    struct ns_record_address local, remote; /* of the last one; local of a client is not known */
    _Atomic uint32_t nodelay;               /* TCP_NODELAY, as the program had it last */
    _Atomic uint64_t first, last;   /* when it was first used, and last read from or waited for */
    _Atomic uint64_t writes, reads; /* that moved something */
    _Atomic uint64_t requests;      /* reads that followed a write */
    _Atomic uint64_t waits;         /* waits of the program that followed a write here */
    _Atomic uint64_t waited_ns;     /* in all of buckets */
    /* How long it took from a wait that followed a write, with nothing unsent, until data arrived.
     */
    _Atomic uint32_t buckets[NS_RECORD_BUCKETS];
    /* Data that arrived 30 ms or more after data that was read and not answered, and that was
     * answered then: in which part of a tick's length, by CLOCK_MONOTONIC, which the tick keeps to;
     * and how long it took, all together. */
    _Atomic uint32_t phases[NS_RECORD_PHASES];
    _Atomic uint64_t late_ns;
    /* Further data that a client got 5 ms or more after other data, with nothing written in
     * between: how often, and how long it took, all together. */
    _Atomic uint64_t parts, parts_ns;
    /* The writes before the last wait that followed one: the sizes of the first ones. */
    _Atomic uint32_t n_writes, sizes[NS_RECORD_SIZES];
};

/* A look. The looks at one connection are those with the same slot and life, in the order of
 * look.at (two threads may have put them down in another one). */
struct ns_record_event {
    _Atomic uint32_t complete; /* 1: all of it is there; stored last */
    uint32_t slot, life;       /* life: 1 and up to the slot's lives */
    uint32_t n_writes;         /* since the wait before; of which sizes has the first ones */
    uint32_t sizes[NS_RECORD_SIZES];
    struct ns_look look;
};

/* What stands where: the head, the slots and the events each begin on a page. */
enum {
    NS_RECORD_PAGE = 4096,
    NS_RECORD_SLOTS_AT = NS_RECORD_PAGE,
    NS_RECORD_EVENTS_AT =
        NS_RECORD_SLOTS_AT +
        (NS_RECORD_SLOTS * (int)sizeof(struct ns_record_slot) + NS_RECORD_PAGE - 1) /
            NS_RECORD_PAGE * NS_RECORD_PAGE,
    NS_RECORD_FILE_SIZE =
        NS_RECORD_EVENTS_AT + NS_RECORD_EVENTS * (int)sizeof(struct ns_record_event),
};
_Static_assert(sizeof(struct ns_record_head) <= NS_RECORD_PAGE, "the head's page");

#endif
