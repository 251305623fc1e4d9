/* SPDX-License-Identifier: MIT */
/* What the parts of the generator share: the random numbers, the script, and a guess of what is in
 * each slot. */
#ifndef DIFFERENTIAL_MAKER_H
#define DIFFERENTIAL_MAKER_H

#include "driver.h"

enum { SLOTS = 26 };
enum thing {
    NO_THING = 0,
    TCP = 1,
    OWN_PAIR = 2,
    LISTENER = 4,
    LOCAL = 8,
    EPOLL_SET = 16,
    UNCONNECTED = 32,
    STREAMS = TCP | OWN_PAIR,
    ANY = 63,
};
enum place { IN_MAIN, IN_CHILD, IN_VFORK_CHILD, IN_THREAD, IN_HANDLER };

struct maker {
    uint64_t state;
    char *out;
    size_t length;
    unsigned features;
    enum thing things[SLOTS];
    int children; /* how many forked processes it is inside of */
    enum place place;
    bool has_alarm;
};

/* --- generate.c */
int below(struct maker *maker, int count);
bool percent(struct maker *maker, int chance);
/* One of the words between blanks. */
const char *one_of(struct maker *maker, const char *words);
__attribute__((format(printf, 2, 3))) void say(struct maker *maker, const char *format, ...);
/* A slot with one of these, or now and then any. */
char pick(struct maker *maker, int wanted);
char unused(struct maker *maker);
void has(struct maker *maker, char slot, enum thing thing);
enum thing thing_of(const struct maker *maker, char slot);
const char *size(struct maker *maker);
void prefix(struct maker *maker, bool may_sleep);

/* --- generate_traffic.c */
void make_write(struct maker *maker);
void make_burst(struct maker *maker);
void make_read(struct maker *maker);
void make_wait(struct maker *maker);

/* --- generate_life.c */
void make_epoll(struct maker *maker);
void make_option(struct maker *maker);
void make_new(struct maker *maker);
void make_copy(struct maker *maker);
void make_close(struct maker *maker);
void make_peer(struct maker *maker);

#endif
