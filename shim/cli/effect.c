/* SPDX-License-Identifier: MIT */
/* Owns the words for what a rule does, in the kernel's terms. It must not decide anything: the
 * matcher has. A new mode needs its sentence here. Not async-signal-safe. */
#include "cli/effect.h"

#include "policy/sockopt.h"

#include <stdio.h>

/* When TCP_NODELAY is set. */
static const char *moment(enum ns_role role)
{
    switch (role) {
    case NS_ROLE_CLIENT:
        return "before a connection's second write";
    case NS_ROLE_SERVER:
        return "on a listener that the program makes";
    case NS_ROLE_UNKNOWN:
        break;
    }
    return "on a listener, or before a connection's second write";
}

static void print_send(const struct ns_rule *rule, enum ns_role role)
{
    printf("  send %s: ", ns_send_name(rule->send));
    switch (rule->send) {
    case NS_SEND_NODELAY:
        printf("TCP_NODELAY is set to 1 %s;\n    nothing is held\n", moment(role));
        break;
    case NS_SEND_AUTO_CORK:
        printf(
            "TCP_NODELAY is set to 1 %s;\n"
            "    a burst is held with MSG_MORE and pushed (TCP_NODELAY is set to 1 again) before "
            "a wait,\n    or by a thread of the shim after %u us (max_delay_us)\n",
            moment(role), rule->max_delay_us);
        break;
    case NS_SEND_ADAPTIVE:
        printf("TCP_NODELAY is set to 1 %s;\n"
               "    while the program writes on and on without waiting it is set to 0, and before "
               "the next\n    wait to 1 again, which pushes; if the program sets it itself it "
               "stays\n",
               moment(role));
        break;
    case NS_SEND_FLUSH_BEFORE_READ:
        puts("TCP_NODELAY stays as the application has it; where that is off, what Nagle's\n"
             "    algorithm may hold is pushed (TCP_NODELAY is set to 1, then 0) before a wait");
        break;
    case NS_SEND_APP:
        puts("TCP_NODELAY stays as the application has it; nothing is held or pushed");
        break;
    }
}

static void print_ack(const struct ns_rule *rule)
{
    printf("  ack %s: ", ns_ack_name(rule->ack));
    switch (rule->ack) {
    case NS_ACK_BEFORE_WAIT:
        puts("before a wait that blocks, data read and not answered is acknowledged\n"
             "    (TCP_QUICKACK)");
        break;
    case NS_ACK_APP:
        puts("the kernel acknowledges when it would without the shim");
        break;
    }
}

static void print_sockopt(const struct ns_sockopt_action *action)
{
    printf("  sockopt %s: ", ns_sockopts[action->option].name);
    switch (action->verb) {
    case NS_SOCKOPT_PASS:
        puts("what the application asks is done");
        break;
    case NS_SOCKOPT_IGNORE:
        puts("what the application asks is not done, and it is told that it worked");
        break;
    case NS_SOCKOPT_SET:
        printf("%d at creation, and instead of what the application asks\n", action->value);
        break;
    case NS_SOCKOPT_MIN:
        printf("what the application asks, but no less than %d\n", action->value);
        break;
    case NS_SOCKOPT_MAX:
        printf("what the application asks, but no more than %d\n", action->value);
        break;
    }
}

void ns_effect_print(const struct ns_rule *rule, enum ns_role role)
{
    print_send(rule, role);
    print_ack(rule);
    for (size_t i = 0; i < rule->n_sockopts; i++)
        print_sockopt(&rule->sockopts[i]);
}

char *ns_effect_name(const struct ns_rule *rule, char *buffer, size_t size)
{
    if (rule->name)
        snprintf(buffer, size, "rule %u \"%s\"", rule->index + 1, rule->name);
    else
        snprintf(buffer, size, "rule %u", rule->index + 1);
    return buffer;
}

void ns_effect_print_listener(const struct ns_ruleset *set, const struct ns_address *local)
{
    bool settled = false;
    const struct ns_rule *rule = ns_match_listener(set, local, &settled);
    char name[256];

    if (!local->known && set->needs_local)
        puts("listener: give --local to see what its listener gets");
    else if (rule && settled)
        printf("listener: gets %s, and every socket accepted from it too\n",
               ns_effect_name(rule, name, sizeof(name)));
    else if (rule)
        printf("listener: gets %s; accepted sockets are matched one by one\n",
               ns_effect_name(rule, name, sizeof(name)));
    else if (settled)
        puts("listener: left alone, and every socket accepted from it too");
    else
        puts("listener: left alone, as a rule asks for \"remote\"; accepted sockets are matched\n"
             "    one by one");
}
