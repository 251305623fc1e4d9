/* SPDX-License-Identifier: MIT */
/* See experiment.h. Owns the coin's random bits. */
#include "observe/experiment.h"

#include "base/real.h"
#include "conn/kernel.h"
#include "observe/recorder.h"

#include <netinet/tcp.h>
#include <sys/syscall.h>

/* Takes 64 random bits at a time; the highest bit that is set says how many are left. */
static bool coin(uint64_t clock)
{
    static _Atomic uint64_t bits;
    uint64_t have = atomic_load(&bits), left;
    do {
        left = have;
        int saved = errno;
        if (left <= 1 && NS_REAL(syscall)(SYS_getrandom, &left, sizeof left, 1l) != sizeof left)
            left = clock >> 4; /* no generator yet: early in the machine's start */
        errno = saved;
        if (have <= 1)
            left |= UINT64_C(1) << 63;
    } while (!atomic_compare_exchange_weak(&bits, &have, left >> 1));
    return left & 1;
}

void ns_experiment(int fd, bool unanswered, struct ns_look *sample)
{
    enum ns_experiment what = ns_recorder_experiment();
    uint16_t own = sample->flags & (NS_LOOK_NODELAY | NS_LOOK_CORK);
    if (what == NS_EXPERIMENT_PUSH && sample->unsent && !own) {
        sample->flags |= NS_LOOK_TRIED;
        if (coin(sample->at) && ns_kernel_set(fd, IPPROTO_TCP, TCP_NODELAY, 1) == 0) {
            ns_kernel_set(fd, IPPROTO_TCP, TCP_NODELAY, 0);
            sample->flags |= NS_LOOK_PUSHED;
        }
    } else if (what == NS_EXPERIMENT_ACKNOWLEDGE && unanswered) {
        sample->flags |= NS_LOOK_TRIED;
        /* 2: the kernel goes on delaying this socket's ACKs; see ns_acknowledge in push.c */
        if (coin(sample->at) && ns_kernel_set(fd, IPPROTO_TCP, TCP_QUICKACK, 2) == 0)
            sample->flags |= NS_LOOK_ACKNOWLEDGED;
    }
}
