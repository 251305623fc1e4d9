/* SPDX-License-Identifier: MIT */
/* See diagnose.h. Owns the cures: their sentences and commands, and the policy. `nagleshim check`
 * must accept the policy without a warning, and it must match no sockets that did not stall: each
 * rule names a process, a role and a port. */
#include "cli/diagnose/diagnose.h"

#include "base/path.h"
#include "cure/group.h"
#include "process/scope.h"

#include <math.h>
#include <string.h>

enum { NAME_MOST = 64 };

/* What a rule matches. */
struct target {
    const struct ns_row_process *process; /* NULL: an unknown process at the other end */
    enum ns_role role;
    uint16_t port;
};

/* The name as a pattern that matches nothing else. Characters that a policy may not contain become
 * question marks, which match them. */
static const char *pattern_of(const struct ns_row_process *process)
{
    const char *pattern = "";
    size_t length = strlen(process->name);
    for (const char *name = process->name; *name; name++) {
        unsigned char c = (unsigned char)*name;
        /* but not '?', which may stand for a replaced character */
        pattern = ns_words("%s%s%c", pattern, strchr("*[]\\", c) ? "\\" : "",
                           c < 0x20 || c >= 0x7f ? '?' : c);
    }
    /* Of another user's process only the kernel's name is known, of at most 15 characters. */
    bool is_cut = length == sizeof process->name - 1 || (process->exe[0] == '\0' && length == 15);
    return ns_words("%s%s", pattern, is_cut ? "*" : "");
}

/* The end that the user asked about. */
static const struct ns_row *own_end(const struct ns_row *row)
{
    return row->is_peer && row->other ? row->other : row;
}

static struct target target_of(const struct ns_row *of)
{
    const struct ns_row *row = own_end(of), *other = row->other;
    struct target target = {row->process, row->role, row->service.port};
    if (!row->process->unreachable)
        return target;
    target.process = other && other->process->is_reachable ? other->process : NULL;
    target.role = row->role == NS_ROLE_CLIENT   ? NS_ROLE_SERVER
                  : row->role == NS_ROLE_SERVER ? NS_ROLE_CLIENT
                                                : NS_ROLE_UNKNOWN;
    return target;
}

/* Is it known that no preload can reach either end? */
static bool is_out_of_reach(const struct ns_row *row)
{
    return row->process->unreachable && row->other && row->other->process->unreachable;
}

/* Add the rule, unless another row has needed the same one. */
static void add_rule(cJSON *rules, const struct target *target)
{
    cJSON *rule = cJSON_CreateObject(), *same = cJSON_GetArrayItem(rules, 0);
    const char *pattern = target->process ? pattern_of(target->process) : "the other end";
    bool is_client = target->role == NS_ROLE_CLIENT;
    /* Without a role, nobody knows which port is the service's. */
    bool has_port = target->role != NS_ROLE_UNKNOWN;
    const char *port = ns_words("%u", target->port);
    const char *end = has_port ? ns_words(" %s port %s", is_client ? "to" : "on", port) : "";
    int room = NAME_MOST - (int)strlen(end);
    ns_output_text(rule, "name", ns_words("%.*s%s", room, pattern, end));
    cJSON *match = cJSON_AddObjectToObject(rule, "match");
    if (target->process)
        ns_output_text(match, "process", pattern);
    if (has_port) {
        ns_output_text(match, "role", ns_role_name(target->role));
        cJSON_AddItemToArray(cJSON_AddArrayToObject(match, is_client ? "remote" : "local"),
                             cJSON_CreateString(port));
    }
    /* Both send and ack: one alone could cause a stall in the other direction. */
    ns_output_text(rule, "send", ns_send_name(NS_SEND_ADAPTIVE));
    ns_output_text(rule, "ack", ns_ack_name(NS_ACK_BEFORE_WAIT));
    while (same && !cJSON_Compare(same, rule, true))
        same = same->next;
    if (same)
        cJSON_Delete(rule);
    else
        cJSON_AddItemToArray(rules, rule);
}

/* Does the rule for the other end cure this row, too? */
static bool is_cured_there(const struct ns_row *row)
{
    const struct ns_row *other = row->other;
    return !row->conclusion.holds && other && other->conclusion.stalls && other->conclusion.holds &&
           !other->process->unreachable;
}

cJSON *ns_diagnosis_policy(const struct ns_diagnosis *diagnosis)
{
    cJSON *policy = cJSON_CreateObject();
    cJSON_AddNumberToObject(policy, "version", 1);
    cJSON *rules = cJSON_AddArrayToObject(policy, "rules");
    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        const struct ns_row *row = diagnosis->rows[i];
        struct target target = target_of(row);
        if (row->conclusion.stalls && !is_cured_there(row) && !is_out_of_reach(row) &&
            !(target.process && ns_shim_works(target.process->shim)))
            add_rule(rules, &target);
    }
    if (cJSON_GetArraySize(rules) > 0)
        return policy;
    cJSON_Delete(policy);
    return NULL;
}

static const char *joined(char *const *words, bool quotes)
{
    const char *text = "";
    for (char *const *word = words; *word; word++)
        text = ns_words("%s%s%s", text, *text ? " " : "", quotes ? ns_words_quoted(*word) : *word);
    return text;
}

static const char *arguments(struct ns_row_process *process)
{
    char *words[sizeof process->words + 1] = {NULL};
    for (size_t at = 0, n = 0; at < process->words_size; at += strlen(process->words + at) + 1)
        words[n++] = process->words + at;
    return joined(words, true);
}

/* "nagleshim run -- " */
static const char *run(const struct ns_report *report)
{
    bool has_file = report->policy_file && strcmp(report->policy_file, "-") != 0;
    return ns_words("%s run%s%s -- ", ns_words_quoted(report->command),
                    has_file ? " --policy " : "",
                    has_file ? ns_words_quoted(report->policy_file) : "");
}

/* Whose it is, where it must be started, and which variables must be set first. */
static const char *lacking(const struct ns_row_process *process)
{
    const struct ns_origin *origin = &process->origin;
    return ns_words("%s%s%s%s",
                    origin->other_user ? ns_words("  # it runs as user %u", origin->other_user)
                                       : "",
                    origin->has_namespaces ? "  # in its namespaces" : "",
                    origin->variables[0] ? "  # with its variables: " : "", origin->variables);
}

/* The command that starts a running process with the library. */
static const char *start(const struct ns_report *report, struct ns_row_process *process)
{
    const char *program = arguments(process);
    if (process->origin.unit[0])
        return ns_words("%s host enable --unit %s", ns_words_quoted(report->command),
                        ns_words_quoted(process->origin.unit));
    if (process->origin.in_container)
        return "install -D -m 0644 " NS_DATADIR
               "/container/cdi.json /etc/cdi/nagleshim.json  # then start its "
               "container with --device nagleshim.dev/shim=default; in Kubernetes: see "
               "config/kubernetes";
    /* A symbolic link has another name than the executable. */
    bool is_link = strcmp(ns_path_base(process->exe), process->name) != 0;
    if (process->origin.has_variables)
        program = ns_words("PROGRAM  # the one that starts %s", ns_words_quoted(process->name));
    else if (process->words_size == 0)
        program =
            ns_words("%s ITS ARGUMENTS", ns_words_quoted(is_link ? process->name : process->exe));
    return ns_words("%s%s%s", run(report), program,
                    process->origin.has_variables ? "" : lacking(process));
}

/* Where the other end of a connection can be seen. */
static const char *elsewhere(const struct ns_report *report, const struct ns_row *row)
{
    struct ns_address host = row->remote;
    if (ns_address_is_loopback(&host) ||
        memcmp(&host.addr, &row->local.addr, sizeof host.addr) == 0)
        return ns_words("%s diagnose --all --for 10  # as root; the peer is a process of this host",
                        ns_words_quoted(report->command));
    host.port = 0;
    return ns_words("nagleshim diagnose --all --for 10  # as root, on the host of %s",
                    ns_words_address(&host));
}

const char *ns_diagnosis_cure(const struct ns_row *row, unsigned number)
{
    const struct ns_cure *cure = &row->cures[number];
    const struct ns_row_process *at = cure->at ? cure->at->process : NULL;
    const struct ns_row *other = row->cures[!number].at;
    const char *where = "at the other end";
    if (at)
        where = ns_words("in %s", ns_words_process_apart(at, other ? other->process : NULL));
    if (at && ns_shim_works(at->shim))
        return ns_words("%s: %s; the library is loaded there already; 'nagleshim doctor --pid %d' "
                        "shows what it does",
                        where, cure->does, at->pid);
    const char *guess = cure->measured ? "" : row->conclusion.certain ? "about " : "at best ";
    const char *but = "";
    if (at && at->unreachable)
        but = ns_words("; but no preload reaches it: it %s", at->unreachable);
    else if (at && at->has_ring && strstr(cure->does, ns_ack_name(NS_ACK_BEFORE_WAIT)))
        but = "; more if it reads through its io_uring";
    return ns_words("%s: %s; a stalled request: %.1f ms now, %s%.1f ms with it%s%s", where,
                    cure->does, cure->from_ms, guess, fmax(cure->to_ms, 0.1),
                    cure->measured ? " (measured)" : "", but);
}

const char *ns_report_command(const struct ns_report *report, const struct ns_row *row,
                              unsigned number)
{
    struct ns_row_process *at = row->cures[number].at ? row->cures[number].at->process : NULL;
    const struct ns_row *own = own_end(row);
    if (!at || (number && !at->is_reachable && !at->unreachable))
        return ns_words("%sPROGRAM  # at the other end: the %s %s", run(report),
                        own->role == NS_ROLE_CLIENT ? "server on" : "client that connected from",
                        ns_words_address(&own->remote));
    if (at->unreachable)
        return NULL;
    if (ns_shim_works(at->shim))
        return ns_words("%s doctor --pid %d", ns_words_quoted(report->command), at->pid);
    if (number == 0 && report->program)
        return ns_words("%s%s", run(report), joined(report->program, true));
    return ns_words("%s%s", start(report, at),
                    number ? "  # the other end; stop the running one first" : "");
}

/* Can it be seen from inside if it is started again? */
static bool is_startable(const struct ns_row_process *process)
{
    const struct ns_origin *origin = &process->origin;
    return process->is_reachable && process->words_size && !origin->has_variables &&
           !origin->unit[0] && !origin->in_container && !origin->has_namespaces;
}

/* Can an experiment show whether the peer's program waits for the ACKs of the one that was started?
 */
static bool is_triable(const struct ns_row *row)
{
    return row->verdict.doubt == NS_DOUBT_PEER && row->peer && row->peer->behind.ns == 0 &&
           row->process->is_reachable && row->process->trial.what == NS_EXPERIMENT_NONE;
}

/* Can `cure --pid` treat it? Not without the main thread, whose descriptors that copies. */
static bool is_curable(const struct ns_row *row)
{
    struct ns_state state;
    return !row->is_mptcp && !ns_state_is_gone(ns_state_of(row->process->pid, &state), &state);
}

/* The program that was started, with the connections that it opens treated from outside. */
static const char *follow(const struct ns_report *report)
{
    return ns_words("%s & %s cure --follow --pid $!", joined(report->program, true),
                    ns_words_quoted(report->command));
}

/* What treats the connections that a process opens, or the next one of its program, if no preload
 * reaches either end. */
static const char *treat(const struct ns_report *report, const struct ns_row *row)
{
    const struct ns_row_process *process = row->process;
    if (process->origin.unit[0])
        return ns_words("%s cure --unit %s", ns_words_quoted(report->command),
                        ns_words_quoted(process->origin.unit));
    return report->program && !row->is_mptcp
               ? follow(report)
               : ns_words("set TCP_NODELAY, or write each request at once, in the source of %s",
                          ns_words_quoted(process->name));
}

/* What may decide a doubt: the view from inside, or, of a process that cannot be started again with
 * a preload, whether it is faster with TCP_NODELAY. */
static const char *trial(const struct ns_report *report, const struct ns_row *row)
{
    struct ns_row_process *process = row->process;
    const char *command = ns_words_quoted(report->command);
    if (is_startable(process))
        return ns_words("%s diagnose -- %s  # restarted, it is seen from inside%s", command,
                        arguments(process), lacking(process));
    if (is_curable(row))
        return ns_words("%s cure --pid %d --for 60  # is it faster in this minute?", command,
                        process->pid);
    return report->program && !row->is_mptcp ? ns_words("%s  # is it faster then?", follow(report))
                                             : NULL;
}

/* The row whose peer took longest, and seems to have waited for something behind it; NULL: none, or
 * what was held took longer. */
static const struct ns_row *behind(const struct ns_diagnosis *diagnosis)
{
    uint64_t most = (uint64_t)(diagnosis->lost_ms * 1e6);
    const struct ns_row *found = NULL;
    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        const struct ns_row *row = diagnosis->rows[i];
        if (!row->is_peer && ns_row_waits_behind(row) &&
            row->verdict.delays_ns[NS_DELAY_PEER] > most) {
            most = row->verdict.delays_ns[NS_DELAY_PEER];
            found = row;
        }
    }
    return found;
}

/* What shows why the peer takes so long. */
static const char *ask_peer(const struct ns_report *report, const struct ns_row *row)
{
    const struct ns_row_process *peer = row->peer;
    return peer && peer->pid && !ns_proc_is_gone(peer->pid)
               ? ns_words("%s diagnose --pid %d --for 10  # the peer: what does it wait for?",
                          ns_words_quoted(report->command), peer->pid)
               : elsewhere(report, row);
}

/* NULL: nothing is known that helps. */
static const char *next_step(const struct ns_report *report, const struct ns_row *first)
{
    const struct ns_diagnosis *diagnosis = report->diagnosis;
    const struct ns_row *open = NULL, *unclear = NULL, *slow = behind(diagnosis);
    if (first && first->conclusion.stalls && !(slow && own_end(first) == slow)) {
        const struct ns_row *own = own_end(first);
        return is_out_of_reach(own)
                   ? treat(report, own)
                   : ns_report_command(report, first, own->process->unreachable ? 1 : 0);
    }
    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        const struct ns_row *row = diagnosis->rows[i];
        enum ns_doubt doubt = row->verdict.doubt;
        if (report->program && is_triable(row))
            return ns_words("%s diagnose --experiment acknowledge -- %s  # is the answer sooner?",
                            ns_words_quoted(report->command), joined(report->program, true));
        if (doubt == NS_DOUBT_PEER && !row->other)
            open = row;
        else if ((doubt == NS_DOUBT_ANSWERS || doubt == NS_DOUBT_PEER) &&
                 (!unclear || row->role == NS_ROLE_CLIENT) && row->source == NS_SOURCE_OUTSIDE &&
                 (is_startable(row->process) ? !report->program || report->outside
                                             : doubt == NS_DOUBT_ANSWERS))
            unclear = row;
    }
    return open      ? elsewhere(report, open)
           : unclear ? trial(report, unclear)
           : slow    ? ask_peer(report, slow)
                     : NULL;
}

/* What helps without a restart; NULL: nothing. */
static const char *at_once(const struct ns_report *report, const struct ns_row *row)
{
    char group[2 * PATH_MAX];
    if (!row || !row->conclusion.stalls)
        return NULL;
    /* TCP_NODELAY helps at the end that holds the bytes; at the other one, where no preload reaches
     * it, the limit of delayed ACKs does. */
    bool holds = row->conclusion.holds;
    if (row->other && ((!holds && row->n_cures > 1) || row->process->pid == 0)) {
        row = row->other;
        holds = !holds;
    }
    const struct ns_row_process *process = row->process;
    if ((!holds && !process->unreachable) || ns_shim_works(process->shim) || process->pid == 0 ||
        (row->source == NS_SOURCE_INSIDE && process->has_other_number) || !is_curable(row))
        return NULL;
    /* Before Linux 6.15 only BPF programs limit delayed ACKs. */
    if (!holds && ns_socket_least_delack() < 0 &&
        ns_group_path(process->origin.group, group, sizeof group))
        return ns_words("%s cure --cgroup %s", ns_words_quoted(report->command),
                        ns_words_quoted(group));
    return ns_words("%s cure --pid %d", ns_words_quoted(report->command), process->pid);
}

void ns_report_advise(struct ns_report *report)
{
    const struct ns_row *first = report->diagnosis->n_rows ? report->diagnosis->rows[0] : NULL;
    report->subject = report->program   ? joined(report->program, false)
                      : report->pid > 0 ? ns_words("process %d", report->pid)
                      : report->pid < 0 ? "several processes"
                                        : "every process";
    report->next = next_step(report, first);
    report->now = at_once(report, first);
}
