/* SPDX-License-Identifier: MIT */
/* When the kernel holds the writes of a connection: the decision of every mode that holds, as pure
 * functions on a value of eight bytes. A burst is what one thread writes to one connection until it
 * reads from it or until what is held is pushed. The first writes of a burst leave at once; from
 * one of them on the kernel holds the rest, until the thread waits. On a connection that only sends
 * no answer ends a burst; there two writes without a wait between them are enough. */
#ifndef NS_BURST_H
#define NS_BURST_H

#include "conn/conn.h"

struct ns_burst {
    uint16_t writes; /* in the current burst, modulo 65 536 */
    uint16_t at;     /* milliseconds: of the second write; while held, of the last write */
    uint8_t doubt;   /* late burst ends, minus one for each NS_BURST_TIMELY long bursts */
    uint8_t longs;   /* long bursts in a row, or since doubt became what it is, if there is any */
    /* The thread has waited since the peer's last data, and written again. */
    uint8_t crossing : 1;
    uint8_t single : 1; /* the last burst was one write, or only its second one was held */
    uint8_t second : 1; /* while crossing: the last write followed another one without a wait */
    uint8_t asks : 3;   /* so many further bursts ask about unread data: see ns_burst_found */
    uint8_t wait;       /* the low bits of ns_thread.waits at the last write */
};
_Static_assert(sizeof(struct ns_burst) == sizeof(uint64_t), "loaded and stored as one word");
NS_CONN_WORD(ns_burst, ns_conn_burst, burst)

enum {
    NS_BURST_LONG = 4,  /* writes that make a burst long */
    NS_BURST_SURE = 2,  /* after this many long bursts the next one is held from its first write */
    NS_BURST_PAUSE = 8, /* ms: the shortest delayed ACK that the peer may have waited for */
    NS_BURST_DOUBT_MOST = 8,
    NS_BURST_ROOM = 16,   /* this many writes with waits between them may be a stream */
    NS_BURST_STREAM = 64, /* this many held writes are a stream, in which pauses do not count */
    NS_BURST_TIMELY = 32, /* this many long bursts cancel one late end */
    NS_BURST_NEVER = UINT8_MAX, /* as a pause: the mode only pushes, and never doubts */
    NS_BURST_VERY_LATE = 100,   /* ms: only a cork that nobody has removed holds for so long */
    NS_BURST_SAMPLE = 64,       /* see ns_burst_asks */
    NS_BURST_ASKS = 7,
};

/* Was data unread when the burst began? */
static inline bool ns_burst_is_ahead(struct ns_burst burst)
{
    return burst.asks == NS_BURST_ASKS;
}

/* Have limit milliseconds passed since burst->at? now is in milliseconds, modulo 65 536. */
static inline bool ns_burst_paused(const struct ns_burst *burst, uint16_t now, unsigned limit)
{
    return (uint16_t)(now - burst->at) >= limit && limit != NS_BURST_NEVER;
}

/* The write of a burst from which the kernel holds. from: that write by the mode's table. With
 * waits between the writes only a stream is held, which asks for room. */
static inline unsigned ns_burst_threshold(const struct ns_burst *burst, unsigned from)
{
    if (ns_burst_is_ahead(*burst)) /* Nagle's algorithm would hold it without the library, too */
        return 1;
    if (from >= NS_BURST_LONG && burst->crossing)
        return (unsigned)NS_BURST_ROOM
               << burst->doubt / 2; /* a stream whose line is full is late, too */
    if (from >= NS_BURST_LONG && burst->longs >= NS_BURST_SURE && !burst->doubt)
        return 1;
    return from << burst->doubt;
}

/* Holding was wrong: the next burst is held from twice as many writes on, or not at all if that is
 * certain. */
static inline void ns_burst_doubted(struct ns_burst *burst, bool certain)
{
    burst->longs = 0;
    if (certain)
        burst->doubt = NS_BURST_DOUBT_MOST;
    else if (burst->doubt < NS_BURST_DOUBT_MOST)
        burst->doubt++;
}

/* A burst has ended, and nothing of it is held. */
static inline void ns_burst_ended(struct ns_burst *burst)
{
    if (burst->writes >= NS_BURST_LONG) {
        if (burst->longs < NS_BURST_TIMELY)
            burst->longs++;
        if (burst->doubt && burst->longs == NS_BURST_TIMELY) {
            burst->longs = 0;
            burst->doubt--;
        }
    } else if (burst->writes && !burst->doubt) {
        burst->longs = 0;
    }
    if (burst->writes)
        burst->single = burst->writes == 1;
    burst->writes = 0;
}

/* A burst begins: the peer has answered, or another thread writes. wait: the thread's waits so far.
 */
static inline void ns_burst_begin(struct ns_burst *burst, uint8_t wait)
{
    ns_burst_ended(burst);
    burst->crossing = 0;
    burst->wait = wait;
}

/* Does ns_burst_write need the time for the next write? */
static inline bool ns_burst_is_timed(const struct ns_burst *burst, unsigned from)
{
    unsigned next = burst->writes + 1u;
    return next == 2 || burst->crossing || next >= ns_burst_threshold(burst, from);
}

enum ns_burst_step {
    NS_BURST_GO_ON, /* nothing to do */
    NS_BURST_HOLD,  /* let the kernel hold this write and the next ones */
    NS_BURST_LATE,  /* push: what is held has waited for too long; or such writes are too slow */
};

/* Counts one more write of a burst that the kernel holds. now: milliseconds. pause: milliseconds
 * after which a held write is late. wait: the thread's waits so far. */
static inline enum ns_burst_step ns_burst_held(struct ns_burst *burst, unsigned from, uint16_t now,
                                               unsigned pause, uint8_t wait)
{
    burst->wait = wait;
    burst->writes++;
    bool late = ns_burst_paused(burst, now, pause);
    if (__builtin_expect(late, 0)) {
        /* The program may have waited unseen. */
        if (burst->writes <= ns_burst_threshold(burst, from) + NS_BURST_STREAM)
            ns_burst_doubted(burst, from == 1 && ns_burst_paused(burst, now, NS_BURST_VERY_LATE));
        burst->writes = 0;
    }
    burst->at = now;
    return late ? NS_BURST_LATE : NS_BURST_GO_ON;
}

/* On a connection that only sends: is this write held? It is if it follows another one without a
 * wait in between; if only one write could be held last time, it must follow two. Returns the
 * number of writes that it follows, or 0: it is not held for this reason. */
static inline unsigned ns_burst_follows(struct ns_burst *burst, unsigned from, uint8_t wait)
{
    bool second = burst->crossing && burst->wait == wait;
    bool follows = second && (burst->second || !burst->single);
    unsigned before = 1u + burst->second;
    burst->crossing |= burst->wait != wait;
    burst->wait = wait;
    burst->second = second;
    return follows && from >= NS_BURST_LONG && !burst->doubt ? before : 0;
}

/* Counts one more write of a burst that is not held. now: only needed if ns_burst_is_timed. */
static inline enum ns_burst_step ns_burst_write(struct ns_burst *burst, unsigned from, uint16_t now,
                                                unsigned pause, uint8_t wait)
{
    unsigned follows = ns_burst_follows(burst, from, wait);
    burst->writes = (uint16_t)(follows ? follows : burst->writes + 1u);
    if (!follows && burst->writes < ns_burst_threshold(burst, from)) {
        if (burst->writes == 2)
            burst->at = now;
        return NS_BURST_GO_ON;
    }
    /* This is too slow for a stream: the program waits unseen, or sends a little now and then. */
    bool slow = burst->writes > 2 && ns_burst_paused(burst, now, pause << burst->doubt);
    burst->at = now;
    if (!slow)
        return NS_BURST_HOLD;
    burst->writes = 1;
    return burst->crossing && !burst->second ? NS_BURST_GO_ON : NS_BURST_LATE;
}

/* What was held is sent at the time now: the burst has ended. */
static inline void ns_burst_pushed(struct ns_burst *burst, unsigned from, uint16_t now,
                                   unsigned pause)
{
    if (burst->writes && ns_burst_paused(burst, now, pause))
        ns_burst_doubted(burst, from == 1 && ns_burst_paused(burst, now, NS_BURST_VERY_LATE));
    ns_burst_ended(burst);
}

/* How many times has the thread waited since the last write? wait: the thread's waits so far. */
static inline unsigned ns_burst_waits(const struct ns_burst *burst, uint8_t wait)
{
    return (uint8_t)(wait - burst->wait);
}

/* If several requests are outstanding, the answer to an earlier one is there, unread, when the next
 * one is written. Then no read waits for the answer to what was written last: it is left to Nagle's
 * algorithm, and a read pushes it only if it finds nothing. Must the kernel be asked about unread
 * data before this burst? It is asked before one burst in NS_BURST_SAMPLE; and, once there was
 * some, before each one, until there was none before NS_BURST_ASKS of them. */
static inline bool ns_burst_asks(const struct ns_burst *burst, uint32_t waits)
{
    return burst->writes == 0 && (burst->asks || waits % NS_BURST_SAMPLE == 0);
}

static inline void ns_burst_found(struct ns_burst *burst, bool unread)
{
    burst->asks = (unread ? NS_BURST_ASKS : burst->asks ? burst->asks - 1u : 0) & 7;
}

/* The program has looked for an answer to what is held, and found none. Is it the second time since
 * the last write? */
static inline bool ns_burst_looked(struct ns_burst *burst, uint8_t wait)
{
    bool again = burst->wait != wait;
    burst->wait = (uint8_t)(wait - 1);
    return again;
}

#endif
