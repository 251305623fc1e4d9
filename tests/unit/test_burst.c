/* SPDX-License-Identifier: MIT */
/* burst.h. A script is a conversation: w is a write, "." a wait and data from the peer, ";" a wait
 * without data, a digit that many times ten milliseconds without a call that the library sees, and
 * a comma five milliseconds. */
#include "traffic/burst.h"

#include "unit.h"

/* The result for each write: n it leaves at once, J the kernel holds from it on, j it is held, L
 * what was held is pushed because the last write has waited for too long. */
struct talk {
    struct ns_burst burst;
    unsigned from;
    unsigned pause;
    bool held;
    uint16_t now;
    uint8_t wait;
};

static char one_write(struct talk *talk)
{
    enum ns_burst_step step;
    if (talk->held) {
        step = ns_burst_held(&talk->burst, talk->from, talk->now, talk->pause, talk->wait);
        talk->held = step != NS_BURST_LATE;
        if (!talk->held)
            ns_burst_pushed(&talk->burst, talk->from, talk->now, talk->pause);
        return talk->held ? 'j' : 'L';
    }
    uint16_t now = ns_burst_is_timed(&talk->burst, talk->from) ? talk->now : 0xdead;
    step = ns_burst_write(&talk->burst, talk->from, now, talk->pause, talk->wait);
    talk->held = step == NS_BURST_HOLD;
    return talk->held ? 'J' : 'n';
}

static void waits(struct talk *talk)
{
    if (talk->held)
        ns_burst_pushed(&talk->burst, talk->from, talk->now, talk->pause);
    talk->held = false;
    talk->wait++;
}

static void say(struct talk *talk, const char *script, char *seen)
{
    for (; *script; script++) {
        if (*script == 'w')
            *seen++ = one_write(talk);
        else if (*script == ';')
            waits(talk);
        else if (*script == '.')
            waits(talk), ns_burst_begin(&talk->burst, talk->wait);
        else if (*script == ',')
            talk->now = (uint16_t)(talk->now + 5);
        else
            talk->now = (uint16_t)(talk->now + (*script - '0') * 10);
        if (*script != 'w')
            *seen++ = *script;
    }
    *seen = 0;
}

#define TALK(first, late)                                                                          \
    {                                                                                              \
        .from = (first), .pause = (late), .now = 65530                                             \
    } /* about to wrap */
#define ADAPTIVE TALK(4, NS_BURST_PAUSE)

static void expect_of(struct talk talk, const char *script, const char *wanted, const char *what)
{
    char seen[256];
    say(&talk, script, seen);
    OK(strcmp(seen, wanted) == 0, "%s: %s", what, seen);
}

static void expect(const char *script, const char *wanted, const char *what)
{
    expect_of((struct talk)ADAPTIVE, script, wanted, what);
}

CHECK(check_adaptive)
{
    expect("w.ww.www.w.ww.", "n.nn.nnn.n.nn.", "one to three writes are sent as they are");
    expect("wwwwww.", "nnnJjj.", "the fourth without a wait turns Nagle's algorithm on");
    expect("w1w1w1w1w1w.", "n1n1n1n1n1n.", "a few writes with pauses are no stream");
    expect("wwwww4www", "nnnJj4Lnn", "an unseen pause ends a burst");
    expect("ww,ww,w,w,w.wwww.", "nn,nJ,j,j,j.nnnJ.", "a stream may be slow");
    expect("wwww.wwww.3w.wwww.", "nnnJ.nnnJ.3J.nnnJ.",
           "also if it was joined from its first write");
}

CHECK(check_doubt)
{
    struct talk talk = ADAPTIVE;
    char seen[4096];
    for (int i = 0; i < 20; i++) /* with a wait that the library does not see, and an answer */
        say(&talk, "wwww4.", seen);
    for (int i = 0; i < NS_BURST_TIMELY; i++)
        say(&talk, "wwww.", seen);
    OK(talk.burst.doubt == 0, "after many bursts in time, bursts are joined again");
    talk = (struct talk)ADAPTIVE;
    for (int i = 0; i < 2; i++) {
        say(&talk, i ? "wwwwwwww4." : "wwww4.", seen);
        for (int j = 2; j < NS_BURST_TIMELY; j++) /* the late one itself was long */
            say(&talk, "wwww.", seen);
    }
    OK(talk.burst.doubt == 2, "only bursts in a row count");
    talk = (struct talk)ADAPTIVE;
    for (int i = 0; i < 100; i++) {
        for (int w = 0; w < 100; w++)
            say(&talk, "w", seen);
        say(&talk, "4", seen);
    }
    OK(talk.burst.doubt == 0 && talk.held, "a stream with pauses is joined");
    talk = (struct talk)ADAPTIVE;
    for (int i = 0; i < 20; i++) {
        for (int w = 0; w < 5000; w++)
            say(&talk, "w", seen);
        say(&talk, "4.", seen);
    }
    OK(ns_burst_threshold(&talk.burst, 4) == 1024,
       "a stream whose ends are all late is joined after 1024 writes");
}

/* Writes that waits divide, with nothing read: a program that only sends. */
CHECK(check_crossing)
{
    expect("w;www;ww.ww.", "n;nJj;nJ.nn.", "of several, the second one is");
    expect("w;ww;ww;www;www;wwww;ww.", "n;nJ;nn;nnJ;nJj;nJjj;nJ.",
           "or the third one, after a burst that had only one write to hold");
    struct talk talk = ADAPTIVE;
    char seen[64];
    int held = 0;
    for (int i = 0; i < 100 * NS_BURST_ROOM; i++) {
        say(&talk, "w", seen);
        held += talk.held;
        say(&talk, ";", seen);
    }
    OK(held == 100, "a stream that asks for room before each write is held from the 16th on");
    say(&talk, "w;", seen);
    OK(ns_burst_waits(&talk.burst, talk.wait) == 1, "the waits since the last write are counted");
    say(&talk, "w", seen);
    OK(!ns_burst_looked(&talk.burst, talk.wait) && ns_burst_looked(&talk.burst, talk.wait),
       "the second look for an answer counts");
    OK(ns_burst_waits(&talk.burst, talk.wait) == 1, "a look is one wait, and not a long time");
}

CHECK(check_cork)
{
    struct talk cork = TALK(1, 5);
    expect_of(cork, "w.www.w.", "J.Jjj.J.", "auto-cork holds every write");
    expect_of(cork, "ww,ww.ww.www.", "Jj,Ln.nJ.nJj.", "after a late burst from the second on");
    expect_of(cork, "ww9,5ww.wwwwwwwwwwww.", "Jj9,5Ln.nnnnnnnnnnnn.",
              "and after a very late one no more");
}

CHECK(check_ahead)
{
    struct ns_burst burst = {0};
    unsigned asked = 0;
    OK(ns_burst_asks(&burst, 2 * NS_BURST_SAMPLE) && !ns_burst_asks(&burst, 1),
       "one burst in %d asks about unread data", NS_BURST_SAMPLE);
    ns_burst_found(&burst, true);
    OK(ns_burst_is_ahead(burst), "if there is some, the writes are left to Nagle's algorithm");
    burst.doubt = NS_BURST_DOUBT_MOST;
    OK(ns_burst_threshold(&burst, 1) == 1, "also after pauses, which cost nothing there");
    burst.doubt = 0;
    for (; ns_burst_asks(&burst, 1); asked++)
        ns_burst_found(&burst, false);
    OK(asked == NS_BURST_ASKS && !ns_burst_is_ahead(burst), "the next %u bursts ask, too", asked);
}
