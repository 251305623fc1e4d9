/* SPDX-License-Identifier: MIT */
/* Reads /proc/PID/stat, which every user may read. */
#ifndef NS_STATE_H
#define NS_STATE_H

#include <stdbool.h>
#include <stdint.h>

struct ns_state {
    char letter; /* 'Z': a zombie */
    bool is_exiting, is_kernel_thread;
    char name[16];  /* the kernel's name for it, cut; a process can change it */
    uint64_t start; /* in clock ticks after boot; identifies a process together with its pid */
};

/* name: the path of the file relative to directory. 0 or -errno. Not async-signal-safe. */
int ns_state_read(int directory, const char *name, struct ns_state *state);

/* Is the process exiting, a zombie, or gone? */
bool ns_state_is_gone(int directory, const char *name);

#endif
