/* SPDX-License-Identifier: MIT */
/* See state.h and proc_pid_stat(5). */
#include "process/state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FLAG_EXITING = 0x4, FLAG_KERNEL_THREAD = 0x200000 }; /* linux/sched.h: PF_ */

int ns_state_read(int directory, const char *name, struct ns_state *state)
{
    char line[1024]; /* more than enough for the fields up to the start */
    const char *name_at, *at;
    unsigned flags;
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
    int error = n < 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
    if (error)
        return error;
    line[n] = '\0';
    name_at = strchr(line, '(');
    at = strrchr(line, ')'); /* the name may contain blanks and parentheses */
    if (!name_at || !at || at < name_at ||
        sscanf(at + 1,
               " %c %*s %*s %*s %*s %*s %u %*s %*s %*s %*s %*s %*s %*s %*s %*s"
               " %*s %*s %*s %" SCNu64,
               &state->letter, &flags, &state->start) != 3)
        return -EIO;
    snprintf(state->name, sizeof state->name, "%.*s", (int)(at - name_at - 1), name_at + 1);
    state->is_exiting = flags & FLAG_EXITING;
    state->is_kernel_thread = flags & FLAG_KERNEL_THREAD;
    return 0;
}

bool ns_state_is_gone(int directory, const char *name)
{
    struct ns_state state;
    return ns_state_read(directory, name, &state) != 0 || strchr("ZX", state.letter) ||
           state.is_exiting;
}
