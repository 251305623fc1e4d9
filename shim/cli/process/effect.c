/* SPDX-License-Identifier: MIT */
/* Owns the words for what a rule does, in the kernel's terms. It must not decide anything: the
 * matcher has. What a mode does is told in modes.def. Not async-signal-safe. */
#include "cli/process/effect.h"

#include "cli/output.h"

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
    ns_output_line("  %s", text);
    for (char *end; (end = strstr(text, "\n    "));) {
        *end = ' ';
        memmove(end + 1, end + 5, strlen(end + 5) + 1);
    }
    ns_output_list("effects", text);
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

/* The text of modes.def with when and max_delay_us in their places. */
static void say_filled(const char *key, const char *word, const char *effect, const char *when,
                       uint32_t us)
{
    char text[480];
    size_t used = 0;

    while (*effect && used < sizeof(text)) {
        char *to = text + used;
        size_t room = sizeof(text) - used;
        int n;
        if (strncmp(effect, "{when}", 6) == 0) {
            n = snprintf(to, room, "%s", when);
            effect += 6;
        } else if (strncmp(effect, "{us}", 4) == 0) {
            n = snprintf(to, room, "%u", us);
            effect += 4;
        } else {
            n = snprintf(to, room, "%c", *effect++);
        }
        used += n > 0 ? (size_t)n : 0;
    }
    say("%s %s: %s", key, word, text);
}

static void say_send(const struct ns_rule *rule, enum ns_role role)
{
    static const char *const effects[NS_SEND_COUNT] = {
#define NS_SEND_MODE(id, word, nodelay, holds, effect) effect,
#include "policy/modes.def"
#undef NS_SEND_MODE
    };

    say_filled("send", ns_send_name(rule->send), effects[rule->send], moment(role),
               rule->max_delay_us);
}

static void say_ack(const struct ns_rule *rule)
{
    static const char *const effects[] = {
#define NS_ACK_MODE(id, word, effect) effect,
#include "policy/modes.def"
#undef NS_ACK_MODE
    };

    say("ack %s: %s", ns_ack_name(rule->ack), effects[rule->ack]);
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
    ns_output_line("listener: %s", text);
    ns_output_text(ns_output_object(), "listener", text);
}
