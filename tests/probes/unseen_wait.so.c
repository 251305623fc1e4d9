/* SPDX-License-Identifier: MIT */
/* For turns.py: a wait for input that no preloaded library sees, and reads in a new thread and of
 * two messages. */
#include "raw.h"

#include <pthread.h>

void unseen_wait(int fd);
long thread_read(int fd, size_t size);
long messages_read(int fd, size_t size);

void unseen_wait(int fd)
{
    struct pollfd input = {.fd = fd, .events = POLLIN};
    RAW(ppoll, &input, 1, NULL, NULL);
}

static void *read_one(void *at)
{
    static char data[65536];
    const long *asked = at;
    return (void *)recv((int)asked[0], data, (size_t)asked[1], 0);
}

long thread_read(int fd, size_t size)
{
    long asked[2] = {fd, (long)size};
    pthread_t thread;
    void *result;
    return pthread_create(&thread, NULL, read_one, asked) || pthread_join(thread, &result)
               ? -1
               : (long)result;
}

/* Each of size bytes. */
long messages_read(int fd, size_t size)
{
    static char data[2][4096];
    struct iovec parts[2] = {{data[0], size}, {data[1], size}};
    struct mmsghdr messages[2] = {{{.msg_iov = &parts[0], .msg_iovlen = 1}, 0},
                                  {{.msg_iov = &parts[1], .msg_iovlen = 1}, 0}};
    int read = recvmmsg(fd, messages, 2, 0, NULL);
    return read == 2 ? (long)messages[0].msg_len + (long)messages[1].msg_len : -1;
}
