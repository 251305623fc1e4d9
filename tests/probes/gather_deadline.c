/* SPDX-License-Identifier: MIT */
/* Five peers that do not read, and a program that starts another: it waits for them once, and not
 * for one after the other. Prints how long system() took. */
#include "gather_full.h"

static void five_slow_peers(void)
{
    enum { PEERS = 5 };
    struct conn conns[PEERS];
    for (int i = 0; i < PEERS; i++) {
        conns[i] = open_largest(O_NONBLOCK);
        fill_up(conns[i].fd);
        int before = unsent(conns[i].fd);
        fcntl(conns[i].fd, F_SETFL, 0);
        if (send(conns[i].fd, "one more", 8, MSG_DONTWAIT) == 8 && unsent(conns[i].fd) == before)
            ++*in_memory;
    }
    double begin = now_ms();
    EXPECT(system("true") == 0);
    printf("took %.0f\n", now_ms() - begin);
    for (int i = 0; i < PEERS; i++) { /* the peer first: then nothing has to be kept for it */
        RAW(close, conns[i].peer, 0, 0, 0);
        close(conns[i].fd);
    }
}

static const struct scenario scenarios[] = {
    {"five-slow-peers", five_slow_peers},
};

GATHER_MAIN(scenarios)
