/* SPDX-License-Identifier: MIT */
/* Does what its arguments say on one or two connections, so that strace shows what the library does
 * between the program's own calls. The peers are out of the library's sight (life.h). Words:
 *
 * - how the connection comes about, first of all: connected, accepted, raw;
 * - a write: write, send, more (with MSG_MORE), empty (of no bytes), big (of 100 000), other (on a
 *   second connection);
 * - a read of what the peer has written: hear, try (non-blocking), whole (MSG_WAITALL), peek or
 *   vector;
 * - a wait: wait, look (a poll without time), nap (nanosleep), pipe (a read of one), count
 *   (FIONREAD), pause (20 ms that nobody sees);
 * - what a program asks for: nodelay, delay, cork, uncork, nonblock, quickack;
 * - and ways to hand on and to end.
 *
 * Each word may be repeated: "write*5". */
#include "steps_life.h"

static char **words;

static void *go_on(void *unused);

/* The rest is done by a thread. */
static void in_thread(void)
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

static const struct word {
    const char *name;
    void (*act)(void);
} known[] = {
    {"connected", connected},
    {"accepted", accepted},
    {"raw", made_raw},
    {"write", writes},
    {"send", sends},
    {"more", sends_more},
    {"empty", writes_empty},
    {"big", writes_big},
    {"other", writes_other},
    {"bad", write_fails},
    {"says", says},
    {"read", reads},
    {"hear", hears},
    {"try", tries},
    {"get", hears_at_once},
    {"whole", hears_whole},
    {"peek", peeks},
    {"vector", hears_vector},
    {"wait", waits},
    {"look", looks},
    {"select", selects},
    {"find", finds},
    {"nap", naps},
    {"pause", pauses},
    {"count", counts},
    {"pipe", reads_pipe},
    {"empty-pipe", reads_empty_pipe},
    {"nodelay", asks_nodelay},
    {"delay", asks_delay},
    {"cork", corks},
    {"uncork", uncorks},
    {"quickack", asks_quickack},
    {"lowat", asks_whole},
    {"nonblock", asks_nonblock},
    {"fork", forks},
    {"clone", clones},
    {"vfork", vforks},
    {"spawn", spawns},
    {"exec", execs},
    {"exec-by-number", execs_by_number},
    {"_exit", leaves},
    {"exit", returns},
    {"close", closes},
    {"dup", duplicates},
    {"copy", copies},
    {"cork-copy", corks_copy},
    {"stdout", becomes_stdout},
    {"fdopen", is_opened},
    {"pass", is_passed},
    {"pass-back", is_passed_back},
    {"uring", uses_uring},
    {"write-by-number", writes_by_number},
    {"filter", filters},
    {"thread", in_thread},
    {"another", is_written_to},
    {"end", hears_end},
    {"sem", waits_for_sem},
    {"free-sem", takes_sem},
    {"child", waits_for_child},
    {"accept", accepts_nobody},
    {"connect", connects_to_nobody},
    {"futex", waits_for_futex},
    {"epoll", waits_by_epoll},
    {"crowd", hears_a_crowd},
    {"bound", asks_bound},
    {"told", is_told_of_bound},
    {"close-by-number", closes_by_number},
    {"becomes-a-pipe", becomes_a_pipe},
    {"repair", is_repaired},
    {"has-bound", has_bound_already},
    {"vfork-writes", vfork_writes},
    {"range", empties_own_table},
    {"helper", has_helper},
    {"late", hears_late},
    {"four", hears_four},
    {"fed", reads_pipe_there},
    {"accepted-nonblock", accepted_nonblock},
    {"miss", misses},
    {"bad-time", polls_with_bad_time},
    {"idle", asks_idle},
    {"has-nodelay", has_nodelay_already},
    {"swap", swaps},
    {"vanish", vanishes},
    {"reader", is_left_to_reader},
    {"reader-hears", reader_hears},
    {"unshare", unshares},
    {"prctl", keeps_capabilities},
    {"setgid", sets_group_by_number},
};

static void act(const char *word)
{
    size_t len = strcspn(word, "*");
    int times = word[len] ? atoi(word + len + 1) : 1;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].name) == len && strncmp(known[i].name, word, len) == 0) {
            while (times-- > 0)
                known[i].act();
            return;
        }
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
    results =
        mmap(NULL, sizeof *results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argc < 2)
        return 2;
    EXPECT(pipe2(pair, O_CLOEXEC | O_NONBLOCK) == 0);
    far = open_conn();
    words = argv + 2;
    bool accepts = strcmp(argv[1], "accepted") == 0; /* what its listener costs is shown, too */
    if (accepts)
        RAW(write, 2, "begin\n", 6, 0);
    act(argv[1]);
    if (!accepts)
        RAW(write, 2, "begin\n", 6, 0);
    int n = snprintf(line, sizeof line, "connections %d %d pipe %d", near.fd, far.fd, pair[0]);
    RAW(write, 2, line, n, 0);
    go_on(NULL);
    RAW(exit_group, results->wrong != 0, 0, 0, 0); /* unseen: an exit is a step, too */
}
