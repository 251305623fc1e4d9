/* SPDX-License-Identifier: MIT */
/* Stands behind the shim, so its constructor comes first, and makes moments that tests cannot wait
 * for: in the middle of a flush of gathered bytes (behind_flush), in the middle of a push
 * (behind_push), and before a send (behind_send). What BEHIND names it does early: "sigaction"
 * installs a handler and "cancel_type" has the first thread cancelled anywhere, both before the
 * shim has started; "meanwhile" installs one in another thread while the shim asks which there are.
 */
#include "behind.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

extern moment behind_flush, behind_push, behind_send;
moment behind_flush, behind_push, behind_send;

static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

long syscall(long number, ...)
{
    static long (*real)(long, ...);
    long argument[6];
    va_list arguments;
    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        argument[i] = va_arg(arguments, long);
    va_end(arguments);
    if (!real)
        *(void **)&real = next("syscall");
    if (number == SYS_sendto && behind_flush)
        behind_flush();
    return real(number, argument[0], argument[1], argument[2], argument[3], argument[4],
                argument[5]);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
    static int (*real)(int, int, int, const void *, socklen_t);
    if (!real)
        *(void **)&real = next("setsockopt");
    int result = real(fd, level, name, value, size);
    if (level == IPPROTO_TCP && name == TCP_NODELAY && behind_push)
        behind_push();
    return result;
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
    static ssize_t (*real)(int, const void *, size_t, int);
    if (!real)
        *(void **)&real = next("send");
    if (behind_send)
        behind_send();
    return real(fd, data, size, flags);
}

static void does_nothing(int number)
{
    (void)number;
}

static void *installs(void *unused)
{
    struct sigaction action = {.sa_handler = does_nothing, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL); /* the shim's, as for everybody */
    return unused;
}

static bool is_asked_for(const char *what)
{
    const char *named = getenv("BEHIND");
    return named && strcmp(named, what) == 0;
}

int sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    static int (*real)(int, const struct sigaction *, struct sigaction *);
    pthread_t thread;
    if (!real)
        *(void **)&real = next("sigaction");
    if (!action && number == SIGRTMAX && is_asked_for("meanwhile") &&
        pthread_create(&thread, NULL, installs, NULL) == 0)
        pthread_join(thread, NULL);
    return real(number, action, before);
}

__attribute__((constructor)) static void early(void)
{
    if (is_asked_for("sigaction"))
        installs(NULL);
    if (is_asked_for("cancel_type"))
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
}
