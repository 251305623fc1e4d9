/* SPDX-License-Identifier: MIT */
/* How the earlier writes of a connection decide about the next one: the decision tables of "send".
 * Pure functions on values of eight bytes, without descriptors, threads or the kernel. A burst is
 * what one thread writes to one connection between two waits. */
#ifndef NS_BURST_H
#define NS_BURST_H

#include <stdbool.h>
#include <stdint.h>

/* --- adaptive: TCP_NODELAY is off during long bursts --- */

struct ns_burst {
    uint16_t writes; /* in the current burst; stops at UINT16_MAX */
    uint16_t at;     /* milliseconds: of the second write; while joining, of the last write */
    uint8_t longs;   /* long bursts in a row, at most NS_BURST_SURE */
    uint8_t doubt;   /* late burst ends, minus one for each NS_BURST_TIMELY long bursts */
    uint8_t timely;  /* long bursts since doubt changed */
    uint8_t probe;   /* ns_thread.probes at the last write */
};
_Static_assert(sizeof(struct ns_burst) == sizeof(uint64_t), "loaded and stored as one word");

enum {
    NS_BURST_LONG = 4,  /* writes that make a burst long */
    NS_BURST_SURE = 2,  /* after this many long bursts the next one is joined at its first write */
    NS_BURST_PAUSE = 8, /* ms: the shortest delayed ACK that the peer may have waited for */
    NS_BURST_DOUBT_MOST = 8,
    NS_BURST_STREAM = 64, /* this many joined writes are a stream, in which pauses do not count */
    NS_BURST_TIMELY = 32, /* this many long bursts cancel one late end */
};

/* Have limit milliseconds passed since burst->at? now is in milliseconds, modulo 65 536. */
static inline bool ns_burst_paused(const struct ns_burst *burst, uint16_t now, unsigned limit)
{
    return (uint16_t)(now - burst->at) >= limit;
}

/* After how many writes without a wait Nagle's algorithm may join the next. */
static inline unsigned ns_burst_threshold(const struct ns_burst *burst)
{
    return (unsigned)NS_BURST_LONG << burst->doubt;
}

/* The end of a burst was sent so late that the peer may have waited for it. */
static inline void ns_burst_doubted(struct ns_burst *burst)
{
    burst->longs = 0;
    burst->timely = 0;
    if (burst->doubt < NS_BURST_DOUBT_MOST)
        burst->doubt++;
}

/* A burst begins: since the last write the thread has waited, or it is another thread, or the peer
 * has answered. Nothing of the previous burst is held. */
static inline void ns_burst_begin(struct ns_burst *burst)
{
    if (burst->writes >= NS_BURST_LONG) {
        if (burst->longs < NS_BURST_SURE)
            burst->longs++;
        if (burst->doubt && ++burst->timely >= NS_BURST_TIMELY) {
            burst->timely = 0;
            burst->doubt--;
        }
    } else if (burst->writes) {
        burst->longs = 0;
    }
    burst->writes = 0;
}

/* Does ns_burst_write need the time for the next write? */
static inline bool ns_burst_is_timed(const struct ns_burst *burst, bool joins)
{
    unsigned next = burst->writes + 1u;
    return joins || next == 2 || next == ns_burst_threshold(burst) ||
           (next == 1 && burst->longs == NS_BURST_SURE);
}

enum ns_burst_step {
    NS_BURST_GO_ON, /* nothing to do */
    NS_BURST_JOIN,  /* clear TCP_NODELAY before this write */
    NS_BURST_LATE,  /* set it again: the joined bytes have waited too long */
};

/* Counts one more write. now: milliseconds, only needed if ns_burst_is_timed. joins: TCP_NODELAY is
 * off because of an earlier NS_BURST_JOIN. */
static inline enum ns_burst_step ns_burst_write(struct ns_burst *burst, bool joins, uint16_t now)
{
    enum ns_burst_step step = NS_BURST_GO_ON;
    if (burst->writes < UINT16_MAX)
        burst->writes++;
    if (joins) {
        if (burst->writes > 1 && ns_burst_paused(burst, now, NS_BURST_PAUSE)) {
            /* The program may have waited unseen. */
            if (burst->writes <= ns_burst_threshold(burst) + NS_BURST_STREAM)
                ns_burst_doubted(burst);
            burst->writes = 1;
            step = NS_BURST_LATE;
        }
        burst->at = now;
    } else if (burst->writes == 1) {
        if (burst->longs == NS_BURST_SURE && !burst->doubt) {
            burst->at = now;
            step = NS_BURST_JOIN;
        }
    } else if (burst->writes == 2) {
        burst->at = now;
    } else if (burst->writes == ns_burst_threshold(burst)) {
        /* This is too slow for a stream: the program waits unseen. */
        if (ns_burst_paused(burst, now, (unsigned)NS_BURST_PAUSE << burst->doubt))
            burst->writes = 1;
        else
            step = NS_BURST_JOIN;
        burst->at = now;
    }
    return step;
}

/* What was joined is sent at the time now, whatever the reason: the burst has ended. */
static inline void ns_burst_pushed(struct ns_burst *burst, uint16_t now)
{
    if (ns_burst_paused(burst, now, NS_BURST_PAUSE))
        ns_burst_doubted(burst);
    ns_burst_begin(burst);
}

/* --- auto-cork: small writes are held; the last write of a predictable burst is not --- */

struct ns_cork {
    uint8_t writes;    /* in the current burst, at most NS_CORK_MANY */
    uint8_t before;    /* in the previous burst; 0: unknown */
    uint8_t expected;  /* in each of the last two bursts if they were equally long, otherwise 0 */
    uint8_t predicted; /* the last write was sent as the last of the expected number */
    uint8_t late;      /* late bursts in a row; a very late one counts as NS_CORK_LATE_MOST */
    uint8_t unused[3];
};
_Static_assert(sizeof(struct ns_cork) == sizeof(uint64_t), "loaded and stored as one word");

enum {
    NS_CORK_MANY = UINT8_MAX,
    /* Late bursts in a row after which the connection stops holding. A thread that loses its CPU in
     * the middle of a burst makes one burst late. Three in a row mean that the program waits where
     * the library cannot see it. */
    NS_CORK_LATE_MOST = 3,
    NS_CORK_VERY_LATE_MS = 100, /* one burst this late proves such a wait */
    NS_CORK_STREAM = 64,        /* a burst of this many writes is a stream, which is never late */
};

/* A burst begins, and nothing is held. */
static inline void ns_cork_begin(struct ns_cork *cork)
{
    if (cork->writes) { /* no byte of it was held */
        cork->expected = cork->writes == cork->before ? cork->writes : 0;
        cork->before = cork->writes;
    }
    cork->writes = 0;
    cork->predicted = 0;
}

/* Counts one more write of the burst. Returns whether to hold it. small: its kind and size allow
 * holding. */
static inline bool ns_cork_write(struct ns_cork *cork, bool small)
{
    if (cork->predicted) { /* longer than expected: forget the length and hold again */
        cork->predicted = 0;
        cork->expected = 0;
        cork->before = NS_CORK_MANY;
    }
    if (cork->writes < NS_CORK_MANY)
        cork->writes++;
    if (!small)
        return false;
    if (cork->writes != cork->expected)
        return true;
    /* The last write of a burst like the two before it is sent with the held ones and saves the
     * push. If the burst continues, this costs one more segment. */
    cork->predicted = 1;
    cork->writes = 0;
    cork->late = 0;
    return false;
}

/* The held bytes of a burst were pushed, late_ms milliseconds after they were due; 0: in time.
 * Returns whether the connection must stop holding. */
static inline bool ns_cork_pushed(struct ns_cork *cork, uint64_t late_ms)
{
    bool known = !late_ms && cork->writes < NS_CORK_MANY;
    if (!late_ms || cork->writes >= NS_CORK_STREAM)
        cork->late = 0;
    else
        cork->late = late_ms >= NS_CORK_VERY_LATE_MS ? NS_CORK_LATE_MOST : cork->late + 1;
    cork->expected = known && cork->writes == cork->before ? cork->writes : 0;
    cork->before = known ? cork->writes : NS_CORK_MANY;
    cork->writes = 0;
    return cork->late >= NS_CORK_LATE_MOST;
}

#endif
