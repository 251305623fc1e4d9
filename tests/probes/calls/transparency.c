/* SPDX-License-Identifier: MIT */
/* Makes calls (calls.h) in a given place of a program and prints the result of each. The output
 * must be the same with and without the library. */
#include "calls.h"

#include <dlfcn.h>

static void after_fork(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        calls_main();
        _exit(0);
    }
    ended("the child", pid);
}

static void in_vfork_child(void)
{
    struct pair pair = open_pair();
    pid_t pid = vfork();
    if (pid == 0) {
        calls_main();
        close(pair.a);
        dup2(1, pair.b);
        _exit(0);
    }
    ended("the child", pid);
    CALL(write(pair.a, "after it", 8));
    expect_bytes(pair.b, 8);
    close_pair(pair);
}

static void on_signal(int number)
{
    (void)number;
    calls_main();
}

/* The handler runs while this thread is inside a blocking read and has a pending ACK. */
static void in_signal_handler(void)
{
    struct pair pair = open_pair(), owing = open_pair();
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec when = {{0, 0}, {0, 20000000}};
    timer_t timer;
    must(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "make a timer");
    owe_on(owing);
    timer_settime(timer, 0, &when, NULL);
    errno = UNTOUCHED;
    long result = read(pair.a, in, 4);
    int error = errno;
    timer_delete(timer);
    record_result("read", result, error);
    close_pair(pair);
    close_pair(owing);
}

static void *cancelled_in_read(void *fd)
{
    char byte;
    read(*(int *)fd, &byte, 1);
    return NULL;
}

static void *thread_calls(void *unused)
{
    (void)unused;
    calls_main();
    return NULL;
}

static void after_cancelled_thread(void)
{
    struct pair pair = open_pair();
    pthread_t thread;
    void *value = NULL;
    must(pthread_create(&thread, NULL, cancelled_in_read, &pair.a) == 0, "start a thread");
    CALL(pthread_cancel(thread));
    CALL(pthread_join(thread, &value));
    record_value("cancelled", value == PTHREAD_CANCELED);
    must(pthread_create(&thread, NULL, thread_calls, NULL) == 0, "start a thread");
    CALL(pthread_join(thread, &value));
    close_pair(pair);
}

static void at_exit(void)
{
    calls_main();
    record_flush();
}

static void from_plugin(const char *program)
{
    char path[4096];
    snprintf(path, sizeof path, "%s_plugin.so", program);
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    must(plugin != NULL, "load the plugin");
    void (*run)(struct record *) = NULL;
    *(void **)&run = dlsym(plugin, "plugin_run");
    run(record);
}

int main(int argc, char **argv)
{
    const char *place = argc > 1 ? argv[1] : "main";
    record_open();
    record_signals();
    record_context = place;
    if (strcmp(place, "main") == 0)
        calls_all();
    else if (strcmp(place, "fork") == 0)
        after_fork();
    else if (strcmp(place, "vfork") == 0)
        in_vfork_child();
    else if (strcmp(place, "handler") == 0)
        in_signal_handler();
    else if (strcmp(place, "cancelled") == 0)
        after_cancelled_thread();
    else if (strcmp(place, "atexit") == 0)
        atexit(at_exit);
    else if (strcmp(place, "plugin") == 0)
        from_plugin(argv[0]);
    else if (strcmp(place, "constructor") != 0) /* the preloaded plugin has done its part */
        return 2;
    record_flush();
    return 0;
}
