/* SPDX-License-Identifier: MIT */
/* Does what its arguments say on one or two connections, so that strace shows what the library does
 * between the program's own calls. The peers are out of the library's sight (life.h). Words:
 *
 * - first, the way to get the connection: connected, accepted, raw;
 * - a write: write, send, more (with MSG_MORE), empty (of no bytes), big (of 100 000), other and
 *   other-big (on a second connection);
 * - a read of what the peer has written: hear, try (non-blocking), whole (MSG_WAITALL), peek or
 *   vector;
 * - a wait: wait, look (a poll with zero timeout), nap (nanosleep), pipe (a read of one), count
 *   (FIONREAD), pause (20 ms without a call that the library sees);
 * - an option of the program: nodelay, delay, cork, uncork, nonblock, quickack;
 * - and ways to pass the connection on and to end.
 *
 * Each word may be repeated: "write*5". */
#include "steps_life.h"

static char **words;

static void *go_on(void *unused);

/* A thread makes the remaining steps. */
SCENARIO("thread")
{
    pthread_t thread;
    char **rest = words;
    pthread_create(&thread, NULL, go_on, NULL);
    while (*rest)
        rest++;
    RAW(sched_yield, 0, 0, 0, 0);
    pthread_join(thread, NULL);
    words = rest;
}

static void act(const char *word)
{
    size_t len = strcspn(word, "*");
    int times = word[len] ? atoi(word + len + 1) : 1;
    while (times-- > 0)
        if (!run_scenario(word, len))
            wrong("%s: not known", word);
}

static void *go_on(void *unused)
{
    while (*words)
        act(*words++);
    return unused;
}

int main(int argc, char **argv)
{
    char line[64];
    make_results();
    if (argc < 2)
        return 2;
    EXPECT(pipe2(pair, O_CLOEXEC | O_NONBLOCK) == 0);
    far = open_conn();
    words = argv + 2;
    bool accepts =
        strcmp(argv[1], "accepted") == 0; /* the trace also shows the calls for its listener */
    if (accepts)
        RAW(write, 2, "begin\n", 6, 0);
    act(argv[1]);
    if (!accepts)
        RAW(write, 2, "begin\n", 6, 0);
    int n = snprintf(line, sizeof line, "connections %d %d pipe %d", near.fd, far.fd, pair[0]);
    RAW(write, 2, line, n, 0);
    go_on(NULL);
    RAW(exit_group, results->wrong != 0, 0, 0,
        0); /* by a raw system call, because an exit is a step, too */
}
