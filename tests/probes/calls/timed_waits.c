/* SPDX-License-Identifier: MIT */
/* Writes four bytes in two pieces, waits for a short time by each call that takes one, and prints
 * how many of the bytes have arrived at the other end of the connection. */
#include "loopback.h"

enum { WAIT_NS = 20000000, NS_PER_S = 1000000000 };

static struct timespec later(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += WAIT_NS;
    time.tv_sec += time.tv_nsec / NS_PER_S;
    time.tv_nsec %= NS_PER_S;
    return time;
}

/* Makes no call that the library sees. */
static void compute(void)
{
    struct timespec now, end = later(CLOCK_MONOTONIC);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
}

static int near, far;

#define ARRIVED(name, wait)                                                                        \
    do {                                                                                           \
        struct timespec time = {.tv_nsec = WAIT_NS}, real = later(CLOCK_REALTIME);                 \
        struct timespec monotonic = later(CLOCK_MONOTONIC);                                        \
        (void)time, (void)real, (void)monotonic;                                                   \
        char bytes[4];                                                                             \
        int arrived = -1;                                                                          \
        if (write(near, "he", 2) != 2 || write(near, "ad", 2) != 2)                                \
            return 1;                                                                              \
        wait;                                                                                      \
        ioctl(far, FIONREAD, &arrived);                                                            \
        printf("%s %d\n", name, arrived);                                                          \
        if (recv(far, bytes, sizeof bytes, MSG_WAITALL) != sizeof bytes)                           \
            return 1;                                                                              \
    } while (0)

int main(void)
{
    struct sockaddr_in address;
    int listener = loopback_listener(&address), epoll = epoll_create1(0);
    near = loopback_connect(&address);
    far = accept(listener, NULL, NULL);
    struct epoll_event event;
    sigset_t none;
    sem_t semaphore;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    mtx_t other_mutex;
    cnd_t other;
    sigemptyset(&none);
    sem_init(&semaphore, 0, 0);
    mtx_init(&other_mutex, mtx_plain);
    cnd_init(&other);
    pthread_mutex_lock(&mutex);
    mtx_lock(&other_mutex);
    ARRIVED("nothing", compute());
    ARRIVED("ppoll", ppoll(NULL, 0, &time, NULL));
    ARRIVED("select", select(0, NULL, NULL, NULL, &(struct timeval){.tv_usec = WAIT_NS / 1000}));
    ARRIVED("pselect", pselect(0, NULL, NULL, NULL, &time, NULL));
    ARRIVED("epoll_pwait2", epoll_pwait2(epoll, &event, 1, &time, NULL));
    ARRIVED("nanosleep", nanosleep(&time, NULL));
    ARRIVED("clock_nanosleep", clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL));
    ARRIVED("thrd_sleep", thrd_sleep(&time, NULL));
    ARRIVED("sigtimedwait", sigtimedwait(&none, NULL, &time));
    ARRIVED("pthread_cond_timedwait", pthread_cond_timedwait(&condition, &mutex, &real));
    ARRIVED("pthread_cond_clockwait",
            pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &monotonic));
    ARRIVED("cnd_timedwait", cnd_timedwait(&other, &other_mutex, &real));
    ARRIVED("sem_timedwait", sem_timedwait(&semaphore, &real));
    ARRIVED("sem_clockwait", sem_clockwait(&semaphore, CLOCK_MONOTONIC, &monotonic));
    return 0;
}
