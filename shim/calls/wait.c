/* SPDX-License-Identifier: MIT */
/* The exported waits for time, signals, threads and children. Each flushes what is pending and is
 * then made as the program asked. As async-signal-safe as the calls themselves. */
#include "calls/calls.h"

#define NS_CALL(...)
#define NS_SLEEP(type, name, parameters, arguments, failure)                                       \
    NS_EXPORT type name parameters                                                                 \
    {                                                                                              \
        ns_before_wait();                                                                          \
        return NS_REAL(name) arguments;                                                            \
    }
#include "base/calls.def"
#undef NS_CALL

/* A wait for a free semaphore does not wait. */
static void before_sem(sem_t *semaphore)
{
    int value = 0;
    if (NS_REAL(sem_getvalue)(semaphore, &value) == 0 && value > 0)
        ns_after_probe();
    else
        ns_flush_pending();
}

#define SEM_WAIT(name, parameters, arguments)                                                      \
    NS_EXPORT int name parameters                                                                  \
    {                                                                                              \
        if (ns_wait_begins())                                                                      \
            before_sem(semaphore);                                                                 \
        return NS_REAL(name) arguments;                                                            \
    }
SEM_WAIT(sem_wait, (sem_t * semaphore), (semaphore))
SEM_WAIT(sem_timedwait, (sem_t * semaphore, const struct timespec *until), (semaphore, until))
SEM_WAIT(sem_clockwait, (sem_t * semaphore, clockid_t clock, const struct timespec *until),
         (semaphore, clock, until))
NS_IF_TIME64(SEM_WAIT(__sem_timedwait64, (sem_t * semaphore, const struct ns_timespec64 *until),
                      (semaphore, until)))
NS_IF_TIME64(SEM_WAIT(__sem_clockwait64,
                      (sem_t * semaphore, clockid_t clock, const struct ns_timespec64 *until),
                      (semaphore, clock, until)))

/* A wait for a child. If something is pending, it is first made without waiting, which writes
 * status and usage only if there is a child. */
#define WAIT_CHILD(name, parameters, CALL)                                                         \
    NS_EXPORT pid_t name parameters                                                                \
    {                                                                                              \
        if (options & WNOHANG) {                                                                   \
            ns_thread.waits++;                                                                     \
            ns_after_probe();                                                                      \
        } else if (ns_wait_begins()) {                                                             \
            int waits = options;                                                                   \
            options |= WNOHANG;                                                                    \
            pid_t found = CALL;                                                                    \
            if (found != 0)                                                                        \
                return found;                                                                      \
            ns_flush_pending();                                                                    \
            options = waits;                                                                       \
        }                                                                                          \
        return CALL;                                                                               \
    }
#define WAIT3(name, usage_type)                                                                    \
    WAIT_CHILD(name, (int *status, int options, usage_type *usage),                                \
               NS_REAL(name)(status, options, usage))
#define WAIT4(name, usage_type)                                                                    \
    WAIT_CHILD(name, (pid_t pid, int *status, int options, usage_type *usage),                     \
               NS_REAL(name)(pid, status, options, usage))
WAIT_CHILD(waitpid, (pid_t pid, int *status, int options), NS_REAL(waitpid)(pid, status, options))
WAIT3(wait3, struct rusage)
WAIT4(wait4, struct rusage)
NS_IF_TIME64(WAIT3(__wait3_time64, void))
NS_IF_TIME64(WAIT4(__wait4_time64, void))

/* waitid reports "none yet" in its siginfo, so there is no probe. */
NS_EXPORT int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    if (options & WNOHANG) {
        ns_thread.waits++;
        ns_after_probe();
    } else {
        ns_before_wait();
    }
    return NS_REAL(waitid)(type, id, info, options);
}
