/* SPDX-License-Identifier: MIT */
/* Owns the object of `nagleshim diagnose --json`, which config/diagnosis.schema.json describes.
 * What reads it may rely on every member. Where memory is short the object lacks something. Not
 * async-signal-safe. */
#include "cli/diagnose/diagnosis_report.h"

#include "cli/diagnose/diagnosis_words.h"
#include "cli/output.h"

#include <cJSON.h>
#include <stdlib.h>

#define MS 1e6

enum { TEXT_MOST = 1024 };

static void add_number(cJSON *object, const char *name, double value)
{
    cJSON_AddNumberToObject(object, name, value);
}

static void add_ms(cJSON *object, const char *name, uint64_t ns)
{
    /* To the microsecond: further digits would only be noise. */
    cJSON_AddNumberToObject(object, name, (double)(ns / 1000) / 1e3);
}

static void add_address(cJSON *object, const char *name, const struct ns_address *address)
{
    char text[64];

    ns_output_text(object, name,
                   address->known ? ns_words_address(address, text, sizeof(text)) : NULL);
}

static void add_process(cJSON *row, const struct ns_diagnosed_process *process)
{
    cJSON *object = cJSON_AddObjectToObject(row, "process");

    add_number(object, "pid", process->pid);
    ns_output_text(object, "name", process->name);
    ns_output_text(object, "exe", process->exe[0] ? process->exe : NULL);
    cJSON_AddBoolToObject(object, "shim", process->has_shim);
    if (process->curable.yes || process->curable.reason[0])
        cJSON_AddBoolToObject(object, "reachable", process->curable.yes);
    else
        cJSON_AddNullToObject(object, "reachable");
    ns_output_text(object, "reason", process->curable.reason[0] ? process->curable.reason : NULL);
}

static void add_causes(cJSON *row, const struct ns_verdict *verdict, enum ns_source source)
{
    cJSON *list = cJSON_AddArrayToObject(row, "besides");

    for (unsigned cause = 0; cause < NS_CAUSE_COUNT; cause++) {
        cJSON *entry = verdict->causes[cause] ? cJSON_CreateObject() : NULL;

        if (!entry)
            continue;
        cJSON_AddItemToArray(list, entry);
        cJSON_AddStringToObject(entry, "cause", ns_diagnosis_cause(cause));
        cJSON_AddStringToObject(entry, "meaning", ns_diagnosis_cause_meaning(cause, source));
        add_number(entry, "times", (double)verdict->causes[cause]);
        add_ms(entry, "ms", verdict->causes_ns[cause]);
    }
}

static void add_cures(cJSON *row_object, const struct ns_diagnosis *diagnosis,
                      const struct ns_diagnosed *row)
{
    const struct ns_diagnosed *other = ns_diagnosis_other_end(diagnosis, row);
    cJSON *list = cJSON_AddArrayToObject(row_object, "cures");
    struct ns_cure cures[2];
    unsigned n = ns_diagnosis_cures(diagnosis, row, cures);

    for (unsigned i = 0; i < n; i++) {
        const struct ns_diagnosed_process *at = i == 0  ? row->process
                                                : other ? other->process
                                                        : NULL;
        cJSON *cure = cJSON_CreateObject();

        cJSON_AddItemToArray(list, cure);
        cJSON_AddStringToObject(cure, "end", cures[i].end);
        cJSON_AddStringToObject(cure, "does", cures[i].does);
        add_number(cure, "from_ms", cures[i].from_ms);
        add_number(cure, "to_ms", cures[i].to_ms);
        cJSON_AddBoolToObject(cure, "measured", cures[i].measured);
        if (at && (at->curable.yes || at->curable.reason[0]))
            cJSON_AddBoolToObject(cure, "reachable", at->curable.yes);
        else
            cJSON_AddNullToObject(cure, "reachable");
    }
}

static void add_waits(cJSON *row, const struct ns_verdict *verdict)
{
    cJSON *list = cJSON_AddArrayToObject(row, "waits");

    for (unsigned i = 0; i < NS_VERDICT_BUCKETS; i++) {
        cJSON *entry = verdict->waits[i] || verdict->held_waits[i] ? cJSON_CreateObject() : NULL;

        if (!entry)
            continue;
        cJSON_AddItemToArray(list, entry);
        add_number(entry, "from_us", (double)(1ULL << i));
        add_number(entry, "all", verdict->waits[i]);
        add_number(entry, "held", verdict->held_waits[i]);
    }
}

static void add_counts(cJSON *object, const struct ns_diagnosed *row)
{
    const struct ns_verdict *verdict = &row->verdict;

    add_number(object, "looks", (double)verdict->looks);
    add_number(object, "requests", (double)verdict->requests);
    add_number(object, "stalls", (double)verdict->stalls);
    add_number(object, "late_acks", (double)verdict->late_acks);
    add_number(object, "maybe", (double)verdict->maybe);
    add_number(object, "late", (double)verdict->late);
    add_number(object, "receiving", (double)verdict->receiving);
    add_number(object, "segments", (double)verdict->segments);
    add_number(object, "lost_ms", ns_diagnosis_lost_ms(row));
    add_ms(object, "certain_ms", verdict->certain_ns);
    add_ms(object, "most_ms", verdict->most_ns);
    add_ms(object, "watched_ms", verdict->watched_ns);
    add_ms(object, "waited_ms", verdict->waited_ns);
    add_ms(object, "shortest_ms", verdict->shortest_ns);
    add_ms(object, "longest_ms", verdict->longest_ns);
    add_ms(object, "held_ms", verdict->held_ns);
    if (verdict->rtt_us)
        add_number(object, "rtt_us", verdict->rtt_us);
    else
        cJSON_AddNullToObject(object, "rtt_us");
}

static void add_row(cJSON *rows, const struct ns_diagnosis *diagnosis,
                    const struct ns_diagnosed *row)
{
    const struct ns_diagnosed *other = ns_diagnosis_other_end(diagnosis, row);
    const struct ns_verdict *verdict = &row->verdict;
    const char *role = ns_role_name(row->role);
    cJSON *object = cJSON_CreateObject();
    char text[TEXT_MOST];

    cJSON_AddItemToArray(rows, object);
    add_process(object, row->process);
    cJSON_AddStringToObject(object, "source",
                            row->source == NS_SOURCE_INSIDE ? "inside" : "outside");
    ns_output_text(object, "role", role && row->role != NS_ROLE_UNKNOWN ? role : NULL);
    add_address(object, "service", &row->service);
    add_address(object, "local", &row->local);
    add_address(object, "remote", &row->remote);
    add_number(object, "connections", row->connections);
    cJSON_AddStringToObject(object, "grade", ns_grade_name(verdict->grade));
    ns_output_text(object, "proof", ns_diagnosis_proof(row, text, sizeof(text)));
    add_counts(object, row);
    ns_output_text(object, "pattern", row->pattern[0] ? row->pattern : NULL);
    add_causes(object, verdict, row->source);
    add_cures(object, diagnosis, row);
    add_waits(object, verdict);
    if (other)
        add_number(object, "other_end", (double)(other - diagnosis->rows));
    else
        cJSON_AddNullToObject(object, "other_end");
}

static void add_holds(cJSON *object, const struct ns_diagnosis *diagnosis)
{
    cJSON *list = cJSON_AddArrayToObject(object, "holds");

    for (size_t i = 0; i < diagnosis->n_holds; i++) {
        const struct ns_diagnosed_hold *told = &diagnosis->holds[i];
        cJSON *entry = cJSON_CreateObject();
        uint64_t begin =
            told->hold.begin > diagnosis->begin ? told->hold.begin - diagnosis->begin : 0;

        cJSON_AddItemToArray(list, entry);
        add_number(entry, "row", told->row ? (double)(told->row - diagnosis->rows) : 0);
        add_ms(entry, "at_ms", begin);
        add_ms(entry, "ms", told->hold.end - told->hold.begin);
        add_ms(entry, "cost_ms", told->hold.cost);
        cJSON_AddBoolToObject(entry, "waited", told->hold.waited);
        cJSON_AddBoolToObject(entry, "certain", told->hold.certain);
    }
    add_number(object, "holds_untold", (double)diagnosis->holds_untold);
}

static void add_experiments(cJSON *object, const struct ns_diagnosis *diagnosis)
{
    cJSON *list = cJSON_AddArrayToObject(object, "experiments");

    for (size_t i = 0; i < diagnosis->n_experiments; i++) {
        const struct ns_diagnosed_experiment *experiment = &diagnosis->experiments[i];
        cJSON *entry = cJSON_CreateObject();
        char text[TEXT_MOST];

        cJSON_AddItemToArray(list, entry);
        ns_output_text(entry, "name", experiment->process->name);
        add_number(entry, "pid", experiment->process->pid);
        cJSON_AddStringToObject(entry, "what", experiment->what);
        add_number(entry, "done", (double)experiment->done);
        add_number(entry, "done_ms", experiment->done_ms);
        add_number(entry, "left", (double)experiment->left);
        add_number(entry, "left_ms", experiment->left_ms);
        add_number(entry, "p", experiment->p);
        ns_output_text(entry, "verdict", ns_diagnosis_experiment(experiment, text, sizeof(text)));
    }
}

static void add_cure(cJSON *object, const struct ns_diagnosis_report *report)
{
    if (report->policy)
        cJSON_AddItemToObject(object, "policy", cJSON_Parse(report->policy));
    else
        cJSON_AddNullToObject(object, "policy");
    ns_output_text(object, "next", report->next);
}

void ns_diagnosis_fill_json(cJSON *object, const struct ns_diagnosis_report *report)
{
    const struct ns_diagnosis *diagnosis = report->diagnosis;
    char text[TEXT_MOST];
    cJSON *list;

    ns_output_text(object, "subject", report->subject);
    ns_output_text(object, "verdict", ns_diagnosis_headline(diagnosis, text, sizeof(text)));
    cJSON_AddStringToObject(object, "grade", ns_grade_name(diagnosis->grade));
    add_number(object, "lost_ms", ns_diagnosis_total_lost_ms(diagnosis));
    add_number(object, "began", diagnosis->began);
    add_ms(object, "watched_ms", diagnosis->end - diagnosis->begin);
    add_number(object, "looks", (double)diagnosis->looks);
    add_number(object, "missed", (double)diagnosis->missed);
    add_number(object, "forgotten", (double)diagnosis->forgotten);
    add_number(object, "idle", (double)diagnosis->idle);
    add_number(object, "denied", (double)diagnosis->denied);
    list = cJSON_AddArrayToObject(object, "rows");
    for (size_t i = 0; i < diagnosis->n_rows; i++)
        add_row(list, diagnosis, &diagnosis->rows[i]);
    add_holds(object, diagnosis);
    add_experiments(object, diagnosis);
    add_cure(object, report);
    list = cJSON_AddArrayToObject(object, "notes");
    for (unsigned i = 0; i < report->n_notes; i++)
        ns_output_add_text(list, report->notes[i]);
}
