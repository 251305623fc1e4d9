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

/* A wait for a child. If something is pending, it is first made without waiting, which writes
 * status and usage only if there is a child. Returns from the calling function. */
#define NS_WAIT_CHILD(CALL)                                                                        \
    do {                                                                                           \
        if (options & WNOHANG) {                                                                   \
            ns_thread.waits++;                                                                     \
            ns_after_probe();                                                                      \
        } else if (ns_wait_begins()) {                                                             \
            pid_t found = CALL(options | WNOHANG);                                                 \
            if (found != 0)                                                                        \
                return found;                                                                      \
            ns_flush_pending();                                                                    \
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
