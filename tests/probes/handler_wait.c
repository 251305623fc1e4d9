/* SPDX-License-Identifier: MIT */
/* Bursts on a connection, and waits inside a signal handler and outside: how many threads there are
 * after each. A handler may have interrupted malloc, so that no thread may be started there. Prints
 * "handler N main N". With an argument there is no handler on the stack at any time, but what
 * sigaction() leaves behind, in an array of main's that is not filled otherwise. */
#include "loopback.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>

static int near_end;
static volatile sig_atomic_t in_handler;

static int threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int count = -2; /* . and .. */

    if (tasks == NULL)
        die_errno("/proc/self/task");
    while (readdir(tasks) != NULL)
        count++;
    closedir(tasks);
    return count;
}

static void burst(void)
{
    if (write(near_end, "a", 1) != 1 || write(near_end, "b", 1) != 1)
        die_errno("write");
}

static void handler(int number)
{
    (void)number;
    poll(NULL, 0, 0);
    in_handler = threads(); /* malloc is safe here: raise() interrupts nothing */
}

int main(int argc, char **argv)
{
    /* The kernel's struct sigaction is four words long. */
    volatile unsigned long left_behind[16][4] = {{0}};
    struct sockaddr_in address;

    loopback_listener(&address);
    near_end = loopback_connect(&address);
    signal(SIGUSR1, handler);
    burst();
    poll(NULL, 0, 0);
    burst(); /* the second: it would be held if there were a thread */
    for (size_t i = 0; argc > 1 && i < sizeof(left_behind) / sizeof(*left_behind); i++)
        if (syscall(SYS_rt_sigaction, SIGUSR1, NULL, left_behind[i], sizeof(unsigned long)) != 0)
            die_errno(argv[0]);
    if (argc == 1)
        raise(SIGUSR1);
    burst();
    poll(NULL, 0, 0);
    printf("handler %d main %d\n", (int)in_handler, threads());
    return 0;
}
