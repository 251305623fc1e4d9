/* SPDX-License-Identifier: MIT */
/* Owns the options of `nagleshim cure`, its loop with --follow, and what it prints. */
#include "cure/code.h"
#include "cure/cure.h"

#include "base/clock.h"
#include "cli/child.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "policy/find.h"
#include "process/proc.h"
#include "process/reader.h"
#include "watch/diag.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum {
    INTERVAL_MS = 100,
    ROUND_MS = 1000, /* for new processes and listeners */
    SHARE = 50,      /* lists and rounds take at most 1/SHARE of a processor each */
    LASTING = 10,    /* scans in turn without memory */
};

static const struct {
    const char *name, *reason;
} results[NS_CURE_RESULTS] = {
    [NS_CURE_CHANGED] = {"changed", NULL},
    [NS_CURE_UNCHANGED] = {"unchanged", "the options are set already"},
    [NS_CURE_HALF] = {"writes_only",
                      "TCP_NODELAY is on already, and this kernel limits the delay of ACKs only "
                      "with --unit, --cgroup or --all"},
    [NS_CURE_ACCEPTS] = {"accepts", "the kernel treats the connections that a listener accepts"},
    [NS_CURE_NO_RULE] = {"no_rule", "no rule of the policy matches"},
    [NS_CURE_OTHERS] = {"others", "another cure of the control group is in force"},
    [NS_CURE_EARLIER] = {"earlier", "another cure has set the options"},
    [NS_CURE_MPTCP] = {"mptcp", "an undo could not restore the options of MPTCP sockets"},
    [NS_CURE_HAS_LIBRARY] = {"has_library", "the library works in this process"},
    [NS_CURE_STUCK] = {"stuck", NS_PROC_STUCK},
    [NS_CURE_DENIED] = {"denied", NULL},
    [NS_CURE_FAILED] = {"failed", "the option could not be set"},
};

static const char *const selections[] = {"unit", "cgroup", "all", "pid", "port"};

static bool is_kernel_since(const char *version)
{
    struct utsname system;
    return uname(&system) == 0 && strverscmp(system.release, version) >= 0;
}

static bool read_options(struct ns_cure *cure)
{
    *cure =
        (struct ns_cure){.pids = ns_option_pids(),
                         .port = (unsigned)ns_option_number(NS_CURE_PORT, 0),
                         .all = ns_option_text(NS_ALL),
                         .seconds = ns_option_number(NS_CURE_FOR, 0),
                         .follow = ns_option_text(NS_CURE_FOLLOW) || ns_option_text(NS_CURE_FOR),
                         .list = ns_option_text(NS_CURE_LIST),
                         .undo = ns_option_text(NS_CURE_UNDO),
                         .dry_run = ns_option_text(NS_CURE_DRY_RUN),
                         .least_delack = ns_socket_least_delack(),
                         .sets_nodelay = is_kernel_since("6.1")};
    int selected = 0;
    for (size_t i = 0; i < sizeof selections / sizeof *selections; i++)
        selected += ns_option_named(selections[i]) != NULL;
    if (selected > 1)
        return NS_REFUSE("use one of --unit, --cgroup, --all, --pid and --port");
    const bool changes = cure->follow || cure->undo || cure->dry_run ||
                         ns_option_text(NS_CURE_POLICY) || ns_option_text(NS_CURE_FORCE);
    if (cure->list && (selected > 0 || changes))
        return NS_REFUSE("--list shows all that is in force, and takes no option but --json");
    if (selected == 0 && !cure->list)
        return NS_REFUSE("say %s: --unit NAME, --cgroup GROUP, --pid N, --port N or --all",
                         cure->undo ? "what to restore" : "which sockets");
    if (cure->undo && cure->follow)
        return NS_REFUSE("--undo cannot be used with --follow or --for");
    if (cure->seconds > 0 && cure->dry_run)
        return NS_REFUSE("--for cannot be used with --dry-run");
    if (cure->undo && ns_option_text(NS_CURE_POLICY))
        return NS_REFUSE("--undo restores what was changed and takes no policy");
    /* What is in force is what an undo would restore. */
    cure->all |= cure->list;
    cure->undo |= cure->list;
    cure->dry_run |= cure->list;
    return true;
}

static bool read_policy(struct ns_cure *cure)
{
    struct ns_policy_found found = {.policy = ns_policy_builtin()};
    char text[2 * PATH_MAX];
    if (ns_option_text(NS_CURE_POLICY))
        ns_policy_read(NS_POLICY_NAMED, ns_option_text(NS_CURE_POLICY), &found, NULL);
    cure->policy = found.policy;
    return found.policy || NS_REFUSE("%s", ns_policy_error_text(&found, text, sizeof text));
}

/* "3 connections", "1 listener", or both. */
static const char *count(const struct ns_cure_row *row)
{
    const char *connections = row->connections ? ns_count(row->connections, "connection") : "";
    const char *listeners = row->listeners ? ns_count(row->listeners, "listener") : "";
    return ns_words("%s%s%s", connections, *connections && *listeners ? " and " : "", listeners);
}

static void print_row(const struct ns_cure *cure, const struct ns_cure_row *row)
{
    const struct {
        const char *what;
        unsigned n;
    } changes[] = {{"TCP_NODELAY set", row->nodelay},
                   {"delayed ACK limited to two clock ticks", row->delack},
                   {"TCP_NODELAY restored", row->nodelay_restored},
                   {"limit of the delayed ACK restored", row->delack_restored}};
    const char *who = row->pid ? ns_words("%s (pid %d)", row->name, row->pid) : row->name;
    const char *what = "";
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        if (changes[i].n > 0)
            what = ns_words("%s%s%s on %u", what, *what ? ", " : "", changes[i].what, changes[i].n);
    if (row->results[NS_CURE_CHANGED] > 0)
        ns_output_line("%s: %s%s: %s", who, cure->dry_run && !cure->list ? "would change " : "",
                       count(row), what);
    for (int i = cure->list ? NS_CURE_STUCK : NS_CURE_CHANGED + 1; i < NS_CURE_RESULTS; i++)
        if (row->results[i] > 0 && !(cure->undo && i == NS_CURE_NO_RULE))
            ns_output_line("%s: %s not changed: %s", who, ns_count(row->results[i], "socket"),
                           i == NS_CURE_DENIED ? ns_process_denied(-EACCES) : results[i].reason);
    ns_words_forget(); /* --follow may run for long */
}

static void add_row(const struct ns_cure *cure, const struct ns_cure_row *row)
{
    unsigned n = 0;
    for (int i = 0; i < NS_CURE_RESULTS; i++)
        n += row->results[i];
    if (cure->list && n == row->results[NS_CURE_NO_RULE])
        return;
    cJSON *entry = ns_output_entry("processes");
    ns_output_number(entry, "pid", row->pid);
    ns_output_text(entry, "name", row->name);
    for (int i = 0; i < NS_CURE_RESULTS; i++)
        cJSON_AddNumberToObject(entry, results[i].name, row->results[i]);
    cJSON_AddNumberToObject(entry, "listeners", row->listeners);
    cJSON_AddNumberToObject(entry, "connections", row->connections);
    cJSON_AddNumberToObject(entry, "nodelay", row->nodelay + row->nodelay_restored);
    cJSON_AddNumberToObject(entry, "delayed_ack", row->delack + row->delack_restored);
}

static const struct {
    int error;
    const char *reason;
} reasons[] = {
    {ENODEV, NS_GROUP_NO_MOUNT},
    {EXDEV, "the root of the control groups is not visible here"},
    {ENXIO, "no BPF file system is mounted at " NS_GROUP_BPF},
    {ENOTDIR, NS_GROUP_PINS " is not a directory of root's that nobody else may write to"},
    {EAGAIN,
     "another cure or undo, or the process that /proc/locks shows, has the lock of " NS_GROUP_PINS},
    {EACCES, "no permission to use " NS_GROUP_PINS},
    {EPERM, "CAP_BPF and CAP_NET_ADMIN are needed"},
    {EBUSY, "a program of the group, or of one above it, allows no other"},
    {ENOSPC, "the group has as many programs as the kernel allows"},
    {ENOENT, "the group has ended"},
    {EEXIST,
     "another cure is in force there: end it by --undo, or end the 'nagleshim cure --follow'"},
    {EUSERS, "it would end a program of a group above it; --force does so"},
    {EINVAL, "this kernel, or a security module, refuses the programs"},
};

/* Why the kernel does not cure new connections, or what it does is not known. policy: or NULL. */
static const char *reason_of(int error, const struct ns_policy *policy)
{
    const struct ns_rule *unfit = policy ? ns_code_unfit(policy) : NULL;
    if (error == -ENOTSUP && unfit)
        return ns_words("rule %u asks for a process, which the kernel does not know; name its "
                        "group instead",
                        unfit->index + 1);
    if (error == -E2BIG)
        return ns_words("the policy has more than %d rules and addresses", NS_CODE_ENTRIES_MOST);
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].error == -error)
            return reasons[i].reason;
    return strerror(-error);
}

/* Until when the kernel cures the new connections of a group. */
static const char *end_of(const struct ns_group *group)
{
    return group->id == NS_GROUP_ROOT ? "--undo or the next boot"
                                      : "--undo or the end of the group";
}

int ns_cure_list_groups(struct ns_groups *groups)
{
    const char *what = is_kernel_since("6.1") ? "cure" : "limit the delayed ACKs of";
    const int error = ns_groups_find_cured(groups);
    if (error)
        ns_say("it is not known which control groups are cured: %s", reason_of(error, NULL));
    for (size_t i = 0; i < groups->n; i++) {
        const struct ns_group *group = &groups->at[i];
        const char *path = *group->path ? group->path : "a group that was removed";
        if (group->is_ending) {
            ns_say("%s: " NS_GROUP_ENDING, path);
            continue;
        }
        cJSON *entry = ns_output_entry("groups");
        ns_output_text(entry, "path", path);
        ns_output_text(entry, "policy", *group->policy ? group->policy : NULL);
        cJSON_AddBoolToObject(entry, "kept", group->kept);
        ns_output_line("%s: the kernel is set to %s new connections, until %s%s%s", path, what,
                       group->kept ? end_of(group) : "a running 'nagleshim cure --follow' ends",
                       *group->policy ? "; policy: " : "", group->policy);
    }
    return error;
}

/* What the kernel will do with new connections, for each group. */
static void print_groups(const struct ns_cure *cure)
{
    const char *what = cure->sets_nodelay ? "cure" : "limit the delayed ACKs of";
    if (!cure->cures_new)
        return;
    for (const struct ns_group *group = NULL; (group = ns_groups_next(&cure->groups, group));) {
        const struct ns_group *above = NULL;
        const char *until = "";
        if (!*group->path || group->error || (cure->undo && !group->kept && cure->seconds == 0))
            continue;
        if (cure->undo)
            above = ns_groups_innermost(&cure->groups, group->path, group->id);
        else if (!cure->dry_run)
            until = ns_words(", until %s",
                             cure->follow ? "this command or the group ends" : end_of(group));
        if (!cure->undo || cure->seconds == 0)
            ns_output_text(ns_output_entry("groups"), "path", group->path);
        ns_output_line("%s: the kernel %s%s %s new connections%s", group->path,
                       cure->dry_run ? "would" : "will", cure->undo ? " no longer" : "", what,
                       until);
        if (above && !above->selected)
            ns_output_line("%s: the cure of %s, above it, goes on there", group->path, above->path);
    }
    if (!cure->sets_nodelay && !cure->undo && !cure->follow)
        ns_output_line("TCP_NODELAY on new connections needs Linux 6.1, or --follow.");
}

static void print_advice(const struct ns_cure *cure, unsigned listeners)
{
    if (!cure->follow && !cure->cures_new)
        ns_output_line("%sFor connections that are opened later, add --follow.",
                       listeners
                           ? "Connections accepted by these listeners inherit the options, and "
                             "keep TCP_NODELAY at an undo. "
                           : "");
    const struct ns_group *first = ns_groups_next(&cure->groups, NULL), *there = first;
    while (there && access(there->path, F_OK) != 0)
        there = ns_groups_next(&cure->groups, there);
    const char *what = "", *pids = "", *word;
    for (size_t i = 0; i < sizeof selections / sizeof *selections; i++)
        if ((word = ns_option_named(selections[i])))
            what = ns_words(" --%s%s%s", selections[i], *word ? " " : "",
                            *word ? ns_words_quoted(word) : "");
    for (const pid_t *pid = cure->pids; *pid; pid++)
        if (!ns_proc_is_gone(*pid)) /* an undo would refuse it */
            pids = ns_words("%s --pid %d", pids, *pid);
    what = *cure->pids ? pids : what;
    if (*what && !cure->dry_run && (there || !first) && !ns_output_object())
        ns_print(stdout, "To restore the options: %s cure --undo%s\n", /* to be typed: one line */
                 ns_words_quoted(program_invocation_name), what);
}

/* Returns the exit status. */
static int report(const struct ns_cure *cure)
{
    const unsigned *total = cure->total, unfound = cure->unfound + cure->n_full;
    unsigned listeners = 0;
    ns_output_expect("processes");
    for (size_t i = 0; i < cure->n_rows; i++) {
        print_row(cure, &cure->rows[i]);
        add_row(cure, &cure->rows[i]);
        listeners += cure->rows[i].listeners;
    }
    cJSON_AddBoolToObject(ns_output_object(), "dry_run", cure->dry_run);
    cJSON_AddBoolToObject(ns_output_object(), "undo", cure->undo && cure->seconds == 0);
    cJSON_AddNumberToObject(ns_output_object(), "least_delayed_ack_us", cure->least_delack);
    const bool is_complete = ns_cure_is_complete(cure),
               changes = total[NS_CURE_CHANGED] > 0 || cure->cures_new;
    if (cure->list && cure->groups.n == 0 && !changes && is_complete)
        ns_output_line("nothing is cured");
    else if (cure->undo && !cure->list && !changes)
        ns_say("no socket was restored");
    else if (cure->n_rows == 0 && !unfound && !cure->cures_new && !cure->list &&
             !ns_cure_has_unowned(cure))
        ns_say("no TCP socket%s was found",
               cure->port ? ns_words(" with port %u", cure->port) : "");
    const struct ns_owners *owners = &cure->owners;
    const bool is_denied = total[NS_CURE_DENIED] > 0 || ns_proc_is_denied(cure->refusal) ||
                           (ns_cure_has_unowned(cure) && ns_proc_is_denied(owners->refusal));
    if (ns_cure_has_unowned(cure))
        ns_say("%s", ns_watch_refused(owners->denied, owners->refused, owners->refusal));
    else if (unfound)
        ns_say("%s belong%s to no process that could be examined", ns_count(unfound, "socket"),
               unfound == 1 ? "s" : "");
    if (cure->n_waiting > 0)
        ns_say("%s %s not restored: the program has not accepted %s yet",
               ns_count(cure->n_waiting, "connection"), cure->n_waiting == 1 ? "was" : "were",
               cure->n_waiting == 1 ? "it" : "them");
    ns_unseen_say(&cure->unseen);
    if (changes && !cure->undo)
        print_advice(cure, listeners);
    if (total[NS_CURE_FAILED] > 0)
        return NS_FAIL("%s could not be changed: %s", ns_count(total[NS_CURE_FAILED], "socket"),
                       strerror(-cure->error));
    if (!changes && is_denied)
        return NS_EXIT_DENIED;
    /* The readiness probe of a cure by the kernel asks for no more than that. */
    const bool needs_all = cure->undo || !cure->cures_new;
    return cure->refusal || (needs_all && !is_complete) ? NS_EXIT_NO : NS_EXIT_YES;
}

/* ns_cure_scan, of --follow and --for. A lasting lack of memory is said once, and so is its end. */
static int scan(struct ns_cure *cure, bool refresh, bool is_last)
{
    static unsigned failures;
    const int error = ns_cure_scan(cure, refresh, is_last);
    if (!error && failures >= LASTING)
        ns_say("TCP sockets are listed again");
    failures = ns_diag_may_pass(error) ? failures + 1 : 0;
    if (failures == LASTING)
        ns_say("cannot list TCP sockets: %s; it is tried again", strerror(-error));
    return error;
}

/* When to do again, at the earliest, what has cost the thread its CPU time since then. */
static uint64_t next_time(uint64_t interval_ms, uint64_t began)
{
    const uint64_t pause = (ns_clock_now(CLOCK_THREAD_CPUTIME_ID) - began) * SHARE,
                   interval = interval_ms * 1000000U;
    return ns_clock_now(CLOCK_MONOTONIC) + (pause > interval ? pause : interval);
}

/* Until a signal, the end of --pid's process, or that of --for. lists_new: new sockets are to be
 * treated, too. The kernel reports when a TCP socket ends, but not when one is made: lists are
 * needed. Prints a program when there is another result for it. */
static int follow(struct ns_cure *cure, bool lists_new)
{
    uint64_t list_at = 0, round_at = 0;
    const uint64_t end = cure->seconds > 0
                             ? ns_clock_now(CLOCK_MONOTONIC) + (uint64_t)(cure->seconds * 1e9)
                             : UINT64_MAX;
    int error = 0;
    while (!error && !ns_proc_are_gone(cure->pids)) {
        const uint64_t began = ns_clock_now(CLOCK_THREAD_CPUTIME_ID),
                       now = ns_clock_now(CLOCK_MONOTONIC);
        const bool round = now >= round_at && (lists_new || round_at == 0);
        if (round || now >= list_at) {
            error = scan(cure, round, !lists_new);
            *(round ? &round_at : &list_at) = next_time(round ? ROUND_MS : INTERVAL_MS, began);
            if (ns_diag_may_pass(error)) {
                error = 0;
                round_at = lists_new ? round_at : 0; /* the only round is made again */
            }
        }
        if (round && !lists_new) /* it keeps the namespaces of ended containers alive */
            ns_cure_release_owners(cure);
        for (struct ns_cure_row *row = cure->rows; row < cure->rows + cure->n_rows; row++) {
            if (row->is_new)
                print_row(cure, row);
            row->is_new = false;
        }
        fflush(stdout);
        const uint64_t next = ns_clock_now(CLOCK_MONOTONIC) + INTERVAL_MS * 1000000U;
        if (!error)
            ns_child_wait((lists_new || round_at == 0) && next < end ? next : end);
        if (ns_child_take_signals(NULL) || ns_clock_now(CLOCK_MONOTONIC) >= end)
            break;
    }
    return error;
}

/* Finds the groups that were selected, and those that are cured. Returns NS_EXIT_YES, or the exit
 * status after a message. */
static int find_groups(struct ns_cure *cure)
{
    const char *unit = ns_option_text(NS_UNIT), *word = unit ? unit : ns_option_text(NS_CGROUP);
    const int unreadable =
        cure->list ? ns_cure_list_groups(&cure->groups) : ns_groups_find_cured(&cure->groups);
    if (cure->list && unreadable)
        return ns_proc_is_denied(unreadable) ? NS_EXIT_DENIED : NS_EXIT_NO;
    const int status = word ? ns_groups_choose(&cure->groups, word, unit) : NS_EXIT_YES;
    const int error = cure->all && !cure->undo ? ns_groups_find(&cure->groups, NULL, false) : 0;
    for (size_t i = 0; i < cure->groups.n && cure->all && cure->undo; i++) {
        struct ns_group *group = &cure->groups.at[i];
        group->selected = true;
        group->error = cure->list ? 0 : group->error; /* a list shows them all */
    }
    cure->refusal = cure->undo && (word || cure->all) ? unreadable : error;
    return status;
}

/* Ends the cure of new connections in the groups. 0, or -errno without a change. */
static int undo_groups(struct ns_cure *cure)
{
    size_t n = 0;
    for (const struct ns_group *group = NULL; (group = ns_groups_next(&cure->groups, group));)
        n += group->kept;
    int error = n > 0 ? ns_groups_lock(cure->dry_run) : 0;
    if (!error && !cure->dry_run)
        ns_groups_remove(&cure->groups, false);
    cure->cures_new = !error && n > 0;
    return error;
}

/* Lets the kernel cure the new connections of the groups. 0, or -errno without a change. */
static int cure_groups(struct ns_cure *cure)
{
    const char *file = ns_option_text(NS_CURE_POLICY);
    char path[PATH_MAX] = "built in";
    if (file && !realpath(file, path))
        snprintf(path, sizeof path, "%s", file);
    const unsigned how = (cure->follow ? 0 : NS_GROUPS_KEEP) | (cure->dry_run ? NS_GROUPS_DRY : 0) |
                         (ns_option_text(NS_CURE_FORCE) ? NS_GROUPS_FORCE : 0);
    int error = ns_code_unfit(cure->policy) ? -ENOTSUP : 0;
    if (!error && !cure->follow)
        error = ns_groups_lock(cure->dry_run);
    if (!error)
        error = ns_groups_cure(&cure->groups, cure->policy, path, how);
    for (struct ns_group *group = NULL; !error && (group = ns_groups_next(&cure->groups, group));)
        cure->cures_new |= !group->error;
    return error;
}

/* Says why the kernel does not do it, for all groups or for one. */
static void say_reason(const struct ns_cure *cure, const char *path, int error)
{
    ns_say("%s%s%s: %s", path, *path ? ": " : "",
           cure->undo ? "what the kernel does with new connections stays as it is"
                      : "the kernel does not cure new connections by this policy",
           reason_of(error, cure->policy));
}

/* Lets the kernel cure the new connections of the groups, or ends that, or says why it does not.
 * Returns NS_EXIT_YES, also if there is a reason; NS_EXIT_NO: nothing may be changed. */
static int begin_groups(struct ns_cure *cure)
{
    int error = cure->refusal;
    if (!error && cure->undo && !cure->list)
        error = undo_groups(cure);
    else if (!error && !cure->undo && ns_groups_next(&cure->groups, NULL))
        error = cure_groups(cure);
    cure->refusal = error;
    if (error)
        say_reason(cure, "", error);
    if (error == -ENOTDIR || error == -EAGAIN)
        return NS_EXIT_NO;
    for (struct ns_group *group = NULL; !error && (group = ns_groups_next(&cure->groups, group));) {
        const bool goes_on = cure->undo && cure->all && group->error;
        if (goes_on)
            ns_output_line("%s: a running 'nagleshim cure --follow' goes on", group->path);
        else if (group->error)
            say_reason(cure, group->path, group->error);
        if (!goes_on && group->error && (group->error != -ENOENT || !cure->cures_new))
            cure->refusal = group->error;
    }
    return cure->refusal == -EEXIST && !cure->cures_new && !cure->undo ? NS_EXIT_NO : NS_EXIT_YES;
}

static int cure_sockets(struct ns_cure *cure)
{
    /* Only --follow may end because nobody reads what it prints: others would leave half of it. */
    if (!cure->follow || cure->seconds > 0)
        signal(SIGPIPE, SIG_IGN);
    int refused = find_groups(cure);
    if (refused)
        return refused;
    int error = ns_cure_begin(cure);
    if (error)
        return ns_process_say_error(ns_diag_may_pass(error) ? 0 : *cure->pids, error);
    refused = begin_groups(cure);
    if (refused)
        return refused;
    cure->follow &= !cure->dry_run;
    if (cure->follow && !ns_child_signals())
        return NS_EXIT_ERROR;
    print_groups(cure);
    error = cure->follow ? follow(cure, !cure->cures_new || cure->refusal || !cure->sets_nodelay)
                         : ns_cure_scan(cure, true, true);
    if (cure->seconds > 0) {
        ns_groups_remove(&cure->groups, false);
        ns_cure_reverse(cure);
        ns_reader_until(NULL); /* a second ^C skips no process */
        print_groups(cure);
        int failed;
        while (ns_diag_may_pass(failed = scan(cure, true, true))) {
            ns_child_wait(ns_clock_now(CLOCK_MONOTONIC) + INTERVAL_MS * 1000000U);
            if (ns_child_take_signals(NULL))
                break;
        }
        error = error ? error : failed;
    }
    /* An undo that failed, or did not reach all sockets, can be repeated. */
    if (!error && cure->undo && !cure->dry_run && ns_cure_is_complete(cure))
        ns_groups_remove(&cure->groups, true);
    if (!error && cure->follow)
        ns_output_line("In all:");
    return error ? ns_process_say_error(0, error) : report(cure);
}

int ns_cure_main(void)
{
    static struct ns_cure cure; /* the end of the command releases it */
    if (!read_options(&cure))
        return NS_EXIT_ERROR;
    if (!is_kernel_since("5.10")) /* where a mark of 2 is allowed, and pidfd_getfd(2) is known */
        return NS_FAIL("Linux 5.10 or newer is needed");
    return read_policy(&cure) ? cure_sockets(&cure) : NS_EXIT_ERROR;
}
