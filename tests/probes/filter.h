/* SPDX-License-Identifier: MIT */
/* A seccomp filter that a program installs for itself. */
#pragma once

#include "system.h"
#include <linux/filter.h>
#include <linux/seccomp.h>

enum { FILTERED_MOST = 20 };

/* The listed calls get the first action (SECCOMP_RET_...), all others the second one. A list ends
 * with -1 and has at most FILTERED_MOST calls. */
static bool filter_calls(bool by_number, const int *calls, unsigned listed, unsigned others)
{
    struct sock_filter steps[2 * FILTERED_MOST + 2] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    struct sock_fprog filter = {1, steps};
    for (int i = 0; calls[i] != -1; i++) {
        steps[filter.len++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
        steps[filter.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, listed);
    }
    steps[filter.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, others);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return false;
    return (by_number ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter)
                      : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) == 0;
}

/* A filter without a valid instruction: does the kernel refuse it? */
__attribute__((unused)) static bool is_refused_filter(bool by_number)
{
    struct sock_filter step = {.code = 0xffff};
    struct sock_fprog filter = {1, &step};
    return (by_number ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter)
                      : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) == -1;
}

/* All calls but the listed ones kill the process. FORBID_NOTHING allows every call. */
#define ALLOW_ONLY(by_number, ...)                                                                 \
    filter_calls(by_number, (const int[]){__VA_ARGS__, -1}, SECCOMP_RET_ALLOW,                     \
                 SECCOMP_RET_KILL_PROCESS)
#define FORBID_NOTHING(by_number)                                                                  \
    filter_calls(by_number, (const int[]){-1}, SECCOMP_RET_ALLOW, SECCOMP_RET_ALLOW)
