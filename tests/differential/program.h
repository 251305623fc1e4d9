/* SPDX-License-Identifier: MIT */
/* The program of the differential fuzzer: it executes a script, one call per line, and traces the
 * result of each. It contains no code for nagleshim. Its own bookkeeping uses raw system calls,
 * which a preloaded library does not see. Results do not depend on time: before a call everything
 * sent to it has arrived, and the runner wakes calls that would wait forever. */
#pragma once

#include "../probes/raw.h"
#include "shared.h"

/* netinet/tcp.h lacks the newest options. */
#include <linux/tcp.h>

enum {
    SLOTS = 26, /* the letters a to z */
    WORDS = 12,
    PIECES = 16,
    UNTOUCHED = 4095, /* errno before each call */
    FLOOD = 4 << 20,
};

struct slot {
    int fd; /* -1: none */
    int connection;
    bool listens;
    bool epoll;
    unsigned watched; /* an epoll set's slots */
};

/* One line of the script. */
struct op {
    char copy[200];
    const char *word[WORDS];
    int words;
    char line[1024]; /* of the trace */
    unsigned length;
    long result;
    int error;
    /* Prefixes of the line. */
    bool interrupted;  /* a signal comes while the call sleeps */
    bool bad_buffer;   /* its bytes are at a bad address */
    bool bad_argument; /* the structures that describe them are at a bad address */
    int steps;         /* a handler does I/O after so many instructions of the call */
    /* What the runner does when the call sleeps. */
    struct message later;
    bool restarts; /* after a handler with SA_RESTART the call continues */
};

extern struct shared *shared;
extern struct slot slots[SLOTS];
extern int alarm_flags;   /* of the handler of SIGALRM */
extern int handler_depth; /* over 0 inside a handler */

/* Not mapped. */
#define BAD_ADDRESS ((void *)8)

/* --- trace.c: lines of the trace. Async-signal-safe. */
void note(struct op *op, const char *text);
void note_number(struct op *op, const char *name, long value);
void note_error(struct op *op, int error);
/* The result of the call, or " = >0" if the amount depends on time. */
void note_result(struct op *op);
void note_some(struct op *op);
void trace_line(struct op *op);
/* Around each call; see CALL. */
void call_begins(struct op *op);
void call_ended(struct op *op, long result, int error);
#define CALL_ONLY(op, expression)                                                                  \
    do {                                                                                           \
        long call_result;                                                                          \
        call_begins(op);                                                                           \
        do                                                                                         \
            call_result = (long)(expression);                                                      \
        while (call_again(call_result));                                                           \
        call_ended(op, call_result, errno);                                                        \
    } while (0)
#define CALL(op, expression)                                                                       \
    do {                                                                                           \
        CALL_ONLY(op, expression);                                                                 \
        note_result(op);                                                                           \
    } while (0)

/* --- names.c: the words of a script. */
long name_value(const char *name, long otherwise);
const char *signal_text(int number);
long word_number(const struct op *op, int i);
/* Flags by name, joined by '|'; "0" and a word that is not there are none. */
int word_flags(const struct op *op, int i);
/* "-" is NULL, "0" the empty mask, otherwise signals by name. */
const sigset_t *word_mask(const struct op *op, int i, sigset_t *mask);
/* Never NULL: for a word that is not a slot, a closed one. */
struct slot *word_slot(const struct op *op, int i);
char slot_letter(const struct slot *slot);

/* --- world.c: connections, the runner, and raw queries of descriptors. */
struct reply ask(int verb, int connection, int64_t number, int64_t extra);
void nap(long microseconds);
int raw_ioctl(int fd, unsigned long request);
int raw_option(int fd, int level, int name);
extern const uint64_t all_signals; /* a mask of the kernel */
short raw_poll(int fd, short events, int milliseconds);
bool raw_nonblocking(int fd);
int new_connection(void);
struct connection *connection_of(const struct slot *slot);
/* The stream that this end reads, and the one that it writes. */
struct stream *incoming(const struct slot *slot);
struct stream *outgoing(const struct slot *slot);
/* How many slots have this connection. */
int references(const struct slot *slot);
void count_again(const struct slot *slot);
void settle(const struct slot *slot);
bool small_buffer(const struct slot *slot);
void settle_writes(const struct slot *slot, long coming);
long available(const struct slot *slot);
bool finished(const struct slot *slot);
bool peer_has_all(const struct slot *slot);
/* Bytes to write; they are valid until the next call. */
char *outgoing_bytes(const struct slot *slot, long size);

/* Cuts size bytes at data into at most count pieces, which lie in a row and of which some may be
 * empty. Returns how many there are. */
int cut_in_pieces(struct iovec *pieces, int count, char *data, long size, bool bad_buffer);
void set_slot(struct slot *slot, int fd, int connection);
void before_last_close(const struct slot *slot);

/* --- the calls: each does what a line says that begins with its name.
 *     CALLS(name) { ... }        with the line as "op"
 *     SLOT_CALLS(name) { ... }   and the slot that is its first word as "slot"
 *     ONE_CALL(name, statement)
 *     SAME_CALL(other, name)     another name of a call */
typedef void call_function(struct op *op);
void add_call(const char *name, call_function *function);
#define SAME_CALL(other, name)                                                                     \
    __attribute__((constructor)) static void add_##other(void)                                     \
    {                                                                                              \
        add_call(#other, call_##name);                                                             \
    }
#define CALLS(name)                                                                                \
    static void call_##name(struct op *op);                                                        \
    SAME_CALL(name, name)                                                                          \
    static void call_##name(struct op *op)
#define SLOT_CALLS(name)                                                                           \
    static void slot_call_##name(struct op *op, struct slot *slot);                                \
    ONE_CALL(name, slot_call_##name(op, word_slot(op, 1)))                                         \
    static void slot_call_##name(struct op *op, struct slot *slot)
#define ONE_CALL(name, ...)                                                                        \
    CALLS(name)                                                                                    \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }

/* --- program.c: a block of lines, from after its first one to its end. */
struct block {
    const char *begin, *end;
};
void run_block(struct block block);
struct block next_block(void);
extern char *program_path;

/* --- calls_ticks.c: does a timer's handler interrupt calls? Is the call to be made again? */
extern bool ticking;
bool call_again(long result);
void tick_on(void);
/* A handler comes after this many instructions. */
void step_on(long count);
void step_off(struct op *op);

/* --- calls_process.c: which signals came since the last line of the trace. */
void note_signals(struct op *op);
