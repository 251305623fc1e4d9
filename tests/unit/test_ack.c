/* SPDX-License-Identifier: MIT */
/* ack.h and learned.h: the table of peers is the specification. Two ends play a script each, over a
 * simulated line, with the kernel's rules for ACKs at this end and for Nagle's algorithm at the
 * other. tests/promises/steps.bats has what happens at each call. */
#include "traffic/learned.h"

#include "unit.h"

enum { NEAR, FAR, ROUNDS = 1000, QUEUE = 4096, PIECE = 180, FRAGMENTS = 17 };

/* The words of a script are a letter and a number each: w writes a piece; r reads so many pieces; a
 * reads them in one call that waits for all; s sleeps so many ms; x so many ms on average, at
 * random; b computes for so many ms; t reads until the next tick of a clock with this period; i:
 * only one round in so many has the next word. Then the next round begins. */
struct peer {
    const char *name, *near, *far;
    bool holds; /* the far end has Nagle's algorithm */
    int stalls; /* the most, in 2 000 rounds, of pieces that wait for a delayed ACK */
    bool more;  /* the library may send more ACKs than the kernel, since they help */
    double jitter;
};

struct line {
    double trip, jitter; /* a round trip, and how much later it may be: ms */
    bool limits;         /* the kernel has TCP_DELACK_MAX_US */
};

struct segment {
    double at;
    int pieces;
};

struct end {
    const char *script, *word;
    double wake, tick;
    int round, here, need, queued, sent, acked;
    struct segment queue[QUEUE]; /* on their way to this end */
    unsigned head, tail;
    bool skips_word;
};

struct world {
    struct line line;
    bool holds, library;
    double now, due; /* the kernel's delayed ACK of the near end; 0: none */
    bool unlimited;  /* the library has not limited the delay, or no longer does */
    bool pingpong, whole, whole_judged;
    double whole_at;
    int unacked, acks[2], stalls;
    double held_at;
    struct ns_ack_state state;
    unsigned waits, known;
    struct end ends[2];
};

static uint64_t x; /* the random numbers' state */

static double chance(void)
{
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return (double)(x >> 11) / 9007199254740992.0;
}

static bool limited(const struct world *world)
{
    return world->library && world->line.limits && !world->unlimited;
}

static void put(struct end *to, struct world *world, int pieces)
{
    double at = world->now + world->line.trip / 2 + world->line.jitter * chance();
    double last = to->tail ? to->queue[(to->tail - 1) % QUEUE].at : 0;
    to->queue[to->tail++ % QUEUE] = (struct segment){at > last ? at : last + 1e-3, pieces};
}

/* The near end's ACK, alone or with data. */
static void acknowledge(struct world *world, int pieces)
{
    world->acks[world->ends[NEAR].round >= ROUNDS] += !pieces;
    world->unacked = 0;
    world->due = 0;
    put(&world->ends[FAR], world, pieces);
}

/* The far end sends what Nagle's algorithm lets it. */
static void far_sends(struct world *world)
{
    struct end *far = &world->ends[FAR];
    if (!far->queued || (world->holds && far->acked < far->sent && far->queued < FRAGMENTS)) {
        if (far->queued && world->held_at == 0)
            world->held_at = world->now;
        return;
    }
    if (world->held_at > 0)
        world->stalls +=
            world->now - world->held_at > world->line.trip + 2 * world->line.jitter + 6;
    world->held_at = 0;
    put(&world->ends[NEAR], world, far->queued);
    far->sent += far->queued;
    far->queued = 0;
}

static void learn(struct world *world, struct ns_ack_state before)
{
    world->known = ns_ack_learn(world->known, before, &world->state);
    if (ns_ack_is_free(world->state))
        world->unlimited = true;
    else if (ns_ack_is_unanswered(world->state) && (world->state.skips || !world->state.term))
        world->unlimited = false;
}

static void near_waits(struct world *world)
{
    struct ns_ack_state before = world->state;
    world->waits++;
    if (!world->library || !ns_ack_is_pending(world->state))
        return;
    ns_ack_send(&world->state, world->waits);
    learn(world, before);
    if (world->unacked)
        acknowledge(world, 0);
    else
        world->pingpong = false;
}

static unsigned us(double ms)
{
    return (uint32_t)(uint64_t)(ms * 1000);
}

static void near_reads(struct world *world)
{
    struct ns_ack_state before = world->state;
    struct end *near = &world->ends[NEAR];
    size_t size = (size_t)near->here * PIECE;
    near->need -= near->here;
    near->here = 0;
    if (!world->pingpong && world->unacked) /* tcp_cleanup_rbuf */
        acknowledge(world, 0);
    if (world->whole && near->need > 0)
        return;
    unsigned trip = us(floor(world->line.trip));
    if (world->whole_judged) {
        ns_ack_judge(&world->state, world->state.skips
                                        ? !world->pingpong
                                        : ns_ack_is_late(trip, us(world->now - world->whole_at), 2,
                                                         limited(world), false));
    }
    world->whole = world->whole_judged = false;
    double tick = ns_ack_is_free(world->state) ? 4 : 0.001; /* the coarse clock */
    uint32_t now = us(floor(world->now / tick) * tick);
    bool clump = ns_ack_amount(size) > 2u * world->state.here;
    bool late = ns_ack_shows(world->state, world->waits) &&
                ns_ack_is_late(trip, ns_ack_age(world->state, now), 1, limited(world), clump);
    ns_ack_read(&world->state, world->waits, now, limited(world), late, size);
    learn(world, before);
}

static void near_writes(struct world *world)
{
    struct ns_ack_state before = world->state;
    bool late = ns_ack_is_pending(world->state) && limited(world) && world->due == 0;
    ns_ack_wrote(&world->state, late);
    learn(world, before);
    world->pingpong |= world->state.here > 0;
    acknowledge(world, 1);
}

static void begin_whole(struct world *world)
{
    struct ns_ack_state before = world->state;
    world->whole = true;
    if (!world->library || !world->state.interactive)
        return;
    world->whole_at = world->now;
    if (ns_ack_begin_whole(&world->state, world->waits)) {
        world->pingpong = false;
        if (world->unacked)
            acknowledge(world, 0);
    }
    world->whole_judged = !world->state.skips || world->pingpong;
    learn(world, before);
    world->unlimited = ns_ack_is_free(world->state) ||
                       (world->state.term && !world->state.skips && world->unlimited);
}

/* An end goes on with its script until it waits. */
static void go_on(struct world *world, int which)
{
    struct end *end = &world->ends[which];
    for (;;) {
        double number = atof(end->word + 1);
        char *next = strchr(end->word, ' ');
        switch (end->skips_word ? 0 : *end->word) {
        case 'w':
            if (which == NEAR) {
                near_writes(world);
            } else {
                end->queued++;
                far_sends(world);
            }
            break;
        case 'i':
            end->skips_word = end->round % (int)number;
            end->word = next + 1;
            continue;
        case 'o':
            end->skips_word = end->round > 0;
            end->word = next + 1;
            continue;
        case 'r':
        case 'a':
            if (end->wake == 0) { /* it begins; the data may be here */
                end->wake = INFINITY;
                end->need += (int)number;
                if (which == NEAR && *end->word == 'a')
                    begin_whole(world);
            }
            if (end->here && which == NEAR)
                near_reads(world);
            else if (which == FAR)
                end->need -= end->here, end->here = 0;
            if (end->need > 0) {
                if (which == NEAR && !world->whole)
                    near_waits(world);
                return;
            }
            break;
        case 't':
            if (which == NEAR && end->here)
                near_reads(world);
            else
                end->here = 0;
            if (end->wake == 0)
                end->wake = end->tick += number;
            if (world->now < end->wake) {
                if (which == NEAR)
                    near_waits(world);
                return;
            }
            break;
        case 's':
        case 'x':
        case 'u':
        case 'b':
            if (end->wake == 0)
                end->wake = world->now + number * (*end->word == 'x'   ? -log(1 - chance())
                                                   : *end->word == 'u' ? chance()
                                                                       : 1);
            if (world->now < end->wake) {
                if (which == NEAR && *end->word != 'b')
                    near_waits(world);
                return;
            }
            break;
        }
        end->skips_word = false;
        end->wake = 0;
        end->word = next ? next + 1 : end->script;
        if (next)
            continue;
        end->round++;
        world->now += 0.01;
        if (which == NEAR && end->round >= 2 * ROUNDS)
            return;
    }
}

static double first_event(const struct world *world)
{
    double first = world->due > 0 ? world->due : INFINITY;
    for (int i = 0; i < 2; i++) {
        const struct end *end = &world->ends[i];
        if (end->wake > 0 && end->wake < first)
            first = end->wake;
        if (end->head != end->tail && end->queue[end->head % QUEUE].at < first)
            first = end->queue[end->head % QUEUE].at;
    }
    return first;
}

static void arrive(struct world *world, int which)
{
    struct end *end = &world->ends[which];
    int pieces = end->queue[end->head++ % QUEUE].pieces;
    end->here += pieces;
    if (which == FAR) {
        end->acked = end->sent; /* close enough: the line delays all alike */
        far_sends(world);
        return;
    }
    world->unacked += pieces;
    if (world->due == 0)
        world->due = world->now + (limited(world) ? 8 : fmax(40, world->line.trip)) + 4 * chance();
}

static void play(struct world *world, const struct peer *peer)
{
    world->holds = peer->holds;
    world->now = 1000 * chance();
    world->ends[NEAR].script = world->ends[NEAR].word = peer->near;
    world->ends[FAR].script = world->ends[FAR].word = peer->far;
    world->ends[NEAR].tick = world->ends[FAR].tick = world->now;
    ns_ack_begin(&world->state, world->known);
    for (int i = 0; i < 2; i++)
        go_on(world, i);
    while (world->ends[NEAR].round < 2 * ROUNDS) {
        double now = first_event(world);
        world->now = now > world->now ? now : world->now;
        if (world->due > 0 && world->due <= now) { /* tcp_delack_timer_handler */
            world->pingpong = false;
            acknowledge(world, 0);
        }
        for (int i = 0; i < 2; i++) {
            struct end *end = &world->ends[i];
            bool arrived = end->head != end->tail && end->queue[end->head % QUEUE].at <= now;
            if (arrived)
                arrive(world, i);
            if ((arrived && strchr("rat", *end->word)) || (end->wake > 0 && end->wake <= now))
                go_on(world, i);
        }
    }
}

/* Stalls: the first one, and a trial after 1 000, 3 000 and 11 000 ACKs. */
static const struct peer peers[] = {
    {"an answer in one piece", "w r1", "r1 w", false, 0, false, 0},
    {"an answer after 20 ms", "w r1", "r1 s20 w", false, 0, false, 0},
    {"a server that answers at once", "r1 w", "w r1", false, 0, false, 0},
    {"a server that thinks for 5 ms", "r1 s5 w", "w r1", false, 0, false, 0},
    {"a server that thinks for 20 ms", "r1 s20 w", "w r1", false, 0, false, 0},
    {"a server that thinks for 30 ms on average", "r1 x30 w", "w r1", false, 0, false, 0},
    {"a server that computes for 20 ms", "r1 b20 w", "w r1", false, 0, false, 0},
    {"an answer in two pieces, held", "w r2", "r1 w w", true, 3, false, 0},
    {"after 10 ms", "w r2", "r1 s10 w w", true, 3, false, 0},
    {"one in 40", "w r1 i40 r1", "r1 w i40 w", true, 3, false, 0},
    {"jitter", "w r2", "r1 w w", true, 45, true, 20},
    {"one in 9 pauses for 42 ms", "w r2", "r1 w i9 s42 w", true, 30, true, 0},
    {"requests in two pieces, held", "r2 s5 w", "w w r1", true, 4, false, 0},
    {"one in 40", "r1 i40 r1 s5 w", "w i40 w r1", true, 4, true, 0},
    {"an answer in two pieces", "w r2", "r1 w w", false, 0, false, 0},
    {"eight", "w r8", "r1 w w w w w w w w", false, 0, false, 0},
    {"eight, jitter", "w r8", "r1 w w w w w w w w", false, 0, false, 20},
    {"three, 20 us apart", "w r3", "r1 w b0.02 w b0.02 w", false, 0, false, 0},
    {"three, 20 us apart, held", "w r3", "r1 w b0.02 w b0.02 w", true, 4, false, 0},
    {"five, 2 ms apart", "w r5", "r1 w s2 w s2 w s2 w s2 w", false, 0, false, 0},
    {"5 ms", "w r5", "r1 w s5 w s5 w s5 w s5 w", false, 0, false, 0},
    {"8 ms", "w r5", "r1 w s8 w s8 w s8 w s8 w", false, 0, false, 0},
    {"12 ms", "w r5", "r1 w s12 w s12 w s12 w s12 w", false, 0, false, 0},
    {"16 ms", "w r5", "r1 w s16 w s16 w s16 w s16 w", false, 0, false, 0},
    {"32 ms", "w r5", "r1 w s32 w s32 w s32 w s32 w", false, 0, false, 0},
    {"44 ms", "w r5", "r1 w s44 w s44 w s44 w s44 w", false, 0, false, 0},
    {"84 ms", "w r5", "r1 w s84 w s84 w s84 w s84 w", false, 0, false, 0},
    {"50 ms on average", "w r5", "r1 w x50 w x50 w x50 w x50 w", false, 0, false, 0},
    {"clocks of 25 and 100 ms", "t25 w", "t100 w", false, 0, false, 0},
    {"100 and 10 ms", "t100 w", "t10 w", false, 0, false, 0},
    {"100 and 44 ms", "t100 w", "t44 w", false, 0, false, 0},
    {"records that are pushed, held, a note after each", "r2 w", "s60 w w", true, 4, true, 0},
    {"after each third", "r6 w", "s60 w w s60 w w s60 w w", true, 60, true, 0},
    {"the same, not held", "r6 w", "s60 w w s60 w w s60 w w", false, 0, false, 0},
    {"a feed of 44 ms that is only read", "o w r1", "s44 w", false, 0, false, 0},
    {"a feed of 12 ms, a note after each seventh", "r7 w", "s12 w", false, 0, false, 0},
    {"four requests are outstanding", "o w o w o w w r1", "r1 s12 u13 w", false, 0, false, 0},
    {"at a server", "r1 s12 u13 w", "o w o w o w w r1", false, 0, false, 0},
    {"at a client, held", "o w o w o w w r2", "r1 s12 u13 w w", true, 4, true, 0},
    {"a feed of 1.5 ms, held, a note after each 20th record", "r20 w", "s1.5 w", true, 8, true, 0},
    {"the same, not held", "r20 w", "s1.5 w", false, 0, false, 0},
    {"one call reads all of an answer in two, held", "w a2", "r1 w w", true, 4, false, 0},
    {"in four, not held", "w a4", "r1 w w w w", false, 0, false, 0},
    {"a third of them 10 ms late", "w a1", "r1 i3 s10 w", false, 0, false, 0},
    {"a third of them 10 ms late, held", "w a2", "r1 i3 s10 w w", true, 20, false, 0},
    {"all after 45 ms", "w a1", "r1 s45 w", false, 0, false, 0},
};

static struct world played(const struct peer *peer, struct line line, bool library, unsigned known)
{
    struct world *world = calloc(1, sizeof *world), result;
    x = 88172645463325252U; /* so that no row depends on those before it */
    *world = (struct world){.line = line, .library = library, .known = known};
    play(world, peer);
    result = *world;
    free(world);
    return result;
}

CHECK(check_peers)
{
    static const double trips[] = {0.02, 20, 80};
    for (unsigned i = 0; i < sizeof(peers) / sizeof(*peers); i++) {
        for (int j = 0; j < 6; j++) {
            const struct peer *peer = &peers[i];
            struct line line = {trips[j / 2], fmin(peer->jitter, trips[j / 2]), j % 2};
            struct world without = played(peer, line, false, 0), with = played(peer, line, true, 0);
            const int *most = without.acks, *seen = with.acks;
            bool random = strchr(peer->near, 'x') || strchr(peer->far, 'x');
            double chances = random ? 0.06 : 0; /* both runs are */
            OK(with.stalls <= peer->stalls && (peer->holds || !without.stalls),
               "%s, %g ms%s: %d stalls, without the library %d", peer->name, line.trip,
               line.limits ? "" : ", an old kernel", with.stalls, without.stalls);
            if (!peer->more)
                OK(seen[0] <= most[0] * (1 + chances) + 40 &&
                       seen[1] <= most[1] * (1.01 + chances) + 0.01 * ROUNDS,
                   "and %d ACKs, later %d; without it %d and %d", seen[0], seen[1], most[0],
                   most[1]);
        }
    }
}

CHECK(check_learned)
{
    static const struct peer needless = {"", "r1 s20 w", "w r1", false, 0, false, 0};
    static const struct peer holds = {"", "r2 s20 w", "w w r1", true, 0, false, 0};
    struct line line = {0.02, 0, true};
    unsigned known = played(&needless, line, true, 0).known;
    struct world next = played(&needless, line, true, known);
    OK(known == NS_ACK_NEEDLESS && next.acks[0] <= 1 && ns_ack_is_free(next.state),
       "the next connection sends no needless ACKs, and its delay is not limited");
    OK(played(&holds, line, true, known).stalls <= 4, "but sends them after one was missed");
    known = played(&holds, line, true, 0).known;
    OK(known >= NS_ACK_HELPS && !played(&holds, line, true, known).state.skips,
       "that ACKs help is learned, too");
    OK(played(&needless, line, true, NS_ACK_HELPS).known == NS_ACK_NEEDLESS,
       "and that they help no more");
    unsigned others = 0;
    for (known = 0; known < NS_ACK_HELPS + NS_ACK_TERMS * NS_ACK_PLACES; known++) {
        struct ns_ack_state state = {0};
        ns_ack_begin(&state, known);
        others += ns_ack_place(state) != known;
    }
    OK(others == 0, "a connection begins where the others are: %u do not", others);
}

/* Many connections that send one ACK each. None has skipped one yet. */
CHECK(check_taken_over)
{
    unsigned known = NS_ACK_FIRST - 1;
    struct ns_ack_state last = {0};
    for (unsigned i = 0; i < 20; i++) {
        struct ns_ack_state state = {.interactive = 1, .data = NS_ACK_UNANSWERED}, before = state;
        ns_ack_send(&state, i);
        known = ns_ack_learn(known, before, &state);
        before = state;
        ns_ack_read(&state, i + 1, 2000, true, false, PIECE);
        known = ns_ack_learn(known, before, &state);
        last = state;
    }
    OK(known == NS_ACK_FIRST && last.skips && !ns_ack_is_free(last),
       "an ACK that was sent does not show that another one is needless");
}

/* A thread reads the first pieces of several answers, and then their second ones. */
CHECK(check_waits)
{
    struct ns_ack_state state = {.interactive = 1};
    ns_ack_read(&state, 3, 0, true, false, PIECE);
    bool none = false;
    for (unsigned waits = 1; waits < 10000; waits++)
        none |= !ns_ack_waits(state, 3 + waits);
    OK(!none, "many waits since the last read are not taken for none");
}

/* Sixteen connections of one peer that always needs its ACKs. */
CHECK(check_terms)
{
    enum { CONNECTIONS = 16, ACKS = 600000, MOST = 5 };
    struct ns_ack_state states[CONNECTIONS] = {0};
    unsigned known = NS_ACK_FIRST, trials[CONNECTIONS] = {0}, all = 0, most = 0;
    uint32_t now[CONNECTIONS] = {0};
    for (unsigned i = 0; i < ACKS; i++)
        for (int j = 0; j < CONNECTIONS; j++) {
            struct ns_ack_state *state = &states[j], before = *state;
            bool skips = state->skips;
            if (!i)
                ns_ack_begin(state, known);
            if (!skips && ns_ack_is_unanswered(*state))
                ns_ack_send(state, 2 * i); /* as chance may have it, each second wait */
            known = ns_ack_learn(known, before, state);
            before = *state;
            state->interactive = 1;
            now[j] += skips ? 9000 : 64;
            ns_ack_read(state, i, now[j], true, skips, PIECE);
            known = ns_ack_learn(known, before, state);
            trials[j] += skips;
            all += skips;
            most = trials[j] > most ? trials[j] : most;
        }
    OK(most <= MOST && all <= 2 * CONNECTIONS && all >= CONNECTIONS + 3,
       "%u trials, at most %u on one, with %u ACKs on each of %u connections", all, most, ACKS,
       CONNECTIONS);
}

/* Connections of three requests each, all at the same time: what one spends counts for all. */
CHECK(check_shared_budget)
{
    struct ns_ack_state states[100] = {0};
    unsigned known = 0, sent = 0;
    for (int i = 0; i < 300; i++) {
        struct ns_ack_state *state = &states[i % 100], before;
        if (i < 100)
            ns_ack_begin(state, known);
        state->interactive = 1;
        before = *state;
        ns_ack_read(state, (unsigned)i, (uint32_t)i * 64, true, false, PIECE);
        known = ns_ack_learn(known, before, state);
        before = *state;
        if (ns_ack_is_pending(*state)) {
            ns_ack_send(state, (unsigned)i);
            sent++;
        }
        known = ns_ack_learn(known, before, state);
        before = *state;
        ns_ack_wrote(state, false);
        known = ns_ack_learn(known, before, state);
    }
    OK(sent <= 2 * NS_ACK_FIRST, "100 connections together send %u ACKs at first", sent);
}

CHECK(check_kernel_mode)
{
    struct ns_ack_state state = {.interactive = 1};
    ns_ack_read(&state, 1, 0, true, false, PIECE);
    OK(ns_ack_is_pending(state), "a socket that others write to does not count as only read");
    OK(ns_ack_waits(state, 1) == 0 && ns_ack_waits(state, 5) == 4,
       "its thread's waits are counted");
    state = (struct ns_ack_state){.here = 1};
    ns_ack_wrote(&state, false);
    OK(state.interactive, "a write after TCP_QUICKACK begins the interactive mode again");
}
