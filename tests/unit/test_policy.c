/* SPDX-License-Identifier: MIT */
/* The parser: the result of a valid policy, and texts of extreme sizes. tests/policy/policies.table
 * has the message of each mistake, and schema_check.py more endpoints. */
#include "policy/policy.h"
#include "policy/find.h"
#include "policy/sockopt.h"
#include "unit.h"

static const char every_key[] =
    "{\"$schema\": \"x\", \"comment\": \"y\", \"version\": 1, \"enabled\": true, \"rules\": [\n"
    " {\"name\": \"quotes\", \"comment\": \"z\",\n"
    "  \"match\": {\"process\": [\"quote-*\", \"/opt/*\"], \"args\": \"*.py\", \"role\": "
    "\"client\",\n"
    "             \"local\": \"127.0.0.1:7000-7010\",\n"
    "             \"remote\": [\"10.0.0.0/8\", \"[fd00::/8]:443\", \"80\"]},\n"
    "  \"send\": \"auto-cork\", \"ack\": \"app\", \"max_delay_us\": 1e3,\n"
    "  \"sockopt\": {\"SO_SNDBUF\": \"ignore\", \"SO_KEEPALIVE\": {\"set\": 1},\n"
    "               \"IP_TOS\": {\"max\": 16}, \"TCP_LINGER2\": {\"min\": -1}}},\n"
    " {}]}";

static struct ns_policy *parse(const char *text, struct ns_policy_error *error)
{
    struct ns_policy *policy;
    int result = ns_policy_parse(&(struct ns_arena){0}, text, strlen(text), &policy, error, NULL);
    return result == 0 ? policy : NULL;
}

static bool action_is(const struct ns_rule *rule, int option, enum ns_sockopt_verb verb, int value)
{
    const struct ns_sockopt_action *action = ns_sockopt_action(rule, option);
    return action && action->verb == verb && action->value == value;
}

CHECK(test_every_key)
{
    struct ns_policy_error error;
    struct ns_policy *policy = parse(every_key, &error);
    OK(policy, "a policy with every key is accepted: %s", error.message);
    if (!policy)
        return;
    OK(policy->enabled && policy->n_rules == 2, "it has two rules");
    const struct ns_rule *rule = &policy->rules[0];
    OK(strcmp(rule->name, "quotes") == 0 && rule->index == 0, "name");
    OK(strcmp(rule->process[0], "quote-*") == 0 && strcmp(rule->process[1], "/opt/*") == 0 &&
           !rule->process[2],
       "process is a list");
    OK(strcmp(rule->args[0], "*.py") == 0 && !rule->args[1], "args may be one string");
    OK(rule->role == NS_ROLE_CLIENT, "role");
    OK(rule->n_local == 1 && rule->local[0].prefix == 128 && rule->local[0].port_low == 7000 &&
           rule->local[0].port_high == 7010,
       "local");
    OK(rule->n_remote == 3 && rule->remote[0].prefix == 104 && rule->remote[1].prefix == 8 &&
           rule->remote[2].prefix == 0,
       "remote");
    OK(rule->send == NS_SEND_AUTO_CORK && rule->ack == NS_ACK_APP, "send and ack");
    OK(rule->max_delay_us == 1000, "max_delay_us, spelt 1e3");
    OK(rule->n_sockopts == 4, "four options");
    OK(action_is(rule, NS_SOCKOPT_SO_SNDBUF, NS_SOCKOPT_IGNORE, 0), "ignore");
    OK(action_is(rule, NS_SOCKOPT_SO_KEEPALIVE, NS_SOCKOPT_SET, 1), "set");
    OK(action_is(rule, NS_SOCKOPT_IP_TOS, NS_SOCKOPT_MAX, 16), "max");
    OK(action_is(rule, NS_SOCKOPT_TCP_LINGER2, NS_SOCKOPT_MIN, -1), "min");
    const struct ns_rule *empty = &policy->rules[1];
    OK(empty->index == 1 && !empty->name && !empty->process && !empty->args && !empty->local &&
           !empty->remote && empty->role == NS_ROLE_UNKNOWN && empty->n_sockopts == 0,
       "an empty rule matches everything");
    OK(empty->send == NS_SEND_DEFAULT && empty->ack == NS_ACK_BEFORE_WAIT &&
           empty->max_delay_us == NS_MAX_DELAY_US_DEFAULT,
       "an empty rule has the defaults");
    ns_policy_free(policy);
}

/* Runs at the top of the tree: config/default.json must equal the built-in policy. */
CHECK(test_builtin)
{
    static struct ns_policy_found found;
    ns_policy_read(NS_POLICY_NAMED, "config/default.json", &found, NULL);
    OK(found.error == 0 && found.policy->n_rules == 1, "config/default.json is accepted: %s",
       found.where.message);
    struct ns_policy *policy = (struct ns_policy *)(uintptr_t)found.policy;
    const struct ns_policy *builtin = ns_policy_builtin();
    const struct ns_rule *a = &builtin->rules[0], *b = policy ? policy->rules : a;
    OK(builtin->enabled && builtin->n_rules == 1, "one rule is built in");
    OK(strcmp(a->name, b->name) == 0 && a->send == b->send && a->ack == b->ack &&
           a->max_delay_us == b->max_delay_us && !a->process && !a->args && !a->local &&
           !a->remote && a->role == b->role && a->n_sockopts == 0,
       "config/default.json says the same");
    ns_policy_free(policy);
    ns_policy_free((struct ns_policy *)(uintptr_t)builtin);
    ns_policy_free(NULL);
    OK(ns_policy_builtin()->n_rules == 1, "freeing the built-in policy or none does nothing");
    OK(!ns_send_name((enum ns_send)99) && !ns_ack_name((enum ns_ack)99) &&
           !ns_role_name((enum ns_role)99),
       "there is no name beyond the last one");
}

CHECK(test_text_edges)
{
    struct ns_policy_error error;
    static char big[NS_POLICY_SIZE_MOST + 2];
    memset(big, ' ', NS_POLICY_SIZE_MOST);
    memcpy(big, "{\"version\":1,\"rules\":[]}", 24);
    struct ns_policy *policy = parse(big, &error);
    OK(policy, "256 KiB are accepted");
    ns_policy_free(policy);
    big[NS_POLICY_SIZE_MOST] = ' ';
    OK(!parse(big, &error) && error.line == 1 && error.column == 1, "one byte more is refused: %s",
       error.message);
    memset(big, '[', NS_POLICY_SIZE_MOST);
    memcpy(big, "{\"a\":", 5);
    big[NS_POLICY_SIZE_MOST] = '\0';
    OK(!parse(big, &error) && error.column == 13,
       "a quarter of a million brackets are refused at the ninth");
    errno = 123;
    OK(!parse("{", &error) && errno == 123, "errno is unchanged");
    OK(!parse("{\"version\": 1,\n\n  \"rules\": [{\"sned\": 1}]}", &error) && error.line == 3 &&
           error.column == 14,
       "lines and columns count from 1");
    OK(!parse("{\"$schema\": \"\\\"{[,\\\\\", \"rules\": [{\"send\": \"app\"}, {\"ack\": 1}]}",
              &error) &&
           error.column == 59,
       "quotes, brackets and commas in strings do not change the column (%u)", error.column);
}
