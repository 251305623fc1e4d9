/* SPDX-License-Identifier: MIT */
/* See report.h. Owns the cures: their sentences and commands, and the policy. `nagleshim check`
 * must accept the policy without a warning, and it must match no sockets that did not stall: each
 * rule names a process, a role and a port. */
#include "cli/diagnose/report.h"

#include "base/path.h"
#include "cli/cli.h"
#include "cure/group.h"
#include "process/scope.h"

#include <cJSON.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
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
static void write_pattern(const struct ns_row_process *process, char *pattern, size_t size)
{
    size_t used = 0, length = strlen(process->name);
    for (const char *name = process->name; *name && used + 3 < size; name++) {
        unsigned char c = (unsigned char)*name;
        if (strchr("*[]\\", c)) /* but not '?', which may stand for a replaced character */
            pattern[used++] = '\\';
        pattern[used++] = (char)(c < 0x20 || c >= 0x7f ? '?' : c);
    }
    /* Of another user's process only the kernel's name is known, of at most 15 characters. */
    if (length == sizeof process->name - 1 || (process->exe[0] == '\0' && length == 15))
        pattern[used++] = '*';
    pattern[used] = '\0';
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

static void write_name(const struct target *target, const char *pattern, char *name, size_t size)
{
    const char *who = target->process ? pattern : "the other end";
    char port[24] = "";
    if (target->role != NS_ROLE_UNKNOWN)
        snprintf(port, sizeof port, "%s port %u", target->role == NS_ROLE_CLIENT ? " to" : " on",
                 target->port);
    snprintf(name, size, "%.*s%s", (int)(size - 1 - strlen(port)), who, port);
}

static void add_match(cJSON *rule, const struct target *target, const char *pattern)
{
    cJSON *match = cJSON_AddObjectToObject(rule, "match");
    char port[8];
    if (target->process)
        cJSON_AddStringToObject(match, "process", pattern);
    if (target->role == NS_ROLE_UNKNOWN)
        return; /* then nobody knows which port is the service's */
    cJSON_AddStringToObject(match, "role", ns_role_name(target->role));
    snprintf(port, sizeof port, "%u", target->port);
    cJSON_AddItemToArray(
        cJSON_AddArrayToObject(match, target->role == NS_ROLE_CLIENT ? "remote" : "local"),
        cJSON_CreateString(port));
}

/* Add the rule, unless another row has needed the same one. */
static void add_rule(cJSON *rules, const struct target *target)
{
    cJSON *rule = cJSON_CreateObject(), *same = cJSON_GetArrayItem(rules, 0);
    char pattern[512] = "", name[NAME_MOST + 1];
    if (target->process)
        write_pattern(target->process, pattern, sizeof pattern);
    write_name(target, pattern, name, sizeof name);
    cJSON_AddStringToObject(rule, "name", name);
    add_match(rule, target, pattern);
    /* Both send and ack: one alone could cause a stall in the other direction. */
    cJSON_AddStringToObject(rule, "send", ns_send_name(NS_SEND_ADAPTIVE));
    cJSON_AddStringToObject(rule, "ack", ns_ack_name(NS_ACK_BEFORE_WAIT));
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

char *ns_diagnosis_policy(const struct ns_diagnosis *diagnosis, bool for_a_file)
{
    cJSON *policy = cJSON_CreateObject();
    cJSON_AddNumberToObject(policy, "version", 1);
    cJSON *rules = cJSON_AddArrayToObject(policy, "rules");
    char *text = NULL;
    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        const struct ns_row *row = &diagnosis->rows[i];
        struct target target = target_of(row);
        if (row->conclusion.stalls && !is_cured_there(row) && !is_out_of_reach(row) &&
            !(target.process && target.process->has_shim))
            add_rule(rules, &target);
    }
    if (cJSON_GetArraySize(rules) > 0)
        text = for_a_file ? cJSON_Print(policy) : cJSON_PrintUnformatted(policy);
    cJSON_Delete(policy);
    return text;
}

/* A word quoted for the shell. */
static void print_word(FILE *stream, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "%+,-./:=@_";
    if (*word != '\0' && strspn(word, plain) == strlen(word)) {
        fputs(word, stream);
        return;
    }
    putc('\'', stream);
    for (const char *c = word; *c; c++)
        fprintf(stream, *c == '\'' ? "'\\''" : "%c", *c);
    putc('\'', stream);
}

static void print_command(FILE *stream, const struct ns_report *report, const char *words)
{
    print_word(stream, report->command);
    fputs(words, stream);
}

static void print_run(FILE *stream, const struct ns_report *report)
{
    print_command(stream, report, " run");
    if (report->policy_file && strcmp(report->policy_file, "-") != 0) {
        fputs(" --policy ", stream);
        print_word(stream, report->policy_file);
    }
    fputs(" -- ", stream);
}

static void print_program(FILE *stream, const struct ns_report *report)
{
    for (unsigned i = 0; report->program[i]; i++) {
        fputs(i ? " " : "", stream);
        print_word(stream, report->program[i]);
    }
}

static void print_arguments(FILE *stream, const struct ns_row_process *process)
{
    for (size_t at = 0; at < process->words_size; at += strlen(process->words + at) + 1) {
        fputs(at ? " " : "", stream);
        print_word(stream, process->words + at);
    }
}

/* The command that starts a running process with the library. */
static void print_start(FILE *stream, const struct ns_row_process *process,
                        const struct ns_report *report)
{
    if (process->unit[0]) {
        print_command(stream, report, " host enable --unit ");
        print_word(stream, process->unit);
        return;
    }
    if (process->in_container) {
        print_command(stream, report,
                      " cdi  # for its container; in Kubernetes: see config/kubernetes");
        return;
    }
    print_run(stream, report);
    if (process->has_variables) {
        fprintf(stream, "PROGRAM  # the one that starts %s", process->name);
        return;
    }
    if (process->words_size == 0) {
        /* A symbolic link has another name than the executable. */
        bool is_link = strcmp(ns_path_base(process->exe), process->name) != 0;
        print_word(stream, is_link ? process->name : process->exe);
        fputs(" ITS ARGUMENTS", stream);
    }
    print_arguments(stream, process);
}

/* Where the other end of a connection can be seen. */
static void print_elsewhere(FILE *stream, const struct ns_row *row)
{
    struct ns_address host = row->remote;
    bool is_here = ns_address_is_loopback(&host) ||
                   memcmp(&host.addr, &row->local.addr, sizeof host.addr) == 0;
    host.port = 0;
    fprintf(stream, "nagleshim diagnose --all --for 10  # as root%s%s",
            is_here ? "; the peer is a process of this host" : ", on the host of ",
            is_here ? "" : ns_words_address(&host));
}

const char *ns_diagnosis_cure(const struct ns_row *row, unsigned number)
{
    static char text[NS_WORDS_MOST];
    const struct ns_cure *cure = &row->cures[number];
    const struct ns_row_process *at = cure->at ? cure->at->process : NULL;
    const struct ns_row *other = row->cures[!number].at;
    bool is_named_alike = at && other && strcmp(at->name, other->process->name) == 0;
    snprintf(text, sizeof text, "%s", at ? "in " : "at the other end");
    if (at)
        ns_words_add(text, "%s", is_named_alike ? ns_words_process(at) : at->name);
    ns_words_add(text, ": %s; ", cure->does);
    if (at && at->has_shim) {
        ns_words_add(text,
                     "the library is loaded there already; 'nagleshim doctor --pid %d' shows "
                     "what it does",
                     at->pid);
        return text;
    }
    ns_words_add(text, "a stalled request: %.1f ms now, %s%.1f ms with it%s", cure->from_ms,
                 cure->measured            ? ""
                 : row->conclusion.certain ? "about "
                                           : "at best ",
                 fmax(cure->to_ms, 0.1), cure->measured ? " (measured)" : "");
    if (at && at->unreachable)
        ns_words_add(text, "; but no preload reaches it: it %s", at->unreachable);
    return text;
}

/* How to apply a cure of a row at its end; nothing if no preload reaches that. */
static void print_cure(FILE *stream, const struct ns_report *report, const struct ns_row *row,
                       unsigned number)
{
    const struct ns_row_process *at = row->cures[number].at ? row->cures[number].at->process : NULL;
    const struct ns_row *own = own_end(row);
    if (!at || (number && !at->is_reachable && !at->unreachable)) {
        print_run(stream, report);
        fprintf(stream, "PROGRAM  # at the other end: the %s %s",
                own->role == NS_ROLE_CLIENT ? "server on" : "client that connected from",
                ns_words_address(&own->remote));
    } else if (at->unreachable) {
        return;
    } else if (at->has_shim) {
        fprintf(stream, "nagleshim doctor --pid %d", at->pid);
    } else if (number == 0 && report->program) {
        print_run(stream, report);
        print_program(stream, report);
    } else {
        print_start(stream, at, report);
        fputs(number ? "  # the other end; stop the running one first" : "", stream);
    }
}

static bool is_running(const struct ns_row_process *process)
{
    return kill(process->pid, 0) == 0 || errno != ESRCH;
}

/* Can it be seen from inside if it is started again? */
static bool is_startable(const struct ns_row_process *process)
{
    return process->is_reachable && process->words_size && !process->has_variables &&
           !process->unit[0] && !process->in_container;
}

/* What may decide a doubt: the view from inside, or, where no preload reaches the process, whether
 * it is faster with TCP_NODELAY. */
static void print_trial(FILE *stream, const struct ns_report *report, const struct ns_row *row)
{
    const struct ns_row_process *process = row->process;
    if (process->is_reachable) {
        print_command(stream, report, " diagnose -- ");
        print_arguments(stream, process);
        fputs("  # restarted, it is seen from inside", stream);
    } else if (is_running(process)) {
        print_command(stream, report, " cure --pid ");
        fprintf(stream, "%d  # is it faster then? 'cure --undo' restores it", process->pid);
    } else if (report->program) {
        print_program(stream, report);
        fputs(" & ", stream);
        print_command(stream, report, " cure --follow --pid $!  # is it faster then?");
    }
}

static void print_next(FILE *stream, const struct ns_report *report, const struct ns_row *first,
                       unsigned number)
{
    (void)number;
    const struct ns_diagnosis *diagnosis = report->diagnosis;
    const struct ns_row *open = NULL, *unclear = NULL;
    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        const struct ns_row *row = &diagnosis->rows[i];
        enum ns_doubt doubt = row->verdict.doubt;
        if (doubt == NS_DOUBT_PEER && !row->other)
            open = row;
        else if ((doubt == NS_DOUBT_ANSWERS || doubt == NS_DOUBT_PEER) &&
                 (!unclear || row->role == NS_ROLE_CLIENT) && row->source == NS_SOURCE_OUTSIDE &&
                 (is_startable(row->process)
                      ? !report->program
                      : doubt == NS_DOUBT_ANSWERS && row->process->unreachable))
            unclear = row;
    }
    if (!first || !first->conclusion.stalls) {
        if (open)
            print_elsewhere(stream, open);
        else if (unclear)
            print_trial(stream, report, unclear);
        return;
    }
    if (is_out_of_reach(own_end(first)))
        fprintf(stream, "set TCP_NODELAY, or write each request at once, in the source of %s",
                own_end(first)->process->name);
    else
        print_cure(stream, report, first, own_end(first)->process->unreachable ? 1 : 0);
}

static void print_now(FILE *stream, const struct ns_report *report, const struct ns_row *row,
                      unsigned number)
{
    (void)number;
    if (!row || !row->conclusion.stalls)
        return;
    /* TCP_NODELAY helps at the end that holds the bytes; at the other one, where no preload reaches
     * it, the limit of delayed ACKs does. */
    bool holds = row->conclusion.holds;
    if (row->other && (!holds || row->process->pid == 0)) {
        row = row->other;
        holds = !holds;
    }
    if ((!holds && !row->process->unreachable) || row->process->has_shim ||
        row->process->pid == 0 ||
        (row->source == NS_SOURCE_INSIDE && row->process->has_other_number) ||
        !is_running(row->process))
        return;
    char group[2 * PATH_MAX];
    if (!holds && ns_socket_least_delack() < 0 &&
        ns_group_path(row->process->pid, group, sizeof group)) {
        /* Before Linux 6.17 only BPF programs limit delayed ACKs. */
        print_command(stream, report, " cure --cgroup ");
        print_word(stream, group);
        return;
    }
    print_command(stream, report, " cure --pid ");
    fprintf(stream, "%d", row->process->pid);
}

static void print_subject(FILE *stream, const struct ns_report *report, const struct ns_row *row,
                          unsigned number)
{
    (void)row, (void)number;
    for (char *const *word = report->program; word && *word; word++)
        fprintf(stream, "%s%s", word == report->program ? "" : " ", *word);
    if (report->pid)
        fprintf(stream, "process %d", report->pid);
    else if (!report->program)
        fputs("every process", stream);
}

/* What print writes, allocated; NULL if that is nothing. */
static char *text_of(void (*print)(FILE *stream, const struct ns_report *report,
                                   const struct ns_row *row, unsigned number),
                     const struct ns_report *report, const struct ns_row *row, unsigned number)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = ns_allocated(open_memstream(&text, &size));
    print(stream, report, row, number);
    fclose(stream);
    if (size > 0)
        return ns_sanitize(text); /* control characters must not reach the terminal */
    free(text);
    return NULL;
}

char *ns_report_command(const struct ns_report *report, const struct ns_row *row, unsigned number)
{
    return text_of(print_cure, report, row, number);
}

void ns_report_advise(struct ns_report *report)
{
    const struct ns_row *first = report->diagnosis->n_rows ? report->diagnosis->rows : NULL;
    report->subject = text_of(print_subject, report, first, 0);
    report->next = text_of(print_next, report, first, 0);
    report->now = text_of(print_now, report, first, 0);
}
