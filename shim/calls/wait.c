/* SPDX-License-Identifier: MIT */
/* The exported waits for anything but descriptors: time, signals, threads, children. Each settles
 * what its thread owes and is then made as asked. As async-signal-safe as the calls themselves. */
#include "calls/calls.h"

NS_EXPORT int nanosleep(const struct timespec *time, struct timespec *left)
{
    ns_before_wait();
    return NS_REAL(nanosleep)(time, left);
}

NS_EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                              struct timespec *left)
{
    ns_before_wait();
    return NS_REAL(clock_nanosleep)(clock, flags, time, left);
}

NS_EXPORT int usleep(useconds_t time)
{
    ns_before_wait();
    return NS_REAL(usleep)(time);
}

NS_EXPORT unsigned sleep(unsigned seconds)
{
    ns_before_wait();
    return NS_REAL(sleep)(seconds);
}

NS_EXPORT int thrd_sleep(const struct timespec *time, struct timespec *left)
{
    ns_before_wait();
    return NS_REAL(thrd_sleep)(time, left);
}

NS_EXPORT int pause(void)
{
    ns_before_wait();
    return NS_REAL(pause)();
}

NS_EXPORT int sigsuspend(const sigset_t *mask)
{
    ns_before_wait();
    return NS_REAL(sigsuspend)(mask);
}

NS_EXPORT int sigwait(const sigset_t *set, int *number)
{
    ns_before_wait();
    return NS_REAL(sigwait)(set, number);
}

NS_EXPORT int sigwaitinfo(const sigset_t *set, siginfo_t *info)
{
    ns_before_wait();
    return NS_REAL(sigwaitinfo)(set, info);
}

NS_EXPORT int sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
    ns_before_wait();
    return NS_REAL(sigtimedwait)(set, info, timeout);
}

NS_EXPORT int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    ns_before_wait();
    return NS_REAL(pthread_cond_wait)(condition, mutex);
}

NS_EXPORT int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                     const struct timespec *until)
{
    ns_before_wait();
    return NS_REAL(pthread_cond_timedwait)(condition, mutex, until);
}

NS_EXPORT int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                     clockid_t clock, const struct timespec *until)
{
    ns_before_wait();
    return NS_REAL(pthread_cond_clockwait)(condition, mutex, clock, until);
}

NS_EXPORT int cnd_wait(cnd_t *condition, mtx_t *mutex)
{
    ns_before_wait();
    return NS_REAL(cnd_wait)(condition, mutex);
}

NS_EXPORT int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex,
                            const struct timespec *restrict until)
{
    ns_before_wait();
    return NS_REAL(cnd_timedwait)(condition, mutex, until);
}

NS_EXPORT int pthread_join(pthread_t thread, void **value)
{
    ns_before_wait();
    return NS_REAL(pthread_join)(thread, value);
}

NS_EXPORT int thrd_join(thrd_t thread, int *value)
{
    ns_before_wait();
    return NS_REAL(thrd_join)(thread, value);
}

/* A semaphore that is free does not wait. sem_getvalue is looked up: an old libc keeps it in
 * libpthread. */
static void before_sem(sem_t *semaphore)
{
    static int (*_Atomic get_value)(sem_t *, int *);
    int (*known)(sem_t *, int *) = atomic_load_explicit(&get_value, memory_order_relaxed);
    int value = 0;
    if (!known) {
        *(void **)&known = ns_real_optional("sem_getvalue");
        atomic_store_explicit(&get_value, known, memory_order_relaxed);
    }
    if (!known || known(semaphore, &value) != 0 || value <= 0)
        ns_flush_pending();
}

NS_EXPORT int sem_wait(sem_t *semaphore)
{
    ns_epoch_ends();
    if (ns_pending_any())
        before_sem(semaphore);
    return NS_REAL(sem_wait)(semaphore);
}

NS_EXPORT int sem_timedwait(sem_t *semaphore, const struct timespec *until)
{
    ns_epoch_ends();
    if (ns_pending_any())
        before_sem(semaphore);
    return NS_REAL(sem_timedwait)(semaphore, until);
}

NS_EXPORT int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until)
{
    ns_epoch_ends();
    if (ns_pending_any())
        before_sem(semaphore);
    return NS_REAL(sem_clockwait)(semaphore, clock, until);
}

/* Children. CALL(options) is the call; if something is owed it is first made without waiting, which
 * writes status and usage only when there is a child. Returns from the function it stands in. */
#define NS_WAIT_CHILD(CALL)                                                                        \
    do {                                                                                           \
        if (options & WNOHANG) {                                                                   \
            ns_before_probe();                                                                     \
        } else {                                                                                   \
            ns_epoch_ends();                                                                       \
            if (ns_pending_any()) {                                                                \
                pid_t found = CALL(options | WNOHANG);                                             \
                if (found != 0)                                                                    \
                    return found;                                                                  \
                ns_flush_pending();                                                                \
            }                                                                                      \
        }                                                                                          \
        return CALL(options);                                                                      \
    } while (0)

NS_EXPORT pid_t waitpid(pid_t pid, int *status, int options)
{
#define CALL(options) NS_REAL(waitpid)(pid, status, options)
    NS_WAIT_CHILD(CALL);
#undef CALL
}

NS_EXPORT pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
#define CALL(options) NS_REAL(wait4)(pid, status, options, usage)
    NS_WAIT_CHILD(CALL);
#undef CALL
}

NS_EXPORT pid_t wait3(int *status, int options, struct rusage *usage)
{
#define CALL(options) NS_REAL(wait3)(status, options, usage)
    NS_WAIT_CHILD(CALL);
#undef CALL
}

NS_EXPORT pid_t wait(int *status)
{
    ns_before_wait();
    return NS_REAL(wait)(status);
}

/* waitid says "none yet" in its siginfo. */
NS_EXPORT int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    if (options & WNOHANG)
        ns_before_probe();
    else
        ns_before_wait();
    return NS_REAL(waitid)(type, id, info, options);
}
