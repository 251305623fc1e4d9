/* SPDX-License-Identifier: MIT */
/* The waits for time, signals, threads and children, most of which the differential fuzzer does not
 * make. Each with nothing pending and with a pending ACK, which the library sends before it waits;
 * and with two writes, of which it must have sent what it held. */
#pragma once

#include "raw.h"
#include "record.h"

static const struct timespec at_once = {0, 0}, soon = {0, 2000000}, wrong_time = {0, 1000000000};
static const struct pair *wait_owing; /* NULL: no ACK is pending */

static const struct pair *wait_holding; /* NULL: nothing is written before a wait */

static void begin_wait(void)
{
    if (wait_owing)
        owe_on(*wait_owing);
    if (wait_holding)
        must(write(wait_holding->a, "he", 2) == 2 && write(wait_holding->a, "ad", 2) == 2, "write");
}

/* Records how many of the four bytes have arrived. */
static void end_wait(const char *text)
{
    int arrived = -1;
    char bytes[4];
    if (!wait_holding)
        return;
    ioctl(wait_holding->b, FIONREAD, &arrived);
    record_add("%s: arrived at the end of %s: %d\n", record_context, text, arrived);
    must(recv(wait_holding->b, bytes, sizeof bytes, MSG_WAITALL) == sizeof bytes, "read");
}

#define WAIT(expression)                                                                           \
    do {                                                                                           \
        begin_wait();                                                                              \
        CALL(expression);                                                                          \
        end_wait(#expression);                                                                     \
    } while (0)

static void wait_time(void)
{
    struct timeval moment = {0, 2000};
    struct epoll_event event;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    WAIT(ppoll(NULL, 0, &soon, NULL));
    WAIT(select(0, NULL, NULL, NULL, &moment));
    WAIT(pselect(0, NULL, NULL, NULL, &soon, NULL));
    WAIT(epoll_pwait2(epoll, &event, 1, &soon, NULL));
    WAIT(nanosleep(&soon, NULL));
    WAIT(clock_nanosleep(CLOCK_MONOTONIC, 0, &soon, NULL));
    close(epoll);
    WAIT(usleep(2000));
    WAIT(sleep(0));
    WAIT(thrd_sleep(&soon, NULL));
    WAIT(thrd_sleep(&wrong_time, NULL) < 0);
}

static void wait_signals(void)
{
    sigset_t set, before;
    siginfo_t info;
    int number = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    WAIT(sigtimedwait(&set, &info, &soon));
    WAIT(sigtimedwait(&set, &info, &at_once));
    WAIT(sigtimedwait(&set, &info, &wrong_time));
    raise(SIGUSR2);
    WAIT(sigwait(&set, &number));
    record_value("signal", number);
    raise(SIGUSR2);
    WAIT(sigwaitinfo(&set, &info));
    raise(SIGUSR2);
    WAIT(sigtimedwait(&set, NULL, NULL));
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static struct timespec in_a_moment(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += 2000000;
    if (time.tv_nsec >= 1000000000) {
        time.tv_sec++;
        time.tv_nsec -= 1000000000;
    }
    return time;
}

/* A wait until a time of this clock must take the expected time. By another clock this time would
 * be decades in the past or in the future. */
#define WAIT_BY(clock, expression)                                                                 \
    do {                                                                                           \
        struct timespec begun_, ended_;                                                            \
        time = in_a_moment(clock);                                                                 \
        clock_gettime(CLOCK_MONOTONIC, &begun_);                                                   \
        WAIT(expression);                                                                          \
        clock_gettime(CLOCK_MONOTONIC, &ended_);                                                   \
        long took_ =                                                                               \
            (ended_.tv_sec - begun_.tv_sec) * 1000000 + (ended_.tv_nsec - begun_.tv_nsec) / 1000;  \
        record_value("it waited", took_ > 1000);                                                   \
    } while (0)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;

static void *waker(void *value)
{
    pthread_mutex_lock(&mutex);
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    sem_post(&semaphore);
    pthread_exit(value);
}

static mtx_t c11_mutex;
static cnd_t c11_condition;

static int c11_waker(void *value)
{
    mtx_lock(&c11_mutex);
    cnd_signal(&c11_condition);
    mtx_unlock(&c11_mutex);
    return *(int *)value;
}

/* sendfile is not a cancellation point. */
static void *sends_cancelled(void *to)
{
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (wait_owing)
        owe_on(*wait_owing);
    pthread_cancel(pthread_self());
    CALL(sendfile(*(int *)to, file, NULL, 100));
    RAW(close, file, 0, 0, 0);
    pthread_testcancel();
    return NULL;
}

static void wait_threads(void)
{
    struct timespec time;
    pthread_t thread;
    void *value = NULL;
    int pair[2];
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "make a pair of sockets");
    must(pthread_create(&thread, NULL, sends_cancelled, pair) == 0, "start a thread");
    WAIT(pthread_join(thread, &value));
    record_value("cancelled", value == PTHREAD_CANCELED);
    close(pair[0]);
    close(pair[1]);
    sem_init(&semaphore, 0, 1);
    WAIT(sem_wait(&semaphore));
    WAIT_BY(CLOCK_REALTIME, sem_timedwait(&semaphore, &time));
    WAIT(sem_timedwait(&semaphore, &wrong_time));
    WAIT_BY(CLOCK_REALTIME, sem_clockwait(&semaphore, CLOCK_REALTIME, &time));
    WAIT_BY(CLOCK_MONOTONIC, sem_clockwait(&semaphore, CLOCK_MONOTONIC, &time));
    WAIT(sem_clockwait(&semaphore, 99, &time));
    pthread_mutex_lock(&mutex);
    WAIT_BY(CLOCK_REALTIME, pthread_cond_timedwait(&condition, &mutex, &time));
    WAIT(pthread_cond_timedwait(&condition, &mutex, &wrong_time));
    WAIT_BY(CLOCK_REALTIME, pthread_cond_clockwait(&condition, &mutex, CLOCK_REALTIME, &time));
    WAIT_BY(CLOCK_MONOTONIC, pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &time));
    must(pthread_create(&thread, NULL, waker, &mutex) == 0, "start a thread");
    WAIT(pthread_cond_wait(&condition, &mutex));
    pthread_mutex_unlock(&mutex);
    WAIT(sem_wait(&semaphore));
    WAIT(pthread_join(thread, &value));
    record_value("its value", value == &mutex);
#ifdef __GLIBC__ /* musl would wait for ever */
    WAIT(pthread_join(pthread_self(), NULL));
#endif
    thrd_t c11;
    int result = 0, given = 42;
    mtx_init(&c11_mutex, mtx_plain);
    cnd_init(&c11_condition);
    mtx_lock(&c11_mutex);
    WAIT_BY(CLOCK_REALTIME, cnd_timedwait(&c11_condition, &c11_mutex, &time));
    must(thrd_create(&c11, c11_waker, &given) == thrd_success, "start a C11 thread");
    WAIT(cnd_wait(&c11_condition, &c11_mutex));
    mtx_unlock(&c11_mutex);
    WAIT(thrd_join(c11, &result));
    record_value("its result", result);
}

static pid_t child(int status)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(status);
    return pid;
}

static void wait_children(void)
{
    int status = 0;
    struct rusage usage;
    siginfo_t info = {0};
    WAIT(wait(NULL));
    WAIT(wait3(NULL, 0, NULL));
    WAIT(waitpid(-1, &status, 0x1000));
    WAIT(waitid(99, 0, &info, WEXITED));
    pid_t pid = child(3);
    WAIT(waitpid(pid, &status, 0) == pid);
    record_value("status", status);
    pid = child(4);
    WAIT(wait(&status) == pid);
    record_value("status", status);
    pid = child(5);
    WAIT(wait3(&status, 0, &usage) == pid);
    record_value("status", status);
    pid = child(6);
    WAIT(wait4(pid, &status, 0, &usage) == pid);
    record_value("status", status);
    pid = child(7);
    WAIT(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT));
    record_value("status", info.si_status);
    WAIT(waitid(P_PID, (id_t)pid, &info, WEXITED));
}

/* Not for a child of vfork, because it makes threads. */
static void calls_wait(void)
{
    struct pair owing = open_pair();
    for (int round = 0; round < 2; round++) {
        wait_owing = round ? &owing : NULL;
        record_add("%s: # %s pending\n", record_context, round ? "an ACK is" : "nothing is");
        wait_time();
        wait_signals();
        wait_threads();
        wait_children();
    }
    wait_owing = NULL;
    close_pair(owing);
}
