/* SPDX-License-Identifier: MIT */
/* Owns `nagleshim explain`: it finds the policy that a program would get, matches one socket, which
 * only the options describe, and says why. It must use the library's own search and matcher, never
 * a copy of their rules, and must not resolve host names: the library never sees them. */
#include "cli/cli.h"
#include "cli/doctor/doctor.h"
#include "cli/output.h"
#include "cli/program/program.h"
#include "cli/verbs.h"
#include "policy/text.h"

#include <errno.h>
#include <fnmatch.h>
#include <string.h>

/* "10.0.0.1:7001" or "[::1]:7001": an endpoint of a policy with a single address and port. */
static bool take_address(enum ns_option option, const char *name, struct ns_address *address)
{
    enum { ALL_BITS = 128 };
    const char *text = ns_option_text(option);
    struct ns_endpoint end;
    char problem[256];
    if (!text)
        return true;
    if (ns_endpoint_parse(text, &end, problem, sizeof problem) == 0 && end.prefix == ALL_BITS &&
        end.port_low == end.port_high) {
        *address = (struct ns_address){.known = true, .addr = end.addr, .port = end.port_low};
        return true;
    }
    return NS_REFUSE(
        "%s must be an address and a port, as 10.0.0.1:7001 or [::1]:7001, not '%s' (no host "
        "names, and a port from 1 to 65535)",
        name, text);
}

/* The socket as the matcher sees it. */
static bool take_facts(struct ns_socket_facts *facts)
{
    const char *role = ns_option_text(NS_EXPLAIN_ROLE);
    if (!take_address(NS_EXPLAIN_REMOTE, "--remote", &facts->remote) ||
        !take_address(NS_EXPLAIN_LOCAL, "--local", &facts->local))
        return false;
    if (role)
        facts->role = (enum ns_role)(NS_ROLE_CLIENT + ns_words_find(NS_TAKES_ROLE, role));
    for (unsigned i = 1; i < ns_operands.n; i++)
        if (fnmatch("--@(role|local|remote)*", ns_operands.words[i], FNM_EXTMATCH) == 0)
            return NS_REFUSE("%s after the program is the program's argument; write it before",
                             ns_operands.words[i]);
    return ns_operands.n > 0 || NS_REFUSE("the program is missing; see 'nagleshim explain --help'");
}

static void say_socket(void)
{
    const char *role = ns_option_text(NS_EXPLAIN_ROLE), *local = ns_option_text(NS_EXPLAIN_LOCAL),
               *remote = ns_option_text(NS_EXPLAIN_REMOTE);
    cJSON *entry = cJSON_AddObjectToObject(ns_output_object(), "socket");
    ns_output_text(entry, "role", role);
    ns_output_text(entry, "local", local);
    ns_output_text(entry, "remote", remote);
    ns_output_line("socket: %s, local %s, remote %s", role ? role : "role not given",
                   local ? local : "not given", remote ? remote : "not given");
}

/* Why a rule does not match, or is undecided because an option is not given; NULL if it matches. A
 * reason that depends on known facts comes first. */
static const char *explain_mismatch(const struct ns_rule *rule, const struct ns_process *process,
                                    const struct ns_socket_facts *facts, bool *is_open)
{
    const struct {
        struct ns_rule rule;
        bool is_known;
        const char *name, *why;
    } keys[] = {
        {{.process = rule->process}, true, "process", "names other programs"},
        {{.args = rule->args}, true, "args", "matches no argument"},
        {{.role = rule->role}, facts->role != NS_ROLE_UNKNOWN, "role", "is different"},
        {{.local = rule->local}, facts->local.known, "local", "has other addresses or ports"},
        {{.remote = rule->remote}, facts->remote.known, "remote", "has other addresses or ports"},
    };
    const char *open = NULL;
    *is_open = false;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const struct ns_rule *single = &keys[i].rule;
        const struct ns_ruleset set = {.rules = &single, .n_rules = 1};
        if (ns_match_process(single, process) && ns_match_socket(&set, facts))
            continue;
        const char *name = keys[i].name;
        if (keys[i].is_known)
            return ns_words("\"%s\" %s", name, keys[i].why);
        if (!open)
            open = ns_words("it has \"%s\", and --%s is not given", name, name);
    }
    *is_open = open != NULL;
    return open;
}

/* Every rule up to the one that applies. Returns how many are undecided. */
static unsigned say_rules(const struct ns_policy *policy, const struct ns_subject *subject,
                          const struct ns_socket_facts *facts, const struct ns_rule *last)
{
    unsigned undecided = 0;
    for (size_t i = 0; i < policy->n_rules; i++) {
        const struct ns_rule *rule = &policy->rules[i];
        bool is_open;
        const char *why = explain_mismatch(rule, &subject->process, facts, &is_open);
        const char *result = !why ? "matches" : is_open ? "undecided" : "does not match";
        cJSON *entry = ns_output_entry("rules");
        cJSON_AddNumberToObject(entry, "number", rule->index + 1);
        ns_output_text(entry, "name", rule->name);
        ns_output_text(entry, "result", result);
        ns_output_text(entry, "why", why);
        ns_output_line("%s: %s%s%s", ns_rule_title(rule), result, why ? ": " : "", why ? why : "");
        undecided += is_open;
        if (rule == last)
            break;
    }
    return undecided;
}

/* An indented line, or one in the list "effects". */
static void say_effect(const char *text)
{
    ns_output_line("  %s", text);
    ns_output_list("effects", text);
}

/* What a rule does, in the kernel's terms; the texts of the modes are in modes.def. */
static void print_effect(const struct ns_rule *rule)
{
    static const char *const sends[NS_SEND_COUNT] = {
#define NS_SEND_MODE(id, word, nodelay, option, hold, push, from, effect) effect,
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
        [NS_SOCKOPT_SET] = "set when the socket gets its rule, whatever the application asks, to ",
        [NS_SOCKOPT_MIN] = "set as the application asks, but to at least ",
        [NS_SOCKOPT_MAX] = "set as the application asks, but to at most ",
    };
    say_effect(ns_words("send %s: %s", ns_send_name(rule->send), sends[rule->send]));
    if (ns_send_corks(rule->send))
        say_effect(ns_words("max_delay_us: %u", rule->max_delay_us));
    say_effect(ns_words("ack %s: %s", ns_ack_name(rule->ack), acks[rule->ack]));
    for (size_t i = 0; i < NS_SOCKOPT_COUNT; i++) {
        const struct ns_sockopt_action *action = &rule->sockopts[i];
        if (action->verb)
            say_effect(
                ns_words("sockopt %s: %s%s", ns_sockopts[i].name, texts[action->verb],
                         action->verb >= NS_SOCKOPT_SET ? ns_words("%d", action->value) : ""));
    }
}

static void say_rule(const struct ns_rule *rule)
{
    cJSON *entry = cJSON_AddObjectToObject(ns_output_object(), "rule");
    cJSON_AddNumberToObject(entry, "number", rule->index + 1);
    cJSON_AddNumberToObject(entry, "max_delay_us", rule->max_delay_us);
    ns_output_text(entry, "name", rule->name);
    ns_output_text(entry, "send", ns_send_name(rule->send));
    ns_output_text(entry, "ack", ns_ack_name(rule->ack));
    print_effect(rule);
}

static int explain_socket(const struct ns_policy *policy, const struct ns_subject *subject,
                          const struct ns_socket_facts *facts)
{
    struct ns_ruleset set;
    if (!policy->enabled) {
        ns_output_line("the policy is not enabled: every socket is left alone");
        return NS_EXIT_NO;
    }
    if (ns_ruleset_build(&set, policy, &subject->process) != 0)
        return NS_FAIL("%s", strerror(ENOMEM));
    const struct ns_rule *rule = ns_match_socket(&set, facts);
    unsigned undecided = say_rules(policy, subject, facts, rule);
    if (undecided) {
        const char *text = ns_words("%u rule%s undecided; the following holds if %s", undecided,
                                    undecided == 1 ? " is" : "s are",
                                    undecided == 1 ? "it does not match" : "none of them matches");
        ns_output_line("warning: %s", text);
        ns_output_text(ns_output_entry("warnings"), "text", text);
    }
    if (rule)
        say_rule(rule);
    else
        ns_output_line("no rule matches: the socket is left alone");
    return rule ? NS_EXIT_YES : NS_EXIT_NO;
}

int ns_explain_main(void)
{
    static struct ns_subject subject;
    static struct ns_policy_found found;
    struct ns_socket_facts facts = {0};
    if (!take_facts(&facts))
        return NS_EXIT_ERROR;
    int status = ns_inspect_program(&subject, true);
    if (status != NS_EXIT_YES)
        return status;
    say_socket();
    status = ns_subject_find_policy(&subject, ns_option_text(NS_EXPLAIN_POLICY), &found)
                 ? explain_socket(found.policy, &subject, &facts)
                 : NS_EXIT_ERROR;
    ns_inspect_end();
    return status;
}
