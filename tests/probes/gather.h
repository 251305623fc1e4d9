/* SPDX-License-Identifier: MIT */
/* What the programs about "buffer": "user" share: how many writes lay in the program's own memory,
 * that is neither at the peer nor in the kernel. The same program runs with the kernel's buffer
 * and without the shim, where there must be none. */
#ifndef PROBES_GATHER_H
#define PROBES_GATHER_H

#include "life.h"

#include <sys/ioctl.h>

static int *in_memory;

static int unread(int fd)
{
    int bytes = 0;
    RAW(ioctl, fd, FIONREAD, &bytes, 0);
    return bytes;
}

/* Two small writes, "a" and "b". */
static void hold(struct conn conn)
{
    int before = unread(conn.peer);
    EXPECT(write(conn.fd, "a", 1) == 1);
    EXPECT(send(conn.fd, "b", 1, MSG_NOSIGNAL) == 1);
    if (unsent(conn.fd) == 0 && unread(conn.peer) == before)
        ++*in_memory;
}

__attribute__((unused)) static struct conn open_holding(void)
{
    struct conn conn = open_conn();
    hold(conn);
    return conn;
}

/* What is held now stays with the kernel, or nowhere. */
__attribute__((unused)) static void gathers_no_more(struct conn conn)
{
    int before = *in_memory;
    hold(conn);
    if (*in_memory != before)
        wrong("it still gathers");
    arrives(conn.peer, "ab");
}

#define GATHER_MAIN(scenarios)                                                                     \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        in_memory = mmap(NULL, sizeof *in_memory, PROT_READ | PROT_WRITE,                          \
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);                                       \
        int status = life_main(argc, argv, scenarios, sizeof scenarios / sizeof *scenarios);       \
        printf("in_memory %d\n", *in_memory);                                                      \
        return status;                                                                             \
    }

#endif
