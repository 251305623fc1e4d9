/* SPDX-License-Identifier: MIT */
/* Owns the search for the sockets that `nagleshim cure` treats. sock_diag(7) lists all;
 * watch/owners.h reads whose descriptors they are, if a list has a new one, and keeps which were
 * treated: each is treated once, by the rules of its process, of which this file only reads. What
 * was changed is seen in the socket itself: see code.h. A child of the command changes the sockets,
 * because their process can make it wait without end: it locks the socket in a call, or it replaces
 * the socket by a file of its own file system. */
#include "cure/cure.h"

#include "base/path.h"
#include "process/facts.h"
#include "process/scope.h"
#include "process/waiting.h"
#include "watch/table.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TRIES = 3, ROWS_MOST = 256, ARGUMENTS_MOST = 256, CHANGE_MS = 1000, BUSY = 3 };

/* One that the last list has found and that is not treated yet. */
struct ns_cure_socket {
    uint64_t cookie, inode;
    struct ns_diag_key key;
    struct ns_netns *netns;
    uid_t user;
    bool listens;
    /* When it is treated: */
    struct ns_cure_process *process; /* NULL: unknown */
    const struct ns_rule *rule;
    int result; /* enum ns_cure_result; -EAGAIN: try again after the next list; or -EINPROGRESS */
    int error;
    struct ns_cure_row row; /* what was changed */
};

struct ns_cure_process {
    pid_t pid;
    uid_t user; /* see waiting.h */
    uint64_t started;
    char name[64];
    int result; /* of all its sockets; NS_CURE_CHANGED: each is treated */
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

/* Is the innermost cured group of the process none of those that were selected? */
static bool is_of_others(const struct ns_cure *cure, const char *name)
{
    const bool by_group = !*cure->pids && !cure->port;
    const struct ns_group *group =
        by_group ? ns_groups_of(&cure->cured, &cure->groups, name) : NULL;
    const struct ns_group *chosen = group ? ns_groups_with(&cure->groups, group->id) : NULL;
    return group && (!chosen || chosen->error == -EEXIST);
}

static struct ns_cure_process *examine(const struct ns_cure *cure, const struct ns_owned *place)
{
    static struct ns_facts facts;
    const uid_t user = ns_waiting_user(place->pid);
    /* Without the right to read it, patterns do not match. */
    int error = ns_facts_ask(place->pid, NS_FACTS_WORDS, &facts);
    if (error == -ESRCH || error == -EINTR)
        return NULL;
    struct ns_cure_process *process = ns_allocate(1, sizeof *process);
    process->pid = place->pid;
    process->user = user;
    process->started = place->started;
    snprintf(process->name, sizeof process->name, "%s", facts.name);
    if (error == -ETIMEDOUT) /* nothing else is known of it */
        process->result = NS_CURE_STUCK;
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
    if (socket.listens)
        ns_netns_set_listened(cure->listed, (uint16_t)local);
    /* Without an inode it is not accepted yet. */
    if (seen->inode == 0 || (place && place->treated) ||
        (cure->port && local != cure->port && remote != cure->port))
        return;
    NS_GROW(cure->sockets, cure->n_sockets);
    cure->sockets[cure->n_sockets++] = socket;
}

static int list_netns(struct ns_cure *cure, bool mptcp)
{
    const uint32_t states =
        1U << TCP_ESTABLISHED | 1U << TCP_SYN_SENT | 1U << TCP_CLOSE_WAIT | 1U << TCP_LISTEN;
    struct ns_diag_list list = {.brief = true, .mptcp = mptcp};
    int more = ns_diag_list_begin(&list, cure->listed->list_fd, states);
    if (!more)
        do
            more = ns_diag_list_next(&list, take_listed, cure);
        while (more > 0);
    /* A kernel without MPTCP has no such sockets. */
    return mptcp ? 0 : more;
}

static int list_sockets(struct ns_cure *cure)
{
    int error = 0;
    cure->n_sockets = 0;
    for (size_t i = 0; i < cure->owners.n_namespaces && !error; i++) {
        cure->listed = cure->owners.namespaces[i];
        if (cure->listed->list_fd < 0)
            continue;
        /* First MPTCP: its TCP subflows have the same inode, and are not counted again. */
        for (int mptcp = 1; mptcp >= 0 && !error; mptcp--)
            error = list_netns(cure, mptcp);
    }
    if (!error)
        ns_netns_drop_unused(&cure->owners, cure->owners.stamp);
    return error;
}

/* Read whose descriptors the sockets are. */
static int find_owners(struct ns_cure *cure)
{
    if (!cure->owners.all)
        cure->unread_groups = ns_groups_add_processes(&cure->groups, &cure->owners);
    return ns_owners_step(&cure->owners, UINT64_MAX);
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

/* Returns the result for a socket; -EINPROGRESS: it is to be changed. */
static int judge(struct ns_cure *cure, struct ns_cure_socket *socket)
{
    const struct ns_owned *place = ns_owners_place(&cure->owners, socket->inode, true);
    socket->process = place->pid ? process_of(cure, place) : NULL;
    if (!socket->process)
        return -EAGAIN;
    if (place->spared)
        return NS_CURE_EARLIER;
    if (socket->process->result != NS_CURE_CHANGED)
        return socket->process->result;
    socket->rule = cure->undo ? NULL : rule_of(socket->process, socket);
    /* In a group, a rule of an earlier policy may have cured it. */
    return socket->rule || cure->cured.n || cure->undo ? -EINPROGRESS : NS_CURE_NO_RULE;
}

/* The first one that is still to be changed, or the end. */
static struct ns_cure_socket *next(struct ns_cure_socket *at, const struct ns_cure_socket *end)
{
    while (at < end && at->result != -EINPROGRESS)
        at++;
    return at;
}

static void change(struct ns_cure *cure, struct ns_cure_socket *socket)
{
    const struct ns_owned *place = ns_owners_place(&cure->owners, socket->inode, false);
    const int result =
        ns_cure_change(cure, place, socket->cookie, socket->listens, socket->rule, &socket->row);
    socket->error = cure->error;
    socket->result = result;
}

/* The child. If it is stuck, it must not keep open what somebody waits for, as locks and pipes. It
 * ends with the command. */
static _Noreturn void change_each(struct ns_cure *cure, struct ns_cure_socket *at,
                                  const struct ns_cure_socket *end, pid_t parent)
{
    syscall(SYS_close_range, 0, ~0U, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    for (; at < end && getppid() == parent; at = next(at, end))
        change(cure, at);
    _exit(0);
}

/* Starts a child, and waits until it has ended, or has been busy with one socket for a second, or
 * for three if it is at work. */
static void change_some(struct ns_cure *cure, struct ns_cure_socket *at,
                        const struct ns_cure_socket *end)
{
    struct ns_cure_socket *before;
    const pid_t parent = getpid(), child = fork();
    if (child == 0)
        change_each(cure, at, end, parent);
    NS_AUTO_CLOSE int ended = child < 0 ? -errno : ns_cure_open_process(child);
    struct pollfd wait = {.fd = ended, .events = POLLIN};
    int seconds = 0;
    do {
        before = at;
        at = ended >= 0 && poll(&wait, 1, CHANGE_MS) >= 0 ? next(at, end) : at;
        seconds = at == before ? seconds + 1 : 0;
    } while (at < end && ended >= 0 && !wait.revents &&
             (seconds == 0 || (seconds < BUSY && ns_waiting_is_running(child))));
    if (child > 0)
        ns_waiting_end(child, before->process->user);
    if (at != before || at->result != -EINPROGRESS)
        return;
    if (ended < 0) { /* without a child, or without a descriptor for it */
        change(cure, at);
    } else {
        at->result = NS_CURE_STUCK;
        at->row = (struct ns_cure_row){0};
    }
}

/* Changes those that are to be changed. */
static void change_all(struct ns_cure *cure, struct ns_cure_socket *sockets)
{
    struct ns_cure_socket *const end = sockets + cure->n_sockets, *at = sockets;
    while ((at = next(at, end)) < end) {
        for (struct ns_cure_socket *one = at; one < end; one = next(one + 1, end))
            if (ns_waiting_is_full(one->process->user))
                one->result = NS_CURE_STUCK;
        at = next(at, end);
        if (at < end)
            change_some(cure, at, end);
    }
}

static void count(struct ns_cure *cure, const struct ns_cure_socket *socket)
{
    struct ns_cure_row *row = row_of(cure, socket->process);
    row->listeners += socket->row.listeners;
    row->connections += socket->row.connections;
    row->nodelay += socket->row.nodelay;
    row->delack += socket->row.delack;
    row->nodelay_restored += socket->row.nodelay_restored;
    row->delack_restored += socket->row.delack_restored;
    row->is_new |= row->results[socket->result]++ == 0;
    cure->total[socket->result]++;
    if (socket->result == NS_CURE_FAILED)
        cure->error = socket->error;
}

/* Treat the new sockets whose owners are known. The others are listed again. */
static void treat_all(struct ns_cure *cure)
{
    const size_t size = cure->n_sockets * sizeof *cure->sockets;
    cure->n_left = 0;
    if (size == 0)
        return;
    struct ns_cure_socket *sockets =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ns_allocated(sockets == MAP_FAILED ? NULL : sockets);
    memcpy(sockets, cure->sockets, size);
    for (size_t i = 0; i < cure->n_sockets; i++)
        sockets[i].result = judge(cure, &sockets[i]);
    change_all(cure, sockets);
    for (size_t i = 0; i < cure->n_sockets; i++) {
        const struct ns_cure_socket *socket = &sockets[i];
        const int result = socket->result;
        struct ns_owned *place = ns_owners_place(&cure->owners, socket->inode, true);
        if (place->treated) /* a list may have a socket twice */
            continue;
        if (result >= 0) {
            count(cure, socket);
        } else
            place->chosen = false; /* the next round may find it in another process */
        place->treated = result >= 0 || ++place->tries == TRIES;
        /* The kernel's own sockets, as of NFS, are root's, and belong to no process. One that this
         * round did not see may have been handed to a process that was not selected. */
        const bool is_seen = place->pid && place->stamp == cure->owners.stamp,
                   is_asked = is_seen || cure->port || (cure->all && socket->user);
        cure->unfound += place->treated && result < 0 && is_asked;
        if (place->treated)
            place->tries = 0;
        /* With --for, only the first scan is a dry one. */
        place->spared |= cure->seconds > 0 && cure->dry_run && result == NS_CURE_CHANGED;
        cure->n_left += !place->treated && (place->pid || cure->owners.all);
    }
    munmap(sockets, size);
}

bool ns_cure_is_complete(const struct ns_cure *cure)
{
    return !cure->total[NS_CURE_STUCK] && !cure->total[NS_CURE_DENIED] &&
           !cure->total[NS_CURE_FAILED] && !cure->unfound && !cure->unread_groups &&
           !ns_cure_has_unowned(cure);
}

bool ns_cure_has_unowned(const struct ns_cure *cure)
{
    return cure->owners.denied > 0 && (!cure->port || cure->n_left + cure->unfound > 0);
}

int ns_cure_scan(struct ns_cure *cure, bool refresh)
{
    int error = 0;
    if (refresh) {
        forget_processes(&cure->processes);
        error = find_owners(cure);
    }
    const int most = cure->follow ? 1 : TRIES;
    for (int i = 0; i < most && !error && (i < 2 || cure->n_left > 0); i++) {
        error = list_sockets(cure);
        if (!error && cure->n_sockets > 0 && (cure->follow || i > 0))
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
    cure->n_rows = cure->unfound = 0;
    memset(cure->total, 0, sizeof cure->total);
    for (size_t i = 0; i < cure->owners.room; i++)
        cure->owners.places[i].treated = false;
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
        error = ns_cure_scan(cure, true);
        cure->undo = cure->dry_run = false;
        forget_sockets(cure);
    }
    return error;
}

void ns_cure_reverse(struct ns_cure *cure)
{
    cure->undo = true;
    cure->follow = false;
    ns_waiting_forgive(); /* what was changed is restored */
    forget_sockets(cure);
}

bool ns_cure_is_over(const struct ns_cure *cure)
{
    const pid_t *pid = cure->pids;
    while (*pid && !ns_owners_process(&cure->owners, *pid))
        pid++;
    return pid > cure->pids && !*pid;
}
