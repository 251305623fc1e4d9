/* SPDX-License-Identifier: MIT */
/* Owns the signals of `nagleshim host` while it changes files: ^C, or the end of a connection, must
 * not leave a change that nobody has tried. Not async-signal-safe. */
#include "cli/host/host.h"

#include <signal.h>

static sigset_t before;

static void fill(sigset_t *ending)
{
    sigemptyset(ending);
    sigaddset(ending, SIGINT);
    sigaddset(ending, SIGTERM);
    sigaddset(ending, SIGHUP);
    sigaddset(ending, SIGQUIT);
}

void ns_host_signals_hold(void)
{
    sigset_t ending;

    fill(&ending);
    sigprocmask(SIG_BLOCK, &ending, &before);
}

void ns_host_signals_restore(void)
{
    sigprocmask(SIG_SETMASK, &before, NULL);
}

bool ns_host_signals_came(void)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t came;

    sigpending(&came);
    for (unsigned i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
        if (sigismember(&came, ending[i]) == 1 && sigismember(&before, ending[i]) == 0)
            return true;
    return false;
}
