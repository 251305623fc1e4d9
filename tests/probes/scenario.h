/* SPDX-License-Identifier: MIT */
/* Lets a program's arguments name its scenarios. */
#pragma once

#include "system.h"

/* Scenarios by name. The program's first argument names one:
 *     SCENARIO("name") { ... }, or SCENE("name", statement), or with the function's own name
 * SCENARIO_NAMED. */
static struct {
    const char *name;
    void (*run)(void);
} scenarios[200];
static int n_scenarios;

#define SCENARIO_NAMED(function, word)                                                             \
    static void function(void);                                                                    \
    __attribute__((constructor)) static void add_##function(void)                                  \
    {                                                                                              \
        if (n_scenarios == 200)                                                                    \
            __builtin_trap();                                                                      \
        scenarios[n_scenarios].name = word;                                                        \
        scenarios[n_scenarios++].run = function;                                                   \
    }                                                                                              \
    static void function(void)
#define SCENARIO_NUMBERED(word, number) SCENARIO_NAMED(scenario_##number, word)
#define SCENARIO_NEXT(word, number) SCENARIO_NUMBERED(word, number)
#define SCENARIO(word) SCENARIO_NEXT(word, __COUNTER__)
#define SCENE(word, ...)                                                                           \
    SCENARIO(word)                                                                                 \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }

/* Runs the scenario with that name. Returns false if no scenario has it. */
__attribute__((unused)) static bool run_scenario(const char *name, size_t length)
{
    for (int i = 0; i < n_scenarios; i++)
        if (strlen(scenarios[i].name) == length && strncmp(name, scenarios[i].name, length) == 0) {
            scenarios[i].run();
            return true;
        }
    return false;
}
