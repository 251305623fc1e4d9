/* SPDX-License-Identifier: MIT */
/* See report.h. Owns the names of the counters, and whether the line was written. Must never
 * write it twice, or for another process. */
#include "report/report.h"

#include "base/memory.h"
#include "base/path.h"
#include "report/status.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { COUNTERS = sizeof(struct ns_stats) / sizeof(uint64_t) };

static const char *const counter_names[COUNTERS] = {
#define NS_COUNTER(name, text) text,
    NS_COUNTERS(NS_COUNTER)
#undef NS_COUNTER
};

static char name[64];
static pid_t process; /* whose counts these are: a fork by a raw system call is not seen */
static _Atomic bool written;
static bool forked;
static _Atomic bool had_socket; /* that no counter counts: a listener, or in a disabled library */
static _Atomic uint64_t *const counters = &ns_stats.sockets; /* the first of them */

static struct ns_status_rule *rules(void)
{
    return (struct ns_status_rule *)(uintptr_t)ns_status.rules;
}

void ns_report_open(const char *program)
{
    if (ns_log_level < NS_LOG_INFO)
        return;
    process = getpid();
    if (program)
        strncpy(name, ns_path_base(program), sizeof name - 1);
}

void ns_report_forked(void)
{
    if (ns_log_level < NS_LOG_INFO) /* no report: a write would copy a page */
        return;
    /* The parent reports why the library was disabled before the fork. */
    bool active = NS_GET(&ns_status, state) == NS_STATUS_ACTIVE;
    atomic_store(&written, !active);
    forked = true;
    process = getpid();
    atomic_store(&had_socket, false);
    for (unsigned i = 0; i < COUNTERS; i++)
        atomic_store(&counters[i], 0);
    for (uint32_t i = 0; i < ns_status.n_rules; i++)
        NS_PUT(&rules()[i], sockets, 0);
}

static void add_rule(struct ns_line *line, const char *rule, uint32_t index)
{
    ns_line_add(line, "rule ");
    if (rule)
        ns_line_add(line, rule);
    else
        ns_line_add_number(line, "", (uint64_t)index + 1);
}

static void add_policy(struct ns_line *line)
{
    if (ns_status.origin == NS_POLICY_BUILTIN)
        ns_line_add(line, "the built-in policy");
    else if (ns_status.origin == NS_POLICY_NO_DIRECTORY)
        ns_line_add(line, "the built-in policy (NAGLESHIM_POLICY_DIR does not exist)");
    else if (ns_status.origin == NS_POLICY_INLINE)
        ns_line_add(line, "the policy in NAGLESHIM_POLICY");
    else
        ns_line_add(line, (const char *)(uintptr_t)ns_status.policy);
}

/* The rules that matched sockets, and their policy. */
static void add_rules(struct ns_line *line)
{
    for (uint32_t i = 0; i < ns_status.n_rules; i++) {
        const char *rule = (const char *)(uintptr_t)rules()[i].name;
        if (!rules()[i].sockets)
            continue;
        if (rule && strcmp(rule, NS_POLICY_OF_RUN) == 0) {
            ns_line_add(line, ", " NS_POLICY_OF_RUN);
            return;
        }
        ns_line_add(line, ", ");
        add_rule(line, rule, i);
    }
    ns_line_add(line, " of ");
    add_policy(line);
}

/* "4 TCP sockets, rule x of the built-in policy; counts: ..." */
static void add_sockets(struct ns_line *line)
{
    uint64_t ruled = ns_stats.sockets, all = ruled + ns_stats.left_alone;
    if (all > 0) {
        ns_line_add_number(line, "", all);
        ns_line_add(line, all == 1 ? " TCP socket" : " TCP sockets");
        ns_line_add(line, forked ? " since the fork" : "");
    } else {
        ns_line_add(line, forked ? "TCP sockets from before the fork" : "a listener");
    }
    if (ruled > 0) {
        add_rules(line);
    } else if (all > 0 || !forked) {
        ns_line_add(line, ", left alone: no rule of ");
        add_policy(line);
        ns_line_add(line, " matched");
    }
    for (unsigned i = 0; i < COUNTERS; i++) {
        ns_line_add(line, i ? ", " : "; counts: ");
        ns_line_add(line, counter_names[i]);
        ns_line_add_number(line, " ", counters[i]);
    }
}

static bool has_counts(void)
{
    uint64_t all = 0;
    for (unsigned i = 0; i < COUNTERS; i++)
        all |= counters[i];
    return all != 0;
}

void ns_report_end(void)
{
    NS_LARGE_ARRAY static struct ns_line
        line; /* a signal handler's stack may be small; written guards it */
    if (ns_log_level < NS_LOG_INFO || process != getpid())
        return;
    /* acquire: with its reason */
    uint32_t state = atomic_load_explicit(&ns_status.state, memory_order_acquire);
    bool disabled = state == NS_STATUS_DISABLED, debugs = NS_DEBUGS && !forked;
    bool counts = has_counts();
    if (!(disabled || state == NS_STATUS_ACTIVE) || !(counts || had_socket || debugs) ||
        atomic_exchange(&written, true))
        return;
    ns_line_begin(&line);
    ns_line_add(&line, name);
    ns_line_add(&line, ": ");
    if (disabled) {
        ns_line_add(&line, "disabled: ");
        ns_line_add(&line, (const char *)(uintptr_t)NS_GET(&ns_status, reason));
        ns_line_add(&line, counts ? "; before that " : "");
    }
    if (counts || (!disabled && had_socket))
        add_sockets(&line);
    else if (!disabled)
        ns_line_add(&line, "no TCP socket");
    ns_line_write(&line);
}

void ns_report_is_written(void)
{
    atomic_store(&written, true);
}

void ns_report_disabled(bool disabled)
{
    if (disabled)
        ns_report_end();
    ns_log_silence(disabled);
    if (disabled || !atomic_exchange(&written, false))
        return;
    struct ns_line line;
    ns_line_begin(&line);
    ns_line_add(&line, name);
    ns_line_add(&line, ": enabled again: the kernel has refused the seccomp filter");
    ns_line_write(&line);
}

void ns_report_not_in_table(void)
{
    if (NS_GET(&ns_status, state) == NS_STATUS_DISABLED) /* and not before start-up */
        atomic_store_explicit(&had_socket, true, memory_order_relaxed);
}

void ns_report_left_alone(int fd, bool listens)
{
    if (listens)
        atomic_store_explicit(&had_socket, true, memory_order_relaxed);
    NS_DEBUG(fd, listens ? "listener left alone" : "no rule matches it: left alone");
}

void ns_report_rule(int fd, const struct ns_rule *rule, bool listens)
{
    struct ns_line line;
    ns_line_begin(&line);
    ns_line_add_number(&line, "fd ", (uint64_t)fd);
    ns_line_add(&line, ": ");
    add_rule(&line, rule->name, (uint32_t)rule->index);
    ns_line_add(&line, listens ? " takes the listener, send " : " takes it, send ");
    ns_line_add(&line, ns_send_name(rule->send));
    ns_line_add(&line, ", ack ");
    ns_line_add(&line, ns_ack_name(rule->ack));
    ns_line_write(&line);
}
