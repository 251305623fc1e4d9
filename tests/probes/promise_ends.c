/* SPDX-License-Identifier: MIT */
/* A process ends when its last thread ends, however the first one left, and however many bytes it
 * had written; and one that shares its memory with a helper reaps it. Usage: promise_ends WAY
 * [stays]; a thread that stays waits for a signal. Exit status 0, or that of the way. */
#include "promise.h"

#include <sys/syscall.h>
#include <threads.h>

static bool worker_stays;
static pthread_t main_thread;

/* Its leader is a zombie as long as other threads live. */
static bool main_has_left(void)
{
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
    int fd = (int)RAW(openat, AT_FDCWD, path, O_RDONLY, 0);
    RAW(read, fd, line, sizeof line - 1, 0);
    RAW(close, fd, 0, 0, 0);
    const char *state = strrchr(line, ')');
    return state && state[2] == 'Z';
}

/* Writes before the first thread leaves and after it. */
static void *worker(void *cancel)
{
    struct conn conn = open_conversing();
    if (cancel)
        pthread_cancel(main_thread);
    for (double begin = now_ms(); !main_has_left();)
        if (!look_again(begin, 5000)) {
            wrong("the first thread has not left");
            _exit(3);
        }
    converse(conn);
    if (results->wrong)
        _exit(1);
    puts("the first thread has left");
    fflush(stdout);
    if (worker_stays)
        pause();
    close_conn(conn);
    return NULL;
}

static void leave(const char *way)
{
    pthread_t thread;
    bool cancelled = strcmp(way, "cancelled") == 0;
    struct conn conn = open_conversing();
    main_thread = pthread_self();
    pthread_create(&thread, NULL, worker, cancelled ? &main_thread : NULL);
    pthread_detach(thread);
    put(conn.fd, "held ");
    put(conn.fd, "when it leaves");
    if (cancelled)
        for (;;)
            pause();
    if (strcmp(way, "thrd-exit") == 0)
        thrd_exit(0);
    if (strcmp(way, "pthread-exit") == 0)
        pthread_exit(NULL);
    if (strcmp(way, "syscall") == 0)
        syscall(SYS_exit, 0);
    raw(SYS_exit, 0, 0, 0, 0, 0, 0);
}

/* It writes on a connection that it was given, in the memory of its parent. */
static int helper(void *conn)
{
    converse(*(struct conn *)conn);
    return 0;
}

static int reaps(void)
{
    enum { STACK = 256 * 1024 };
    struct conn conn = open_conn();
    char *stack =
        mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    pid_t pid = clone(helper, stack + STACK, CLONE_VM | CLONE_FILES | SIGCHLD, &conn);
    int status = ended_within(pid, 4000);
    if (status != 0)
        wrong("the helper ended with %d", status);
    converse(conn);
    is_governed(conn.fd);
    close_conn(conn);
    return results->wrong != 0;
}

int main(int argc, char **argv)
{
    results =
        mmap(NULL, sizeof *results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    worker_stays = argc > 2;
    if (argc > 1 && strcmp(argv[1], "helper") == 0)
        return reaps();
    if (argc > 1)
        leave(argv[1]);
    return 2;
}
