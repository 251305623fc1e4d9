/* SPDX-License-Identifier: MIT */
/* The actions of stress.c on descriptors: open, duplicate, replace, pass on, give to a child,
 * close. The caller holds the locks that stress.h requires. */
#pragma once

#include "stress_traffic.h"

extern char **environ;

static void end_begin(struct worker *w, struct end *end, int fd, bool nonblock)
{
    end->fds[0] = fd;
    end->count = 1;
    end->nonblock = nonblock;
    end->base = below(w, PERIOD);
    end->got = 0;
    atomic_store(&end->sent, 0);
}

static void link_open(struct worker *w, struct link *link)
{
    int type = below(w, 4) ? 0 : SOCK_NONBLOCK;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&w->address, sizeof w->address) != 0) {
        WRONG("connect: errno %d", errno);
        _exit(3);
    }
    int got = below(w, 2) ? accept4(w->listener, NULL, NULL, SOCK_CLOEXEC | type)
                          : accept(w->listener, NULL, NULL);
    if (got < 0) {
        WRONG("accept: errno %d", errno);
        _exit(3);
    }
    unsigned first = below(w, 2);
    end_begin(w, &link->ends[first], fd, false);
    end_begin(w, &link->ends[1 - first], got, (fcntl(got, F_GETFL) & O_NONBLOCK) != 0);
    w->opens++;
}

static void close_some_way(struct worker *w, int fd)
{
    FILE *stream;
    int result = 0;
    switch (below(w, 6)) {
    case 0:
        result = close_range((unsigned)fd, (unsigned)fd, 0);
        break;
    case 1:
        result = (int)syscall(SYS_close, fd);
        break;
    case 2: /* by raw system calls */
        result = (int)RAW(close, fd, 0, 0, 0);
        break;
    case 3:
        stream = fdopen(fd, "r");
        result = stream ? fclose(stream) : -1;
        break;
    default:
        errno = 12345;
        result = close(fd);
        if (errno != 12345)
            WRONG("close left errno %d", errno);
    }
    if (result != 0)
        WRONG("close: errno %d", errno);
}

static void end_close(struct worker *w, struct end *end)
{
    while (end->count > 0)
        close_some_way(w, end->fds[--end->count]);
}

/* Ends the connection by a close, or half of it by a shutdown, and checks that the rest arrives. */
static void link_close(struct worker *w, struct link *link)
{
    unsigned which = below(w, 2);
    struct end *one = &link->ends[which], *other = &link->ends[1 - which];
    bool reset = false;
    write_burst(w, one, other, below(w, 4));
    write_burst(w, other, one, below(w, 4));
    if (below(w, 2)) {
        reset = atomic_load(&other->sent) > one->got;
        end_close(w, one);
    } else if (shutdown(copy_of(w, one), SHUT_WR) != 0) {
        WRONG("shutdown: errno %d", errno);
    }
    read_to_end(w, other, one, reset);
    end_close(w, other);
    if (one->count > 0)
        read_to_end(w, one, other, false);
    end_close(w, one);
}

/* Adds a descriptor to the end, or closes one. */
static void change_copies(struct worker *w, struct end *end)
{
    if (end->count > 1 && below(w, 2)) {
        unsigned which = below(w, (unsigned)end->count);
        int fd = end->fds[which];
        end->fds[which] = end->fds[--end->count];
        close_some_way(w, fd);
        return;
    }
    if (end->count == COPIES)
        return;
    int fd = copy_of(w, end), copy;
    switch (below(w, 3)) {
    case 0:
        copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        break;
    case 1:
        copy = (int)syscall(SYS_dup, fd);
        break;
    default:
        copy = dup(fd);
    }
    if (copy < 0)
        WRONG("dup: errno %d", errno);
    else
        end->fds[end->count++] = copy;
}

/* A descriptor of other becomes one of end. */
static void replace_copy(struct worker *w, struct end *end, struct end *other)
{
    if (end->count == COPIES || other->count < 2)
        return;
    int fd = copy_of(w, end), number = other->fds[--other->count];
    int result = below(w, 2) ? dup2(fd, number) : dup3(fd, number, O_CLOEXEC);
    if (result != number)
        WRONG("dup2: %d, errno %d", result, errno);
    end->fds[end->count++] = number;
}

/* Sends a descriptor in a message, and receives it under another number. */
static void pass_right(struct worker *w, struct end *end)
{
    char byte = 0;
    struct right right;
    unsigned which = below(w, (unsigned)end->count);
    if (sendmsg(w->pair[0], right_message(&right, &byte, 1, end->fds[which]), 0) != 1)
        WRONG("sendmsg: errno %d", errno);
    close_some_way(w, end->fds[which]);
    ssize_t n = recvmsg(w->pair[1], right_message(&right, &byte, 1, -1), MSG_CMSG_CLOEXEC);
    end->fds[which] = right_of(&right);
    if (n != 1 || end->fds[which] < 0)
        WRONG("recvmsg: errno %d", errno);
}

/* The child makes only async-signal-safe calls. told is shared memory. */
static void be_child(struct worker *w, struct end *end, const struct end *to, uint64_t *told)
{
    static char name[] = "true";
    static char *const arguments[] = {name, NULL};
    atomic_store(&wrong_count, 0);
    atomic_store(&late_count, 0);
    write_burst(w, end, to, 1 + below(w, 4));
    *told = atomic_load(&end->sent);
    if (atomic_load(&wrong_count) || atomic_load(&late_count))
        _exit(atomic_load(&wrong_count) ? 1 : 4);
    if (below(w, 4) == 0)
        execve("/bin/true", arguments, environ);
    _exit(0);
}

/* The child shares the memory, and has its own descriptors. */
static pid_t vfork_closer(int copy, int other)
{
    pid_t pid = vfork();
    if (pid == 0) {
        close(copy);
        dup2(other, copy);
        _exit(0);
    }
    return pid;
}

/* A child has all connections of the process for a moment, and writes on one of them. */
static void fork_writer(struct worker *w, struct end *end, const struct end *to)
{
    static char name[] = "true";
    static char *const arguments[] = {name, NULL};
    uint64_t *told =
        mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned way = below(w, 4);
    pid_t pid = -1;
    int status = -1;
    if (told == MAP_FAILED)
        return;
    *told = atomic_load(&end->sent);
    if (way == 0)
        errno = posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ);
    else if (way == 1)
        pid = vfork_closer(end->fds[0], w->pair[0]);
    else if ((pid = fork()) == 0)
        be_child(w, end, to, told);
    bool ended = pid > 0 && waitpid(pid, &status, 0) == pid;
    if (ended && WIFEXITED(status) && WEXITSTATUS(status) == 4)
        LATE("a child's bytes");
    else if (!ended || status != 0)
        WRONG("a child made in way %u: status %#x, errno %d", way, (unsigned)status, errno);
    atomic_store(&end->sent, *told);
    munmap(told, sizeof *told);
    w->forks++;
}

static void set_options(struct worker *w, struct end *end)
{
    int value = (int)below(w, 2), fd = copy_of(w, end);
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, sizeof value) != 0)
        WRONG("setsockopt: errno %d", errno);
    end->nonblock = below(w, 4) == 0;
    value = end->nonblock;
    if (below(w, 2) ? ioctl(fd, FIONBIO, &value) != 0
                    : fcntl(fd, F_SETFL, end->nonblock ? O_NONBLOCK : 0) != 0)
        WRONG("FIONBIO: errno %d", errno);
}
