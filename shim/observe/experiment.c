/* SPDX-License-Identifier: MIT */
/* See experiment.h. */
#include "observe/experiment.h"

#include "base/system.h"
#include "conn/kernel.h"
#include "observe/recorder.h"

#include <errno.h>
#include <netinet/tcp.h>

static bool chance(uint64_t clock)
{
    enum { NONBLOCK = 1 }; /* GRND_NONBLOCK; early in the system's start there is no generator */
    int saved = errno;
    uint8_t bits;
    if (NS_SYSTEM(SYS_getrandom, &bits, sizeof bits, NONBLOCK) != sizeof bits)
        bits = (uint8_t)(clock >> 4);
    errno = saved;
    return bits & 1;
}

void ns_experiment(int fd, bool unanswered, struct ns_look *sample)
{
    enum ns_experiment what = ns_recorder_experiment();
    uint16_t own = sample->flags & (NS_LOOK_NODELAY | NS_LOOK_CORK);
    if (what == NS_EXPERIMENT_PUSH && sample->unsent && !own) {
        sample->flags |= NS_LOOK_TRIED;
        if (chance(sample->at) && ns_kernel_set(fd, IPPROTO_TCP, TCP_NODELAY, 1) == 0) {
            ns_kernel_set(fd, IPPROTO_TCP, TCP_NODELAY, 0);
            sample->flags |= NS_LOOK_PUSHED;
        }
    } else if (what == NS_EXPERIMENT_ACKNOWLEDGE && unanswered) {
        sample->flags |= NS_LOOK_TRIED;
        /* 2: the kernel still delays later ACKs of this socket; see ns_acknowledge in pending.c */
        if (chance(sample->at) && ns_kernel_set(fd, IPPROTO_TCP, TCP_QUICKACK, 2) == 0)
            sample->flags |= NS_LOOK_ACKNOWLEDGED;
    }
}
