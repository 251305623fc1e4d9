/* SPDX-License-Identifier: MIT */
/* A listener that a process without the library hands to a program with it. See promise.h. */
#include "promise.h"

/* Accepts one connection on descriptor 3, writes to it in pieces, and ends. */
static int role_accepts(void)
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
    return results->wrong != 0;
}

/* The program that the listener is handed to has the library, this one has not: LISTENER_PRELOAD.
 * announced: as a service manager does. */
static void hands_listener(bool announced)
{
    struct sockaddr_in address;
    int listener = raw_listener(0, &address);
    int nodelay = option_of(listener, TCP_NODELAY), delay = option_of(listener, DELACK_MAX_US);
    int idle = option_of(listener, TCP_KEEPIDLE);
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
    int client = (int)RAW(socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0, 0);
    EXPECT(RAW(connect, client, &address, sizeof address, 0) == 0);
    for (int i = 0; i < 20; i++) {
        answer(client, "?");
        arrives_within(client, "one two", 1000);
    }
    RAW(close, client, 0, 0, 0);
    child_ended(pid, 0);
    EXPECT(option_of(listener, TCP_NODELAY) == nodelay);
    EXPECT(option_of(listener, DELACK_MAX_US) == delay);
    EXPECT(option_of(listener, TCP_KEEPIDLE) == idle);
    RAW(close, listener, 0, 0, 0);
}

static void listener_announced(void)
{
    hands_listener(true);
}

static void listener_inherited(void)
{
    hands_listener(false);
}

static const struct scenario scenarios[] = {
    {"listener-announced", listener_announced},
    {"listener-inherited", listener_inherited},
};

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "role-accepts") == 0) {
        results =
            mmap(NULL, sizeof *results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        alarm(20);
        return role_accepts();
    }
    return life_main(argc, argv, scenarios, sizeof scenarios / sizeof *scenarios);
}
