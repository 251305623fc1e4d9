/* SPDX-License-Identifier: MIT */
/* What /proc/PID/stat tells of a process; anybody may read it. */
#ifndef NS_STATE_H
#define NS_STATE_H

#include <stdbool.h>
#include <stdint.h>

struct ns_state {
    char letter; /* 'Z': only its exit status is left */
    bool is_exiting, is_kernel_thread;
    char name[16];  /* the kernel's, cut; another than at its start if it has renamed itself */
    uint64_t start; /* in clock ticks after boot: with its pid, which process it is */
};

/* name: of the file, seen from this directory. 0 or -errno. Not async-signal-safe. */
int ns_state_read(int directory, const char *name, struct ns_state *state);

#endif
