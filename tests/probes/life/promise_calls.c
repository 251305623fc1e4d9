/* SPDX-License-Identifier: MIT */
/* Calls that a program makes many of, for strace: after the call of getppid nothing else. Usage:
 * promise_calls file-reads|sendmsgs. See promise.h. */
#include "promise.h"

enum { READS = 200, SENDS = 100 };

/* A server that has read a request, and reads a file in pieces before it answers. */
SCENARIO("file-reads")
{
    struct conn conn = open_conversing();
    char data[64];
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    owe(conn);
    RAW(getppid, 0, 0, 0, 0);
    for (int i = 0; i < READS; i++)
        EXPECT(read(file, data, sizeof data) == sizeof data);
    RAW(getppid, 0, 0, 0, 0);
    close(file);
    close_conn(conn);
}

SCENARIO("sendmsgs")
{
    struct conn conn = open_conversing();
    struct iovec one = {(char[]){"x"}, 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1};
    RAW(getppid, 0, 0, 0, 0);
    for (int i = 0; i < SENDS; i++)
        EXPECT(sendmsg(conn.fd, &message, 0) == 1);
    RAW(getppid, 0, 0, 0, 0);
    close_conn(conn);
}

LIFE_MAIN
