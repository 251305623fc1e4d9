/* SPDX-License-Identifier: MIT */
/* The calls of the call table that the differential fuzzer does not make, and some that it does. */
#pragma once

#include "calls_life.h"
#include "calls_traffic.h"
#include "calls_wait.h"

/* Calls that a constructor may also make, because they make no thread and no process. */
static void calls_main(void)
{
    calls_traffic();
    calls_life_main();
}

static void calls_all(void)
{
    record_context = "traffic";
    calls_traffic();
    record_context = "wait";
    calls_wait();
    record_context = "life";
    calls_life();
}
