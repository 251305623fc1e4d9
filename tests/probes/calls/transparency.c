/* SPDX-License-Identifier: MIT */
/* Makes calls (calls.h) in a given place of a program and prints the result of each. The output
 * must be the same with and without the library, except that of "held". */
#include "calls.h"

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

/* Makes no call that the library sees. */
static int compute(void)
{
    clock_t end = clock() + CLOCKS_PER_SEC / 50;
    while (clock() < end)
        ;
    return 0;
}

/* The library holds what is written before a wait. */
static void calls_held(void)
{
    struct pair pair = open_pair();
    wait_holding = &pair;
    WAIT(compute());
    wait_time();
    wait_signals();
    wait_threads();
    wait_holding = NULL;
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
    record_context = place;
    if (strcmp(place, "main") == 0)
        calls_all();
    else if (strcmp(place, "held") == 0)
        calls_held();
    else if (strcmp(place, "cancelled") == 0)
        after_cancelled_thread();
    else if (strcmp(place, "atexit") == 0)
        atexit(at_exit);
    else if (strcmp(place, "plugin") == 0)
        from_plugin(argv[0]);
    else if (strcmp(place, "constructor") != 0) /* the preloaded plugin has made its calls */
        return 2;
    record_flush();
    return 0;
}
