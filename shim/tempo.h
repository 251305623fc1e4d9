/* SPDX-License-Identifier: MIT */
/* Which writes of a socket are gathered: the decision table of auto-cork and adaptive. Pure
 * functions on a value of eight bytes, which knows nothing of descriptors, threads or the kernel;
 * tested as such. A burst is what one thread writes to one socket between two waits of its own. */
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
    /* So many writes before a deadline are a stream, which gains by being gathered though nobody
     * waits for it. */
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
    if (!small || (adaptive && !ns_tempo_gathers(tempo)))
        return false;
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

#endif
