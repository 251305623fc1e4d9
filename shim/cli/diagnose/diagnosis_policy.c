/* SPDX-License-Identifier: MIT */
/* Owns the policy that a diagnosis proposes. It must be one that `nagleshim check` accepts without
 * a warning, and take no socket that did not stall: what it is narrowed by is the process, the role
 * and the port. Not async-signal-safe. */
#include "cli/diagnose/diagnosis_policy.h"

#include "base/path.h"
#include "cli/diagnose/diagnosis_words.h"

#include <cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MOST = 64 };

/* Whom a rule is for. */
struct target {
    const struct ns_diagnosed_process *process; /* NULL: at the other end, and not known */
    enum ns_role role;
    uint16_t port;
};

/* Is its name only the beginning of what it is? The kernel keeps 15 characters, which is all that
 * is told of another user's process. */
static bool is_cut(const struct ns_diagnosed_process *process)
{
    size_t length = strlen(process->name);

    return length == sizeof(process->name) - 1 || (process->exe[0] == '\0' && length == 15);
}

/* Its name as a pattern that matches nothing else; what no policy may have in it becomes a question
 * mark, which matches it. */
static void write_pattern(const struct ns_diagnosed_process *process, char *pattern, size_t size)
{
    size_t used = 0;

    for (const char *name = process->name; *name && used + 3 < size; name++) {
        unsigned char c = (unsigned char)*name;

        if (strchr("*[]\\", c)) /* a question mark may stand for what was tamed */
            pattern[used++] = '\\';
        pattern[used++] = (char)(c < 0x20 || c >= 0x7f ? '?' : c);
    }
    if (is_cut(process))
        pattern[used++] = '*';
    pattern[used] = '\0';
}

static struct target target_of(const struct ns_diagnosis *diagnosis, const struct ns_diagnosed *row)
{
    const struct ns_diagnosed *other = ns_diagnosis_other_end(diagnosis, row);
    struct target target = {row->process, row->role, row->service.port};

    if (row->process->curable.yes || !row->process->curable.reason[0])
        return target;
    target.process = other && other->process->curable.yes ? other->process : NULL;
    target.role = row->role == NS_ROLE_CLIENT   ? NS_ROLE_SERVER
                  : row->role == NS_ROLE_SERVER ? NS_ROLE_CLIENT
                                                : NS_ROLE_UNKNOWN;
    return target;
}

/* Is it known that no preload reaches either end? */
static bool is_out_of_reach(const struct ns_diagnosis *diagnosis, const struct ns_diagnosed *row)
{
    const struct ns_diagnosed *other = ns_diagnosis_other_end(diagnosis, row);

    return row->process->curable.reason[0] && other && other->process->curable.reason[0];
}

static bool same_target(const struct target *one, const struct target *other)
{
    const char *a = one->process ? one->process->exe : "";
    const char *b = other->process ? other->process->exe : "";

    return one->role == other->role && one->port == other->port && strcmp(a, b) == 0;
}

static void write_name(const struct target *target, const char *pattern, char *name, size_t size)
{
    const char *who = target->process ? pattern : "the other end";
    char port[24] = "";

    if (target->role != NS_ROLE_UNKNOWN)
        snprintf(port, sizeof(port), "%s port %u", target->role == NS_ROLE_CLIENT ? " to" : " on",
                 target->port);
    snprintf(name, size, "%.*s%s", (int)(size - 1 - strlen(port)), who, port);
}

static bool add_match(cJSON *rule, const struct target *target, const char *pattern)
{
    cJSON *match = cJSON_AddObjectToObject(rule, "match"), *list;
    char port[8];
    bool ok = match != NULL;

    if (target->process)
        ok = ok && cJSON_AddStringToObject(match, "process", pattern);
    if (target->role == NS_ROLE_UNKNOWN)
        return ok; /* which of the ports is the service's is not known either */
    ok = ok && cJSON_AddStringToObject(match, "role", ns_role_name(target->role));
    snprintf(port, sizeof(port), "%u", target->port);
    list = ok ? cJSON_AddArrayToObject(match, target->role == NS_ROLE_CLIENT ? "remote" : "local")
              : NULL;
    return list && cJSON_AddItemToArray(list, cJSON_CreateString(port));
}

static bool add_rule(cJSON *rules, const struct target *target)
{
    cJSON *rule = cJSON_CreateObject();
    char pattern[512] = "", name[NAME_MOST + 1];
    bool ok = rule != NULL;

    if (target->process)
        write_pattern(target->process, pattern, sizeof(pattern));
    write_name(target, pattern, name, sizeof(name));
    ok = ok && cJSON_AddStringToObject(rule, "name", name) && add_match(rule, target, pattern);
    /* Both halves: one alone could make a stall the other way. */
    ok = ok && cJSON_AddStringToObject(rule, "send", ns_send_name(NS_SEND_ADAPTIVE)) &&
         cJSON_AddStringToObject(rule, "ack", ns_ack_name(NS_ACK_BEFORE_WAIT));
    if (!ok || !cJSON_AddItemToArray(rules, rule))
        cJSON_Delete(rule);
    return ok;
}

/* Is it the other end of what a rule for that end cures? */
static bool is_cured_there(const struct ns_diagnosis *diagnosis, const struct ns_diagnosed *row)
{
    const struct ns_diagnosed *other = ns_diagnosis_other_end(diagnosis, row);

    return !ns_diagnosis_holds(row) && other && ns_diagnosis_stalls(other) &&
           ns_diagnosis_holds(other) &&
           (other->process->curable.yes || !other->process->curable.reason[0]);
}

/* Has a row before this one the same rule? */
static bool is_told(const struct ns_diagnosis *diagnosis, size_t row, const struct target *target)
{
    for (size_t i = 0; i < row; i++) {
        struct target before = target_of(diagnosis, &diagnosis->rows[i]);

        if (ns_diagnosis_stalls(&diagnosis->rows[i]) && same_target(&before, target))
            return true;
    }
    return false;
}

char *ns_diagnosis_policy(const struct ns_diagnosis *diagnosis, bool for_a_file)
{
    cJSON *policy = cJSON_CreateObject();
    cJSON *rules = NULL;
    bool ok = cJSON_AddNumberToObject(policy, "version", 1) != NULL;
    char *text = NULL;

    if (ok)
        rules = cJSON_AddArrayToObject(policy, "rules");
    for (size_t i = 0; rules && ok && i < diagnosis->n_rows; i++) {
        const struct ns_diagnosed *row = &diagnosis->rows[i];
        struct target target = target_of(diagnosis, row);

        if (ns_diagnosis_stalls(row) && !is_cured_there(diagnosis, row) &&
            !is_out_of_reach(diagnosis, row) && !is_told(diagnosis, i, &target))
            ok = add_rule(rules, &target);
    }
    if (ok && cJSON_GetArraySize(rules) > 0)
        text = for_a_file ? cJSON_Print(policy) : cJSON_PrintUnformatted(policy);
    cJSON_Delete(policy);
    return text;
}

/* As a shell takes it, without what would drive a terminal: control characters become escapes of
 * $'...'. */
static void print_word(FILE *stream, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "%+,-./:=@_";
    bool escapes = false;

    if (*word != '\0' && strspn(word, plain) == strlen(word)) {
        fputs(word, stream);
        return;
    }
    for (const char *c = word; *c; c++)
        escapes = escapes || (unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f;
    fputs(escapes ? "$'" : "'", stream);
    for (const char *c = word; *c; c++) {
        if (*c == '\'')
            fprintf(stream, escapes ? "\\'" : "'\\''");
        else if (*c == '\n')
            fprintf(stream, "\\n");
        else if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f)
            fprintf(stream, "\\x%02x", (unsigned char)*c);
        else
            fprintf(stream, escapes && *c == '\\' ? "\\\\" : "%c", *c);
    }
    putc('\'', stream);
}

static void print_run(FILE *stream, const struct ns_diagnosis_means *means)
{
    print_word(stream, means->command);
    fputs(" run", stream);
    if (means->file) {
        fputs(" --policy ", stream);
        print_word(stream, means->file);
    }
    fputs(" -- ", stream);
}

/* What to start under the shim where the first row that stalls is to be cured at its other end. */
static void print_other_end(FILE *stream, const struct target *target,
                            const struct ns_diagnosed *row, const struct ns_diagnosis_means *means)
{
    char address[64];

    print_run(stream, means);
    if (target->process) {
        print_word(stream, target->process->exe);
        fprintf(stream, " ITS ARGUMENTS, the other end");
    } else {
        fprintf(stream, "PROGRAM, at the other end: %s %s",
                target->role == NS_ROLE_SERVER ? "what serves" : "what has connected from",
                ns_words_address(&row->remote, address, sizeof(address)));
    }
}

/* What to type to start it: not the executable, if it was started by another of its names. */
static const char *program_of(const struct ns_diagnosed_process *process)
{
    return strcmp(ns_path_base(process->exe), process->name) == 0 ? process->exe : process->name;
}

char *ns_diagnosis_next(const struct ns_diagnosis *diagnosis,
                        const struct ns_diagnosis_means *means)
{
    const struct ns_diagnosed *row = diagnosis->n_rows ? &diagnosis->rows[0] : NULL;
    struct target target;
    char *text = NULL;
    size_t size = 0;
    FILE *stream;

    if (!row || !ns_diagnosis_stalls(row))
        return NULL;
    stream = open_memstream(&text, &size);
    if (!stream)
        return NULL;
    target = target_of(diagnosis, row);
    if (is_out_of_reach(diagnosis, row)) {
        fprintf(stream, "set TCP_NODELAY, or write each request at once, in the source of %s",
                row->process->name);
    } else if (target.process != row->process) {
        print_other_end(stream, &target, row, means);
    } else if (row->process->has_shim) {
        fprintf(stream, "nagleshim doctor --pid %d", row->process->pid);
    } else {
        print_run(stream, means);
        for (unsigned i = 0; means->program && means->program[i]; i++) {
            fputs(i ? " " : "", stream);
            print_word(stream, means->program[i]);
        }
        if (!means->program) {
            print_word(stream, program_of(row->process));
            fprintf(stream, " ITS ARGUMENTS");
        }
    }
    fclose(stream);
    return text;
}
