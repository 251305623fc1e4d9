/* SPDX-License-Identifier: MIT */
/* Owns the warnings about policies that are valid but probably not intended. */
#include "cli/policy/check.h"

#include "cli/output.h"
#include "policy/match.h"

#include <fnmatch.h>
#include <string.h>

/* Linux delays an ACK for 40 ms: bytes that are held for longer are a stall, too. */
enum { DELAYED_ACK_US = 40000 };

static void warn(const struct ns_check_listener *to, const struct ns_rule *rule, const char *text)
{
    to->report(to->context, rule, text);
}

static void warn_halves(const struct ns_check_listener *to, const struct ns_rule *rule)
{
    bool sends = rule->send != NS_SEND_APP, acks = rule->ack != NS_ACK_APP;
    if (sends != acks)
        warn(to, rule,
             ns_words("only %s are treated, which can cause a stall that was not there before; "
                      "treat %s, too",
                      sends ? "writes" : "reads",
                      sends ? "reads (\"ack\": \"before-wait\")"
                            : "writes (\"send\": \"adaptive\")"));
}

static void warn_delay(const struct ns_check_listener *to, const struct ns_rule *rule)
{
    if (!ns_send_corks(rule->send) && rule->has_max_delay)
        warn(to, rule, "max_delay_us has no effect: only \"send\": \"auto-cork\" holds bytes");
    if (ns_send_corks(rule->send) && rule->max_delay_us > DELAYED_ACK_US)
        warn(to, rule, "max_delay_us is longer than the delayed ACK (40 ms) that it should avoid");
}

static void warn_match(const struct ns_check_listener *to, const struct ns_rule *rule)
{
    if (rule->role == NS_ROLE_CLIENT && rule->local.list)
        warn(to, rule,
             "\"local\" of a client matches only if the program binds the socket before it "
             "connects");
    size_t n = 0;
    while (n < rule->remote.n && rule->remote.list[n].port_low == rule->remote.list[n].port_high)
        n++;
    if (rule->role == NS_ROLE_SERVER && rule->remote.list && n == rule->remote.n)
        warn(to, rule,
             "\"remote\" of a server is the client's address, whose port the kernel chooses; did "
             "you mean \"local\"?");
}

/* What was probably meant by patterns of these shapes. */
static void warn_patterns(const struct ns_check_listener *to, const struct ns_rule *rule,
                          const char *key, char *const *patterns)
{
    static const struct {
        char key;
        const char *shape, *meant;
    } rows[] = {
        {'p', "*/", "it is a directory; did you mean its programs, with * at the end?"},
        {'p', "*[,|]*", "it is one pattern; did you mean a list, [\"a\", \"b\"]?"},
        {'p', "^*", "it is not a regular expression; did you mean it without ^?"},
        /* not /opt/An App/bin/app */
        {'p', "@([!/]* *|* /*|* +([!/]))", "\"process\" has no arguments; did you mean \"args\"?"},
        {'p', NS_CHECK_SCRIPT, "the process is usually its interpreter; did you mean \"args\"?"},
        {'a', "* *", "each argument is compared alone; did you mean one of the words?"},
    };
    for (; patterns && *patterns; patterns++) {
        size_t i = 0, n = sizeof rows / sizeof rows[0];
        while (i < n && (rows[i].key != *key || fnmatch(rows[i].shape, *patterns, FNM_EXTMATCH)))
            i++;
        if (i < n)
            warn(to, rule, ns_words("\"%s\": \"%.99s\": %s", key, *patterns, rows[i].meant));
    }
}

static void warn_sockopts(const struct ns_check_listener *to, const struct ns_rule *rule)
{
    static const int buffers[] = {NS_SOCKOPT_SO_SNDBUF, NS_SOCKOPT_SO_RCVBUF};
    for (size_t i = 0; i < 2; i++) {
        const enum ns_sockopt_verb verb = rule->sockopts[buffers[i]].verb;
        if (verb == NS_SOCKOPT_SET || verb == NS_SOCKOPT_MIN)
            warn(to, rule,
                 ns_words("an explicit %s switches the kernel's autotuning off; \"ignore\" leaves "
                          "it on",
                          ns_sockopts[buffers[i]].name));
    }
}

/* Does earlier contain every pattern of later? NULL: the key is absent, and everything matches. */
static bool takes_words(char *const *earlier, char *const *later)
{
    for (size_t i = 0; earlier && later && later[i]; i++) {
        size_t j = 0;
        while (earlier[j] && strcmp(earlier[j], later[i]) != 0)
            j++;
        if (!earlier[j])
            return false;
    }
    return !earlier || later;
}

static bool takes_endpoints(const struct ns_endpoint *earlier, size_t n_earlier,
                            const struct ns_endpoint *later, size_t n_later)
{
    for (size_t i = 0; earlier && i < n_later; i++) {
        size_t j = 0;
        while (j < n_earlier && !ns_match_holds_all(&earlier[j], &later[i]))
            j++;
        if (j == n_earlier)
            return false;
    }
    return !earlier || later;
}

/* Does the earlier rule match whenever the later one does? */
static bool takes_all(const struct ns_rule *earlier, const struct ns_rule *later)
{
    return (earlier->role == NS_ROLE_UNKNOWN || earlier->role == later->role) &&
           takes_words(earlier->process, later->process) &&
           takes_words(earlier->args, later->args) &&
           takes_endpoints(earlier->local.list, earlier->local.n, later->local.list,
                           later->local.n) &&
           takes_endpoints(earlier->remote.list, earlier->remote.n, later->remote.list,
                           later->remote.n);
}

static void warn_hidden(const struct ns_check_listener *to, const struct ns_policy *policy,
                        const struct ns_rule *rule)
{
    for (size_t i = 0; i < rule->index; i++) {
        const struct ns_rule *by = &policy->rules[i];
        if (!takes_all(by, rule))
            continue;
        warn(to, rule,
             ns_words("never used: rule %u%s%.64s%s before it already takes every socket it could "
                      "match",
                      by->index + 1, by->name ? " (" : "", by->name ? by->name : "",
                      by->name ? ")" : ""));
        return;
    }
}

void ns_check_warn(const struct ns_policy *policy, const struct ns_check_listener *to)
{
    if (!policy->enabled)
        warn(to, NULL, "\"enabled\" is false: nothing is touched");
    if (policy->n_rules == 0)
        warn(to, NULL, "\"rules\" is empty: nothing is touched");
    for (size_t i = 0; i < policy->n_rules; i++) {
        const struct ns_rule *rule = &policy->rules[i];
        warn_halves(to, rule);
        warn_delay(to, rule);
        warn_match(to, rule);
        warn_patterns(to, rule, "process", rule->process);
        warn_patterns(to, rule, "args", rule->args);
        warn_sockopts(to, rule);
        warn_hidden(to, policy, rule);
    }
}
