/* SPDX-License-Identifier: MIT */
/* What a connection's own past says of its next moment: which writes are gathered (auto-cork and
 * adaptive), and how urgent an ACK is. The decision tables, as pure functions on values of eight
 * and of four bytes, which know nothing of descriptors, threads or the kernel; tested as such. A
 * burst is what one thread writes to one socket between two waits of its own. */
#ifndef NS_TEMPO_H
#define NS_TEMPO_H

#include <stdbool.h>
#include <stdint.h>

struct ns_tempo {
    uint8_t burst;    /* writes of the burst under way, at most NS_TEMPO_MANY */
    uint8_t before;   /* how many the last burst had; 0: not known */
    uint8_t expected; /* how many the last two had, if they had as many; otherwise 0 */
    uint8_t foretold; /* the last write was sent as the last of a burst of the expected length */
    uint16_t skip;    /* adaptive: bursts of several writes to be sent at once before a new try */
    uint8_t doubt;    /* adaptive: how often holding was in vain, success taken off */
    uint8_t several;  /* adaptive: above 0 for the bursts after one of several writes */
};
_Static_assert(sizeof(struct ns_tempo) == sizeof(uint64_t), "loaded and stored as one word");

enum {
    NS_TEMPO_MANY = UINT8_MAX,
    /* How many bursts of a single write after one of several are gathered, too: those of several
     * need not follow each other. */
    NS_TEMPO_MEMORY = 3,
    NS_TEMPO_FEW = 4, /* a header and its body, in pieces */
    /* So many writes before a deadline are a stream, which gains by being gathered though nobody
     * waits for it; so many without a wait are one whose end adaptive does not wait for. */
    NS_TEMPO_STREAM = 8,
    NS_TEMPO_DOUBT_MOST = 13,
};

/* A burst begins: the thread has waited since the last write, or is another one, or the peer has
 * answered; and nothing is held. */
static inline void ns_tempo_begin(struct ns_tempo *tempo)
{
    if (tempo->burst) { /* it was sent at once */
        tempo->expected = tempo->burst == tempo->before ? tempo->burst : 0;
        tempo->before = tempo->burst;
        if (tempo->burst > 1) {
            tempo->several = NS_TEMPO_MEMORY;
            if (tempo->skip)
                tempo->skip--;
        } else if (tempo->several) {
            tempo->several--;
        }
    }
    tempo->burst = 0;
    tempo->foretold = 0;
}

/* Would adaptive gather the burst under way? */
static inline bool ns_tempo_gathers(const struct ns_tempo *tempo)
{
    return tempo->several && !tempo->skip;
}

/* A burst that is sent at once does not end: what follows counts as the next one. */
static inline void ns_tempo_goes_on(struct ns_tempo *tempo)
{
    tempo->burst = 0;
    tempo->expected = 0;
    tempo->before = NS_TEMPO_MANY;
    tempo->several = NS_TEMPO_MEMORY;
    if (tempo->skip)
        tempo->skip--;
}

/* One more write of the burst: is it to be held? small: it is of a kind and size that may be. */
static inline bool ns_tempo_write(struct ns_tempo *tempo, bool adaptive, bool small)
{
    if (tempo->foretold) { /* longer than foretold: learn anew, and go on gathering */
        tempo->foretold = 0;
        tempo->expected = 0;
        tempo->before = NS_TEMPO_MANY;
    }
    if (tempo->burst < NS_TEMPO_MANY)
        tempo->burst++;
    if (!small)
        return false;
    if (adaptive && !ns_tempo_gathers(tempo)) {
        if (tempo->burst == NS_TEMPO_STREAM)
            ns_tempo_goes_on(tempo);
        return false;
    }
    if (tempo->burst != tempo->expected)
        return true;
    /* The last write of a burst like the two before it takes the others with it and saves the push.
     * If it is not the last, what follows is a second segment, no more. */
    tempo->foretold = 1;
    tempo->burst = 0;
    return false;
}

/* What was held has been pushed: before a wait, or, late, at the deadline. */
static inline void ns_tempo_pushed(struct ns_tempo *tempo, bool late)
{
    uint8_t burst = tempo->burst;
    tempo->burst = 0;
    tempo->expected = !late && burst == tempo->before ? burst : 0;
    if (!late) {
        tempo->before = burst;
        if (tempo->doubt)
            tempo->doubt--;
        if (burst > 1)
            tempo->several = NS_TEMPO_MEMORY;
        else if (tempo->several)
            tempo->several--;
    } else if (burst < NS_TEMPO_STREAM) { /* nobody waited on the thread that wrote: in vain */
        tempo->before = 0;
        if (tempo->doubt < NS_TEMPO_DOUBT_MOST)
            tempo->doubt++;
        tempo->skip = (uint16_t)(4u << tempo->doubt);
    } else {
        tempo->before = NS_TEMPO_MANY;
    }
}

struct ns_ack_tempo {
    uint8_t sent : 1;     /* a wait has sent the last ACK, and nothing came or went since */
    uint8_t one_way : 1;  /* needless counts data that came, and not answers of ours */
    uint8_t distrust : 3; /* how often an ACK that was left out was missed */
    uint8_t trials : 2;   /* how often a moment was waited for more data in vain */
    uint8_t needless;     /* how many times in a row data came or went instead of an ACK */
    uint8_t useful;       /* how many ACKs in a row were followed by data, with no answer between */
    uint8_t read_at;      /* when data was last read, in units; near NEVER and beyond only */
};
_Static_assert(sizeof(struct ns_ack_tempo) == sizeof(uint32_t), "loaded and stored as one word");

enum ns_ack_when {
    NS_ACK_NOW,   /* before the wait */
    NS_ACK_SOON,  /* after a moment of it: the last few times nobody needed it */
    NS_ACK_NEVER, /* so it has been for long */
};

enum {
    NS_ACK_UNIT_NS = 1 << 18, /* 0.26 ms */
    NS_ACK_STALL = 16,        /* 4.2 ms: the kernel's own delay, 8 ms at least, may have passed */
    NS_ACK_LATE = 4,          /* 1 ms: what a peer held back may have waited for this answer */
    NS_ACK_SOON_AFTER = 2,
    NS_ACK_NEVER_AFTER = 16, /* doubled with each mistake */
    NS_ACK_DISTRUST_MOST = 4,
    /* A peer that sends on and on may have been held back, or not: nobody can tell but by waiting a
     * moment for it without the ACK. So many useful ACKs come before the first such trial, four
     * times as many before the next, and after the third none does. */
    NS_ACK_TRIAL_AFTER = 8,
    NS_ACK_TRIALS_MOST = 3,
};

static inline enum ns_ack_when ns_ack_when(struct ns_ack_tempo tempo)
{
    if (tempo.needless < NS_ACK_SOON_AFTER)
        return NS_ACK_NOW;
    unsigned enough = (unsigned)NS_ACK_NEVER_AFTER << tempo.distrust;
    if (tempo.distrust >= NS_ACK_DISTRUST_MOST || tempo.needless < enough)
        return NS_ACK_SOON;
    return NS_ACK_NEVER;
}

static inline void ns_ack_was_needless(struct ns_ack_tempo *tempo)
{
    if (tempo->needless < UINT8_MAX)
        tempo->needless++;
}

/* It was left out, and that was wrong: no more for now, and later only after twice as many. */
static inline void ns_ack_was_missed(struct ns_ack_tempo *tempo, uint8_t needless)
{
    tempo->needless = needless;
    tempo->useful = 0;
    if (tempo->distrust < NS_ACK_DISTRUST_MOST)
        tempo->distrust++;
}

/* Our data leaves at the time now, in units, and an ACK with it. owed: one was. An answer that is
 * not prompt does not stand in for an ACK: a peer whose Nagle holds its next request until then
 * would wait for it each time, and nothing else would show that. */
static inline void ns_ack_answered(struct ns_ack_tempo *tempo, bool owed, uint8_t now)
{
    bool never = ns_ack_when(*tempo) == NS_ACK_NEVER;
    if (never && owed && (uint8_t)(now - tempo->read_at) >= NS_ACK_LATE)
        ns_ack_was_missed(tempo, NS_ACK_SOON_AFTER);
    else if (tempo->sent || (owed && tempo->needless >= NS_ACK_SOON_AFTER))
        ns_ack_was_needless(tempo);
    tempo->sent = 0;
    tempo->one_way = 0;
}

/* A wait has sent one. */
static inline void ns_ack_sent(struct ns_ack_tempo *tempo)
{
    tempo->sent = 1;
}

/* More came after an ACK. In a trial, or where somebody else had always answered, it had waited a
 * moment: so it was missed. */
static inline void ns_ack_was_useful(struct ns_ack_tempo *tempo)
{
    if (tempo->needless >= NS_ACK_SOON_AFTER && tempo->useful)
        tempo->trials++;
    tempo->useful = tempo->needless < NS_ACK_SOON_AFTER && tempo->useful < UINT8_MAX
                        ? (uint8_t)(tempo->useful + 1)
                        : 1;
    tempo->needless = 0;
    unsigned enough = (unsigned)NS_ACK_TRIAL_AFTER << 2 * tempo->trials;
    if (tempo->trials < NS_ACK_TRIALS_MOST && tempo->useful >= enough) {
        tempo->needless = NS_ACK_SOON_AFTER;
        tempo->one_way = 1;
    }
}

/* Data was read at the time now, in units. owed: what was read before it was neither acknowledged
 * nor answered. */
static inline void ns_ack_read(struct ns_ack_tempo *tempo, bool owed, uint8_t now)
{
    enum ns_ack_when when = ns_ack_when(*tempo);
    uint8_t apart = (uint8_t)(now - tempo->read_at);
    /* Where we always answer, any second piece before the answer was perhaps held back; how long is
     * not known, since we may have come to read late. */
    uint8_t stall = tempo->one_way ? NS_ACK_STALL : 1;
    if (tempo->sent) {
        ns_ack_was_useful(tempo);
    } else if (owed && when == NS_ACK_NEVER && apart >= stall) {
        ns_ack_was_missed(tempo, 0);
    } else if (owed && when != NS_ACK_NOW) {
        ns_ack_was_needless(tempo);
    }
    tempo->sent = 0;
    tempo->read_at = now;
}

#endif
