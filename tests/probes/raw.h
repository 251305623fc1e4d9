/* SPDX-License-Identifier: MIT */
/* System calls that no preloaded library sees. */
#pragma once

#include "system.h"

#include "../../shim/base/raw_syscall.h"

#define raw(...) ns_raw_syscall(__VA_ARGS__)
#define RAW(number, a, b, c, d)                                                                    \
    raw(SYS_##number, (long)(a), (long)(b), (long)(c), (long)(d), 0L, 0L)

/* Prints a line. */
#define RAW_SAY(...)                                                                               \
    do {                                                                                           \
        char raw_line[256];                                                                        \
        int raw_size = snprintf(raw_line, sizeof raw_line - 1, __VA_ARGS__);                       \
        raw_line[raw_size] = '\n';                                                                 \
        RAW(write, 1, raw_line, raw_size + 1, 0);                                                  \
    } while (0)
