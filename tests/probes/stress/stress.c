/* SPDX-License-Identifier: MIT */
/* 64 threads that open, write in bursts, read, duplicate, replace, pass on, fork and close at
 * random over 2 000 sockets. Every byte is checked at the other end, with its place; so are errno,
 * the number of descriptors at the end, and that nothing is held back across a wait. STRESS_SECONDS
 * (3), STRESS_SEED (the time), STRESS_SOCKETS (2000), STRESS_FORKS (3, of 2000 actions). A seed
 * repeats the actions of each thread, but not their timing. Exit status 1: something is wrong; 4:
 * only late. */
#include "stress_life.h"

static _Atomic bool stopping;
static unsigned forks; /* of 2 000 actions */

static double setting(const char *name, double otherwise)
{
    const char *value = getenv(name);
    return value ? atof(value) : otherwise;
}

static bool take(pthread_mutex_t *mutex)
{
    return pthread_mutex_trylock(mutex) == 0;
}

static bool take_end(struct end *end)
{
    if (!take(&end->writing))
        return false;
    if (take(&end->reading))
        return true;
    pthread_mutex_unlock(&end->writing);
    return false;
}

static void give_end(struct end *end)
{
    pthread_mutex_unlock(&end->reading);
    pthread_mutex_unlock(&end->writing);
}

static void do_write(struct worker *w, struct end *end, struct end *other)
{
    if (!take(&end->writing))
        return;
    write_burst(w, end, other, 1 + below(w, 16));
    pthread_mutex_unlock(&end->writing);
}

static void do_read(struct worker *w, struct end *end, struct end *other)
{
    if (!take(&end->reading))
        return;
    read_some(w, end, other);
    pthread_mutex_unlock(&end->reading);
}

static void do_change(struct worker *w, struct end *end)
{
    if (!take_end(end))
        return;
    switch (below(w, 7)) {
    case 0:
        pass_right(w, end);
        break;
    case 1:
        set_options(w, end);
        break;
    default:
        change_copies(w, end);
    }
    give_end(end);
}

static void do_replace(struct worker *w, struct end *end)
{
    struct end *victim = &links[below(w, links_count)].ends[below(w, 2)];
    if (victim == end || !take_end(end))
        return;
    if (take_end(victim)) {
        replace_copy(w, end, victim);
        give_end(victim);
    }
    give_end(end);
}

static void do_fork(struct worker *w, struct end *end, struct end *other)
{
    if (!take_end(end))
        return;
    fork_writer(w, end, other);
    give_end(end);
}

static void do_reopen(struct worker *w, struct link *link)
{
    if (!take_end(&link->ends[0]))
        return;
    if (take_end(&link->ends[1])) {
        link_close(w, link);
        link_open(w, link);
        give_end(&link->ends[1]);
    }
    give_end(&link->ends[0]);
}

static void *work(void *argument)
{
    struct worker *w = argument;
    while (!atomic_load(&stopping)) {
        struct link *link = &links[below(w, links_count)];
        unsigned which = below(w, 2), what = below(w, 2000);
        struct end *end = &link->ends[which], *other = &link->ends[1 - which];
        atomic_store(&w->doing, what);
        atomic_store(&w->began, now_ns());
        if (what < 900)
            do_write(w, end, other);
        else if (what < 1700)
            do_read(w, end, other);
        else if (what < 1850)
            do_change(w, end);
        else if (what < 1900)
            do_replace(w, end);
        else if (what < 1900 + forks)
            do_fork(w, end, other);
        else
            do_reopen(w, link);
    }
    atomic_store(&w->began, 0);
    return NULL;
}

static void look_for_stuck(void)
{
    for (int i = 0; i < THREADS; i++) {
        uint64_t began = atomic_load(&workers[i].began), now = now_ns();
        if (began && now > began && now - began > UINT64_C(15000000000)) {
            RAW_SAY("wrong: thread %d is stuck in action %u", i, atomic_load(&workers[i].doing));
            _exit(1);
        }
    }
}

static void *watch(void *unused)
{
    (void)unused;
    while (!atomic_load(&stopping)) {
        look_for_stuck();
        raw_sleep(10000000);
    }
    return NULL;
}

static int open_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 20000; fd++)
        count += RAW(fcntl, fd, F_GETFD, 0, 0) >= 0;
    return count;
}

static void prepare_worker(struct worker *w, uint64_t seed)
{
    socklen_t len = sizeof w->address;
    w->seed = seed;
    w->address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    w->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (w->listener < 0 || bind(w->listener, (struct sockaddr *)&w->address, len) != 0 ||
        listen(w->listener, 16) != 0 ||
        getsockname(w->listener, (struct sockaddr *)&w->address, &len) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, w->pair) != 0) {
        perror("stress");
        exit(3);
    }
}

static void prepare(uint64_t seed)
{
    struct rlimit files;
    unsigned most;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max < 20000 ? files.rlim_max : 20000;
    setrlimit(RLIMIT_NOFILE, &files);
    most = (unsigned)files.rlim_cur > 600 ? ((unsigned)files.rlim_cur - 500) / (2 * COPIES) : 1;
    links_count = (unsigned)setting("STRESS_SOCKETS", 2000) / 2;
    links_count = links_count < most ? links_count : most;
    judges_holding = !getenv("STRESS_NAGLE");
    forks = (unsigned)setting("STRESS_FORKS", 3);
    for (unsigned i = 0; i < PERIOD; i++)
        pattern[i] = pattern[i + PERIOD] = (unsigned char)((i * 2654435761u) >> 13);
    pattern_fd = memfd_create("pattern", MFD_CLOEXEC);
    if (write(pattern_fd, pattern, sizeof pattern) != sizeof pattern)
        exit(3);
    signal(SIGPIPE, SIG_IGN);
    for (unsigned i = 0; i < THREADS; i++)
        prepare_worker(&workers[i], seed * THREADS + i);
    for (unsigned i = 0; i < links_count; i++) {
        for (int e = 0; e < 2; e++) {
            pthread_mutex_init(&links[i].ends[e].writing, NULL);
            pthread_mutex_init(&links[i].ends[e].reading, NULL);
        }
        link_open(&workers[0], &links[i]);
    }
}

static void finish(void)
{
    for (unsigned i = 0; i < links_count; i++)
        link_close(&workers[i % THREADS], &links[i]);
    for (unsigned i = 0; i < THREADS; i++) {
        close(workers[i].listener);
        close(workers[i].pair[0]);
        close(workers[i].pair[1]);
    }
    close(pattern_fd);
}

static void print_results(uint64_t seed, double seconds)
{
    struct worker sum = {0};
    for (int i = 0; i < THREADS; i++) {
        sum.writes += workers[i].writes;
        sum.reads += workers[i].reads;
        sum.bytes += workers[i].bytes;
        sum.forks += workers[i].forks;
        sum.opens += workers[i].opens;
    }
    printf(
        "seed %llu sockets %u seconds %.1f writes %llu reads %llu bytes %llu forks %llu opens %llu "
        "late %d wrong %d\n",
        (unsigned long long)seed, 2 * links_count, seconds, (unsigned long long)sum.writes,
        (unsigned long long)sum.reads, (unsigned long long)sum.bytes, (unsigned long long)sum.forks,
        (unsigned long long)sum.opens, late_count, wrong_count);
}

int main(void)
{
    uint64_t seed = (uint64_t)setting("STRESS_SEED", (double)(now_ns() % 1000000007));
    double seconds = setting("STRESS_SECONDS", 3);
    pthread_t watcher;
    int before = open_descriptors();
    RAW_SAY("seed %llu", (unsigned long long)seed);
    prepare(seed);
    uint64_t begin = now_ns();
    pthread_create(&watcher, NULL, watch, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    while (now_ns() - begin < (uint64_t)(seconds * 1e9) && atomic_load(&wrong_count) == 0)
        raw_sleep(10000000);
    if (atomic_load(&wrong_count)) { /* a thread that waits for a lost byte does not end */
        print_results(seed, (double)(now_ns() - begin) / 1e9);
        fflush(stdout);
        _exit(1);
    }
    atomic_store(&stopping, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    pthread_join(watcher, NULL);
    finish();
    int after = open_descriptors();
    if (after != before)
        WRONG("%d descriptors, and %d before", after, before);
    print_results(seed, (double)(now_ns() - begin) / 1e9);
    return wrong_count ? 1 : late_count ? 4 : 0;
}
