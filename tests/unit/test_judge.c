/* SPDX-License-Identifier: MIT */
/* judge.h. Each row is a conversation as a script, and what the verdict must be. Samples are taken
 * from inside (wait, woke) or by a clock from outside (~MS). If a single condition of the proof is
 * missing, nothing may be proven.
 *
 * Words of a script:
 *   +MS ~MS       time passes; with ~ a sample is taken every 2 ms
 *   write         two writes: the first one leaves, the second one is held
 *   send          one write, which leaves
 *   ack release   an ACK arrives for all sent bytes; the held bytes leave
 *   go            both: an ACK arrives, and so the held bytes leave
 *   answer        the peer's answer, which acknowledges everything; receive: one that does not
 *   own-ack       this end sends an ACK without data
 *   wait woke     samples before and after a wait of the program; up: after a wait that something
 *   look          else ended; look: a sample from outside
 *   wait:OPTION   that sample has a flag: nodelay, cork
 *   NAME=VALUE    sets a field of the connection, as long as it is not set again
 *   early-ack     the kernel received the last ACK 20 ms earlier
 *   N( ... )      N times */
#include "looks.h"
#include "unit.h"

#include <ctype.h>

enum { EACH = 2 * MS };

#define FIELD(name)                                                                                \
    {                                                                                              \
#name, offsetof(struct ns_look, name), sizeof(((struct ns_look *)0)->name)                 \
    }
static const struct {
    const char *name;
    size_t at, size;
} fields[] = {FIELD(unsent),     FIELD(cwnd),   FIELD(window),  FIELD(min_rtt_us), FIELD(pacing),
              FIELD(congestion), FIELD(probes), FIELD(backoff), FIELD(state),      FIELD(unacked),
              FIELD(flags),      FIELD(acked),  FIELD(received)};

static void set_field(struct ns_look *look, const char *word)
{
    size_t length = strcspn(word, "=");
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        uint64_t value = strtoull(word + length + 1, NULL, 10);
        if (strlen(fields[i].name) == length && strncmp(word, fields[i].name, length) == 0) {
            memcpy((char *)look + fields[i].at, &value, fields[i].size);
            return;
        }
    }
    abort();
}

static void watch(struct talk *talk, uint64_t ns)
{
    for (uint64_t passed = 0; passed < ns; passed += EACH) {
        talk_pass(talk, EACH);
        talk_look(talk, NS_LOOK_SAMPLE, 0);
    }
}

static void sample(struct talk *talk, const char *word)
{
    static const struct {
        const char *word;
        enum ns_look_kind kind;
        unsigned flags;
    } samples[] = {
        {"wait", NS_LOOK_WAIT, 0},
        {"wait:nodelay", NS_LOOK_WAIT, NS_LOOK_NODELAY},
        {"wait:cork", NS_LOOK_WAIT, NS_LOOK_CORK},
        {"woke", NS_LOOK_WOKE, NS_LOOK_ARRIVED},
        {"woke:nodelay", NS_LOOK_WOKE, NS_LOOK_ARRIVED | NS_LOOK_NODELAY},
        {"up", NS_LOOK_WOKE, 0},
        {"look", NS_LOOK_SAMPLE, 0},
    };
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        if (strcmp(word, samples[i].word) == 0) {
            talk_look(talk, samples[i].kind, samples[i].flags);
            return;
        }
    abort();
}

static void act(struct talk *talk, const char *word)
{
    if (word[0] == '+')
        talk_pass(talk, (uint64_t)llround(atof(word + 1) * MS));
    else if (word[0] == '~')
        watch(talk, (uint64_t)atoi(word + 1) * MS);
    else if (strcmp(word, "write") == 0)
        talk_write_twice(talk);
    else if (strcmp(word, "send") == 0)
        talk_send(talk, HEAD);
    else if (strcmp(word, "ack") == 0)
        talk_ack(talk);
    else if (strcmp(word, "release") == 0)
        talk_release(talk);
    else if (strcmp(word, "go") == 0)
        talk_let_go(talk);
    else if (strcmp(word, "answer") == 0)
        talk_answer(talk);
    else if (strcmp(word, "receive") == 0)
        talk_receive(talk, ANSWER);
    else if (strcmp(word, "own-ack") == 0)
        talk->now.sent_segments++;
    else if (strcmp(word, "retransmit") == 0)
        talk->now.retransmitted++;
    else if (strcmp(word, "early-ack") == 0)
        talk->acked_at -= 20 * MS;
    else if (strchr(word, '='))
        set_field(&talk->now, word);
    else
        sample(talk, word);
}

/* Plays the script up to the closing parenthesis, and returns its end. */
static const char *play(struct talk *talk, const char *script)
{
    while (*(script += strspn(script, " ")) && *script != ')') {
        char word[40];
        size_t length = strcspn(script, " ");
        if (length > 1 && script[length - 1] == '(' && isdigit((unsigned char)*script)) {
            const char *begin = script + length, *end = begin;
            for (int times = atoi(script); times > 0; times--)
                end = play(talk, begin);
            script = end + 1;
            continue;
        }
        snprintf(word, sizeof word, "%.*s", (int)length, script);
        act(talk, word);
        script += length;
    }
    return script;
}

/* A value of the verdict or of the last hold, by name. Times are in ms. */
static double value_of(const struct talk *talk, const struct ns_verdict *verdict, const char *name)
{
    static const char *const delays[] = {"peer", "window", "loss", "wire", "cork", "pacing"};
    const struct {
        const char *name;
        double value;
    } values[] = {
        {"stalls", (double)verdict->stalls},
        {"maybe", (double)verdict->maybe},
        {"late", (double)verdict->late},
        {"early", (double)verdict->early},
        {"requests", (double)verdict->requests},
        {"late-acks", (double)verdict->late_acks},
        {"certain-ms", (double)verdict->certain_ns / MS},
        {"most-ms", (double)verdict->most_ns / MS},
        {"shortest-ms", (double)verdict->shortest_ns / MS},
        {"longest-ms", (double)verdict->longest_ns / MS},
        {"waited-ms", (double)verdict->waited_ns / MS},
        {"free-ms", (double)verdict->free_ns / MS},
        {"held-waits-ms", (double)verdict->held_waits_ns / MS},
        {"gaps", (double)verdict->gaps},
        {"median-late-ms", ns_verdict_lateness(verdict, 0.5)},
        {"most-late-ms", ns_verdict_lateness(verdict, 0.99)},
        {"rtt", verdict->rtt_us},
        {"bucket-15", verdict->waits[15]},
        {"held-15", verdict->held_waits[15]},
        {"proof-unsent", verdict->proof.look.unsent},
        {"proof-unacked", verdict->proof.look.unacked},
        {"holds", talk->holds},
        {"waited", talk->hold.waited},
        {"certain", talk->hold.certain},
        {"by-ack", talk->hold.by_ack},
        {"slack-ms", (double)talk->hold.slack / MS},
        {"cost-ms", (double)talk->hold.cost / MS},
        {"length-ms", (double)(talk->hold.end - talk->hold.begin) / MS},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (strcmp(name, values[i].name) == 0)
            return values[i].value;
    for (int i = 0; i < NS_DELAY_COUNT; i++) {
        size_t length = strlen(delays[i]);
        if (strncmp(name, delays[i], length) == 0 && (!name[length] || name[length] == '-'))
            return name[length] ? (double)verdict->delays_ns[i] / MS : (double)verdict->delays[i];
    }
    abort();
}

static bool word_holds(const struct talk *talk, const struct ns_verdict *verdict, const char *word)
{
    static const struct {
        const char *word;
        enum ns_grade grade;
        enum ns_doubt doubt;
    } words[] = {
        {"proven", NS_GRADE_PROVEN, NS_DOUBT_NOTHING},
        {"none", NS_GRADE_NONE, NS_DOUBT_NOTHING},
        {"nobody-waited", NS_GRADE_LATE, NS_DOUBT_NOTHING},
        {"doubt:window", NS_GRADE_CANNOT_TELL, NS_DOUBT_NO_WINDOW},
        {"doubt:answers", NS_GRADE_CANNOT_TELL, NS_DOUBT_ANSWERS},
        {"doubt:no-looks", NS_GRADE_CANNOT_TELL, NS_DOUBT_NO_LOOKS},
    };
    char name[40];
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i].word) == 0)
            return verdict->grade == words[i].grade &&
                   (verdict->grade != NS_GRADE_CANNOT_TELL || verdict->doubt == words[i].doubt);
    /* NAME=VALUE, or NAME=VALUE~ERROR for values that depend on ticks. */
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    const char *value = strchr(word, '='), *error = strchr(word, '~');
    return fabs(value_of(talk, verdict, name) - atof(value + 1)) <=
           (error ? atof(error + 1) : 1e-9);
}

static void check(const char *what, const char *script, const char *expected)
{
    struct talk talk;
    char copy[400], *rest = NULL;
    talk_begin(&talk);
    play(&talk, script);
    struct ns_verdict verdict = talk_verdict(&talk);
    snprintf(copy, sizeof copy, "%s", expected);
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        OK(word_holds(&talk, &verdict, word), "%s: %s", what, word);
}

#define ANSWERED "+0.06 answer +0.01 woke"

static const struct {
    const char *what, *script, *expected;
} from_inside[] = {
    {"two writes and a wait of 44 ms, 20 times", "20( write wait +43.91 go " ANSWERED " )",
     "proven stalls=20 requests=20 late-acks=20 certain-ms=880~4 most-ms=880~4 waited=1 certain=1 "
     "by-ack=1 slack-ms=4 proof-unsent=480 proof-unacked=1 shortest-ms=44~4 longest-ms=44~4 "
     "bucket-15=20 held-15=20 waited-ms=879~4 held-waits-ms=879~4 free-ms=0"},
    {"more than a round trip is too long", "min_rtt_us=20000 write wait +60 go +36 answer woke",
     "waited=1 certain=0"},
    {"an ACK that takes 12 ms is late, and no delayed one", "6( write wait +12 go " ANSWERED " )",
     "proven stalls=6 late-acks=0 by-ack=1"},
    {"a delayed ACK counts from the piece that it acknowledges, and not from the wait for it",
     "write +20 wait +24 go " ANSWERED, "stalls=1 late-acks=1"},
    {"the round trip may be unknown", "min_rtt_us=4294967295 write wait +44 go " ANSWERED,
     "stalls=1 rtt=0"},
    {"an answer that does not acknowledge the bytes may be to an earlier request",
     "write wait +30 receive go woke", "doubt:answers late=0 early=1 stalls=0 maybe=1"},
    {"a short hold is not the cause of a long wait", "write wait +2 go +40 " ANSWERED,
     "none peer=1 pacing=0"},
    {"time between two waits is not lost",
     "2( write wait +4 up +20 wait +20 go +0.06 answer woke )", "certain=1 cost-ms=24~4 stalls=2"},
    {"if the peer answers while bytes are held, nothing shows that somebody waits for them",
     "write wait +9 receive woke wait +35 go answer woke", "late=0 stalls=0 maybe=1 early=1"},
    {"a timer of the kernel may end a hold, too",
     "write wait +20 release +0.06 answer early-ack woke", "certain=1 by-ack=0"},
    {"bytes that the program pushes itself are not held",
     "write wait +20 release +0.06 answer early-ack woke:nodelay", "holds=0"},
    {"without an answer nobody waited", "write wait +44 go up +10 look",
     "nobody-waited late=1 holds=0"},
    {"the kernel still knows much later when the answer came",
     "write wait +44 go up +0.06 answer +500 look", "certain=1 holds=1"},
    {"a connection that is being closed", "write state=8 wait state=1 +44 go " ANSWERED,
     "stalls=0"},
    {"a kernel that does not report the window", "flags=0 write wait +44 go " ANSWERED,
     "doubt:window"},
    /* One condition is missing, and the delay has another cause. */
    {"TCP_NODELAY is on", "2( write wait:nodelay +44 go " ANSWERED " )",
     "none pacing=2 free-ms=88~1"},
    {"TCP_CORK is on", "write wait:cork +44 go " ANSWERED, "none cork=1 cork-ms=44~1"},
    {"nothing is unsent", "write unsent=0 wait unsent=480 +44 go " ANSWERED,
     "none peer=1 peer-ms=44~1"},
    {"a whole segment is unsent", "write unsent=1448 wait unsent=480 +44 go " ANSWERED,
     "none pacing=1 pacing-ms=44~1"},
    {"nothing is in flight", "write acked=282 unacked=0 wait acked=1 unacked=1 +44 go " ANSWERED,
     "none peer=1 cork=0"},
    {"the congestion window is full", "write cwnd=1 wait cwnd=10 +44 go " ANSWERED,
     "none pacing=1 pacing-ms=44~1"},
    {"the receive window is full", "write window=760 wait window=65536 +44 go " ANSWERED,
     "none window=1 window-ms=44~1"},
    {"segments were lost", "write congestion=3 wait congestion=0 +44 go " ANSWERED,
     "none loss=1 loss-ms=44~1"},
    {"the peer is probed", "write probes=1 wait probes=0 +44 go " ANSWERED,
     "none loss=1 loss-ms=44~1"},
    {"the timer backs off", "write backoff=1 wait backoff=0 +44 go " ANSWERED,
     "none loss=1 loss-ms=44~1"},
    {"a segment was retransmitted meanwhile", "write wait +44 go +0.06 answer retransmit woke",
     "none loss=1 loss-ms=44~1"},
    {"it recovers from a loss at the end", "write wait +44 go +0.06 answer congestion=3 woke",
     "none loss=1 loss-ms=44~1"},
    {"a kernel that does not report the rate", "pacing=0 write wait +44 go " ANSWERED, "stalls=1"},
    {"pacing is that slow", "pacing=5000 write wait +44 go " ANSWERED,
     "none pacing=1 pacing-ms=44~1"},
};

/* The hold ends between two samples. */
#define HELD "~42 +1 go answer"

static const struct {
    const char *what, *script, *expected;
} from_outside[] = {
    {"requests without a pause between them", "~10 write 20( " HELD " +1 write )",
     "proven stalls=19 certain-ms=817~76 most-ms=817~76 slack-ms=2.5~1.5"},
    {"a request with a pause after it", "~10 write " HELD " ~100",
     "stalls=1 late-acks=1 requests=1 cost-ms=44~4 length-ms=44~4 waited-ms=0"},
    {"a program that still writes does not wait",
     "write unsent=487 ~2 unsent=494 ~2 unsent=501 ~2 unsent=508 ~2 unsent=515 ~2 unsent=522 ~2 "
     "unsent=529 ~2 unsent=536 ~2 go answer ~2",
     "stalls=0 maybe=0 late=1 length-ms=16~3"},
    {"of the writes of a stream, half leave in half of the hold, and the first one at its end",
     "~10 9( write ~2 unsent=500 ~2 unsent=520 ~2 unsent=540 ~2 unsent=560 ~2 unsent=580 ~2 "
     "unsent=600 ~2 unsent=620 ~2 go ack ~2 ) ~10",
     "nobody-waited late=9 length-ms=16~4 median-late-ms=6~4 most-late-ms=16~4"},
    {"a single sample proves nothing", "~10 write +2 look +10 go answer ~2", "holds=0"},
    {"bytes released without an ACK are no hold", "~10 write ~20 release ~2 answer ~10",
     "holds=0 cork=0"},
    {"pacing", "~10 write pacing=10000 ~20 go answer ~10", "holds=0 pacing=1"},
    {"a peer that takes 44 ms is slow, and the pause after it has no cause",
     "~10 send ack ~44 answer ~300", "none peer=1 peer-ms=44~4"},
    {"a sample may show a request and its answer; the pause after them is no delay",
     "~10 3( send answer ~60 )", "none requests=3 peer=0"},
    {"data after the delayed ACK of the data before",
     "~10 receive look 4( ~42 own-ack +1 receive look )", "gaps=4"},
    {"one round trip is the path's", "min_rtt_us=50000 ~10 send ~50 answer ~10", "wire=1"},
    {"if the program asks now and then, an ACK belongs to the answer before it",
     "~10 receive look 5( ~200 +1 send answer own-ack look )", "gaps=0"},
    {"bytes that wait for 200 ms with nothing in flight are the program's own cork",
     "~10 send ack unsent=480 ~200 release answer ~10", "none cork=1 cork-ms=200~4"},
    {"after a loss the kernel may leave bytes unsent with nothing in flight, which is no cork",
     "~10 retransmit ~10 send ack unsent=480 ~200 release answer ~10",
     "none cork=0 pacing=1 pacing-ms=200~4"},
    {"a full window is no loss, although it is probed",
     "~10 write window=281 ~20 probes=1 retransmit ~25 probes=0 window=65536 go answer ~10",
     "none window=1 loss=0"},
    /* A peer that needs 45 ms from the first segment answers 1 to 5 ms after the release. */
    {"answers that all come some ms after the release depend on something else",
     "~10 4( write ~42 go ~4 answer ~6 write ~42 go ~4 answer ~8 write ~42 go ~4 answer ~10 )",
     "doubt:answers stalls=0 maybe=12 certain-ms=0"},
    {"nothing is in flight", "~100", "doubt:no-looks"},
    {"a hold does not continue in another connection",
     "~10 receive write ~30 received=0 unsent=5000 release ack ~10", "holds=0 late=0"},
};

CHECK(tables)
{
    for (size_t i = 0; i < sizeof from_inside / sizeof *from_inside; i++)
        check(from_inside[i].what, from_inside[i].script, from_inside[i].expected);
    for (size_t i = 0; i < sizeof from_outside / sizeof *from_outside; i++)
        check(from_outside[i].what, from_outside[i].script, from_outside[i].expected);
}
