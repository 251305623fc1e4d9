/* SPDX-License-Identifier: MIT */
/* A program whose allocator and dl_iterate_phdr end it with exit status 3 while it is inside one of
 * its own calls on connections. It has more keys than libc keeps without an allocation, and makes
 * the calls from several threads, since each begins with nothing. */
#include "loopback.h"

#include <link.h>

static _Thread_local int inside;
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

static void taken(const char *what)
{
    if (!inside)
        return;
    dprintf(2, "%s was called inside a call\n", what);
    _exit(3);
}

void *malloc(size_t size)
{
    taken("malloc");
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    taken("calloc");
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    taken("realloc");
    return __libc_realloc(old, size);
}

int dl_iterate_phdr(int (*visit)(struct dl_phdr_info *, size_t, void *), void *context)
{
    static int (*next)(int (*)(struct dl_phdr_info *, size_t, void *), void *);
    taken("dl_iterate_phdr");
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "dl_iterate_phdr");
    return next(visit, context);
}

#define IN(call)                                                                                   \
    do {                                                                                           \
        inside = 1;                                                                                \
        if ((call) < 0 && errno != EAGAIN)                                                         \
            perror(#call);                                                                         \
        inside = 0;                                                                                \
    } while (0)

static void *talks(void *unused)
{
    int ends[2];
    char data[64];
    struct iovec vector = {data, 4};
    struct pollfd room = {.events = POLLOUT};
    struct timeval soon = {0, 1};
    fd_set set;
    pid_t child = -1;
    struct sockaddr_in address;
    int listener = loopback_listener(&address);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    IN(connect(ends[0], (struct sockaddr *)&address, sizeof address));
    ends[1] = accept(listener, NULL, NULL);
    close(listener);
    room.fd = ends[0];
    int epoll = epoll_create1(0);
    for (int round = 0; round < 8; round++) {
        for (int i = 0; i < 6; i++)
            IN(write(ends[0], "piece", 5));
        IN(writev(ends[0], &vector, 1));
        IN(poll(&room, 1, 1));
        IN(send(ends[0], "end", 3, 0));
        IN(read(ends[1], data, sizeof data));
        IN(write(ends[1], "answer", 6));
        IN(read(ends[0], data, 3));
        FD_ZERO(&set);
        FD_SET(ends[0], &set);
        IN(select(ends[0] + 1, &set, NULL, NULL, &soon));
        IN(epoll_wait(epoll, &(struct epoll_event){0}, 1, 1));
        IN(recv(ends[0], data, 3, 0));
        IN(usleep(1));
    }
    IN(child = fork());
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    IN(dup2(ends[0], ends[1]));
    IN(close(ends[0]));
    IN(close(ends[1]));
    return unused;
}

int main(void)
{
    enum { KEYS = 40, THREADS = 4 };
    pthread_key_t key;
    pthread_t thread;
    for (int i = 0; i < KEYS; i++)
        pthread_key_create(&key, NULL);
    talks(NULL);
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&thread, NULL, talks, NULL);
        pthread_join(thread, NULL);
    }
    puts("ended");
    return 0;
}
