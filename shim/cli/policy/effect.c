/* SPDX-License-Identifier: MIT */
/* Owns the words for what a rule does, in the kernel's terms. It must not decide anything; the
 * texts of the modes are in modes.def. Not async-signal-safe. */
#include "cli/policy/effect.h"

#include "cli/output.h"

#include "policy/sockopt.h"

#include <stdarg.h>
#include <stdio.h>

/* An indented line, or one in the list "effects". */
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    ns_output_line("  %s", text);
    ns_output_list("effects", text);
}

void ns_effect_print(const struct ns_rule *rule)
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
    static const char *const texts[] = {
        [NS_SOCKOPT_PASS] = "set as the application asks",
        [NS_SOCKOPT_IGNORE] = "not set; the application's call succeeds without effect",
        [NS_SOCKOPT_SET] = "set when the socket is created, whatever the application asks, to ",
        [NS_SOCKOPT_MIN] = "set as the application asks, but to at least ",
        [NS_SOCKOPT_MAX] = "set as the application asks, but to at most ",
    };
    say("send %s: %s", ns_send_name(rule->send), sends[rule->send]);
    if (ns_rule_holds(rule))
        say("max_delay_us: %u", rule->max_delay_us);
    say("ack %s: %s", ns_ack_name(rule->ack), acks[rule->ack]);
    for (size_t i = 0; i < rule->n_sockopts; i++) {
        const struct ns_sockopt_action *action = &rule->sockopts[i];
        char number[16] = "";
        if (action->verb >= NS_SOCKOPT_SET)
            snprintf(number, sizeof number, "%d", action->value);
        say("sockopt %s: %s%s", ns_sockopts[action->option].name, texts[action->verb], number);
    }
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
