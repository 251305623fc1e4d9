/* SPDX-License-Identifier: MIT */
/* The matcher again, slow and obvious: every rule, every pattern, every bit. The fuzzer compares
 * the real one with it. */
#ifndef NS_SLOW_MATCH_H
#define NS_SLOW_MATCH_H

#include "policy/match.h"

#include <string.h>

static inline bool slow_endpoint(const struct ns_endpoint *pattern, const struct ns_address *a)
{
    for (unsigned bit = 0; bit < pattern->prefix; bit++) {
        unsigned mask = 1u << (7 - bit % 8);
        if ((pattern->addr.s6_addr[bit / 8] & mask) != (a->addr.s6_addr[bit / 8] & mask))
            return false;
    }
    return a->known && a->port >= pattern->port_low && a->port <= pattern->port_high;
}

static inline bool slow_list(const struct ns_endpoint *list, size_t n, const struct ns_address *a)
{
    bool any = n == 0;
    for (size_t i = 0; i < n; i++)
        any |= slow_endpoint(&list[i], a);
    return any;
}

/* with_remote false: could the rule hold, if "remote" were not asked? */
static inline bool slow_holds(const struct ns_rule *rule, const struct ns_socket_facts *facts,
                              bool with_remote)
{
    return (rule->role == NS_ROLE_UNKNOWN || rule->role == facts->role) &&
           slow_list(rule->local, rule->n_local, &facts->local) &&
           (!with_remote || slow_list(rule->remote, rule->n_remote, &facts->remote));
}

/* fnmatch's "*" and "?" without its brackets; in a path neither takes a slash. */
static inline bool slow_glob(const char *pattern, const char *text, bool path)
{
    if (!*pattern)
        return !*text;
    if (*pattern == '*') {
        for (; !slow_glob(pattern + 1, text, path); text++)
            if (!*text || (path && *text == '/'))
                return false;
        return true;
    }
    bool any = *pattern == '?' && *text && !(path && *text == '/');
    return (any || *pattern == *text) && *text && slow_glob(pattern + 1, text + 1, path);
}

static inline bool slow_name(const char *pattern, const char *name)
{
    bool path = strchr(pattern, '/');
    if (!name)
        return false;
    if (!path && strrchr(name, '/'))
        name = strrchr(name, '/') + 1;
    return slow_glob(pattern, name, path);
}

/* Do "process" and "args" hold? For patterns without brackets. */
static inline bool slow_process(const struct ns_rule *rule, const struct ns_process *process)
{
    bool named = !rule->process, has_arg = !rule->args;
    for (size_t i = 0; rule->process && rule->process[i]; i++)
        named |= slow_name(rule->process[i], process->exe) ||
                 slow_name(rule->process[i], process->execfn) ||
                 slow_name(rule->process[i], process->argv0);
    for (size_t i = 0; rule->args && rule->args[i]; i++)
        for (size_t j = 0; process->args && process->args[j]; j++)
            has_arg |= slow_glob(rule->args[i], process->args[j], false);
    return named && has_arg;
}

#endif
