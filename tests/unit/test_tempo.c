/* SPDX-License-Identifier: MIT */
/* The decision table of auto-cork and adaptive, as sequences: what a connection does in, what is
 * held out. In a script w is a small write, W one that is not for gathering, "." a wait (or the
 * peer's answer), "!" the deadline. In the answer h is a write that is held, s one that is sent. */
#include "tempo.h"
#include "unit.h"

#include <limits.h>
#include <string.h>

enum { LONGEST = 4096 };

/* What happens to the writes of script. */
static const char *play(const char *script, bool adaptive)
{
    static char answer[LONGEST];
    struct ns_tempo tempo = {0};
    bool held = false, waited = true;
    size_t n = 0;
    for (; *script && n < sizeof answer - 2; script++) {
        if (*script == '.' || *script == '!') {
            if (held)
                ns_tempo_pushed(&tempo, *script == '!');
            held = false;
            waited = *script == '.';
            answer[n++] = *script;
            continue;
        }
        if (waited && !held)
            ns_tempo_begin(&tempo);
        waited = false;
        bool holds = ns_tempo_write(&tempo, adaptive, *script == 'w');
        held = holds; /* what is sent takes what is held with it */
        answer[n++] = holds ? 'h' : 's';
    }
    answer[n] = '\0';
    return answer;
}

static void expect(bool adaptive, const char *script, const char *wanted, const char *says)
{
    const char *seen = play(script, adaptive);
    OK(strcmp(seen, wanted) == 0, "%s: %s", adaptive ? "adaptive" : "auto-cork", says);
    if (strcmp(seen, wanted) != 0)
        printf("# %s: %s, not %s\n", script, seen, wanted);
}

static void test_auto_cork(void)
{
    expect(false, "www.www.www.", "hhh.hhh.hhs.", "a burst is held; the third alike ends itself");
    expect(false, "w.w.w.w.", "h.h.s.s.", "single writes are sent once that is known");
    expect(false, "www.www.wwwww.www.www.www.", "hhh.hhh.hhshh.hhh.hhh.hhs.",
           "a burst longer than foretold is learnt anew");
    expect(false, "www.www.www.ww.www.", "hhh.hhh.hhs.hh.hhh.", "so is a shorter one");
    expect(false, "wwW.ww.", "hhs.hh.", "a large write takes what is held with it");
    expect(false, "ww!ww!ww!ww.", "hh!hh!hh!hh.", "the deadline changes nothing but the length");
}

static void test_adaptive(void)
{
    expect(true, "w.w.w.w.", "s.s.s.s.", "one write between waits is always sent");
    expect(true, "www.www.www.www.", "sss.hhh.hhs.hhs.", "bursts are gathered from the second on");
    expect(true, "ww.w.ww.w.ww.", "ss.h.hh.h.hh.", "a single write between bursts changes nothing");
    expect(true, "ww.w.w.w.w.w.", "ss.h.h.s.s.s.", "bursts that have ended are forgotten");
    expect(true, "wW.wW.wW.", "ss.hs.hs.", "a header and a large body: the header is held");
    expect(true, "WWWW.WWWW.", "ssss.ssss.", "large writes are never held");
    expect(true, "wwwwwwww.www.", "ssssssss.hhh.", "eight writes are a burst as any other");
    expect(true, "wwwwwwwwwww.www.", "sssssssshhh.hhh.", "and the ninth without a wait begins one");
    expect(true, "WWWWWWWWWWWW", "ssssssssssss", "large writes without a wait are sent");
}

/* A connection whose bursts nobody waits for, on the thread that writes: how many bursts lie
 * between one try and the next. */
static void test_doubt(void)
{
    struct ns_tempo tempo = {0};
    unsigned since = 0, tries = 0, before = 0;
    bool rarer = true;
    for (unsigned i = 0; i < 20000; i++) {
        ns_tempo_begin(&tempo);
        bool held = ns_tempo_write(&tempo, true, true);
        held |= ns_tempo_write(&tempo, true, true);
        since++;
        if (held) {
            ns_tempo_pushed(&tempo, true);
            rarer &= tries < 2 || since > before;
            before = since;
            since = 0;
            tries++;
        }
    }
    OK(tries >= 5 && tries <= 12, "holding in vain is tried %u times in 20 000 bursts", tries);
    OK(rarer, "and ever more rarely");
    expect(true, "ww.ww!ww.ww.ww.ww.ww.ww.ww.ww.ww.", "ss.hh!ss.ss.ss.ss.ss.ss.ss.ss.hs.",
           "after one deadline eight bursts are sent at once");
}

/* Which of 1000 writes without a wait is the first to be held, if all after it are; 0: none is. */
static unsigned first_held(unsigned per_deadline, bool small)
{
    struct ns_tempo tempo = {0};
    unsigned first = 0, held = 0;
    for (unsigned i = 0; i < 1000; i++) {
        if (ns_tempo_write(&tempo, true, small)) {
            first = held++ ? first : i;
            if (per_deadline && held % per_deadline == 0)
                ns_tempo_pushed(&tempo, true);
        } else if (first) {
            return UINT_MAX;
        }
    }
    return first;
}

/* Every write that is held is alone when its deadline comes. */
static unsigned held_of_a_trickle(void)
{
    struct ns_tempo tempo = {0};
    unsigned held = 0;
    for (unsigned i = 0; i < 100000; i++)
        if (ns_tempo_write(&tempo, true, true)) {
            ns_tempo_pushed(&tempo, true);
            held++;
        }
    return held;
}

static void test_stream(void)
{
    struct ns_tempo tempo = {0};
    unsigned held = 0;
    play("", true);
    ns_tempo_write(&tempo, true, true);
    ns_tempo_write(&tempo, true, true);
    ns_tempo_begin(&tempo);
    for (unsigned i = 0; i < 1000; i++) {
        held += ns_tempo_write(&tempo, true, true);
        if (i % 20 == 19)
            ns_tempo_pushed(&tempo, true);
    }
    OK(held == 1000, "many writes to a deadline are a stream, and go on being gathered");

    /* One that never waits; per_deadline 0: the peer is slow, and no deadline comes. */
    for (unsigned per_deadline = 0; per_deadline <= 40; per_deadline += 20) {
        held = first_held(per_deadline, true);
        OK(held == NS_TEMPO_STREAM, "adaptive: an endless burst is gathered from write %u on",
           held);
    }
    OK(first_held(20, false) == 0, "adaptive: but not one of large writes");
    held = held_of_a_trickle();
    OK(held > 2 && held < 100,
       "adaptive: of a stream that is slower than its deadlines %u of "
       "100 000 writes are held in vain",
       held);
}

/* The ACK side. In a script r is data read, a an answer, "." a wait, "_" as long as the kernel's
 * own delay. What each wait does: n sends the ACK, s waits a moment (m: which passes) for the
 * answer, - leaves it out, and nothing stands where none is owed. */
static const char *play_acks(const char *script)
{
    static char answer[LONGEST];
    struct ns_ack_tempo tempo = {0};
    bool owed = false;
    uint8_t now = 0;
    size_t n = 0;
    for (; *script && n < sizeof answer - 2; script++) {
        enum ns_ack_when when = ns_ack_when(tempo);
        switch (*script) {
        case 'r':
            ns_ack_read(&tempo, owed, now);
            owed = true;
            break;
        case 'a':
            ns_ack_answered(&tempo, owed, now);
            owed = false;
            break;
        case 'm':
            if (owed && when == NS_ACK_SOON) {
                answer[n++] = 'm';
                ns_ack_sent(&tempo);
                owed = false;
            }
            break;
        case 'l':
            now += NS_ACK_LATE;
            break;
        case '_':
            now += NS_ACK_STALL;
            break;
        default:
            if (!owed)
                break;
            answer[n++] = "ns-"[when];
            if (when == NS_ACK_NOW) {
                ns_ack_sent(&tempo);
                owed = false;
            }
        }
    }
    answer[n] = '\0';
    return answer;
}

static void expect_acks(const char *script, const char *wanted, const char *says)
{
    const char *seen = play_acks(script);
    OK(strcmp(seen, wanted) == 0, "before-wait: %s", says);
    if (strcmp(seen, wanted) != 0)
        printf("# %s: %s, not %s\n", script, seen, wanted);
}

#define FOUR(text) text text text text

static void test_acks(void)
{
    expect_acks("rarararara.", "", "what is answered before the wait owes nothing");
    expect_acks(FOUR("r.r.a"), "nnnnnnnn", "what the peer holds back is asked for, each time");
    expect_acks(FOUR("r.") FOUR("r."), "nnnnnnnn", "a one-way reader acknowledges, each time");
    expect_acks(FOUR("r.r.r.") "r.", "nnnnnnnnsssss", "and then tries without");
    expect_acks(FOUR("r.r.") FOUR("r.m") FOUR(FOUR("r.m")), "nnnnnnnnsmnnnnnnnnnnnnnnnnnnn",
                "a trial in vain is not repeated soon");
    expect_acks(FOUR("r.a"), "nnss", "where somebody else answers, the ACK waits a moment");
    expect_acks(FOUR(FOUR("r.a")) FOUR("r.a"), "nnssssssssssssss----",
                "where that goes on, it is left out");
    expect_acks(FOUR(FOUR("r.a")) "r._r.ar.ar.a", "nnssssssssssssss-nns",
                "where it is missed, once, it comes back at once");
    expect_acks(FOUR(FOUR("r.a")) "r.lar.ar.a", "nnssssssssssssss-ss",
                "where an answer is late, a peer may wait for it: only prompt ones stand in");
    expect_acks(FOUR(FOUR("r.a")) "r.r.ar.a", "nnssssssssssssss---",
                "more data at once is not a stall");
}

/* How many stalls a connection may have in all: rounds are answered by somebody else, but for
 * every 300th, which needs the ACK. */
static void test_distrust(void)
{
    struct ns_ack_tempo tempo = {0};
    unsigned stalls = 0;
    uint8_t now = 0;
    for (unsigned i = 1; i < 100000; i++) {
        ns_ack_read(&tempo, false, now);
        bool never = ns_ack_when(tempo) == NS_ACK_NEVER;
        if (ns_ack_when(tempo) == NS_ACK_NOW)
            ns_ack_sent(&tempo);
        if (i % 300 == 0) {
            stalls += never;
            now = (uint8_t)(now + (never ? NS_ACK_STALL : 0));
            ns_ack_read(&tempo, true, now);
        }
        ns_ack_answered(&tempo, true, now);
    }
    OK(stalls > 0 && stalls <= NS_ACK_DISTRUST_MOST, "before-wait: %u stalls in 100 000 rounds",
       stalls);
}

int main(void)
{
    test_acks();
    test_distrust();
    test_auto_cork();
    test_adaptive();
    test_doubt();
    test_stream();
    return ns_unit_done();
}
