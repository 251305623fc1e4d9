/* SPDX-License-Identifier: MIT */
/* What it costs a process to make its first connection: the time that passed, and the processor
 * time of all of its threads. */
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>

static double now_ms(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

int main(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)&address, len) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &len) != 0)
        return 2;
    double took = now_ms(CLOCK_MONOTONIC), used = now_ms(CLOCK_PROCESS_CPUTIME_ID);
    if (connect(fd, (struct sockaddr *)&address, len) != 0)
        return 2;
    took = now_ms(CLOCK_MONOTONIC) - took;
    used = now_ms(CLOCK_PROCESS_CPUTIME_ID) - used;
    printf("took_ms %.1f used_ms %.1f\n", took, used);
    return 0;
}
