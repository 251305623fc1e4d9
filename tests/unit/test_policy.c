/* SPDX-License-Identifier: MIT */
/* The built-in policy. tests/policy/policies.table has the message of each mistake in a policy,
 * schema_check.py more of them, and command-explain.bats what each key does. */
#include "policy/policy.h"
#include "policy/find.h"
#include "unit.h"

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
           a->max_delay_us == b->max_delay_us && !a->process && !a->args && !a->local.list &&
           !a->remote.list && a->role == b->role &&
           memcmp(a->sockopts, b->sockopts, sizeof a->sockopts) == 0,
       "config/default.json says the same");
    ns_policy_free(policy);
    ns_policy_free((struct ns_policy *)(uintptr_t)builtin);
    ns_policy_free(NULL);
    OK(ns_policy_builtin()->n_rules == 1, "freeing the built-in policy or none does nothing");
    OK(!ns_send_name((enum ns_send)99) && !ns_ack_name((enum ns_ack)99) &&
           !ns_role_name((enum ns_role)99),
       "there is no name beyond the last one");
}
