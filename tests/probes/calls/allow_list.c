/* SPDX-License-Identifier: MIT */
/* A client that shuts itself in once it is connected: from then on it may read, write and exit, and
 * any other system call kills it. Prints how many of its packets stalled before and after. */
#include "packets.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void shut_in(int by_number)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof steps / sizeof *steps, steps};
    long result = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (result == 0 && by_number)
        result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter);
    else if (result == 0)
        result = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
    if (result != 0) {
        perror("seccomp");
        exit(2);
    }
}

int main(int argc, char **argv)
{
    int fd = argc < 3 ? -1 : connect_to(argv[1]);
    double begin = now_ms();
    if (fd < 0)
        return 2;
    for (unsigned i = 0; i < ROUNDS; i++)
        if (!ask(fd, i))
            return 1;
    printf("ms_before %.0f\n", now_ms() - begin);
    fflush(stdout);
    shut_in(strcmp(argv[2], "syscall") == 0);
    for (unsigned i = ROUNDS; i < 2 * ROUNDS; i++)
        if (!ask(fd, i))
            _exit(1);
    if (write(1, "shut in\n", 8) != 8)
        return 1;
    _exit(0);
}
