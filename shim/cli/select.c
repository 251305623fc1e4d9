/* SPDX-License-Identifier: MIT */
/* Owns the choice of processes by --unit, --cgroup and --port in the verbs that examine processes,
 * and what these say of those that cannot be examined. It changes nothing. */
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "cure/group.h"
#include "process/proc.h"
#include "watch/diag.h"
#include "watch/owners.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct port_search {
    unsigned port;
    struct ns_owners owners;
    unsigned unowned; /* its sockets, of no process that could be examined */
};

static void take_socket(void *context, const struct ns_diag_socket *seen)
{
    struct port_search *search = context;
    const unsigned local = ntohs(seen->key.id.idiag_sport),
                   remote = ntohs(seen->key.id.idiag_dport);
    if (seen->inode == 0 || (local != search->port && remote != search->port))
        return;
    const struct ns_owned *place = ns_owners_place(&search->owners, seen->inode, false);
    if (place && place->pid)
        ns_option_add_pid(place->pid);
    else
        search->unowned++;
}

static int select_port(const char *port)
{
    struct port_search search = {.port = (unsigned)atoi(port), .owners = {.all = true}};
    struct ns_owners *owners = &search.owners;
    ns_netns_raise_limit();
    int error = ns_owners_step(owners, UINT64_MAX), status = NS_EXIT_YES;
    for (size_t i = 0; i < owners->n_namespaces && !error; i++)
        if (owners->namespaces[i]->list_fd >= 0)
            error = ns_diag_list_all(owners->namespaces[i]->list_fd, NS_DIAG_CONNECTED, false,
                                     take_socket, &search);
    if (error)
        status = ns_process_say_error(0, error);
    else if (!*ns_option_pids() && search.unowned > 0) {
        status = NS_FAIL("%s with port %s belong%s to no process that could be examined",
                         ns_count(search.unowned, "socket"), port, search.unowned == 1 ? "s" : "");
        if (owners->denied > 0) {
            ns_say("%s", ns_watch_refused(owners->denied, owners->refused, owners->refusal));
            status = NS_EXIT_DENIED;
        }
    }
    ns_owners_release(owners);
    return status;
}

bool ns_unseen_say(const struct ns_unseen *unseen)
{
    if (unseen->groups)
        ns_say("the processes of %s, and of all below, could not be examined: %s",
               ns_count(unseen->groups, "control group"), strerror(-unseen->error));
    if (unseen->processes)
        ns_say("%s of the control groups could not be examined: another PID namespace is needed",
               ns_count(unseen->processes, "process"));
    return unseen->groups || unseen->processes;
}

int ns_groups_choose(struct ns_groups *groups, const char *word, bool is_unit)
{
    const int error = ns_groups_find(groups, word, is_unit);
    return !error ? NS_EXIT_YES
                  : NS_FAIL("there is no control group %s'%s'%s", is_unit ? "of the unit " : "",
                            word, error == -ENODEV ? ": " NS_GROUP_NO_MOUNT : "");
}

static int select_group(const char *word, bool is_unit)
{
    struct ns_groups groups = {0};
    struct ns_owners owners = {0};
    const int status = ns_groups_choose(&groups, word, is_unit);
    if (status != NS_EXIT_YES)
        return status;
    const struct ns_unseen unseen = ns_groups_add_processes(&groups, &owners);
    const bool is_empty = ns_unseen_say(&unseen) && owners.n_processes == 0;
    for (size_t i = 0; i < owners.n_processes; i++)
        ns_option_add_pid(owners.processes[i].pid);
    ns_owners_release(&owners);
    free(groups.at);
    return is_empty ? NS_EXIT_ERROR : NS_EXIT_YES;
}

const char *ns_watch_refused(uint64_t n, pid_t last, int error)
{
    struct ns_state state = {.name = "?"};
    ns_state_of(last, &state);
    const bool is_full = error == -EMFILE || error == -ENFILE;
    return ns_words("%s could not be examined: %s%d (%s): %s", ns_count(n, "process"),
                    n > 1 ? "the last, " : "process ", last, state.name,
                    is_full                    ? "more descriptors are needed (ulimit -Hn)"
                    : error == -ETIMEDOUT      ? NS_PROC_STUCK
                    : ns_proc_is_denied(error) ? ns_process_denied(error)
                                               : strerror(-error));
}

const char *ns_process_denied(int error)
{
    if (geteuid() != 0)
        return "run this command as root";
    return error == -EPERM ? "this command lacks CAP_SYS_ADMIN, to enter its network, or "
                             "CAP_SYS_PTRACE, or a security module protects it"
                           : "this command lacks CAP_SYS_PTRACE, or a security module protects it";
}

int ns_process_say_error(pid_t pid, int error)
{
    bool is_denied = ns_proc_is_denied(error);
    if (error == -EPROTONOSUPPORT)
        ns_say("this kernel has no INET_DIAG for TCP (the module tcp_diag)");
    else if (pid == 0)
        ns_say("cannot list TCP sockets: %s", strerror(-error));
    else if (error == -ESRCH)
        ns_say("there is no process %d", pid);
    else if (error == -ETIMEDOUT)
        ns_say("process %d: " NS_PROC_STUCK, pid);
    else if (is_denied)
        ns_say("process %d: permission denied: %s", pid, ns_process_denied(error));
    else
        ns_say("cannot examine process %d: %s", pid, strerror(-error));
    return is_denied ? NS_EXIT_DENIED : NS_EXIT_ERROR;
}

int ns_select(const pid_t **pids)
{
    const char *unit = ns_option_named("unit"), *group = ns_option_named("cgroup"),
               *port = ns_option_named("port");
    for (const pid_t *pid = ns_option_pids(); *pid; pid++)
        if (kill(*pid, 0) != 0 && errno == ESRCH)
            return ns_process_say_error(*pid, -ESRCH);
    int status = unit ? select_group(unit, true) : NS_EXIT_YES;
    if (status == NS_EXIT_YES && group)
        status = select_group(group, false);
    if (status == NS_EXIT_YES && port)
        status = select_port(port);
    *pids = ns_option_pids();
    if (status != NS_EXIT_YES || !(unit || group || port) || **pids)
        return status;
    return port ? NS_FAIL("no TCP connection with port %s was found", port)
                : NS_FAIL("no process runs in %s", group ? group : unit);
}
