/* SPDX-License-Identifier: MIT */
/* See match.h. Owns no state and does no I/O. */
#include "policy/match.h"

#include "base/path.h"

#include <errno.h>
#include <fnmatch.h>
#include <string.h>

struct ns_address ns_address_from(const struct sockaddr *address, socklen_t len)
{
    struct ns_address result = {0};
    struct sockaddr_in6 v6 = {0};
    struct sockaddr_in v4;
    if (!address || len < (socklen_t)sizeof v4)
        return result;
    /* Copied, since address need not be aligned. */
    memcpy(&v6, address, len < sizeof v6 ? len : sizeof v6);
    memcpy(&v4, &v6, sizeof v4);
    if (v4.sin_family == AF_INET) {
        result.addr.s6_addr[10] = result.addr.s6_addr[11] = 0xFF;
        memcpy(&result.addr.s6_addr[12], &v4.sin_addr, 4);
        result.port = ntohs(v4.sin_port);
        result.known = true;
    } else if (v6.sin6_family == AF_INET6 &&
               len >= (socklen_t)offsetof(struct sockaddr_in6, sin6_scope_id)) {
        /* SIN6_LEN_RFC2133: the kernel accepts addresses without sin6_scope_id. */
        result.addr = v6.sin6_addr;
        result.port = ntohs(v6.sin6_port);
        result.known = true;
    }
    return result;
}

static bool same_prefix(const struct in6_addr *a, const struct in6_addr *b, unsigned bits)
{
    unsigned bytes = bits / 8, rest = bits % 8;
    if (memcmp(a->s6_addr, b->s6_addr, bytes) != 0)
        return false;
    return rest == 0 || ((a->s6_addr[bytes] ^ b->s6_addr[bytes]) >> (8 - rest)) == 0;
}

bool ns_match_holds_all(const struct ns_endpoint *pattern, const struct ns_endpoint *range)
{
    return pattern->port_low <= range->port_low && range->port_high <= pattern->port_high &&
           pattern->prefix <= range->prefix &&
           same_prefix(&pattern->addr, &range->addr, pattern->prefix);
}

bool ns_match_endpoint(const struct ns_endpoint *pattern, const struct ns_address *address)
{
    const struct ns_endpoint one = {address->addr, 128, address->port, address->port};
    return address->known && ns_match_holds_all(pattern, &one);
}

/* Does a key match this address? */
static bool endpoints_hold(const struct ns_endpoints *key, const struct ns_address *address)
{
    for (size_t i = 0; i < key->n; i++)
        if (ns_match_endpoint(&key->list[i], address))
            return true;
    return !key->list;
}

static bool role_holds(const struct ns_rule *rule, enum ns_role role)
{
    return rule->role == NS_ROLE_UNKNOWN || rule->role == role;
}

static bool pattern_matches(const char *pattern, const char *path)
{
    if (!path)
        return false;
    if (strchr(pattern, '/'))
        return fnmatch(pattern, path, FNM_PATHNAME) == 0;
    return fnmatch(pattern, ns_path_base(path), 0) == 0;
}

static bool process_holds(const struct ns_rule *rule, const struct ns_process *process)
{
    for (size_t i = 0; rule->process && rule->process[i]; i++) {
        const char *pattern = rule->process[i];
        if (pattern_matches(pattern, process->exe) || pattern_matches(pattern, process->execfn) ||
            pattern_matches(pattern, process->argv0))
            return true;
    }
    return !rule->process;
}

static bool args_hold(const struct ns_rule *rule, const struct ns_process *process)
{
    for (size_t i = 0; rule->args && rule->args[i]; i++)
        for (size_t j = 0; process->args && process->args[j]; j++)
            if (fnmatch(rule->args[i], process->args[j], 0) == 0)
                return true;
    return !rule->args;
}

bool ns_match_process(const struct ns_rule *rule, const struct ns_process *process)
{
    return process_holds(rule, process) && args_hold(rule, process);
}

int ns_ruleset_build(struct ns_ruleset *set, const struct ns_policy *policy,
                     const struct ns_process *process)
{
    *set = (struct ns_ruleset){0};
    if (!policy->enabled || policy->n_rules == 0)
        return 0;
    set->rules = policy->n_rules <= NS_RULES_FEW
                     ? set->few
                     : ns_arena_alloc(&set->memory, policy->n_rules * sizeof *set->rules);
    if (!set->rules)
        return -ENOMEM;
    for (size_t i = 0; i < policy->n_rules; i++) {
        const struct ns_rule *rule = &policy->rules[i];
        if (!ns_match_process(rule, process))
            continue;
        set->rules[set->n_rules++] = rule;
        set->needs_local |= rule->local.list != NULL;
        set->needs_remote |= rule->remote.list != NULL;
        /* A rule that matches every socket is the last one. */
        if (rule->role == NS_ROLE_UNKNOWN && !rule->local.list && !rule->remote.list)
            break;
    }
    return 0;
}

void ns_ruleset_release(struct ns_ruleset *set)
{
    ns_arena_free(&set->memory);
    *set = (struct ns_ruleset){0};
}

static bool socket_holds(const struct ns_rule *rule, const struct ns_socket_facts *facts)
{
    return role_holds(rule, facts->role) && endpoints_hold(&rule->local, &facts->local) &&
           endpoints_hold(&rule->remote, &facts->remote);
}

const struct ns_rule *ns_match_socket(const struct ns_ruleset *set,
                                      const struct ns_socket_facts *facts)
{
    for (size_t i = 0; i < set->n_rules; i++)
        if (socket_holds(set->rules[i], facts))
            return set->rules[i];
    return NULL;
}

/* The local addresses that sockets accepted on local may have, as a prefix. */
static struct ns_endpoint accepted_on(const struct ns_address *local)
{
    struct ns_endpoint range = {.port_low = local->port, .port_high = local->port};
    static const struct in6_addr any_v4 = {{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF}}};
    static const struct in6_addr any = {{{0}}};
    if (!local->known || local->port == 0)
        range.port_low = 1, range.port_high = 65535; /* listen() without bind chooses one */
    if (!local->known)
        return range;
    range.addr = local->addr;
    range.prefix = 128;
    if (memcmp(&local->addr, &any, sizeof any) == 0)
        range.prefix = 0; /* :: takes IPv4 connections too, unless IPV6_V6ONLY is set */
    else if (memcmp(&local->addr, &any_v4, sizeof any_v4) == 0)
        range.prefix = 96;
    return range;
}

static bool may_hold(const struct ns_endpoint *pattern, const struct ns_endpoint *range)
{
    unsigned bits = pattern->prefix < range->prefix ? pattern->prefix : range->prefix;
    return pattern->port_low <= range->port_high && range->port_low <= pattern->port_high &&
           same_prefix(&pattern->addr, &range->addr, bits);
}

const struct ns_rule *ns_match_listener(const struct ns_ruleset *set,
                                        const struct ns_address *local, bool *settled)
{
    struct ns_endpoint range = accepted_on(local);
    for (size_t i = 0; i < set->n_rules; i++) {
        const struct ns_rule *rule = set->rules[i];
        bool may = !rule->local.list, must = !rule->local.list;
        for (size_t j = 0; j < rule->local.n; j++) {
            may |= may_hold(&rule->local.list[j], &range);
            must |= ns_match_holds_all(&rule->local.list[j], &range);
        }
        if (!may || !role_holds(rule, NS_ROLE_SERVER))
            continue;
        *settled = must && !rule->remote.list;
        return rule->remote.list ? NULL : rule;
    }
    *settled = true;
    return NULL;
}
