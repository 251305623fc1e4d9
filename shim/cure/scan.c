/* SPDX-License-Identifier: MIT */
/* Owns the search for the sockets that `nagleshim cure` treats. sock_diag(7) lists all;
 * watch/owners.h reads whose descriptors they are, if a list has a new one, and keeps which were
 * treated: each is treated once, by the rules of its process, of which this file only reads. What
 * was changed is seen in the socket itself: see code.h. */
#include "cure/code.h"
#include "cure/cure.h"

#include "base/clock.h"
#include "base/path.h"
#include "process/facts.h"
#include "process/reader.h"
#include "process/scope.h"
#include "watch/table.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRIES = 3, ROWS_MOST = 256, ARGUMENTS_MOST = 256, SLICE_NS = 50000000, PAUSE_US = 20000 };
static const uint64_t WAITING = 1ULL << 63; /* no inode has this bit */

/* One that the last list has found and that is not treated yet. */
struct ns_cure_socket {
    uint64_t cookie, inode;
    struct ns_diag_key key;
    struct ns_netns *netns;
    uid_t user;
    bool listens;
};

struct ns_cure_process {
    pid_t pid;
    uid_t user; /* see ns_reader_user */
    uint64_t started;
    char name[64];
    int result; /* of all its sockets, see treat(); NS_CURE_CHANGED: each is treated */
    struct ns_ruleset rules;
    struct ns_cure_process *next;
};

/* The rules for a running process, as the library would choose them there; none without memory. */
static void build_rules(struct ns_ruleset *rules, const struct ns_policy *policy,
                        const struct ns_facts *facts)
{
    const char *arguments[ARGUMENTS_MOST + 1], *execfn = facts->proc.execfn;
    size_t n = 0;
    for (size_t at = 0; at < facts->words_size && n < ARGUMENTS_MOST;
         at += strlen(facts->words + at) + 1)
        arguments[n++] = facts->words + at;
    arguments[n] = NULL;
    char exe[PATH_MAX];
    snprintf(exe, sizeof exe, "%.*s", (int)ns_path_length(facts->proc.exe), facts->proc.exe);
    const struct ns_process process = {.exe = *exe ? exe : NULL,
                                       .execfn = *execfn ? execfn : NULL,
                                       .argv0 = arguments[0],
                                       .args = n ? (char *const *)arguments + 1 : NULL};
    ns_ruleset_build(rules, policy, &process);
}

static bool undoes(const struct ns_cure *cure)
{
    return cure->undo && !cure->dry_run;
}

static bool selects_groups(const struct ns_cure *cure)
{
    return !*cure->pids && !cure->port;
}

/* Is the innermost cured group of the process none of those that were selected? */
static bool is_of_others(const struct ns_cure *cure, const char *name)
{
    const struct ns_group *group = selects_groups(cure) ? ns_groups_of(&cure->groups, name) : NULL;
    return group && (!group->selected || group->error == -EEXIST);
}

static struct ns_cure_process *examine(const struct ns_cure *cure, const struct ns_owned *place)
{
    static struct ns_facts facts;
    const uid_t user = ns_reader_user(place->pid);
    const bool is_full = ns_reader_is_full(user);
    const int error = ns_facts_ask(place->pid, NS_FACTS_WORDS, &facts);
    /* Without the right to read it, patterns do not match; without the reader, nothing is known. */
    if (error == -ESRCH || (!facts.is_answered && error != -ETIMEDOUT))
        return NULL;
    struct ns_cure_process *process = ns_allocate(1, sizeof *process);
    process->pid = place->pid;
    process->user = user;
    process->started = place->started;
    snprintf(process->name, sizeof process->name, "%s", facts.name);
    if (error == -ETIMEDOUT) /* nothing else is known of it; --follow asks again */
        process->result = is_full && cure->follow ? -EBUSY : NS_CURE_STUCK;
    else if (is_of_others(cure, facts.origin.group))
        process->result = NS_CURE_OTHERS;
    else if (ns_shim_works(facts.loaded.shim))
        process->result = cure->undo ? NS_CURE_NO_RULE : NS_CURE_HAS_LIBRARY;
    else
        build_rules(&process->rules, cure->policy, &facts);
    return process;
}

/* What is known of the process that owns a socket; it is examined at its first socket. NULL: it has
 * ended. */
static struct ns_cure_process *process_of(struct ns_cure *cure, const struct ns_owned *place)
{
    struct ns_cure_process *process = cure->processes;
    while (process && (process->pid != place->pid || process->started != place->started))
        process = process->next;
    if (!process && (process = examine(cure, place))) {
        process->next = cure->processes;
        cure->processes = process;
    }
    return process;
}

static void forget_processes(struct ns_cure_process **list)
{
    while (*list) {
        struct ns_cure_process *process = *list;
        *list = process->next;
        ns_ruleset_release(&process->rules);
        free(process);
    }
}

/* The socket is new again. */
static void forget_socket(struct ns_cure *cure, struct ns_owned *place)
{
    cure->unfound -= place->unfound;
    place->treated = place->unfound = false;
    place->tries = 0;
}

/* A connection that no descriptor refers to, as its program has not accepted it yet: it cannot be
 * restored. One that only this list has was perhaps opened after its listener was restored. */
static void take_waiting(struct ns_cure *cure, uint64_t cookie, unsigned local)
{
    if (cure->mptcp || !ns_ports_have(cure->listed->reached, local))
        return;
    struct ns_owned *place = ns_owners_place(&cure->owners, cookie | WAITING, true);
    cure->n_waiting += place->tries > 0;
    place->tries = 1;
}

static void take_listed(void *context, const struct ns_diag_socket *seen)
{
    struct ns_cure *cure = context;
    const struct inet_diag_sockid *id = &seen->key.id;
    const struct ns_cure_socket socket = {.cookie = id->idiag_cookie[0] |
                                                    (uint64_t)id->idiag_cookie[1] << 32,
                                          .inode = seen->inode,
                                          .key = seen->key,
                                          .netns = cure->listed,
                                          .user = seen->user,
                                          .listens = seen->state == TCP_LISTEN};
    const unsigned local = ntohs(id->idiag_sport), remote = ntohs(id->idiag_dport);
    struct ns_owned *place = ns_owners_place(&cure->owners, seen->inode, false);
    cure->listed->round = cure->owners.stamp;
    if (place && place->pid == 0) /* no round sees it, and it is not to be forgotten */
        place->stamp = cure->owners.stamp;
    if (place && place->chosen && place->tries == TRIES) /* a process has got it since */
        forget_socket(cure, place);
    if (socket.listens)
        ns_ports_add(cure->listed->listened, local);
    if ((place && place->treated) || (cure->port && local != cure->port && remote != cure->port))
        return;
    if (seen->inode == 0) {
        take_waiting(cure, socket.cookie, local);
        return;
    }
    NS_GROW(cure->sockets, cure->n_sockets);
    cure->sockets[cure->n_sockets++] = socket;
}

static int list_sockets(struct ns_cure *cure)
{
    const uint32_t states =
        1U << TCP_ESTABLISHED | 1U << TCP_SYN_SENT | 1U << TCP_CLOSE_WAIT | 1U << TCP_LISTEN;
    int error = 0;
    cure->n_sockets = cure->n_waiting = 0;
    for (size_t i = 0; i < cure->owners.n_namespaces && !error; i++) {
        cure->listed = cure->owners.namespaces[i];
        if (cure->listed->list_fd < 0)
            continue;
        /* First MPTCP, which a kernel may lack: its TCP subflows have the same inode, and are not
         * counted again. */
        for (int mptcp = 1; mptcp >= 0 && (!error || error == -EPROTONOSUPPORT); mptcp--) {
            cure->mptcp = mptcp;
            error = ns_diag_list_all(cure->listed->list_fd, states, mptcp, take_listed, cure);
        }
    }
    if (!error)
        ns_netns_drop_unused(&cure->owners, cure->owners.stamp);
    return error;
}

/* Read whose descriptors the sockets are; not all, if the command is to end. */
static int find_owners(struct ns_cure *cure)
{
    if (!cure->owners.all)
        cure->unseen = ns_groups_add_processes(&cure->groups, &cure->owners);
    int more;
    do
        more = ns_owners_step(&cure->owners, ns_clock_now(CLOCK_MONOTONIC) + SLICE_NS);
    while (more > 0 && !ns_reader_is_over());
    ns_owners_stop(&cure->owners);
    return more < 0 ? more : 0;
}

static struct ns_cure_row *row_of(struct ns_cure *cure, const struct ns_cure_process *process)
{
    const pid_t pid = cure->follow ? 0 : process->pid;
    for (size_t i = 0; i < cure->n_rows; i++)
        if (cure->rows[i].pid == pid && strcmp(cure->rows[i].name, process->name) == 0)
            return &cure->rows[i];
    /* With --follow, users choose the names for as long as it runs. */
    const bool full = cure->follow && cure->n_rows == ROWS_MOST;
    if (!full) {
        NS_GROW(cure->rows, cure->n_rows);
        cure->rows[cure->n_rows++] = (struct ns_cure_row){.pid = pid};
    }
    struct ns_cure_row *row = &cure->rows[cure->n_rows - 1];
    snprintf(row->name, sizeof row->name, "%s", full ? "other programs" : process->name);
    return row;
}

static const struct ns_rule *rule_of(const struct ns_cure_process *process,
                                     const struct ns_cure_socket *socket)
{
    struct ns_socket_facts facts = {
        .role = ns_table_is_server(socket->netns, &socket->key) ? NS_ROLE_SERVER : NS_ROLE_CLIENT,
        .local = ns_diag_local(&socket->key),
        .remote = ns_diag_remote(&socket->key)};
    bool settled;
    return socket->listens ? ns_match_listener(&process->rules, &facts.local, &settled)
                           : ns_match_socket(&process->rules, &facts);
}

static void count(struct ns_cure *cure, const struct ns_cure_process *process,
                  const struct ns_cure_change *change)
{
    struct ns_cure_row *row = row_of(cure, process);
    const struct ns_cure_values *then = &change->then;
    /* A list shows what an undo would restore as set. */
    const bool sets = cure->list || (!cure->undo && then->nodelay != 0),
               limits = cure->list || (!cure->undo && then->delack != NS_CURE_DELACK_DEFAULT_US);
    row->is_new |= row->results[change->result]++ == 0;
    cure->total[change->result]++;
    if (change->result == NS_CURE_FAILED)
        cure->error = change->error;
    if (change->result != NS_CURE_CHANGED)
        return;
    row->listeners += change->listens;
    row->connections += !change->listens;
    *(sets ? &row->nodelay : &row->nodelay_restored) += then->nodelay >= 0;
    *(limits ? &row->delack : &row->delack_restored) += then->delack >= 0;
}

/* Lets the reader change a socket. */
static void ask(struct ns_cure_change *change, uid_t user)
{
    const int error =
        ns_reader_ask(change->pid, user, false, ns_cure_change, change, sizeof *change);
    if (error == -EINTR || error == -ESRCH ||
        (!error && (unsigned)change->result >= NS_CURE_RESULTS)) {
        change->result = -EAGAIN;
    } else if (error) {
        change->result = error == -ETIMEDOUT ? NS_CURE_STUCK : NS_CURE_FAILED;
        change->error = error;
    }
}

/* Returns the result for a socket; -EAGAIN: try again after the next list, a few times; -EBUSY: try
 * again as long as too many readers wait for this user's processes. */
static int treat(struct ns_cure *cure, const struct ns_cure_socket *socket, struct ns_owned *place)
{
    struct ns_cure_process *process = place->pid ? process_of(cure, place) : NULL;
    if (!process)
        return -EAGAIN;
    const bool ends_trial = undoes(cure) && cure->seconds > 0 && !selects_groups(cure);
    struct ns_cure_change change = {.pid = place->pid,
                                    .fd = place->fd,
                                    .cookie = socket->cookie,
                                    .listens = socket->listens,
                                    .options = -1,
                                    .least_delack = cure->least_delack,
                                    .undo = cure->undo,
                                    .dry_run = cure->dry_run,
                                    /* A dry run asks before there are programs. */
                                    .in_group = cure->dry_run && !cure->undo && cure->cures_new,
                                    .maybe_in = cure->groups.n > 0,
                                    .accepts = cure->sets_nodelay && !cure->undo,
                                    .spares = ends_trial ? ~place->changed : 0,
                                    .result = place->spared ? NS_CURE_EARLIER : process->result};
    if (change.result == NS_CURE_CHANGED) {
        const struct ns_rule *rule = cure->undo ? NULL : rule_of(process, socket);
        change.options = rule ? (int)ns_code_options_of(rule) : -1;
        /* In a group, a rule of an earlier policy may have cured it. */
        if (!rule && !change.maybe_in && !cure->undo)
            change.result = NS_CURE_NO_RULE;
        else if (cure->follow && ns_reader_is_full(process->user))
            change.result = -EBUSY;
        else
            ask(&change, process->user);
    }
    const bool is_set = change.result == NS_CURE_CHANGED || change.result == NS_CURE_UNCHANGED ||
                        change.result == NS_CURE_HALF; /* a mark alone is no change */
    if (is_set && (change.then.nodelay >= 0 || change.then.mark >= 0))
        place->changed |= NS_CODE_NODELAY;
    /* Before Linux 6.15 a limit may be set again that the cure of its group has set. */
    if (change.result == NS_CURE_CHANGED && change.then.delack >= 0 &&
        (change.then.nodelay >= 0 || cure->least_delack >= 0))
        place->changed |= NS_CODE_DELACK;
    /* What its listener keeps, a connection keeps, too. */
    if (socket->listens && undoes(cure) && process->result == NS_CURE_CHANGED &&
        change.result != NS_CURE_EARLIER)
        ns_ports_add(socket->netns->reached, ntohs(socket->key.id.idiag_sport));
    if (change.result >= 0)
        count(cure, process, &change);
    return change.result;
}

/* Treats the new sockets whose owners are known, until the command is to end. The others are listed
 * again. */
static void treat_all(struct ns_cure *cure)
{
    cure->n_left = cure->n_full = 0;
    for (size_t i = 0; i < cure->n_sockets && !ns_reader_is_over(); i++) {
        const struct ns_cure_socket *socket = &cure->sockets[i];
        struct ns_owned *place = ns_owners_place(&cure->owners, socket->inode, true);
        if (place->treated) /* a list may have a socket twice */
            continue;
        const int result = treat(cure, socket, place);
        if (result < 0) /* the next round may find it in another process */
            place->chosen = false;
        if (result == -EAGAIN)
            place->tries++;
        place->treated = result >= 0 || place->tries == TRIES;
        /* The kernel's own sockets, as of NFS, are root's, and belong to no process. One that this
         * round did not see may have been handed to a process that was not selected. */
        const bool is_seen = place->pid && place->stamp == cure->owners.stamp,
                   is_asked = is_seen || cure->port || (cure->all && socket->user);
        place->unfound = place->treated && result < 0 && is_asked;
        cure->unfound += place->unfound;
        /* With --for, only the first scan is a dry one. */
        place->spared |= cure->seconds > 0 && cure->dry_run && result == NS_CURE_CHANGED;
        cure->n_left += !place->treated && (place->pid || cure->owners.all);
        cure->n_full += result == -EBUSY;
    }
}

bool ns_cure_is_complete(const struct ns_cure *cure)
{
    return !cure->total[NS_CURE_STUCK] && !cure->total[NS_CURE_DENIED] &&
           !cure->total[NS_CURE_FAILED] && !cure->unfound && !cure->n_full && !cure->n_waiting &&
           !cure->unseen.groups && !cure->unseen.processes && !ns_cure_has_unowned(cure);
}

bool ns_cure_has_unowned(const struct ns_cure *cure)
{
    return cure->owners.denied > 0 && (!cure->port || cure->n_left + cure->unfound > 0);
}

int ns_cure_scan(struct ns_cure *cure, bool refresh, bool is_last)
{
    int error = 0;
    if (refresh) {
        forget_processes(&cure->processes);
        error = find_owners(cure);
    }
    const int most = is_last ? TRIES : 1;
    for (int i = 0; i < most && !error && (i < 2 || cure->n_left > 0 || undoes(cure)); i++) {
        if (i == TRIES - 1) /* a busy program accepts, or receives, what is on its way to it */
            usleep(PAUSE_US);
        error = list_sockets(cure);
        if (!error && cure->n_sockets > 0 && (!is_last || i > 0))
            error = find_owners(cure);
        if (!error)
            treat_all(cure);
    }
    return error;
}

void ns_cure_release_owners(struct ns_cure *cure)
{
    ns_netns_release(&cure->owners);
    cure->owners.namespaces = NULL;
    cure->owners.n_processes = 0; /* their numbers may be others' then */
}

/* All sockets are new again. */
static void forget_sockets(struct ns_cure *cure)
{
    for (size_t i = 0; i < cure->owners.room; i++)
        forget_socket(cure, &cure->owners.places[i]);
    cure->n_rows = cure->unfound = 0; /* those of ended sockets, too */
    memset(cure->total, 0, sizeof cure->total);
}

int ns_cure_begin(struct ns_cure *cure)
{
    int error = 0;
    ns_netns_raise_limit();
    cure->owners.all = cure->all || cure->port;
    cure->owners.children = *cure->pids != 0;
    for (const pid_t *pid = cure->pids; !error && *pid; pid++) {
        NS_AUTO_CLOSE int fd = ns_cure_open_process(*pid);
        error = fd < 0 ? fd : ns_owners_add(&cure->owners, *pid, UINT64_MAX);
        if (error)
            cure->pids = pid;
    }
    if (!error && cure->seconds > 0) {
        cure->undo = cure->dry_run = true;
        error = ns_cure_scan(cure, true, true);
        cure->undo = cure->dry_run = false;
        forget_sockets(cure);
    }
    return error;
}

void ns_cure_reverse(struct ns_cure *cure)
{
    cure->undo = true;
    cure->follow = false;
    ns_reader_forgive(); /* what was changed is restored */
    forget_sockets(cure);
}
