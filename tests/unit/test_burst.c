/* SPDX-License-Identifier: MIT */
/* burst.h. A script is a conversation: w is a write, "." a wait of its thread or data from the
 * peer, a digit that many times ten milliseconds without a call that the library sees, and a comma
 * five milliseconds. */
#include "conn/burst.h"

#include "unit.h"

#include <string.h>

/* The result for each write: n with TCP_NODELAY, J TCP_NODELAY is cleared before this write, j
 * joined, L TCP_NODELAY is set again because the last write has waited too long. */
struct talk {
    struct ns_burst burst;
    bool joins;
    uint16_t now;
};

static char one_write(struct talk *talk)
{
    uint16_t now = ns_burst_is_timed(&talk->burst, talk->joins) ? talk->now : 0xdead;
    bool before = talk->joins;
    switch (ns_burst_write(&talk->burst, talk->joins, now)) {
    case NS_BURST_JOIN:
        talk->joins = true;
        return 'J';
    case NS_BURST_LATE:
        talk->joins = false;
        return 'L';
    case NS_BURST_GO_ON:
        break;
    }
    return before ? 'j' : 'n';
}

static void ends(struct talk *talk)
{
    if (talk->joins)
        ns_burst_pushed(&talk->burst, talk->now);
    talk->joins = false;
    ns_burst_begin(&talk->burst);
}

static void say(struct talk *talk, const char *script, char *seen)
{
    for (; *script; script++) {
        if (*script == 'w')
            *seen++ = one_write(talk);
        else if (*script == '.')
            ends(talk);
        else if (*script == ',')
            talk->now = (uint16_t)(talk->now + 5);
        else
            talk->now = (uint16_t)(talk->now + (*script - '0') * 10);
        if (*script != 'w')
            *seen++ = *script;
    }
    *seen = 0;
}

static void expect(const char *script, const char *wanted, const char *what)
{
    struct talk talk = {.now = 65530}; /* about to wrap */
    char seen[256];
    say(&talk, script, seen);
    OK(strcmp(seen, wanted) == 0, "%s: %s", what, seen);
}

CHECK(check_adaptive)
{
    expect("w.ww.www.w.ww.", "n.nn.nnn.n.nn.", "one to three writes are sent as they are");
    expect("wwwwww.", "nnnJjj.", "the fourth without a wait turns Nagle's algorithm on");
    expect("wwww.wwww.ww.ww.", "nnnJ.nnnJ.Jj.nn.",
           "after two long bursts the first one does, until a burst was short");
    expect("w1w1w1w1w1w.", "n1n1n1n1n1n.", "a few writes with pauses are no stream");
    expect("wwww.wwww.wwww1.wwww.wwwwwwwww.", "nnnJ.nnnJ.Jjjj1.nnnn.nnnnnnnJj.",
           "after a late end, bursts are joined later");
    expect("wwwww4www", "nnnJj4Lnn", "an unseen pause ends a burst");
    expect("ww,ww,w,w,w.wwww.", "nn,nJ,j,j,j.nnnJ.", "a stream may be slow");
    expect("wwww.wwww.3w.wwww.", "nnnJ.nnnJ.3J.nnnJ.",
           "also if it was joined from its first write");
    expect("wwww.wwww.wwww1.wwwwww1www.", "nnnJ.nnnJ.Jjjj1.nnnnnn1nJj.",
           "and if it is joined later");
}

CHECK(check_doubt)
{
    struct talk talk = {.now = 1};
    char seen[4096];
    for (int i = 0; i < 20;
         i++) { /* four writes, a wait that the library does not see, and an answer */
        say(&talk, "wwww4.", seen);
        if (strpbrk(seen, "J"))
            OK(i < 2, "with unseen waits bursts are not joined any more, after %d stalls", i + 1);
    }
    OK(talk.burst.doubt == 1 && ns_burst_threshold(&talk.burst) == 8,
       "after it, bursts of four are not joined, longer ones are");
    for (int i = 0; i < NS_BURST_TIMELY; i++)
        say(&talk, "wwww.", seen);
    OK(talk.burst.doubt == 0, "after many bursts in time, bursts are joined again");
    talk = (struct talk){.now = 1};
    for (int i = 0; i < 2; i++) {
        say(&talk, i ? "wwwwwwww4." : "wwww4.", seen);
        for (int j = 2; j < NS_BURST_TIMELY; j++) /* the late one itself was long */
            say(&talk, "wwww.", seen);
    }
    OK(talk.burst.doubt == 2, "only bursts in a row count");
    talk = (struct talk){.now = 1};
    for (int i = 0; i < 100; i++) {
        for (int w = 0; w < 100; w++)
            say(&talk, "w", seen);
        say(&talk, "4", seen);
    }
    OK(talk.burst.doubt == 0 && talk.joins, "a stream with pauses is joined");
    talk = (struct talk){.now = 1};
    for (int i = 0; i < 20; i++) {
        for (int w = 0; w < 5000; w++)
            say(&talk, "w", seen);
        say(&talk, "4.", seen);
    }
    OK(ns_burst_threshold(&talk.burst) == 1024,
       "a stream whose ends are all late is joined after 1024 writes");
    talk = (struct talk){.now = 1};
    int stalls = 0;
    for (int i = 0; i < 4000; i++) {
        say(&talk, "ww", seen);
        if (talk.joins) { /* held until the delayed ACK */
            say(&talk, "4", seen);
            stalls++;
        }
    }
    OK(stalls < 16, "pairs of writes with unseen waits stall %d times in 4000", stalls);
    talk = (struct talk){.now = 1};
    for (int i = 0; i < 70000; i++)
        say(&talk, "w", seen);
    OK(talk.joins && talk.burst.writes == UINT16_MAX, "an endless stream stays joined");
}

/* auto-cork: h is held, s sent; W is a write that may not be held, ! a late push, L a very late
 * one, S: the connection stops holding. */
static void expect_cork(const char *script, const char *wanted, const char *what)
{
    struct ns_cork cork = {0};
    char seen[256], *at = seen;
    bool held = false, stops = false;
    for (; *script; script++) {
        if (*script == 'w' || *script == 'W') {
            bool holds = ns_cork_write(&cork, *script == 'w');
            held = holds;
            *at++ = holds ? 'h' : 's';
            continue;
        }
        if (held)
            stops = ns_cork_pushed(&cork, *script == 'L'   ? NS_CORK_VERY_LATE_MS
                                          : *script == '!' ? 1
                                                           : 0);
        else
            ns_cork_begin(&cork);
        held = false;
        *at++ = stops ? 'S' : *script;
    }
    *at = 0;
    OK(strcmp(seen, wanted) == 0, "%s: %s", what, seen);
}

CHECK(check_cork)
{
    expect_cork("w.ww.w.", "h.hh.h.", "every small write is held");
    expect_cork("www.www.www.www.", "hhh.hhh.hhs.hhs.",
                "if a burst repeats, its last write is sent");
    expect_cork("ww.ww.wwww.www.", "hh.hh.hshh.hhh.", "a longer burst than predicted is held");
    expect_cork("wWw.", "hsh.", "a write that must not be held pushes the others");
    expect_cork("W.W.w.", "s.s.s.", "a single write after two such single writes is not held");
    expect_cork("www!www!www.", "hhh!hhh!hhh.", "late bursts predict nothing");
    expect_cork("ww!w!www!", "hh!h!hhhS",
                "after three late bursts in a row nothing is held any more");
    expect_cork("w!w!ww.w!w!ww.", "h!h!hh.h!h!hh.", "but not if one of them was in time");
    expect_cork("w.wwL", "h.hhS", "one very late burst is enough");
    struct ns_cork stream = {.writes = NS_CORK_STREAM};
    OK(!ns_cork_pushed(&stream, NS_CORK_VERY_LATE_MS), "a stream is never late");
}
