/* SPDX-License-Identifier: MIT */
/* A client that shuts itself in once it is connected: from then on it may read, write and exit, and
 * any other system call kills it. Prints how many of its packets stalled before and after. */
#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 20, PACKET = 30 };

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

/* The same bytes as those of tcp_nodelay_client. */
static void fill(char *data, unsigned seed)
{
    unsigned state = seed * 2654435761u + 1;
    for (int i = 0; i < PACKET; i++) {
        state = state * 1664525u + 1013904223u;
        data[i] = (char)('a' + (state >> 16) % 26);
    }
}

static void ask(int fd, unsigned number)
{
    char packet[PACKET], answer[PACKET];
    size_t have = 0;
    fill(packet, number);
    for (int i = 0; i < PACKET; i += 10)
        if (write(fd, packet + i, 10) != 10)
            exit(1);
    while (have < PACKET) {
        ssize_t got = read(fd, answer + have, PACKET - have);
        if (got <= 0)
            exit(1);
        have += (size_t)got;
    }
    if (memcmp(answer, packet, PACKET) != 0)
        exit(1);
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct timespec begin, end;
    if (argc < 3)
        return 2;
    address.sin_port = htons((unsigned short)atoi(argv[1]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        return 1;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (unsigned i = 0; i < ROUNDS; i++)
        ask(fd, i);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("ms_before %ld\n",
           (end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000);
    fflush(stdout);
    shut_in(strcmp(argv[2], "syscall") == 0);
    for (unsigned i = ROUNDS; i < 2 * ROUNDS; i++)
        ask(fd, i);
    if (write(1, "shut in\n", 8) != 8)
        return 1;
    _exit(0);
}
