/* SPDX-License-Identifier: MIT */
/* ack.h. In a script r is a read that finds data, w a write, W a write after the kernel's own ACK,
 * "." a wait, "~" a wait after which 12 ms pass, "_" 12 ms and "=" 160 ms without a wait. The
 * result has for each wait "A" if an ACK is sent, "Q" if ACKs are left to the kernel from then on,
 * "t" if one is skipped as a test, otherwise "-". */
#include "traffic/ack.h"

#include "unit.h"

#include <stdio.h>
#include <string.h>

struct end {
    struct ns_ack_state state;
    unsigned epoch, tick;
    bool tests; /* the kernel can limit delayed ACKs */
};

static void act(struct end *end, const char *script, char *seen)
{
    for (; *script; script++) {
        if (*script == 'r') {
            ns_ack_read(&end->state, end->epoch, end->tick);
        } else if (*script == '_' || *script == '=') {
            end->tick += *script == '_' ? 3 : 40;
        } else if (*script == 'w' || *script == 'W') {
            ns_ack_wrote(&end->state, *script == 'W');
        } else {
            end->epoch++;
            seen++;
            if (!ns_ack_is_pending(end->state)) {
                seen[-1] = '-';
            } else if (end->tests && ns_ack_may_skip(end->state)) {
                ns_ack_skip(&end->state, end->tick);
                seen[-1] = 't';
            } else {
                seen[-1] = ns_ack_send(&end->state) ? 'Q' : 'A';
            }
            end->tick += *script == '~' ? 3 : 0;
        }
    }
    *seen = 0;
}

static void expect(const char *script, const char *wanted, const char *what)
{
    struct end end = {.epoch = 250};
    char seen[256];
    act(&end, script, seen);
    OK(strcmp(seen, wanted) == 0, "%s: %s", what, seen);
}

/* Plays the script count times. Returns how often the result was the wanted one. */
static int times(struct end *end, int count, const char *script, const char *wanted)
{
    char seen[256];
    int alike = 0;
    for (int i = 0; i < count; i++) {
        act(end, script, seen);
        alike += strcmp(seen, wanted) == 0;
    }
    return alike;
}

CHECK(check_needless)
{
    struct end end = {.epoch = 7};
    OK(times(&end, 1, "rw", "") && times(&end, NS_ACK_NEEDLESS, "r.w", "A") == NS_ACK_NEEDLESS,
       "first an ACK is sent before each wait");
    OK(times(&end, 1, "r.wr.wr.w", "---"), "no ACK if an answer always carried it");
    OK(times(&end, 1, "r.r.r.w", "---"),
       "no ACK either if more data came at once, which was not held");
    OK(times(&end, 1, "r~", "-") && times(&end, 10000, "r.w", "A") == 10000,
       "after the first missed ACK they are sent again, and never skipped again");
    end = (struct end){.epoch = 7};
    OK(times(&end, 1, "rw", "") && times(&end, 1000, "rr.w", "-") == 1000 - NS_ACK_NEEDLESS &&
           times(&end, 1, "rrr.w", "-"),
       "many reads without a wait do not count as a missed ACK");
    end = (struct end){.epoch = 7};
    times(&end, 1, "rw", "");
    times(&end, NS_ACK_NEEDLESS - 1, "r.w", "A");
    times(&end, 1, "r.r.w", "AQ");
    OK(times(&end, NS_ACK_NEEDLESS - 1, "r.w", "A") == NS_ACK_NEEDLESS - 1,
       "one useful ACK outweighs many useless ones");
}

/* More data follows each ACK. Had the peer waited for it? script: the round in which an ACK is
 * skipped as a test. */
static void check_test(const char *script, const char *wanted, const char *what)
{
    struct end end = {.tests = true};
    char seen[256];
    OK(times(&end, 1, "rw", "") &&
           times(&end, NS_ACK_HELPED - 1, "r.r.w", "AQ") == NS_ACK_HELPED - 1,
       "first an ACK is sent before each wait");
    act(&end, script, seen);
    OK(seen[1] == 't', "then one is skipped: %s", seen);
    OK(times(&end, 1000, "r.r.w", wanted) == 1000, "%s", what);
    end = (struct end){0};
    times(&end, 1, "rw", "");
    OK(times(&end, 1000, "r.rw", "A") == 1000,
       "if the kernel cannot limit delayed ACKs, none is skipped");
}

/* The kernel's mode may come from writes that the library has not seen. */
CHECK(check_others)
{
    struct end end = {.state = {.interactive = 1}};
    int asked = 0;
    OK(times(&end, 1, "r.r.r.", "AAA"),
       "a socket that other processes write to does not count as only read");
    end = (struct end){0};
    times(&end, 1, "rw", "");
    end.state.interactive = 0; /* the program's own TCP_QUICKACK */
    OK(times(&end, 1, "wr.", "-"), "a write that answers nothing does not make it interactive");
    end = (struct end){0};
    OK(!ns_ack_asks(end.state, false), "the kernel is not asked at the first read");
    for (int i = 0; i < 100; i++) {
        asked += ns_ack_asks(end.state, false);
        times(&end, 1, "r.", "-");
    }
    OK(asked == NS_ACK_ASKED - 1, "the kernel is asked at the next reads, if no write was seen: %d",
       asked);
    OK(ns_ack_asks(end.state, true), "the kernel is always asked if others are known to write");
    times(&end, 1, "rw", "");
    OK(!ns_ack_asks(end.state, true), "the kernel is not asked if the mode is known");
}

/* A round trip takes 160 ms, and the peer waits for the ACK of its first piece. */
CHECK(check_far)
{
    struct end end = {.tests = true};
    times(&end, 1, "rw", "");
    OK(times(&end, 10 * NS_ACK_HELPED, "r.=rw", "A") >= 9 * NS_ACK_HELPED,
       "a peer that waits far away has its ACKs for good");
    end = (struct end){.tests = true};
    times(&end, 1, "rw", "");
    times(&end, NS_ACK_NEEDLESS + 1, "r.w", "");
    times(&end, 1, "r.=rw", "-");
    OK(times(&end, 10, "r.=rw", "A") == 10, "and has them again where they had been needless");
}

/* The program computes for longer than the library lets the kernel delay an ACK. */
CHECK(check_slow)
{
    struct end end = {0};
    times(&end, 1, "rw", "");
    times(&end, NS_ACK_NEEDLESS - 1, "r_W", "");
    OK(!ns_ack_is_skipped(end.state), "thirty ACKs that an answer would have carried");
    times(&end, 1, "r_W", "");
    OK(ns_ack_is_skipped(end.state), "and one more: they are skipped");
    end.state.needless = 0;
    times(&end, NS_ACK_NEEDLESS + 1, "r_r_W", "");
    OK(!ns_ack_is_skipped(end.state), "not if the peer sends on after the kernel's ACK");
    times(&end, NS_ACK_NEEDLESS + 1, "rr_W", "");
    OK(ns_ack_is_skipped(end.state), "but what is read in two parts came at once");
}

/* No wait blocks. */
CHECK(check_old)
{
    struct end end = {0};
    times(&end, 1, "rwr", "");
    OK(ns_ack_waits(end.state, end.epoch + 1) == 1, "an ACK stays pending at first");
}

/* The number of reads with MSG_WAITALL, of reads that take ticks each, that begin with immediate
 * ACKs of the kernel. */
static int at_once(struct ns_whole *whole, unsigned ticks, int reads)
{
    int count = 0;
    for (int i = 0; i < reads; i++) {
        count += ns_whole_begins(*whole);
        ns_whole_ended(whole, ticks);
    }
    return count;
}

CHECK(check_whole)
{
    struct ns_whole whole = {0};
    OK(at_once(&whole, 0, 1000) == 0, "for reads in time the kernel keeps its own delay");
    OK(at_once(&whole, 125, 10) == 0, "a delay of half a second does not count as a delayed ACK");
    ns_whole_ended(&whole, 3);
    OK(at_once(&whole, 0, NS_WHOLE_COUNT) == NS_WHOLE_COUNT && at_once(&whole, 3, 1) == 0,
       "after a late read the kernel acknowledges at once, except for a test");
    OK(at_once(&whole, 0, 1000) == 1000, "the test was late: from then on always");
    whole = (struct ns_whole){0};
    ns_whole_ended(&whole, 3);
    OK(at_once(&whole, 0, 1000) == NS_WHOLE_COUNT, "the test was in time: no longer at once");
    whole = (struct ns_whole){0};
    ns_whole_ended(&whole, 5);
    OK(at_once(&whole, 5, 1000) == NS_WHOLE_TRIES, "a peer that is always slow: no longer at once");
    whole = (struct ns_whole){0};
    ns_whole_ended(&whole, 3);
    at_once(&whole, 0, 3);
    OK(at_once(&whole, 5, 5) == 5, "a slow answer among fast ones changes nothing");
}

CHECK(rounds)
{
    expect("r.wr", "-", "a server has no ACK pending for its first request");
    expect("wr.", "-", "nor a client for its first answer");
    expect("rwr.", "A", "from then on what is read and not answered is acknowledged");
    expect("rwr.rwr.", "AA", "also the first of two pieces");
    expect("rwrw.rw.", "--", "an answer carries its ACK");
    expect("rwr.r.r.r.wr.", "AQ--A", "an end that only reads leaves ACKs to the kernel");
    expect("r.r.r.r.", "----", "an end that never writes does so from the start");
    expect("rwr..", "A-", "one ACK is enough");
    check_test("r.r.r.w", "--", "the data came at once: ACKs are skipped from then on");
    check_test("r.r~r.w", "AQ", "the peer had waited for the ACK: they are sent for good");
}
