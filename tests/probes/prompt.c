/* SPDX-License-Identifier: MIT */
/* Runs a command, or with -p changes a process, at nice -20, the highest priority, with a time
 * slice of 0.1 ms (since Linux 6.12), if that is permitted: when it wakes up, it runs at once, but
 * while it computes, others wait for it only so long. Usage: prompt COMMAND [ARGUMENT]...; prompt
 * -p PID */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* struct sched_attr of linux/sched/types.h */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

int main(int argc, char **argv)
{
    struct attributes attributes = {.size = sizeof(attributes), .nice = -20, .runtime = 100000};
    int is_process = argc == 3 && strcmp(argv[1], "-p") == 0;
    if (argc < 2)
        return 125;
    syscall(SYS_sched_setattr, is_process ? atoi(argv[2]) : 0, &attributes, 0);
    if (is_process)
        return 0;
    execvp(argv[1], argv + 1);
    perror(argv[1]);
    return 127;
}
