/* SPDX-License-Identifier: MIT */
/* A handler that jumps out of a write by siglongjmp, at the moment at which most is on the way:
 * with behind.so behind the library, when a write has just been held and when TCP_NODELAY has just
 * been taken off. Bytes leave before the next wait, and what comes later does not wait either.
 * Without a library, these moments never come. See promise.h. */
#include "promise.h"

#include "behind.h"

#include <setjmp.h>
#include <sys/ioctl.h>

static sigjmp_buf before_the_write;
static struct conn conn;
static moment *at;
static volatile sig_atomic_t jumped;

static void jumps(int number)
{
    (void)number;
    jumped = 1;
    siglongjmp(before_the_write, 1);
}

static void interrupt_once(void)
{
    *at = NULL;
    raise(SIGUSR1);
}

static void if_taken_off(void)
{
    if (!has_nodelay(conn.fd))
        interrupt_once();
}

static void if_held(void)
{
    if (unsent(conn.fd) > 0)
        interrupt_once();
}

/* What is on the way to the peer. */
static void take_all(void)
{
    char data[16];
    int left;
    double begin = now_ms();
    do {
        RAW(ioctl, conn.fd, SIOCOUTQ, &left, 0);
        raw(SYS_recvfrom, conn.peer, (long)data, sizeof data, MSG_DONTWAIT, 0, 0);
    } while (left > 0 && look_again(begin, 1000));
}

/* Writes on and on until the moment has come and the handler has jumped, and then waits. */
static void jumps_out(const char *where, void (*when)(void))
{
    enum { WRITES = 9 };
    struct sigaction action = {.sa_handler = jumps};
    sigaction(SIGUSR1, &action, NULL);
    conn = open_conversing();
    at = moment_of(where);
    if (sigsetjmp(before_the_write, 1) == 0) {
        *at = when;
        for (int i = 0; i < WRITES; i++)
            EXPECT(write(conn.fd, "x", 1) == 1);
    }
    *at = NULL;
    EXPECT(jumped == (getenv("LD_PRELOAD") != NULL));
    poll(NULL, 0, 1);
    EXPECT(unsent(conn.fd) == 0 || !jumped);
    take_all();
    still_flows(conn);
    close_conn(conn);
}

static void option(void)
{
    jumps_out("behind_push", if_taken_off);
}

static void held_write(void)
{
    jumps_out("behind_sent", if_held);
}

static const struct scenario scenarios[] = {
    {"option", option},
    {"held-write", held_write},
};

LIFE_MAIN(scenarios)
