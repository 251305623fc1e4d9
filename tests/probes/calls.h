/* SPDX-License-Identifier: MIT */
/* Every call of the call table. */
#ifndef PROBES_CALLS_H
#define PROBES_CALLS_H

#include "calls_life.h"
#include "calls_option.h"
#include "calls_read.h"
#include "calls_wait.h"
#include "calls_write.h"

/* The main ones, which also a handler or a child of vfork may make: no thread and no process is
 * made. */
static void calls_main(void)
{
    calls_write_main();
    calls_read_main();
    calls_wait_main();
    calls_option_main();
    calls_life_main();
}

static void calls_all(void)
{
    record_context = "write";
    calls_write();
    record_context = "read";
    calls_read();
    record_context = "wait";
    calls_wait();
    record_context = "option";
    calls_option();
    record_context = "life";
    calls_life();
}

#endif
