/* SPDX-License-Identifier: MIT */
/* The exported calls by which a process comes to be interrupted, or sends itself a signal. Where no
 * handler can run the flush of gathered bytes need not block signals, which is two system calls. As
 * async-signal-safe as the calls themselves. */
#include "interpose.h"
#include "vfork.h"

/* glibc's names for them that no header declares, or declares as something else. */
int __sigaction(int, const struct sigaction *, struct sigaction *);
sighandler_t bsd_signal(int, sighandler_t);
sighandler_t sysv_signal(int, sighandler_t);
sighandler_t __sysv_signal(int, sighandler_t);

/* Before a handler is installed. */
static void before_handler(sighandler_t handler)
{
    if (handler != SIG_DFL && handler != SIG_IGN && !ns_in_vfork_child())
        ns_gather_interruptible();
}

/* The libc refuses all other numbers without a look at the action; 32 and 33 are its own. */
static bool is_settable(int number)
{
    return number > 0 && number < NSIG && number != 32 && number != 33;
}

static void before_action(int number, const struct sigaction *action)
{
    if (is_settable(number) && !ns_lies_nowhere(action))
        before_handler(action->sa_handler);
}

NS_EXPORT int sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    before_action(number, action);
    return NS_REAL(sigaction)(number, action, before);
}

NS_EXPORT int __sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    before_action(number, action);
    return NS_REAL(__sigaction)(number, action, before);
}

#define SIGNAL(name)                                                                               \
    NS_EXPORT sighandler_t name(int number, sighandler_t handler)                                  \
    {                                                                                              \
        before_handler(handler);                                                                   \
        return NS_REAL(name)(number, handler);                                                     \
    }
SIGNAL(signal)
SIGNAL(bsd_signal)
SIGNAL(ssignal)
SIGNAL(sysv_signal)
SIGNAL(__sysv_signal)
SIGNAL(sigset)

/* A thread that may be cancelled anywhere unwinds from a handler of libc's own. */
NS_EXPORT int pthread_setcanceltype(int type, int *before)
{
    if (type == PTHREAD_CANCEL_ASYNCHRONOUS)
        ns_gather_interruptible();
    return NS_REAL(pthread_setcanceltype)(type, before);
}

/* Does this signal end the process, as soon as it is let through? */
static bool is_fatal(int number)
{
    struct sigaction action;
    switch (number) {
    case SIGCHLD:
    case SIGCONT:
    case SIGURG:
    case SIGWINCH:
    case SIGSTOP:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
        return false;
    default:
        return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_DFL;
    }
}

/* A signal to ourselves may be the last thing that we see. What the kernel holds it sends all the
 * same. */
static void before_signal(int number)
{
    if (!number || !ns_gather_wanted() || ns_in_vfork_child())
        return;
    int saved = errno;
    ns_settle_process();
    if (is_fatal(number) && !NS_MUTANT(gather_drain))
        ns_gather_drain_all();
    errno = saved;
}

NS_EXPORT int raise(int number)
{
    before_signal(number);
    return NS_REAL(raise)(number);
}

NS_EXPORT int kill(pid_t pid, int number)
{
    if (ns_gather_wanted() && (pid <= 0 || pid == getpid()))
        before_signal(number);
    return NS_REAL(kill)(pid, number);
}
