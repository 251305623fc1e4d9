/* SPDX-License-Identifier: MIT */
/* Owns the words for what a rule does, in the kernel's terms. It must not decide anything: the
 * matcher has. A new mode needs its sentence here. Not async-signal-safe. */
#include "cli/effect.h"

#include "cli/report.h"

#include "policy/sockopt.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* One effect: an indented paragraph, or a text on one line in the list "effects". */
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    ns_report_line("  %s", text);
    for (char *end; (end = strstr(text, "\n    "));) {
        *end = ' ';
        memmove(end + 1, end + 5, strlen(end + 5) + 1);
    }
    ns_report_list("effects", text);
}

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

static void say_send(const struct ns_rule *rule, enum ns_role role)
{
    const char *when = moment(role);

    switch (rule->send) {
    case NS_SEND_NODELAY:
        say("send nodelay: TCP_NODELAY is set to 1 %s;\n    nothing is held", when);
        break;
    case NS_SEND_AUTO_CORK:
        say("send auto-cork: TCP_NODELAY is set to 1 %s;\n"
            "    a burst is held with MSG_MORE and pushed (TCP_NODELAY is set to 1 again) before "
            "a wait,\n    or by a thread of the shim after %u us (max_delay_us)",
            when, rule->max_delay_us);
        break;
    case NS_SEND_ADAPTIVE:
        say("send adaptive: TCP_NODELAY is set to 1 %s;\n"
            "    while the program writes on and on without waiting it is set to 0, and before "
            "the next\n    wait to 1 again, which pushes; if the program sets it itself it stays",
            when);
        break;
    case NS_SEND_FLUSH_BEFORE_READ:
        say("send flush-before-read: TCP_NODELAY stays as the application has it; where that is "
            "off, what Nagle's\n"
            "    algorithm may hold is pushed (TCP_NODELAY is set to 1, then 0) before a wait");
        break;
    case NS_SEND_APP:
        say("send app: TCP_NODELAY stays as the application has it; nothing is held or pushed");
        break;
    }
}

static void say_ack(const struct ns_rule *rule)
{
    switch (rule->ack) {
    case NS_ACK_BEFORE_WAIT:
        say("ack before-wait: before a wait that blocks, data read and not answered is "
            "acknowledged\n    (TCP_QUICKACK)");
        break;
    case NS_ACK_APP:
        say("ack app: the kernel acknowledges when it would without the shim");
        break;
    }
}

static void say_sockopt(const struct ns_sockopt_action *action)
{
    const char *name = ns_sockopts[action->option].name;

    switch (action->verb) {
    case NS_SOCKOPT_PASS:
        say("sockopt %s: what the application asks is done", name);
        break;
    case NS_SOCKOPT_IGNORE:
        say("sockopt %s: what the application asks is not done, and it is told that it worked",
            name);
        break;
    case NS_SOCKOPT_SET:
        say("sockopt %s: %d at creation, and instead of what the application asks", name,
            action->value);
        break;
    case NS_SOCKOPT_MIN:
        say("sockopt %s: what the application asks, but no less than %d", name, action->value);
        break;
    case NS_SOCKOPT_MAX:
        say("sockopt %s: what the application asks, but no more than %d", name, action->value);
        break;
    }
}

void ns_effect_print(const struct ns_rule *rule, enum ns_role role)
{
    say_send(rule, role);
    say_ack(rule);
    for (size_t i = 0; i < rule->n_sockopts; i++)
        say_sockopt(&rule->sockopts[i]);
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
    char name[256], text[512];

    if (!local->known && set->needs_local)
        snprintf(text, sizeof(text), "give --local to see what its listener gets");
    else if (rule)
        snprintf(text, sizeof(text), "gets %s%s", ns_effect_name(rule, name, sizeof(name)),
                 settled ? ", and every socket accepted from it too"
                         : "; accepted sockets are matched one by one");
    else if (settled)
        snprintf(text, sizeof(text), "left alone, and every socket accepted from it too");
    else
        snprintf(text, sizeof(text),
                 "left alone, as a rule asks for \"remote\"; accepted sockets are matched "
                 "one by one");
    ns_report_line("listener: %s", text);
    ns_report_text(ns_report_object(), "listener", text);
}
