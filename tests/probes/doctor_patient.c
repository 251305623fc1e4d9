// SPDX-License-Identifier: MIT
// A process to look at. It does one thing, says "ready" and a number, and waits until it is killed.
// Usage: doctor_patient pause | filter | thread | leader | zombie | hidden | namespace
#include "filter.h"

/* musl has no dlmopen. */
extern __typeof__(dlmopen) dlmopen __attribute__((weak));

static void *in_thread(void *unused)
{
    (void)unused;
    printf("ready %ld\n", syscall(SYS_gettid));
    fflush(stdout);
    for (;;)
        pause();
    return NULL;
}

static long zombie(void)
{
    siginfo_t info;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    return waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0 ? child : -1;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    long number = 0;
    int failed = 0;
    pthread_t thread;
    if (strcmp(what, "filter") == 0)
        failed = !FORBID_NOTHING(false);
    else if (strcmp(what, "zombie") == 0)
        failed = (number = zombie()) < 0;
    else if (strcmp(what, "hidden") == 0)
        failed = prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    else if (strcmp(what, "namespace") == 0)
        failed = !dlmopen || dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW) == NULL;
    else if (strcmp(what, "thread") == 0 || strcmp(what, "leader") == 0)
        failed = pthread_create(&thread, NULL, in_thread, NULL);
    else
        failed = strcmp(what, "pause") != 0;
    if (failed) {
        fprintf(stderr, "doctor_patient: cannot %s\n", what);
        return EXIT_FAILURE;
    }
    if (strcmp(what, "leader") == 0)
        pthread_exit(NULL); /* the other thread continues */
    if (strcmp(what, "thread") != 0)
        printf("ready %ld\n", number);
    fflush(stdout);
    for (;;)
        pause();
}
