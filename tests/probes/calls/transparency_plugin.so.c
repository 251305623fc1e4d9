/* SPDX-License-Identifier: MIT */
/* The main calls of transparency.c as a library: opened by it with dlopen, or preloaded, where its
 * constructor makes them before main and before the constructors of what was loaded earlier. */
#include "calls.h"

void plugin_run(struct record *);
void plugin_run(struct record *of_program)
{
    record = of_program;
    calls_all();
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
