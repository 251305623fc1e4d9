/* SPDX-License-Identifier: MIT */
/* Signal handlers that hold bytes while their thread pushes or holds its own. With behind.so after
 * the library, a handler runs at exactly this moment. See life.h. */
#include "behind.h"
#include "life.h"

#include <pthread.h>
#include <sys/syscall.h>

static struct conn first, second;
static moment *interrupted;
static volatile bool wanted, done;

static void writes_to_first(int number)
{
    (void)number;
    EXPECT(write(first.fd, "h", 1) == 1);
}

static void writes_to_second(int number)
{
    (void)number;
    EXPECT(write(second.fd, "h", 1) == 1);
}

static void is_interrupted(void)
{
    *interrupted = NULL;
    RAW(tgkill, getpid(), RAW(gettid, 0, 0, 0, 0), SIGUSR1, 0);
}

static void is_interrupted_and_joined(void)
{
    is_interrupted();
    for (wanted = true; !done;)
        RAW(sched_yield, 0, 0, 0, 0);
}

static void begin_and_be(const char *where, moment interruption)
{
    put(first.fd, "a");
    put(first.fd, "b");
    interrupted = moment_of(where);
    *interrupted = interruption;
}

/* Each thread must have sent all its bytes before it waits. */
static void *turns_and_waits(void *unused)
{
    begin_and_be("behind_push", is_interrupted);
    put(second.fd, "x");
    poll(NULL, 0, 300);
    return unused;
}

static void *goes_on_and_waits(void *unused)
{
    begin_and_be("behind_send", is_interrupted_and_joined);
    put(first.fd, "d");
    poll(NULL, 0, 300);
    return unused;
}

static pthread_t begins(void (*handler)(int), void *(*runs)(void *))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    pthread_t thread;
    sigaction(SIGUSR1, &action, NULL);
    first = open_conn();
    second = open_conn();
    pthread_create(&thread, NULL, runs, NULL);
    return thread;
}

static void finish(pthread_t thread)
{
    pthread_join(thread, NULL);
    close_conn(first);
    close_conn(second);
}

/* A handler holds bytes on the connection that its thread has just pushed. */
SCENARIO("push")
{
    pthread_t thread = begins(writes_to_first, turns_and_waits);
    at_once(first.peer, "abh");
    at_once(second.peer, "x");
    finish(thread);
}

/* A handler holds bytes on another connection than its thread, and another thread on the same one.
 */
SCENARIO("burst")
{
    pthread_t thread = begins(writes_to_second, goes_on_and_waits);
    while (!wanted && pthread_kill(thread, 0) == 0)
        RAW(sched_yield, 0, 0, 0, 0);
    put(first.fd, "c");
    done = true;
    at_once(first.peer, "abcd");
    at_once(second.peer, "h");
    finish(thread);
}

LIFE_MAIN
