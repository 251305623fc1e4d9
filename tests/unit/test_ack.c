/* SPDX-License-Identifier: MIT */
/* ack.h: whole connections with a simulated peer, line and kernel. tests/promises/steps.bats has
 * what happens at each call. */
#include "traffic/ack.h"
#include "traffic/whole.h"

#include "unit.h"

#include <math.h>

CHECK(check_kernel_mode)
{
    struct ns_ack_state state = {.interactive = 1};
    ns_ack_read(&state, 1, 0, true);
    OK(ns_ack_is_pending(state), "a socket that others write to does not count as only read");
    OK(ns_ack_waits(state, 1) == 0 && ns_ack_waits(state, 5) == 4,
       "its thread's waits are counted");
}

/* A connection. In each round the peer sends a request and this end answers. Times are in
 * milliseconds. */
struct line {
    double trip;    /* a round trip */
    double jitter;  /* up to this is added in either direction */
    int pieces;     /* of a request */
    int every;      /* only each such request has pieces; 0: all */
    bool holds;     /* Nagle's algorithm: the next piece leaves after the ACK of the one before */
    double gap;     /* otherwise after this time */
    bool random;    /* which is only the mean */
    double think;   /* until the answer */
    bool frozen;    /* the clock stands still */
    bool unlimited; /* the kernel cannot limit delayed ACKs */
    unsigned learned;
};

struct result {
    int acks[2];     /* in the first 64 rounds, and later: of the library and of the kernel */
    int needless[2]; /* the same without the library */
    int stalls;
    unsigned learned;
};

static double chance(void)
{
    static uint64_t x = 88172645463325252U;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return (double)(x >> 11) / 9007199254740992.0;
}

/* This end reads at the time now and waits. due: when the kernel sends its delayed ACK; 0: none is
 * delayed. Returns when the ACK is sent. */
static double wait_after(struct ns_ack_state *state, const struct line *line, bool library,
                         double now, double *due, bool *delays, int *acks)
{
    bool limited = library && !line->unlimited && !ns_ack_is_free(*state);
    *due = 0;
    if (*delays && library && ns_ack_is_pending(*state)) {
        *delays = !ns_ack_send(state);
    } else if (*delays) {
        *due = now + (limited ? 8 : 40) + 4 * chance();
        return *due;
    }
    ++*acks;
    return now;
}

static void learn(struct ns_ack_state *before, struct ns_ack_state state, struct result *result)
{
    result->learned = ns_ack_learn(result->learned, *before, state);
    *before = state;
}

static void play_one(const struct line *line, bool library, int *acks, struct result *result)
{
    struct ns_ack_state state = {.interactive = 1, .answers = 1};
    unsigned epoch = 0;
    double now = 1000 * chance();
    ns_ack_begin(&state, line->learned);
    result->learned = line->learned;
    for (int round = 0; round < 1000; round++) {
        int pieces = line->every && round % line->every ? 1 : line->pieces;
        struct ns_ack_state before = state;
        bool delays = true, limited = false;
        double due = 0;
        for (int i = 0; i < pieces; i++) {
            double acked, trips = line->trip + line->jitter * (chance() + chance());
            if (due > 0 && now >= due) {
                acks[round >= 64]++;
                delays = false;
            }
            if (ns_ack_asks_rtt(state))
                ns_ack_set_rtt(&state, (unsigned)(line->trip * 1000));
            limited = library && !line->unlimited && !ns_ack_is_free(state);
            before = state;
            ns_ack_read(&state, epoch++, line->frozen ? 7 : (uint32_t)(now * 1000), limited);
            learn(&before, state, result);
            acked = wait_after(&state, line, library, now, &due, &delays, &acks[round >= 64]);
            if (i + 1 == pieces)
                now += line->think;
            else if (line->holds) {
                result->stalls += library && acked > now;
                now = acked + trips + 0.02;
            } else
                now += 0.02 + (line->random ? -log(1 - chance()) * line->gap : line->gap) +
                       line->jitter * chance();
        }
        acks[round >= 64] += due > 0 && now >= due;
        learn(&before, state, result);
        ns_ack_wrote(&state, limited && now >= due && due > 0);
        learn(&before, state, result);
        now += line->trip + line->jitter;
    }
}

static struct result play(struct line line)
{
    struct result result = {0};
    play_one(&line, false, result.needless, &result);
    play_one(&line, true, result.acks, &result);
    return result;
}

/* The library's ACKs end: at most 40 more in the first 64 rounds and then 5 % more. */
static void ends(const char *what, struct line line)
{
    struct result seen = play(line);
    OK(seen.acks[0] <= seen.needless[0] + 40 && seen.acks[1] <= seen.needless[1] * 1.05 + 1,
       "%s: %d, later %d ACKs, without the library %d and %d", what, seen.acks[0], seen.acks[1],
       seen.needless[0], seen.needless[1]);
}

static void cured(const char *what, struct line line, int stalls)
{
    struct result seen = play(line);
    OK(seen.stalls <= stalls, "%s: %d of 1 000 requests stall", what, seen.stalls);
}

CHECK(check_peer_that_holds)
{
    static const double trips[] = {0.02, 1, 20, 80, 200};
    for (int i = 0; i < 5; i++) {
        struct line line = {.trip = trips[i], .pieces = 2, .holds = true};
        char what[64];
        snprintf(what, sizeof(what), "a peer that holds, round trip of %g ms", line.trip);
        cured(what, line, 2);
        line.unlimited = true;
        cured("the same, the kernel cannot limit delayed ACKs: no ACK is skipped", line, 0);
        line.think = 5;
        line.every = 40;
        cured("one request in 40 in two pieces", line, 2);
    }
    cured("a clock that stands still", (struct line){.pieces = 2, .holds = true, .frozen = true},
          2);
    cured("the same, one request in 40",
          (struct line){.pieces = 2, .holds = true, .frozen = true, .every = 40, .think = 5}, 2);
    cured("jitter of 20 ms either way",
          (struct line){.trip = 40, .jitter = 20, .pieces = 2, .holds = true}, 40);
}

CHECK(check_needless)
{
    static const double trips[] = {0.02, 20, 80};
    ends("requests in one piece, a server that thinks for 5 ms",
         (struct line){.pieces = 1, .think = 5});
    ends("for 20 ms", (struct line){.pieces = 1, .think = 20});
    ends("jitter, requests in two pieces that leave at once",
         (struct line){.trip = 40, .jitter = 20, .pieces = 2});
    ends("in eight", (struct line){.trip = 40, .jitter = 20, .pieces = 8});
    for (int i = 0; i < 3; i++) {
        struct line line = {.trip = trips[i], .pieces = 2};
        ends("two pieces that leave at once", line);
        for (line.gap = 2; line.gap < 64; line.gap *= 2) {
            char what[64];
            line.pieces = 5;
            snprintf(what, sizeof(what), "round trip of %g ms, a clock of %g ms", line.trip,
                     line.gap);
            ends(what, line);
        }
    }
    ends("random times, 20 ms on average", (struct line){.pieces = 5, .gap = 20, .random = true});
}

CHECK(check_learned)
{
    struct line line = {.pieces = 1, .think = 5}, holds = {.pieces = 2, .holds = true};
    line.learned = holds.learned = play(line).learned;
    OK(line.learned == NS_ACK_NEEDLESS && play(line).acks[0] == 0,
       "the next connection sends no needless ACKs");
    cured("but does after one was missed", holds, 1);
    holds.learned = play((struct line){.pieces = 2, .holds = true}).learned;
    OK(holds.learned >= NS_ACK_HELPS, "that ACKs help is learned, too");
    cured("then the next connection skips no ACK that helps", holds, 0);
    line.learned = NS_ACK_HELPS;
    OK(play(line).learned == NS_ACK_NEEDLESS, "until %d in a row were needless", NS_ACK_HELPED);
}

/* The number of reads with MSG_WAITALL, of reads that take ms each, that begin with immediate ACKs
 * of the kernel. */
static int at_once(struct ns_whole *whole, unsigned ms, int reads)
{
    int count = 0;
    for (int i = 0; i < reads; i++) {
        count += ns_whole_begins(*whole);
        ns_whole_ended(whole, ms, 0);
    }
    return count;
}

CHECK(check_whole)
{
    struct ns_whole whole = {0};
    OK(at_once(&whole, 0, 1000) == 0, "for reads in time the kernel keeps its own delay");
    ns_whole_ended(&whole, 12, 0);
    OK(at_once(&whole, 0, NS_WHOLE_COUNT) == NS_WHOLE_COUNT && at_once(&whole, 20, 1) == 0,
       "after a late read the kernel acknowledges at once, except for a test");
    OK(at_once(&whole, 0, 1000) == 1000, "the test was late: from then on always");
    whole = (struct ns_whole){0};
    ns_whole_ended(&whole, 12, 0);
    OK(at_once(&whole, 0, 1000) == NS_WHOLE_COUNT, "it was in time: no longer at once");
    whole = (struct ns_whole){0};
    ns_whole_ended(&whole, 12, 0);
    OK(at_once(&whole, 20, 1000) == NS_WHOLE_TRIES, "a peer that is always slow: no longer");
    whole = (struct ns_whole){0};
    ns_whole_ended(&whole, 12, 0);
    at_once(&whole, 0, 3);
    OK(at_once(&whole, 20, 5) == 5, "a slow answer among fast ones changes nothing");
    whole = (struct ns_whole){0};
    ns_whole_ended(&whole, 45, 20);
    OK(!ns_whole_begins(whole), "two round trips are not late");
    ns_whole_ended(&whole, 52, 20);
    OK(ns_whole_begins(whole), "a delayed ACK besides is");
}
