/* SPDX-License-Identifier: MIT */
/* See policy.h. Owns the built-in policy, the words of the format and the table of socket options.
 * Never changes a policy that is in use. */
#include "policy/policy.h"

#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

/* The same as config/default.json, which test_policy compares. Constant, like every policy in use:
 * as a variable it would be one more page that every process copies. */
static const struct ns_rule builtin_rule = {
    .name = (char *)"every-tcp-socket",
    .send = NS_SEND_DEFAULT,
    .ack = NS_ACK_BEFORE_WAIT,
    .max_delay_us = NS_MAX_DELAY_US_DEFAULT,
};

static const struct ns_policy builtin = {
    .enabled = true,
    .rules = (struct ns_rule *)&builtin_rule,
    .n_rules = 1,
};

const struct ns_policy *ns_policy_builtin(void)
{
    return &builtin;
}

const struct ns_send_mode ns_send_modes[NS_SEND_COUNT] = {
#define NS_SEND_MODE(id, word, nodelay, option, hold, push, from, effect)                          \
    {word, nodelay, option, hold, push, from},
#include "policy/modes.def"
#undef NS_SEND_MODE
};

const char *ns_send_name(unsigned send)
{
    return send < NS_SEND_COUNT ? ns_send_modes[send].word : NULL;
}

const char *ns_ack_name(unsigned ack)
{
    static const char *const names[] = {
#define NS_ACK_MODE(id, word, effect) [NS_ACK_##id] = word,
#include "policy/modes.def"
#undef NS_ACK_MODE
    };
    return ack < sizeof names / sizeof *names ? names[ack] : NULL;
}

const char *ns_role_name(unsigned role)
{
    static const char *const names[] = {
        [NS_ROLE_UNKNOWN] = "unknown",
#define NS_ROLE(id, word) [NS_ROLE_##id] = word,
#include "policy/modes.def"
#undef NS_ROLE
    };
    return role < sizeof names / sizeof *names ? names[role] : NULL;
}

void ns_policy_free(struct ns_policy *policy)
{
    if (!policy || policy == &builtin)
        return;
    struct ns_arena memory = policy->memory; /* it contains the policy */
    ns_arena_free(&memory);
}

const struct ns_sockopt ns_sockopts[NS_SOCKOPT_COUNT] = {
#define NS_SOCKOPT_ROW(name, level, number, least, most) {#name, level, number, least, most},
#include "policy/sockopts.def"
#undef NS_SOCKOPT_ROW
};

int ns_sockopt_by_number(int level, int option)
{
    for (int i = 0; i < NS_SOCKOPT_COUNT; i++)
        if (ns_sockopts[i].level == level && ns_sockopts[i].option == option)
            return i;
    return -1;
}

/* Options of which the kernel treats a negative value as a very large one. */
#define BIT(name) (UINT32_C(1) << NS_SOCKOPT_##name)
enum {
    UNSIGNED = BIT(TCP_NOTSENT_LOWAT) | BIT(SO_SNDBUF) | BIT(SO_RCVBUF) | BIT(SO_RCVLOWAT) |
               BIT(SO_PRIORITY) | BIT(SO_MARK)
};

static bool less(int index, int a, int b)
{
    return UNSIGNED >> index & 1 ? (unsigned)a < (unsigned)b : a < b;
}

int ns_sockopt_rewrite(int index, const struct ns_sockopt_action *action, int value)
{
    switch (action->verb) {
    case NS_SOCKOPT_SET:
        return action->value;
    case NS_SOCKOPT_MIN:
        return less(index, value, action->value) ? action->value : value;
    case NS_SOCKOPT_MAX:
        return less(index, action->value, value) ? action->value : value;
    default:
        return value;
    }
}
