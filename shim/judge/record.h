/* SPDX-License-Identifier: MIT */
/* The format of the record of an observed process (written by recorder.h, read by
 * cli/diagnose/recorded.c): a head, a slot for each connection, and samples. The file is sparse and
 * mapped as shared memory, so that it survives SIGKILL. It contains no data and no arguments.
 *
 * Everything has a fixed size. The thread that uses a connection writes its counts with relaxed
 * stores, so that two threads at once may lose an increment. Times are CLOCK_MONOTONIC ns. */
#ifndef NS_RECORD_H
#define NS_RECORD_H

#include "judge/look.h"

#include <stdatomic.h>

#define NS_RECORD_MAGIC UINT64_C(0x4e537265636f7264)

/* A record is PID-TIME.record. */
#define NS_RECORD_SUFFIX ".record"

enum {
    /* Increased with every change of the format. */
    NS_RECORD_VERSION = 11,
    NS_RECORD_SLOTS = 8192,
    NS_RECORD_EVENTS = 65536,
    NS_RECORD_SIZES = 8, /* sizes of writes since the last wait: the first ones, and the last two */
};

struct ns_record_head {
    _Atomic uint64_t magic; /* stored last */
    uint32_t version;
    int32_t pid;                  /* in its own pid namespace */
    uint32_t tick_ns;             /* clock_getres(CLOCK_MONOTONIC_COARSE) */
    uint32_t experiment;          /* enum ns_experiment */
    char name[64];                /* see ns_path_program; cut */
    char exe[1024];               /* its executable; "": longer, or unknown */
    _Atomic uint32_t slots;       /* used; at most NS_RECORD_SLOTS */
    _Atomic uint32_t events;      /* begun; at most NS_RECORD_EVENTS */
    _Atomic uint64_t slots_lost;  /* connections without a slot */
    _Atomic uint64_t events_lost; /* samples without room */
};

struct ns_record_address {
    _Atomic uint64_t addr[2]; /* IPv4 as IPv4-mapped, network byte order */
    _Atomic uint32_t port;    /* host byte order */
    _Atomic uint32_t known;   /* 0: unknown */
};

/* One or more successive connections with the same role and service: a client that opens a
 * connection for each request has one slot. */
struct ns_record_slot {
    _Atomic uint32_t lives;                 /* connections that had it; 0: unused */
    _Atomic uint32_t ended;                 /* 1: the last one is known to be closed */
    _Atomic uint32_t role;                  /* enum ns_role */
    struct ns_record_address local, remote; /* of the last one; local of a client is unknown */
    _Atomic uint32_t nodelay;               /* the program's last TCP_NODELAY */
    _Atomic uint64_t first, last;           /* first use, and last read or wait */
    _Atomic uint64_t writes, reads;         /* that transferred data */
    _Atomic uint64_t requests;              /* reads after a write */
    _Atomic uint64_t waited_ns;             /* total of buckets */
    /* Length of waits after a write, with nothing unsent, until data arrived. */
    _Atomic uint32_t buckets[NS_WAIT_BUCKETS];
    _Atomic uint64_t slow, slow_ns; /* those of 5 ms or more: number and total length */
    /* See ns_verdict_arrivals: counts by the part of the tick, and the total length. */
    _Atomic uint32_t phases[NS_PHASES];
    _Atomic uint64_t late_ns;
    /* Data that a client got 5 ms or more after other data, with no write in between: number and
     * total length. */
    _Atomic uint64_t parts, parts_ns;
    /* The writes before the last wait after a write, and their sizes. */
    _Atomic uint32_t n_writes, sizes[NS_RECORD_SIZES];
};

/* A sample. Samples of a connection have the same slot and life. Two threads may have stored them
 * in another order than that of look.at. */
struct ns_record_event {
    _Atomic uint32_t complete; /* stored last */
    uint32_t slot, life;       /* life: 1 to the slot's lives */
    uint32_t n_writes;         /* since the wait before */
    uint32_t sizes[NS_RECORD_SIZES];
    struct ns_look look;
};

/* The head, the slots and the events each begin on a page. */
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
/* The command of a 64-bit system reads the records of 32-bit programs, too. */
_Static_assert(sizeof(struct ns_record_head) == 1136 && sizeof(struct ns_record_slot) == 392 &&
                   sizeof(struct ns_record_event) == 144,
               "one layout on all architectures");

#endif
