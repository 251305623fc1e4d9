/* SPDX-License-Identifier: MIT */
/* A program with one connection to itself, over which it sends bursts of small writes and gets
 * answers; it can end in all the ways in which a process ends. Usage: report STEP...; it makes the
 * steps in turn. The library must not print on stdout. */
#include "filter.h"
#include "loopback.h"
#include "scenario.h"

static int listener = -1, near = -1, far = -1;

SCENARIO_NAMED(joins, "joins")
{
    struct sockaddr_in address;
    listener = loopback_listener(&address);
    near = loopback_connect(&address);
    far = accept_one(listener);
}

/* Ten writes per burst, so that the library joins them. */
SCENARIO("talks")
{
    char data[20];
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 10; i++)
            write_all(near, "ab", 2);
        if (!read_all(far, data, sizeof(data)) ||
            memcmp(data, "abababababababababab", sizeof(data)))
            _exit(1);
        write_all(far, "x", 1);
        if (!read_all(near, data, 1) || *data != 'x')
            _exit(1);
    }
}

/* The parent continues when the child has ended. Returns whether this is the child. */
static int in_child(void)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        return 1;
    if (waitpid(child, &status, 0) != child || status != 0)
        die("the child failed");
    return 0;
}

static void handler(int signal_number)
{
    (void)signal_number;
    _exit(0);
}

SCENARIO("handler")
{
    static char stack[16384];
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof(stack)}, NULL);
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handler, .sa_flags = SA_ONSTACK}, NULL);
    raise(SIGUSR1);
}

SCENARIO("refused")
{
    if (!is_refused_filter(false))
        die("an invalid filter is installed");
}

/* Writing, closing and exiting are allowed; all other calls kill. */
SCENARIO("filter")
{
    if (!ALLOW_ONLY(false, SYS_exit_group, SYS_write, SYS_close))
        die_errno("seccomp");
}

/* Only reading, writing and exiting are allowed. */
static void reads_and_writes(bool by_number)
{
    if (!ALLOW_ONLY(by_number, SYS_read, SYS_write, SYS_exit_group, SYS_rt_sigreturn))
        die_errno("seccomp");
}

SCENE("filter-reads", reads_and_writes(false))
SCENE("filter-reads-by-number", reads_and_writes(true))

SCENARIO("vfork")
{
    int status;
    pid_t child = vfork();
    if (child == 0)
        _exit(0);
    if (waitpid(child, &status, 0) != child || status != 0)
        die("the child failed");
}

/* The thread has a pending cancellation when it ends the process. A cancellation point on the way
 * would end only the thread, and the process with 3. */
static void *ends(void *unused)
{
    (void)unused;
    pthread_cancel(pthread_self());
    _exit(0);
}

SCENARIO("cancelled")
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, ends, NULL) != 0)
        die("no thread");
    pthread_join(thread, NULL);
    _exit(3);
}

SCENARIO_NAMED(ends_at_once, "_exit")
{
    _exit(0);
}

static void replaces_stderr(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || dup2(fd, 2) != 2)
        die_errno("dup2");
    close(fd);
}

SCENE("closes", close(near))

SCENARIO("serves")
{
    struct sockaddr_in address;
    loopback_listener(&address);
}

SCENE("exit", exit(0))
SCENE("_Exit", _Exit(0))
SCENE("quick_exit", quick_exit(0))
SCENE("abort", abort())
SCENE("exit_group", syscall(SYS_exit_group, 0))
SCENE("killed", raise(SIGTERM))
SCENE("_exit-in-exit", atexit(ends_at_once))

SCENARIO("_exit-in-quick_exit")
{
    at_quick_exit(ends_at_once);
    quick_exit(0);
}

SCENE("close-stderr", close(2))

static void once(const char *step)
{
    if (strncmp(step, "stderr=", 7) == 0) {
        replaces_stderr(step + 7);
        return;
    }
    if (!run_scenario(step, strlen(step)))
        die("no such step: %s", step);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "fork") != 0) {
            once(argv[i]);
        } else if (in_child()) { /* up to "parent" are the child's steps */
            while (++i < argc && strcmp(argv[i], "parent") != 0)
                once(argv[i]);
            _exit(0);
        } else {
            while (i < argc && strcmp(argv[i], "parent") != 0)
                i++;
        }
    }
    return 0;
}
