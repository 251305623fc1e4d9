/* SPDX-License-Identifier: MIT */
/* Seccomp filters that a program installs for itself. One kills on a single system call, which the
 * program does not make: the library must not make it either. The other one permits everything;
 * then the sockets must have the program's own options. See promise.h. */
#include "filter.h"
#include "promise.h"

#include <spawn.h>

static char name_of_true[] = "true";
static char *const just_true[] = {name_of_true, NULL};
static char *const no_environment[] = {NULL};
static const char path_of_true[] = "/bin/true";

static void execs(int fd)
{
    (void)fd;
    execve(path_of_true, just_true, no_environment);
    _exit(9);
}

static void spawns(int fd)
{
    pid_t pid = -1;
    (void)fd;
    EXPECT(posix_spawn(&pid, path_of_true, NULL, NULL, just_true, no_environment) == 0);
    child_ended(pid, 0);
}

static void vforks(int fd)
{
    (void)fd;
    pid_t pid = vfork();
    if (pid == 0)
        _exit(0);
    child_ended(pid, 0);
}

static void runs_a_shell(int fd)
{
    (void)fd;
    unsetenv("LD_PRELOAD"); /* the filter is inherited, and a shell has no connection */
    EXPECT(system("true") == 0);
}

static void opens_a_stream(int fd)
{
    EXPECT(fdopen(fd, "w") != NULL);
}

static void becomes_standard(int fd)
{
    EXPECT(dup2(fd, 0) == 0);
}

static void hands_over(int fd)
{
    int pair[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    send_right(pair[0], fd);
}

static void goes_under(int fd)
{
    int null = open("/dev/null", O_RDWR);
    EXPECT(dup2(null, fd) == fd);
}

static void closes_another(int fd)
{
    (void)fd;
    EXPECT(close(open("/dev/null", O_RDWR)) == 0);
}

static int ends_at_once(void *unused)
{
    (void)unused;
    _exit(0);
}

static void lives_through(int forbidden, void (*act)(int fd), const char *name)
{
    pid_t pid = fork();
    if (pid == 0) {
        alarm(5);
        struct conn conn = open_conn();
        EXPECT(write(conn.fd, "a", 1) == 1 && write(conn.fd, "b", 1) == 1);
        is_governed(conn.fd);
        if (forbidden == SYS_getpid)
            child_ended(clone_in_memory(ends_at_once, NULL, CLONE_VFORK), 0);
        EXPECT(FORBID(false, forbidden));
        act(conn.fd);
        _exit(results->wrong != 0);
    }
    int status = ended_within(pid, 6000);
    if (status != 0)
        wrong("%s: ended with %#x", name, status);
}

#define LIVES_THROUGH(forbidden, act) lives_through(forbidden, act, #act)

SCENARIO("kills")
{
    LIVES_THROUGH(SYS_setsockopt, execs);
    LIVES_THROUGH(SYS_setsockopt, spawns);
    LIVES_THROUGH(SYS_setsockopt, vforks);
    LIVES_THROUGH(SYS_setsockopt, runs_a_shell);
    LIVES_THROUGH(SYS_setsockopt, opens_a_stream);
    LIVES_THROUGH(SYS_setsockopt, becomes_standard);
    LIVES_THROUGH(SYS_setsockopt, hands_over);
    LIVES_THROUGH(SYS_fcntl, goes_under);
    LIVES_THROUGH(SYS_getpid, closes_another);
}

/* The program has a listener, a connection, and another connection on which it has set TCP_NODELAY.
 */
static void permits(bool by_number)
{
    struct sockaddr_in address;
    bool shimmed = getenv("LD_PRELOAD") != NULL;
    int on = 1, listener = seen_listener(&address);
    EXPECT(has_nodelay(listener) == shimmed);
    struct conn conn = open_conversing(), own = open_conversing();
    EXPECT(setsockopt(own.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
    EXPECT(FORBID_NOTHING(by_number));
    EXPECT(!has_nodelay(listener));
    EXPECT(!has_nodelay(conn.fd));
    EXPECT(has_nodelay(own.fd));
    int client = raw_client(&address);
    int server = accept(listener, NULL, NULL);
    EXPECT(!has_nodelay(server));
    never_asked(listener);
    never_asked(conn.fd);
    never_asked(server);
    close(listener);
    close(server);
    RAW(close, client, 0, 0, 0);
    close_conn(conn);
    close_conn(own);
}

/* The parent goes on to accept from its listener, and the library in it knows nothing of the
 * filter. */
SCENARIO("of-a-child")
{
    struct sockaddr_in address;
    bool shimmed = getenv("LD_PRELOAD") != NULL;
    int listener = seen_listener(&address);
    EXPECT(has_nodelay(listener) == shimmed);
    pid_t pid = fork();
    if (pid == 0) {
        EXPECT(FORBID_NOTHING(false));
        _exit(results->wrong != 0);
    }
    child_ended(pid, 0);
    EXPECT(has_nodelay(listener) == shimmed);
    close(listener);
}

SCENE("permits", permits(false))
SCENE("permits-by-number", permits(true))

LIFE_MAIN
