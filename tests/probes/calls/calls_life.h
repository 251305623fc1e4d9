/* SPDX-License-Identifier: MIT */
/* The lives of descriptors and processes: sockets made, connected, shared and closed; programs
 * started in every way that the call table has. */
#pragma once

#include "record.h"

#include <linux/futex.h>
#include <pty.h>

extern char **environ;

/* Ranges and numbers that the fuzzer does not give. */
static void life_descriptors(void)
{
    struct pair pair = open_pair();
    CALL(socket(-1, -1, -1));
    CALL(dup2(pair.a, 200));
    CALL(dup2(pair.a, 201));
    CALL(dup2(pair.a, -1));
    CALL(dup2(pair.a, 1 << 30));
    CALL(close_range(200, 201, 0x100));
    CALL(close_range(201, 200, 0));
    CALL(close_range(202, ~0U, 0));
    CALL(write(201, "dup", 3));
    expect_bytes(pair.b, 3);
    CALL_VOID(closefrom(200));
    CALL(fcntl(200, F_GETFD) + fcntl(201, F_GETFD));
    CALL(write(pair.a, "still", 5));
    expect_bytes(pair.b, 5);
    close_pair(pair);
}

int __dprintf_chk(int, int, const char *, ...);
int __vdprintf_chk(int, int, const char *, va_list);

__attribute__((format(printf, 2, 3))) static void life_prints(int fd, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    CALL(vdprintf(fd, format, arguments));
    va_end(arguments);
    va_start(arguments, format);
    CALL(__vdprintf_chk(fd, 1, format, arguments));
    va_end(arguments);
}

static void life_streams(void)
{
    struct pair pair = open_pair();
    CALL(dprintf(pair.a, "%d", 1));
    CALL(__dprintf_chk(pair.a, 1, "%d", 2));
    life_prints(pair.a, "%d", 3);
    expect_bytes(pair.b, 4);
    life_prints(NO_FD, "%d", 3);
    CALL_POINTER(fdopen(pair.a, "nonsense"));
    CALL_POINTER(fdopen(NO_FD, "r"));
    close_pair(pair);
}

char *__fgets_chk(char *, size_t, int, FILE *);
char *__fgets_unlocked_chk(char *, size_t, int, FILE *);
size_t __fread_chk(void *, size_t, size_t, size_t, FILE *);
size_t __fread_unlocked_chk(void *, size_t, size_t, size_t, FILE *);

/* Reads from a stream of a connection, at its beginning, at its end, and from one that is not open
 * for reading. */
static void life_reads(FILE *stream)
{
    enum { ROOM = 8 };
    char text[ROOM], *line = NULL;
    size_t room = 0;
    ssize_t (*volatile get_line)(char **, size_t *, FILE *) = getline; /* otherwise it is inlined */
    CALL_POINTER(fgets(text, ROOM, stream));
    CALL_POINTER(fgets_unlocked(text, ROOM, stream));
    CALL_POINTER(__fgets_chk(text, ROOM, ROOM, stream));
    CALL_POINTER(__fgets_unlocked_chk(text, ROOM, ROOM, stream));
    CALL(get_line(&line, &room, stream));
    CALL(getdelim(&line, &room, ';', stream));
    CALL(__getdelim(&line, &room, ';', stream));
    CALL(fread(text, 2, 1, stream));
    CALL((fread_unlocked)(text, 2, 1, stream));
    CALL(__fread_chk(text, ROOM, 2, 1, stream));
    CALL(__fread_unlocked_chk(text, ROOM, 2, 1, stream));
    CALL(__uflow(stream));
    free(line);
}

static void life_stream_reads(void)
{
    static const char lines[] = "a\nb\nc\nd\ne\nf;g;hhiijjkkl";
    struct pair pair = open_pair();
    CALL(write(pair.a, lines, sizeof lines - 1));
    close(pair.a);
    FILE *stream = fdopen(pair.b, "r"), *only_write = fdopen(dup(pair.b), "w");
    life_reads(stream);
    life_reads(stream);
    life_reads(only_write);
    fclose(only_write);
    fclose(stream);
}

static void life_numbers(void)
{
    uint32_t word = 5;
    struct timespec moment = {0, 1000000};
    int fd = dup(0);
    CALL(syscall(SYS_getpid) == getpid());
    CALL(syscall(SYS_close, fd));
    CALL(syscall(SYS_close, fd));
    CALL(syscall(-1));
    CALL(syscall(SYS_futex, &word, FUTEX_WAIT, 4, &moment, NULL, 0));
    CALL(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 5, &moment, NULL, 0));
    CALL(syscall(SYS_futex, nowhere, FUTEX_WAIT, 4, NULL, NULL, 0));
    CALL(syscall(SYS_close_range, 401u, 400u, 0u));
    CALL(syscall(SYS_preadv2, -1, NULL, 0UL, 0L, 0L, 0));
    CALL(unshare(0x55));
    CALL(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
    CALL(prctl(-1, 0, 0, 0, 0));
    CALL(prctl(PR_SET_NAME, nowhere));
    CALL(setuid(getuid()));
    CALL(seteuid(geteuid()));
    CALL(setreuid((uid_t)-1, (uid_t)-1));
    CALL(setresuid((uid_t)-1, (uid_t)-1, (uid_t)-1));
    CALL(setuid((uid_t)-1));
}

/* An address that cannot be read, or only in part. */
static void life_addresses(void)
{
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sockaddr *last = (struct sockaddr *)(page + 4096 - sizeof *last);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CALL(munmap(page + 4096, 4096));
    last->sa_family = AF_INET6;
    CALL(connect(fd, nowhere, sizeof *last));
    CALL(connect(fd, last, sizeof(struct sockaddr_in6)));
    CALL(connect(fd, last, 0));
    close(fd);
    munmap(page, 4096);
}

/* The loader finds a library by the run path of the caller. */
static void life_loader(void)
{
    CALL(dlopen("no-such-library.so", RTLD_NOW) == NULL);
    CALL(dlopen(NULL, RTLD_NOW) != NULL);
    CALL(dlopen(NULL, 0) == NULL);
    CALL(dlerror() != NULL);
    CALL(dlclose(dlopen(NULL, RTLD_NOW)));
}

static void ended(const char *how, pid_t pid)
{
    int status = -1;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        status = -1;
    record_add("%s: %s ended %d\n", record_context, how, status);
}

#define IN_CHILD(make, ...)                                                                        \
    do {                                                                                           \
        pid_t pid_ = make();                                                                       \
        if (pid_ == 0) {                                                                           \
            __VA_ARGS__;                                                                           \
            _exit(99);                                                                             \
        }                                                                                          \
        ended(#make ": " #__VA_ARGS__, pid_);                                                      \
    } while (0)

/* sh exits with the number of its arguments, or with X. */
#define SH "/bin/sh"
static char *const count_arguments[] = {"sh", "-c", "exit $#", "sh", "1", "2", "3", NULL};
static char *const say_x[] = {"sh", "-c", "exit $X", NULL};
static char *const with_x[] = {"X=33", NULL};

static void life_exec(void)
{
    int shell = open(SH, O_RDONLY | O_CLOEXEC);
    CALL(execve("/nonexistent", count_arguments, environ));
    CALL(execv("/nonexistent", count_arguments));
    CALL(execvp("nonexistent-program", count_arguments));
    CALL(execvpe("nonexistent-program", count_arguments, environ));
    CALL(execl("/nonexistent", "x", (char *)NULL));
    CALL(execlp("nonexistent-program", "x", "y", (char *)NULL));
    CALL(execle("/nonexistent", "x", (char *)NULL, environ));
    CALL(fexecve(NO_FD, count_arguments, environ));
    CALL(execveat(NO_FD, "x", count_arguments, environ, 0));
    CALL(execve("/dev/null", count_arguments, environ));
    IN_CHILD(fork, execve(SH, count_arguments, environ));
    IN_CHILD(fork, execve(SH, say_x, with_x));
    IN_CHILD(fork, execv(SH, count_arguments));
    IN_CHILD(fork, execvp("sh", count_arguments));
    IN_CHILD(fork, execvpe("sh", say_x, with_x));
    IN_CHILD(fork, execl(SH, "sh", "-c", "exit $#", "sh", "1", "2", (char *)NULL));
    IN_CHILD(fork, execl(SH, "sh", "-c", "exit $#", "sh", "1", "2", "3", "4", "5", "6", "7", "8",
                         "9", "10", "11", (char *)NULL));
    IN_CHILD(fork, execlp("sh", "sh", "-c", "exit $#", "sh", "1", (char *)NULL));
    IN_CHILD(fork, execle(SH, "sh", "-c", "exit $X", (char *)NULL, with_x));
    IN_CHILD(fork, fexecve(shell, count_arguments, environ));
    IN_CHILD(fork, execveat(shell, "", count_arguments, environ, AT_EMPTY_PATH));
    IN_CHILD(vfork, execve(SH, count_arguments, environ));
    IN_CHILD(vfork, execl(SH, "sh", "-c", "exit $#", "sh", "1", "2", (char *)NULL));
    IN_CHILD(vfork, execvp("nonexistent-program", count_arguments));
    close(shell);
}

/* The end of the pipe shows the daemon's end. */
static void life_daemon(void)
{
    int ends[2];
    char byte;
    must(pipe2(ends, O_CLOEXEC) == 0, "make a pipe");
    pid_t pid = fork();
    if (pid == 0) {
        CALL(daemon(1, 1));
        _exit(0);
    }
    close(ends[1]);
    CALL(read(ends[0], &byte, 1));
    close(ends[0]);
    ended("daemon", pid);
}

static int in_clone(void *pair)
{
    return close(((struct pair *)pair)->a);
}

static void life_processes(void)
{
    static char stack[64 * 1024] __attribute__((aligned(16)));
    struct pair pair = open_pair();
    pid_t pid = -1;
    ended("clone", clone(in_clone, stack + sizeof stack, SIGCHLD, &pair));
    CALL(write(pair.a, "after it", 8));
    expect_bytes(pair.b, 8);
    close_pair(pair);
    CALL(clone(NULL, NULL, 0, NULL));
    IN_CHILD(fork, _Exit(6));
    life_daemon();
    IN_CHILD(_Fork, _exit(8));
    CALL(posix_spawnp(&pid, "sh", NULL, NULL, say_x, with_x));
    ended("posix_spawnp", pid);
    CALL(posix_spawn(&pid, "/nonexistent", NULL, NULL, count_arguments, environ));
    CALL(posix_spawnp(&pid, "nonexistent-program", NULL, NULL, count_arguments, environ));
    int terminal = -1;
    pid = forkpty(&terminal, NULL, NULL, NULL);
    if (pid == 0)
        _exit(isatty(0) ? 11 : 12);
    ended("forkpty", pid);
    CALL(close(terminal));
    CALL(system("exit 12"));
    CALL(system(none) != 0);
    CALL_POINTER(popen("echo out", "nonsense"));
}

/* Calls for every context, because they make no process. */
static void calls_life_main(void)
{
    life_descriptors();
    life_numbers();
}

static void calls_life(void)
{
    calls_life_main();
    life_streams();
    life_stream_reads();
    life_addresses();
    life_loader();
    life_exec();
    life_processes();
}
