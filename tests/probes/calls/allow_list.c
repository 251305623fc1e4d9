/* SPDX-License-Identifier: MIT */
/* A client that installs a seccomp filter when it is connected. Afterwards it may read, write and
 * exit, and any other system call kills it. Prints the number of stalled packets before and after.
 */
#include "filter.h"
#include "loopback.h"

enum { ROUNDS = 20, PACKET = 30 };

/* Calls only write and read. Returns false if another answer comes. */
static bool ask(int fd, unsigned number)
{
    char packet[PACKET], answer[PACKET];
    fill_pattern(packet, PACKET, number);
    for (int i = 0; i < PACKET; i += 10)
        write_all(fd, packet + i, 10);
    return read_all(fd, answer, PACKET) && memcmp(answer, packet, PACKET) == 0;
}

static int connect_to_port(const char *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(port)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return loopback_connect(&address);
}

int main(int argc, char **argv)
{
    int fd = argc < 3 ? -1 : connect_to_port(argv[1]);
    int64_t begin = now_ns();
    if (fd < 0)
        return 2;
    for (unsigned i = 0; i < ROUNDS; i++)
        if (!ask(fd, i))
            return 1;
    printf("ms_before %lld\n", (long long)(now_ns() - begin) / 1000000);
    fflush(stdout);
    if (!ALLOW_ONLY(strcmp(argv[2], "syscall") == 0, SYS_read, SYS_write, SYS_exit_group,
                    SYS_rt_sigreturn)) {
        perror("seccomp");
        return 2;
    }
    for (unsigned i = ROUNDS; i < 2 * ROUNDS; i++)
        if (!ask(fd, i))
            _exit(1);
    if (write(1, "shut in\n", 8) != 8)
        return 1;
    _exit(0);
}
