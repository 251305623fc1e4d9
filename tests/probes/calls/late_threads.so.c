/* SPDX-License-Identifier: MIT */
/* The plugin of late_threads: makes the calls that an old glibc has in libpthread. Prints the first
 * wrong result. */
#include "system.h"

static sem_t started, go_on;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int ready;

int use_threads(void);

static void *runs(void *argument)
{
    sem_post(&started);
    if (sem_wait(&go_on) != 0)
        return NULL;
    pthread_mutex_lock(&mutex);
    ready = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    pthread_exit(argument);
}

static int runs_c11(void *argument)
{
    return *(int *)argument;
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("not true: %s\n", #condition);                                                  \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

int use_threads(void)
{
    struct timespec past = {0}, moment = {.tv_nsec = 1};
    int seven = 7, result;
    void *value = NULL;
    pthread_t thread;
    thrd_t other;
    sem_init(&started, 0, 0);
    sem_init(&go_on, 0, 0);
    CHECK(sem_timedwait(&started, &past) == -1 && errno == ETIMEDOUT);
    pthread_mutex_lock(&mutex);
    CHECK(pthread_cond_timedwait(&condition, &mutex, &past) == ETIMEDOUT);
    CHECK(pthread_create(&thread, NULL, runs, &seven) == 0);
    CHECK(sem_wait(&started) == 0);
    sem_post(&go_on);
    while (!ready)
        CHECK(pthread_cond_wait(&condition, &mutex) == 0);
    pthread_mutex_unlock(&mutex);
    CHECK(pthread_join(thread, &value) == 0 && value == &seven);
    CHECK(thrd_create(&other, runs_c11, &seven) == thrd_success);
    CHECK(thrd_join(other, &result) == thrd_success && result == 7);
    CHECK(thrd_sleep(&moment, NULL) == 0);
    return 0;
}
