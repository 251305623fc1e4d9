/* SPDX-License-Identifier: MIT */
/* A listener that a process without the library hands to a program with it. See promise.h. */
#include "promise.h"

/* Accepts one connection on descriptor 3, writes to it in pieces, and ends. */
SCENARIO("role-accepts")
{
    char byte;
    int fd = accept(3, NULL, NULL);
    EXPECT(fd >= 0);
    for (int i = 0; i < 20; i++) {
        EXPECT(read(fd, &byte, 1) == 1);
        EXPECT(write(fd, "one ", 4) == 4);
        EXPECT(write(fd, "two", 3) == 3);
    }
    is_governed(fd);
    close(fd);
}

/* Only the program that gets the listener has the library, which LISTENER_PRELOAD names. announced:
 * with LISTEN_FDS, as by a service manager. */
static void hands_listener(bool announced)
{
    struct sockaddr_in address;
    int listener = raw_listener(0, &address);
    int nodelay = kernel_option(listener, TCP_NODELAY),
        delay = kernel_option(listener, DELACK_MAX_US);
    int idle = kernel_option(listener, TCP_KEEPIDLE);
    EXPECT(getenv("LD_PRELOAD") == NULL && nodelay == 0);
    pid_t pid = fork();
    if (pid == 0) {
        char self[32];
        const char *preload = getenv("LISTENER_PRELOAD");
        int high = fcntl(listener, F_DUPFD, 10);
        dup2(high, 3);
        close(high);
        snprintf(self, sizeof self, "%d", (int)getpid());
        if (announced) {
            setenv("LISTEN_PID", self, 1);
            setenv("LISTEN_FDS", "1", 1);
        }
        if (preload)
            setenv("LD_PRELOAD", preload, 1);
        execl("/proc/self/exe", "promise_processes", "role-accepts", (char *)NULL);
        _exit(9);
    }
    int client = raw_client(&address);
    for (int i = 0; i < 20; i++) {
        answer(client, "?");
        arrives_within(client, "one two", 1000);
    }
    RAW(close, client, 0, 0, 0);
    child_ended(pid, 0);
    EXPECT(kernel_option(listener, TCP_NODELAY) == nodelay);
    EXPECT(kernel_option(listener, DELACK_MAX_US) == delay);
    EXPECT(kernel_option(listener, TCP_KEEPIDLE) == idle);
    RAW(close, listener, 0, 0, 0);
}

SCENE("listener-announced", hands_listener(true))
SCENE("listener-inherited", hands_listener(false))

LIFE_MAIN
