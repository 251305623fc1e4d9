/* SPDX-License-Identifier: MIT */
/* See report.h. Owns what was counted before a fork, and whether the line was said. Must never say
 * it twice, nor for another process. */
#include "report/report.h"

#include "base/path.h"
#include "report/stats.h"
#include "report/status.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static char name[64];
static pid_t process; /* whose counts these are: a bare system call forks past us */
static _Atomic bool said;
static bool forked;
static _Atomic bool left_listener; /* of no count, since what it accepts has its own rules */

/* When the process was forked; zero in one that was not. */
static struct ns_stats before;

/* Since the process began, in the order of NS_COUNTERS. */
struct counts {
#define NS_COUNTER(name, text) uint64_t name;
    NS_COUNTERS(NS_COUNTER)
#undef NS_COUNTER
};

static struct counts count(void)
{
    struct counts counts;
#define NS_COUNTER(name, text)                                                                     \
    counts.name = atomic_load_explicit(&ns_stats.name, memory_order_relaxed) -                     \
                  atomic_load_explicit(&before.name, memory_order_relaxed);
    NS_COUNTERS(NS_COUNTER)
#undef NS_COUNTER
    return counts;
}

void ns_report_open(const char *program)
{
    if (!ns_log_enabled(NS_LOG_INFO))
        return;
    process = getpid();
    if (program)
        strncpy(name, ns_path_base(program), sizeof name - 1);
}

void ns_report_forked(void)
{
    /* What stood aside at start-up has said so, or will, where it began. */
    if (atomic_load_explicit(&ns_status.state, memory_order_relaxed) != NS_STATUS_ACTIVE)
        atomic_store(&said, true);
    else
        atomic_store(&said, false);
    forked = true;
    if (ns_log_enabled(NS_LOG_INFO))
        process = getpid();
    atomic_store(&left_listener, false);
#define NS_COUNTER(name, text)                                                                     \
    atomic_store_explicit(&before.name,                                                            \
                          atomic_load_explicit(&ns_stats.name, memory_order_relaxed),              \
                          memory_order_relaxed);
    NS_COUNTERS(NS_COUNTER)
#undef NS_COUNTER
    struct ns_status_rule *rules = (struct ns_status_rule *)(uintptr_t)ns_status.rules;
    for (uint32_t i = 0; i < ns_status.n_rules; i++)
        rules[i].before = atomic_load_explicit(&rules[i].sockets, memory_order_relaxed);
}

/* "1 push", "2 pushes". */
static void add_count(struct ns_line *line, uint64_t number, const char *one, const char *many)
{
    ns_line_add_number(line, number);
    ns_line_add(line, number == 1 ? one : many);
}

/* Is it the rule that `nagleshim run` has made of its options? */
static bool is_of_run(const char *rule)
{
    return rule && strcmp(rule, NS_POLICY_OF_RUN) == 0;
}

static void add_rule_name(struct ns_line *line, const char *rule, uint32_t index)
{
    ns_line_add(line, "rule ");
    if (rule && !is_of_run(rule))
        ns_line_add(line, rule);
    else
        ns_line_add_number(line, (uint64_t)index + 1);
}

static void add_policy(struct ns_line *line)
{
    const struct ns_status_rule *rules = (const struct ns_status_rule *)(uintptr_t)ns_status.rules;
    switch ((enum ns_policy_origin)ns_status.origin) {
    case NS_POLICY_BUILTIN:
        ns_line_add(line, "the built-in policy");
        break;
    case NS_POLICY_INLINE:
        ns_line_add(line,
                    ns_status.n_rules == 1 && is_of_run((const char *)(uintptr_t)rules[0].name)
                        ? "run's options"
                        : "the policy in NAGLESHIM_POLICY");
        break;
    case NS_POLICY_NAMED:
    case NS_POLICY_IN_DIRECTORY:
        ns_line_add(line, (const char *)(uintptr_t)ns_status.policy);
        break;
    }
}

/* The rules that took sockets: "rule a" where there is one, "rule a (3), rule b (1)" otherwise. */
static void add_rules(struct ns_line *line)
{
    enum { MOST = 8 };
    const struct ns_status_rule *rules = (const struct ns_status_rule *)(uintptr_t)ns_status.rules;
    uint32_t taking = 0, named = 0;
    for (uint32_t i = 0; i < ns_status.n_rules; i++)
        taking += rules[i].sockets != rules[i].before;
    for (uint32_t i = 0; i < ns_status.n_rules && named < MOST; i++) {
        uint32_t sockets = rules[i].sockets - rules[i].before;
        if (sockets == 0)
            continue;
        if (named++ > 0)
            ns_line_add(line, ", ");
        add_rule_name(line, (const char *)(uintptr_t)rules[i].name, i);
        if (taking > 1) {
            ns_line_add(line, " (");
            ns_line_add_number(line, sockets);
            ns_line_add(line, ")");
        }
    }
    if (taking > MOST)
        ns_line_add(line, " and others");
}

/* "4 TCP sockets, rule x of the built-in policy". */
static void add_sockets(struct ns_line *line, const struct counts *counts)
{
    uint64_t all = counts->sockets + counts->left_alone;
    if (all == 0 && !forked) {
        ns_line_add(line, "a listener and no connection, left alone: no rule of ");
        add_policy(line);
        ns_line_add(line, " matched all that it could accept");
        return;
    }
    if (all == 0) {
        ns_line_add(line, "TCP sockets of before the fork");
        return;
    }
    add_count(line, all, " TCP socket", " TCP sockets");
    if (forked)
        ns_line_add(line, " since the fork");
    if (counts->sockets > 0) {
        ns_line_add(line, ", ");
        add_rules(line);
        ns_line_add(line, " of ");
        add_policy(line);
        if (counts->left_alone > 0) {
            ns_line_add(line, ", ");
            ns_line_add_number(line, counts->left_alone);
            ns_line_add(line, " left alone");
        }
    } else {
        ns_line_add(line, ", left alone: no rule of ");
        add_policy(line);
        ns_line_add(line, " matched");
    }
}

/* Nothing was done: what a rule that took sockets leaves to the program may be why. */
static void add_no_deed(struct ns_line *line)
{
    const struct ns_status_rule *rules = (const struct ns_status_rule *)(uintptr_t)ns_status.rules;
    bool send = false, ack = false;
    for (uint32_t i = 0; i < ns_status.n_rules; i++) {
        bool took = rules[i].sockets != rules[i].before;
        send |= took && rules[i].send == NS_SEND_APP;
        ack |= took && rules[i].ack == NS_ACK_APP;
    }
    ns_line_add(line, ": nothing was set or sent");
    if (send || ack)
        ns_line_add(line, "; left to the program by ");
    if (send)
        ns_line_add(line, "\"send\": \"app\"");
    if (ack)
        ns_line_add(line, send ? " and \"ack\": \"app\"" : "\"ack\": \"app\"");
}

/* What was done. */
static void add_deeds(struct ns_line *line, const struct counts *counts)
{
    const struct {
        uint64_t number;
        const char *one, *many;
    } deeds[] = {
        {counts->nodelay, " socket given TCP_NODELAY", " sockets given TCP_NODELAY"},
        {counts->joined, " burst joined into fewer segments", " bursts joined into fewer segments"},
        {counts->bursts, " burst held to leave as one", " bursts held to leave as one each"},
        {counts->pushes, " push before a wait", " pushes before a wait"},
        {counts->late, " late push", " late pushes"},
        {counts->acks, " ACK sent before a wait", " ACKs sent before a wait"},
        {counts->unheld, " connection whose bursts are no longer held since they were late",
         " connections whose bursts are no longer held since they were late"},
    };
    const char *separator = ": ";
    for (unsigned i = 0; i < sizeof deeds / sizeof *deeds; i++)
        if (deeds[i].number > 0) {
            ns_line_add(line, separator);
            add_count(line, deeds[i].number, deeds[i].one, deeds[i].many);
            separator = ", ";
        }
    if (atomic_load_explicit(&ns_stats.unheld, memory_order_relaxed) >= NS_UNHELD_MOST)
        ns_line_add(line, ", so new connections hold none either");
    if (counts->sockets > 0 && *separator == ':')
        add_no_deed(line);
}

/* The same for scripts: every count, by the name that `nagleshim doctor` gives it. */
static void add_counts(struct ns_line *line, const struct counts *counts)
{
    const char *separator = "; counts: ";
#define NS_COUNTER(name, text)                                                                     \
    ns_line_add(line, separator);                                                                  \
    ns_line_add(line, text " ");                                                                   \
    ns_line_add_number(line, counts->name);                                                        \
    separator = ", ";
    NS_COUNTERS(NS_COUNTER)
#undef NS_COUNTER
}

static bool any(const struct counts *counts)
{
    return left_listener || counts->sockets || counts->left_alone || counts->joined ||
           counts->nodelay || counts->bursts || counts->pushes || counts->late || counts->acks;
}

void ns_report_end(void)
{
    static struct ns_line line; /* a signal handler's stack may be small; said guards it */
    if (!ns_log_enabled(NS_LOG_INFO))
        return;
    if (process != getpid())
        return;
    struct counts counts = count();
    /* acquire: with its reason */
    uint32_t state = atomic_load_explicit(&ns_status.state, memory_order_acquire);
    bool aside = state == NS_STATUS_ASIDE;
    bool speaks = aside || (state == NS_STATUS_ACTIVE &&
                            (any(&counts) || (ns_log_enabled(NS_LOG_DEBUG) && !forked)));
    if (!speaks || atomic_exchange(&said, true))
        return;
    int saved = errno;
    ns_line_begin(&line);
    ns_line_add(&line, name);
    ns_line_add(&line, ": ");
    if (aside) {
        ns_line_add(&line, "stood aside: ");
        ns_line_add(&line, (const char *)(uintptr_t)atomic_load_explicit(&ns_status.reason,
                                                                         memory_order_relaxed));
    }
    if (any(&counts)) {
        ns_line_add(&line, aside ? "; before that " : "");
        add_sockets(&line, &counts);
        add_deeds(&line, &counts);
        add_counts(&line, &counts);
    } else if (!aside) {
        ns_line_add(&line, "no TCP socket");
    }
    ns_line_write(&line);
    errno = saved;
}

void ns_report_aside(void)
{
    ns_report_end();
    ns_log_silence();
}

void ns_report_left_alone(int fd, bool listens)
{
    if (listens)
        atomic_store_explicit(&left_listener, true, memory_order_relaxed);
    NS_DEBUG(fd, listens ? "listener left alone" : "no rule matches it: left alone");
}

void ns_report_rule(int fd, const struct ns_rule *rule, bool listens)
{
    struct ns_line line;
    ns_line_begin(&line);
    ns_line_add(&line, "fd ");
    ns_line_add_number(&line, (uint64_t)fd);
    ns_line_add(&line, ": ");
    add_rule_name(&line, rule->name, (uint32_t)rule->index);
    ns_line_add(&line, listens ? " takes the listener, send " : " takes it, send ");
    ns_line_add(&line, ns_send_name(rule->send));
    ns_line_add(&line, ", ack ");
    ns_line_add(&line, ns_ack_name(rule->ack));
    ns_line_write(&line);
}
