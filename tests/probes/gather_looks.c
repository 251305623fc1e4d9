/* SPDX-License-Identifier: MIT */
/* How the deadline thread looks for what is stuck. looks: at the same time as we do. behind.so lets
 * the two meet: our look stands in the flush of the first socket, whose mark it has taken, until
 * the deadline thread's look is past that socket and in the flush of the second, from which it goes
 * on when ours has ended. */
#include "behind.h"
#include "gather_full.h"

static struct conn first, second;
static volatile bool ours, theirs, over;
static pid_t us;

static void drain_second(void)
{
    char data[4096];
    for (double begin = now_ms(); now_ms() - begin < 300;)
        if (raw(SYS_recvfrom, second.peer, (long)data, sizeof data, MSG_DONTWAIT, 0, 0) > 0)
            begin = now_ms();
}

static void wait_for(volatile bool *event)
{
    for (double begin = now_ms(); !*event && now_ms() - begin < 1000;)
        compute_ms(0.1);
}

static void meet(void)
{
    if (RAW(gettid, 0, 0, 0, 0) == us) {
        ours = true;
        wait_for(&theirs);
        drain_second(); /* what is stuck there can leave */
    } else if (ours && !theirs) {
        theirs = true;
        wait_for(&over);
    }
}

static void looks(void)
{
    moment *flushes = moment_of("behind_flush");
    int below[64];
    us = getpid();
    signal(SIGUSR1, SIG_IGN);
    for (int i = 0; i < 64; i++) /* marks are looked at by 64 */
        below[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    second = open_small(O_NONBLOCK);
    fill_up(second.fd);
    for (int i = 0; i < 64; i++)
        close(below[i]);
    first = open_small(O_NONBLOCK);
    fill_up(first.fd);
    poll(NULL, 0, 0); /* from now on it is the deadline thread's affair */
    *flushes = meet;
    raise(SIGUSR1); /* sends what can be sent */
    over = true;
    *flushes = NULL;
    take_all(first.peer);
    close_conn(first);
    close_conn(second);
}

/* For a second, in which the peer reads nothing. */
static void rests(void)
{
    struct conn conn = open_small(O_NONBLOCK);
    fill_up(conn.fd);
    poll(NULL, 0, 0);
    compute_ms(999);
    take_all(conn.peer);
    close_conn(conn);
}

static const struct scenario scenarios[] = {{"looks", looks}, {"rests", rests}};

GATHER_MAIN(scenarios)
