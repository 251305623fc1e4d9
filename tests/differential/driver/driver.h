/* SPDX-License-Identifier: MIT */
/* The driver of the differential fuzzer: it makes scripts, has the program do each without a
 * library and with one, is the peer of its connections meanwhile, and compares what came of the
 * calls. */
#ifndef DIFFERENTIAL_DRIVER_H
#define DIFFERENTIAL_DRIVER_H

#include "../shared.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* What scripts may have in them. */
enum feature {
    BAD_ARGUMENTS = 1, /* descriptions of bytes that lie nowhere */
    RESETS = 2,        /* peers that go while the program writes on */
    THREADS = 4,       /* looks at how many threads there are */
};

struct variant {
    const char *name;
    const char *policy;  /* NULL: the built-in one */
    unsigned features;   /* without these it may differ */
    const char *library; /* NULL: none */
};

/* --- policies.c */
extern const struct variant policies[];

/* --- run.c: the program once; the trace, which the caller frees. */
extern long run_patience; /* milliseconds of silence that are a hang */
void run_setup(const char *program);
char *run_script(const char *script, const struct variant *variant, unsigned *calls);

/* --- peer.c: the other end of every connection of one run. */
void peer_begin(struct shared *shared, int control, int listener);
void peer_message(void);
void peer_turn(void);
bool peer_owes(void);
struct pollfd;
int peer_descriptors(struct pollfd *items, int count);
void peer_readable(int fd);
void peer_finish(bool killed);

/* --- generate.c: the script of a seed. */
void generate(uint64_t seed, unsigned features, char script[SCRIPT_MOST]);

/* --- reduce.c: the fewest lines with which the two still differ. */
typedef bool differs_function(const char *script, const struct variant *variant);
void reduce(char script[SCRIPT_MOST], const struct variant *variant, differs_function *differs);

_Noreturn void driver_fail(const char *what);

#endif
