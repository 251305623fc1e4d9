/* SPDX-License-Identifier: MIT */
/* Writes the record of this process (record.h): makes the file at the first connection that is
 * observed, gives connections their slots and looks their places. Nothing here allocates
 * with malloc or takes a lock, nor blocks, but that threads wait for the one that makes the file;
 * errno is unchanged; all is async-signal-safe, ns_recorder_open excepted. Where no record can be
 * made, nothing is recorded, and the program goes on. */
#ifndef NS_RECORDER_H
#define NS_RECORDER_H

#include "conn/conn.h"
#include "judge/record.h"

/* What is known of an observed connection in its own process, which is nobody else's business. The
 * memory only ever holds seats, so that a thread that still uses that of a closed connection reads
 * and writes hints of another one at worst. */
struct ns_seat {
    const struct ns_conn *_Atomic conn; /* NULL: nobody's yet */
    _Atomic uint64_t tag;               /* what ns_conn.seat is there, while the connection lives */
    _Atomic int fd;
    _Atomic uint32_t next;       /* the list of a thread: 1 more than the index; 0: the last */
    _Atomic uint8_t listed;      /* it is on one */
    _Atomic uint8_t held;        /* it is among those that a thread's waits look at */
    _Atomic uint8_t flags;       /* traffic/observe.c's */
    _Atomic uint32_t life;       /* the slot's lives, with this one */
    _Atomic uint64_t wait_began; /* a wait that followed a write, with nothing unsent; 0: none */
    _Atomic uint64_t read_at;    /* when data was read last, if nothing was written since; 0 */
    _Atomic uint64_t late_ns;    /* the last data came so long after what was read before; 0 */
    _Atomic uint32_t late_phase; /* and in this part of the tick */
    _Atomic uint64_t received;   /* bytes, at the last WAIT */
    _Atomic uint64_t looked_at;  /* when the last look was put down */
    _Atomic uint64_t held_at;    /* when the first one was at what is unsent */
    _Atomic uint32_t mss;        /* at the last look; 0: none yet */
    _Atomic uint32_t unanswered; /* looks before a wait since data was read last */
    _Atomic uint32_t n_writes, sizes[NS_RECORD_SIZES]; /* since the last wait that looked */
};

/* Start-up: the directory in which records are made, as ns_record_file_open takes it; and what is
 * tried at waits. */
void ns_recorder_open(const char *directory, enum ns_experiment experiment);

/* What experiment was asked for. */
enum ns_experiment ns_recorder_experiment(void);

/* Make the file now, while it can be made (before privileges are dropped). Once a process. */
void ns_recorder_make(void);

/* The seat of conn, which fd names; it is given one if it has none. NULL: there is none for it. */
struct ns_seat *ns_recorder_seat(int fd, struct ns_conn *conn);

/* The seat of conn if it has one. */
struct ns_seat *ns_recorder_find(const struct ns_conn *conn);

/* By its number, 0 to NS_RECORD_SLOTS - 1: NULL where there is no record; and the other way round:
 * NS_RECORD_SLOTS for a seat of another record, that of a forked process's parent. */
struct ns_seat *ns_recorder_at(uint32_t number);
uint32_t ns_recorder_number(const struct ns_seat *seat);

/* What the record says of a seat; NULL for one of another record. */
struct ns_record_slot *ns_recorder_slot(const struct ns_seat *seat);

/* Put a look down, with the writes since the last wait. */
void ns_recorder_put(const struct ns_seat *seat, const struct ns_look *look);

/* How full of looks it is. */
unsigned ns_recorder_sixteenths(void);

/* Which of the process's records it is: other after each fork. */
uint32_t ns_recorder_generation(void);

/* In a child that has its own memory: the record is its parent's. */
void ns_recorder_forked(void);

#endif
