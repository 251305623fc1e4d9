/* SPDX-License-Identifier: MIT */
/* The main calls of transparency.c as a library. It is opened with dlopen or preloaded; then its
 * constructor makes the calls before main and before the constructors of libraries that were loaded
 * earlier. */
#include "calls.h"

void plugin_run(struct record *);
void plugin_run(struct record *of_program)
{
    record = of_program;
    calls_all();
}

/* For a program without threads (late_threads.c). */
int use_threads(void);
int use_threads(void)
{
    record_open();
    wait_time();
    wait_threads();
    record_flush();
    return 0;
}

__attribute__((constructor)) static void begin(void)
{
    if (!getenv("PROBE_CONSTRUCTOR"))
        return;
    record_open();
    record_context = "constructor";
    calls_main();
    record_flush();
}
