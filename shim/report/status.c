/* SPDX-License-Identifier: MIT */
/* Owns the status section, the note by which it is found, and the counters. Must never decide
 * anything. ns_status_took and ns_status_disabled are async-signal-safe. */
#include "report/status.h"

#include "base/system.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* In .bss: its zeroes say that start-up has not come to an end. */
__attribute__((used)) struct ns_status ns_status;

struct ns_stats ns_stats;

/* The descriptor is the distance from itself to ns_status, which the linker knows. It needs no
 * relocation at run time, no exported symbol, and not the file. */
__asm__(".pushsection .note.nagleshim,\"a\",%note\n"
        "    .balign 4\n"
        "    .long 2f - 1f, 4f - 3f, 1\n"
        "1:  .asciz \"" NS_STATUS_NOTE "\"\n"
        "2:  .balign 4\n"
        "3:  .long ns_status - 3b\n"
        "4:  .balign 4\n"
        ".popsection\n");
_Static_assert(NS_STATUS_NOTE_TYPE == 1, "the note above");

static uint64_t address(const void *at)
{
    return (uint64_t)(uintptr_t)at;
}

void ns_status_looking(void)
{
    struct timespec now; /* the clock of files; by number, since the vDSO would cost a page fault */
    if (NS_SYSTEM(SYS_clock_gettime, CLOCK_REALTIME, &now) == 0)
        ns_status.looked = (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

void ns_status_policy(enum ns_policy_origin origin, const char *path)
{
    ns_status.origin = (uint32_t)origin;
    ns_status.policy = address(path);
}

void ns_status_rules(const struct ns_policy *policy, const struct ns_ruleset *set)
{
    static struct ns_status_rule one; /* malloc's first page is not needed in every process */
    struct ns_status_rule *rules =
        policy->n_rules == 1 ? &one : NS_QUIETLY(calloc(policy->n_rules, sizeof *rules));
    if (!rules)
        return;
    for (size_t i = 0; i < policy->n_rules; i++) {
        const struct ns_rule *rule = &policy->rules[i];
        rules[i].name = address(rule->name);
        rules[i].max_delay_us = rule->max_delay_us;
        rules[i].send = (uint8_t)rule->send;
        rules[i].ack = (uint8_t)rule->ack;
    }
    for (size_t i = 0; i < set->n_rules; i++)
        rules[set->rules[i]->index].applies = 1;
    ns_status.rules = address(rules);
    ns_status.n_rules = (uint32_t)policy->n_rules;
}

void ns_status_begin(enum ns_status_state state)
{
    ns_status.version = NS_STATUS_VERSION;
    ns_status.size = sizeof ns_status;
    strncpy(ns_status.library, NS_VERSION, sizeof ns_status.library - 1);
    ns_status.counters = address(&ns_stats);
    ns_status.n_counters = sizeof ns_stats / sizeof(uint64_t);
    atomic_store_explicit(&ns_status.state, state, memory_order_relaxed);
    /* release: a reader that finds the magic finds the rest */
    atomic_store_explicit(&ns_status.magic, NS_STATUS_MAGIC, memory_order_release);
}

void ns_status_disabled(const char *reason)
{
    uint32_t state = atomic_load_explicit(&ns_status.state, memory_order_relaxed);
    if (state == NS_STATUS_OFF || state == NS_STATUS_DISABLED)
        return;
    atomic_store_explicit(&ns_status.reason, address(reason), memory_order_relaxed);
    if (state == NS_STATUS_ACTIVE) /* release: with its reason */
        atomic_store_explicit(&ns_status.state, NS_STATUS_DISABLED, memory_order_release);
    else
        ns_status_begin(NS_STATUS_DISABLED);
}

void ns_status_enabled(void)
{
    NS_PUT(&ns_status, state, NS_STATUS_ACTIVE);
}

void ns_status_took(const struct ns_rule *rule)
{
    if (rule->index >= ns_status.n_rules)
        return;
    struct ns_status_rule *entry =
        (struct ns_status_rule *)(uintptr_t)ns_status.rules + rule->index;
    NS_ADD(entry->sockets, 1);
}
