/* SPDX-License-Identifier: MIT */
/* Writes the record of this process (judge/record.h): makes the file when the first connection is
 * observed, gives each connection a slot and each sample a place. Nothing here allocates with
 * malloc or takes a lock. Nothing blocks, except that threads wait for the one that makes the file.
 * errno is unchanged; everything but ns_recorder_open is async-signal-safe. If no record can be
 * made, nothing is recorded, and the program continues. */
#ifndef NS_RECORDER_H
#define NS_RECORDER_H

#include "base/relaxed.h"
#include "judge/record.h"
#include "policy/policy.h"

/* What the process knows of a connection that it observes. The memory only ever holds such objects:
 * a thread that still uses that of a closed connection reads and writes hints of another one at
 * worst. */
struct ns_observed {
    _Atomic uint64_t cookie;     /* SO_COOKIE, which no other socket ever has; 0: unused */
    _Atomic uint64_t checked;    /* when the kernel confirmed fd: see descriptor.c */
    _Atomic int fd;              /* the descriptor that was used last */
    _Atomic uint32_t owner;      /* the thread whose waits sample it; 0: none */
    _Atomic uint8_t flags;       /* observe.c's */
    _Atomic uint8_t delays;      /* the program asked for delayed ACKs (TCP_QUICKACK 0) */
    _Atomic uint32_t life;       /* connections that have used the slot, with this one */
    _Atomic uint64_t wait_began; /* a wait that followed a write, with nothing unsent; 0: none */
    _Atomic uint64_t read_at;    /* when data was read last, if nothing was written since; 0 */
    _Atomic uint64_t late_ns;    /* time from the previous data to the last; 0 */
    _Atomic uint32_t late_phase; /* and in this part of the tick */
    _Atomic uint64_t received;   /* bytes, at the last WAIT */
    _Atomic uint64_t sampled_at; /* when the last sample was taken */
    _Atomic uint64_t held_at;    /* when the unsent bytes were sampled first */
    _Atomic uint32_t mss;        /* of the last sample; 0: none yet */
    _Atomic uint32_t unanswered; /* samples before a wait since data was read last */
    _Atomic uint64_t waited_at;  /* the last wait after a write */
    _Atomic uint32_t n_writes, sizes[NS_RECORD_SIZES]; /* since the last wait of some length */
};

/* Start-up: the directory for records, as ns_record_file_open takes it, and the experiment.
 * Where the kernel cannot empty a page in a forked child (before Linux 4.14) nothing is recorded.
 */
void ns_recorder_open(const char *directory, enum ns_experiment what);

enum ns_experiment ns_recorder_experiment(void);

/* Is there, or may there yet be, a record? */
bool ns_recorder_is_open(void);

/* Record nothing from now on, and make no system call: a seccomp filter may kill the process. */
void ns_recorder_stop(void);

/* Make the file now, while it can be made (before privileges are dropped). Once a process. */
void ns_recorder_make(void);

/* The connection with this cookie; NULL if it is not in the record. */
struct ns_observed *ns_recorder_find(uint64_t cookie);

/* Add the connection fd with this cookie. NULL if it is not connected, or the record has no slot;
 * then *full is set. */
struct ns_observed *ns_recorder_add(int fd, uint64_t cookie, enum ns_role role, bool *full);

/* A connection by its number, from 0 to NS_RECORD_SLOTS - 1 (NULL without a record), and its
 * number; NS_RECORD_SLOTS if it is in the record of the process that this one was forked from. */
struct ns_observed *ns_recorder_at(uint32_t number);
uint32_t ns_recorder_number(const struct ns_observed *conn);

/* The record's slot of a connection; NULL if it is in another process's record. */
struct ns_record_slot *ns_recorder_slot(const struct ns_observed *conn);

/* Record a sample, with the writes since the last wait. */
void ns_recorder_put(const struct ns_observed *conn, const struct ns_look *sample);

/* How many sixteenths of the room for samples are taken. */
unsigned ns_recorder_sixteenths(void);

/* Differs between a process's record and that of the process it was forked from; 0: no record. */
uint32_t ns_recorder_generation(void);

#endif
