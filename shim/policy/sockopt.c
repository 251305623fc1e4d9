/* SPDX-License-Identifier: MIT */
/* See sockopt.h. Owns the table of socket options. */
#include "policy/sockopt.h"

#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#ifndef SO_BUSY_POLL /* glibc before 2.18; include/uapi/asm-generic/socket.h */
#define SO_BUSY_POLL 46
#endif

const struct ns_sockopt ns_sockopts[NS_SOCKOPT_COUNT] = {
#define NS_SOCKOPT_ROW(name, level, number, least, most) {#name, level, number, least, most},
#include "policy/sockopts.def"
#undef NS_SOCKOPT_ROW
};

int ns_sockopt_by_name(const char *name)
{
    for (int i = 0; i < NS_SOCKOPT_COUNT; i++)
        if (strcmp(ns_sockopts[i].name, name) == 0)
            return i;
    return -1;
}

int ns_sockopt_by_number(int level, int option)
{
    for (int i = 0; i < NS_SOCKOPT_COUNT; i++)
        if (ns_sockopts[i].level == level && ns_sockopts[i].option == option)
            return i;
    return -1;
}

const struct ns_sockopt_action *ns_sockopt_action(const struct ns_rule *rule, int index)
{
    for (size_t i = 0; i < rule->n_sockopts; i++)
        if (rule->sockopts[i].option == (unsigned)index)
            return &rule->sockopts[i];
    return NULL;
}

/* Options of which the kernel treats a negative value as a very large one. */
#define BIT(name) (UINT32_C(1) << NS_SOCKOPT_##name)
enum {
    UNSIGNED = BIT(TCP_NOTSENT_LOWAT) | BIT(SO_SNDBUF) | BIT(SO_RCVBUF) | BIT(SO_RCVLOWAT) |
               BIT(SO_PRIORITY) | BIT(SO_MARK)
};

static bool less(unsigned index, int a, int b)
{
    return UNSIGNED >> index & 1 ? (unsigned)a < (unsigned)b : a < b;
}

int ns_sockopt_rewrite(const struct ns_sockopt_action *action, int value)
{
    switch (action->verb) {
    case NS_SOCKOPT_SET:
        return action->value;
    case NS_SOCKOPT_MIN:
        return less(action->option, value, action->value) ? action->value : value;
    case NS_SOCKOPT_MAX:
        return less(action->option, action->value, value) ? action->value : value;
    case NS_SOCKOPT_PASS:
    case NS_SOCKOPT_IGNORE:
        break;
    }
    return value;
}
