/* SPDX-License-Identifier: MIT */
/* Owns the words for what a rule does, in the kernel's terms. It must not decide anything; the
 * texts of the modes are in modes.def. Not async-signal-safe. */
#include "cli/policy/effect.h"

#include "cli/output.h"

#include "policy/sockopt.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* An indented paragraph, or one line in the list "effects". */
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    ns_output_line("  %s", text);
    for (char *end; (end = strstr(text, "\n    "));) {
        *end = ' ';
        memmove(end + 1, end + 5, strlen(end + 5) + 1);
    }
    ns_output_list("effects", text);
}

/* Replaces the first key in text by value. */
static void fill(char *text, size_t size, const char *key, const char *value)
{
    char *at = strstr(text, key);
    char rest[480];

    if (!at)
        return;
    snprintf(rest, sizeof rest, "%s", at + strlen(key));
    snprintf(at, size - (size_t)(at - text), "%s%s", value, rest);
}

static void say_modes(const struct ns_rule *rule, enum ns_role role)
{
    static const char *const sends[NS_SEND_COUNT] = {
#define NS_SEND_MODE(id, word, nodelay, holds, effect) effect,
#include "policy/modes.def"
#undef NS_SEND_MODE
    };
    static const char *const acks[] = {
#define NS_ACK_MODE(id, word, effect) effect,
#include "policy/modes.def"
#undef NS_ACK_MODE
    };
    static const char *const moments[] = {
        [NS_ROLE_UNKNOWN] = "on a listener, or before a connection's second write",
        [NS_ROLE_CLIENT] = "before a connection's second write",
        [NS_ROLE_SERVER] = "on a listener that the program makes",
    };
    char text[480], us[16];

    snprintf(us, sizeof us, "%u", rule->max_delay_us);
    snprintf(text, sizeof text, "%s", sends[rule->send]);
    fill(text, sizeof text, "{when}", moments[role]);
    fill(text, sizeof text, "{us}", us);
    say("send %s: %s", ns_send_name(rule->send), text);
    say("ack %s: %s", ns_ack_name(rule->ack), acks[rule->ack]);
}

static void say_sockopt(const struct ns_sockopt_action *action)
{
    static const char *const texts[] = {
        [NS_SOCKOPT_PASS] = "set as the application asks",
        [NS_SOCKOPT_IGNORE] = "not set; the application's call succeeds without effect",
        [NS_SOCKOPT_SET] = "set to {n} when the socket is created, whatever the application asks",
        [NS_SOCKOPT_MIN] = "set as the application asks, but to at least {n}",
        [NS_SOCKOPT_MAX] = "set as the application asks, but to at most {n}",
    };
    char text[480], number[16];

    snprintf(number, sizeof number, "%d", action->value);
    snprintf(text, sizeof text, "%s", texts[action->verb]);
    fill(text, sizeof text, "{n}", number);
    say("sockopt %s: %s", ns_sockopts[action->option].name, text);
}

void ns_effect_print(const struct ns_rule *rule, enum ns_role role)
{
    say_modes(rule, role);
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
        snprintf(text, sizeof text, "unknown without --local");
    else if (rule)
        snprintf(text, sizeof text, "gets %s; accepted sockets %s",
                 ns_effect_name(rule, name, sizeof name),
                 settled ? "get it, too" : "are matched one by one");
    else if (settled)
        snprintf(text, sizeof text, "left alone, as are its accepted sockets");
    else
        snprintf(text, sizeof text,
                 "left alone, because a rule has \"remote\"; accepted sockets are matched one by "
                 "one");
    ns_output_line("listener: %s", text);
    ns_output_text(ns_output_object(), "listener", text);
}
