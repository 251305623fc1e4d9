/* SPDX-License-Identifier: MIT */
/* The policies under which a library is tried, and what a program may tell under them: what
 * auto-cork holds it has to look at, and its thread can be counted. */
#include "driver.h"

#define RULE(text) "{\"version\": 1, \"rules\": [{" text "}]}"

enum { HOLDS = RESETS, ALL = BAD_ARGUMENTS | RESETS | THREADS };

const struct variant policies[] = {
    {.name = "default", .policy = NULL, .features = ALL},
    {.name = "nodelay", .policy = RULE("\"send\": \"nodelay\""), .features = ALL},
    {.name = "flush-before-read",
     .policy = RULE("\"send\": \"flush-before-read\""),
     .features = ALL},
    {.name = "app", .policy = RULE("\"send\": \"app\""), .features = ALL},
    {.name = "adaptive-app", .policy = RULE("\"ack\": \"app\""), .features = ALL},
    {.name = "auto-cork", .policy = RULE("\"send\": \"auto-cork\""), .features = HOLDS},
    {.name = "auto-cork-app",
     .policy = RULE("\"send\": \"auto-cork\", \"ack\": \"app\""),
     .features = HOLDS},
    {.name = "auto-cork-late",
     .policy = RULE("\"send\": \"auto-cork\", \"max_delay_us\": 20000"),
     .features = HOLDS},
    {.name = NULL},
};
