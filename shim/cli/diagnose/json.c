/* SPDX-License-Identifier: MIT */
/* Owns the object of --json, which config/output.schema.json describes, and the page, which is
 * config/diagnosis.html with that object inserted. All members are always there. */
#include "cli/diagnose/diagnose.h"

#include "process/scope.h"

#include <string.h>
#include <sys/utsname.h>

#define PLACE "@DIAGNOSIS@"

static void add_number(cJSON *object, const char *name, double value)
{
    cJSON_AddNumberToObject(object, name, value);
}

/* To the microsecond; more digits would be noise. */
static void add_ms(cJSON *object, const char *name, uint64_t ns)
{
    cJSON_AddNumberToObject(object, name, (double)(ns / 1000) / 1e3);
}

/* A word for scripts: without blanks. */
static void add_grade(cJSON *object, const char *grade)
{
    char *word = ns_words("%s", grade);
    for (char *at = word; (at = strchr(at, ' '));)
        *at = '-';
    ns_output_text(object, "grade", word);
}

/* null: unknown, as without a process */
static void add_reachable(cJSON *object, const struct ns_row_process *process)
{
    bool known = process && (process->is_reachable || process->unreachable);
    cJSON_AddItemToObject(object, "reachable",
                          known ? cJSON_CreateBool(process->is_reachable) : cJSON_CreateNull());
}

static void add_address(cJSON *object, const char *name, const struct ns_address *address)
{
    ns_output_text(object, name, address->known ? ns_words_address(address) : NULL);
}

cJSON *ns_row_fill_json(const struct ns_row *row, cJSON *object)
{
    cJSON *process = cJSON_AddObjectToObject(object, "process");
    add_number(process, "pid", row->process->pid);
    ns_output_text(process, "name", row->process->name);
    ns_output_text(process, "library", ns_shim_name(row->process->shim));
    ns_output_text(object, "role", row->role != NS_ROLE_UNKNOWN ? ns_role_name(row->role) : NULL);
    add_address(object, "service", &row->service);
    add_address(object, "remote", &row->remote);
    add_number(object, "connections", row->connections);
    add_grade(object, ns_row_grade(row));
    return process;
}

static void add_delays(cJSON *row_object, const struct ns_row *row)
{
    cJSON *list = cJSON_AddArrayToObject(row_object, "besides");
    for (enum ns_delay delay = 0; delay < NS_DELAY_COUNT; delay++) {
        if (row->verdict.delays[delay] == 0)
            continue;
        cJSON *entry = ns_output_item(list);
        ns_output_text(entry, "cause", ns_delay_name(delay));
        ns_output_text(entry, "meaning", ns_diagnosis_delay(row, delay));
        add_number(entry, "times", (double)row->verdict.delays[delay]);
        add_ms(entry, "ms", row->verdict.delays_ns[delay]);
    }
}

static void add_cures(cJSON *row_object, const struct ns_report *report, const struct ns_row *row)
{
    cJSON *list = cJSON_AddArrayToObject(row_object, "cures");
    for (unsigned i = 0; i < row->n_cures; i++) {
        const struct ns_cure *cure = &row->cures[i];
        cJSON *entry = ns_output_item(list);
        ns_output_text(entry, "end", i == 0 ? "this end" : "other end");
        ns_output_text(entry, "does", cure->does);
        ns_output_text(entry, "text", ns_diagnosis_cure(row, i));
        ns_output_text(entry, "command", ns_report_command(report, row, i));
        add_number(entry, "from_ms", cure->from_ms);
        add_number(entry, "to_ms", cure->to_ms);
        cJSON_AddBoolToObject(entry, "measured", cure->measured);
        add_reachable(entry, cure->at ? cure->at->process : NULL);
    }
}

static void add_waits(cJSON *row, const struct ns_verdict *verdict)
{
    cJSON *list = cJSON_AddArrayToObject(row, "waits");
    for (unsigned i = 0; i < NS_WAIT_BUCKETS; i++) {
        if (verdict->waits[i] == 0 && verdict->held_waits[i] == 0)
            continue;
        cJSON *entry = ns_output_item(list);
        add_number(entry, "from_us", (double)(1ULL << i));
        add_number(entry, "all", verdict->waits[i]);
        add_number(entry, "held", verdict->held_waits[i]);
    }
}

static void add_counts(cJSON *object, const struct ns_row *row)
{
    const struct ns_verdict *verdict = &row->verdict;
    add_number(object, "looks", (double)verdict->looks);
    add_number(object, "requests", (double)verdict->requests);
    add_number(object, "stalled", (double)row->conclusion.stalled);
    add_number(object, "stalls", (double)verdict->stalls);
    add_number(object, "late_acks", (double)verdict->late_acks);
    add_number(object, "maybe", (double)verdict->maybe);
    add_number(object, "late", (double)verdict->late);
    add_number(object, "receiving", (double)verdict->receiving);
    add_number(object, "segments", (double)verdict->segments);
    add_number(object, "lost_ms", row->conclusion.lost_ms);
    add_ms(object, "certain_ms", verdict->certain_ns);
    add_ms(object, "most_ms", verdict->most_ns);
    add_ms(object, "watched_ms", verdict->watched_ns);
    add_ms(object, "waited_ms", verdict->waited_ns);
    add_ms(object, "shortest_ms", verdict->shortest_ns);
    add_ms(object, "longest_ms", verdict->longest_ns);
    ns_output_number(object, "rtt_us", verdict->rtt_us);
}

/* One stalled request, in ms from the moment when the bytes before the held ones were sent. */
static void add_example(cJSON *row_object, const struct ns_row *row)
{
    const struct ns_hold *hold = &row->verdict.proof;
    const struct ns_look *look = &hold->look;
    if (!row->conclusion.stalls || !row->conclusion.holds || hold->end == 0) {
        cJSON_AddNullToObject(row_object, "example");
        return;
    }
    cJSON *example = cJSON_AddObjectToObject(row_object, "example");
    uint64_t ago = look->at - hold->begin, sent = (uint64_t)look->since_sent_ms * 1000000;
    uint64_t before = sent > ago ? sent - ago : 0;
    add_number(example, "unacked", look->unacked);
    add_number(example, "held_bytes", look->unsent);
    add_ms(example, "held_ms", before);
    add_ms(example, "released_ms", before + hold->end - hold->begin);
    add_ms(example, "answered_ms", before + hold->end - hold->begin + hold->answered);
}

static void add_row(cJSON *rows, const struct ns_report *report, const struct ns_row *row)
{
    cJSON *object = ns_output_item(rows), *process = ns_row_fill_json(row, object);
    ns_output_text(process, "exe", row->process->exe[0] ? row->process->exe : NULL);
    add_reachable(process, row->process);
    ns_output_text(process, "reason", row->process->unreachable);
    ns_output_text(object, "source", row->source == NS_SOURCE_INSIDE ? "inside" : "outside");
    add_address(object, "local", &row->local);
    cJSON_AddBoolToObject(object, "is_peer", row->is_peer);
    cJSON_AddBoolToObject(object, "misses", row->misses);
    ns_output_text(object, "proof", ns_diagnosis_proof(row));
    ns_output_text(object, "cost", row->conclusion.stalls ? ns_diagnosis_cost(row) : NULL);
    cJSON_AddBoolToObject(object, "is_counted", row->counts);
    ns_output_text(object, "bound", ns_words_bound(row));
    add_counts(object, row);
    ns_output_text(object, "pattern", row->pattern);
    ns_output_text(object, "mixed", ns_diagnosis_mixed(row));
    add_delays(object, row);
    add_cures(object, report, row);
    add_waits(object, &row->verdict);
    add_example(object, row);
    cJSON_AddItemToObject(object, "other_end",
                          row->other ? cJSON_CreateNumber(row->other->id) : cJSON_CreateNull());
}

static void add_holds(cJSON *object, const struct ns_diagnosis *diagnosis)
{
    cJSON *list = cJSON_AddArrayToObject(object, "holds");
    for (size_t i = 0; i < diagnosis->n_holds; i++) {
        const struct ns_row_hold *held = &diagnosis->holds[i];
        const struct ns_hold *hold = &held->hold;
        cJSON *entry = ns_output_item(list);
        add_number(entry, "row", held->row->id);
        add_ms(entry, "at_ms", hold->begin > diagnosis->begin ? hold->begin - diagnosis->begin : 0);
        add_ms(entry, "ms", hold->end - hold->begin);
        add_ms(entry, "cost_ms", hold->cost);
        add_ms(entry, "took_ms", hold->end - hold->begin + hold->answered);
        cJSON_AddBoolToObject(entry, "waited", hold->waited);
        cJSON_AddBoolToObject(entry, "certain", hold->certain);
    }
    add_number(object, "holds_untold", (double)diagnosis->holds_untold);
}

static void add_experiments(cJSON *object, const struct ns_diagnosis *diagnosis)
{
    cJSON *list = cJSON_AddArrayToObject(object, "experiments");
    for (size_t i = 0; i < diagnosis->n_processes; i++) {
        const struct ns_row_process *process = diagnosis->processes[i];
        const struct ns_trial *trial = &process->trial;
        if (trial->what == NS_EXPERIMENT_NONE)
            continue;
        cJSON *entry = ns_output_item(list);
        ns_output_text(entry, "name", process->name);
        add_number(entry, "pid", process->pid);
        ns_output_text(entry, "what", trial->what == NS_EXPERIMENT_PUSH ? "push" : "acknowledge");
        add_number(entry, "done", (double)trial->done);
        add_number(entry, "done_ms", trial->done_ms);
        add_number(entry, "left", (double)trial->left);
        add_number(entry, "left_ms", trial->left_ms);
        add_number(entry, "p", trial->p);
        ns_output_text(entry, "verdict", ns_diagnosis_experiment(process));
    }
}

void ns_report_fill_json(const struct ns_report *report)
{
    cJSON *object = ns_output_object();
    const struct ns_diagnosis *diagnosis = report->diagnosis;
    struct utsname name;
    uname(&name);
    ns_output_text(object, "subject", report->subject);
    ns_output_text(object, "host", name.nodename);
    ns_output_text(object, "kernel",
                   ns_words("%s %s %s", name.sysname, name.release, name.machine));
    ns_output_text(object, "verdict", ns_diagnosis_headline(diagnosis));
    add_grade(object, ns_grade_name(diagnosis->grade));
    add_number(object, "lost_ms", diagnosis->lost_ms);
    add_number(object, "began", diagnosis->began);
    add_ms(object, "watched_ms", diagnosis->end - diagnosis->begin);
    add_number(object, "looks", (double)diagnosis->looks);
    add_number(object, "missed", (double)diagnosis->missed);
    add_number(object, "forgotten", (double)diagnosis->forgotten);
    add_number(object, "idle", (double)diagnosis->idle);
    add_number(object, "denied", (double)diagnosis->denied);
    cJSON *rows = cJSON_AddArrayToObject(object, "rows");
    for (size_t i = 0; i < diagnosis->n_rows; i++)
        add_row(rows, report, diagnosis->rows[i]);
    add_holds(object, diagnosis);
    add_experiments(object, diagnosis);
    cJSON_AddItemToObject(object, "proposal",
                          report->policy ? cJSON_Duplicate(report->policy, true)
                                         : cJSON_CreateNull());
    ns_output_text(object, "next", report->next);
    ns_output_text(object, "now", report->now);
    ns_output_expect("notes");
    for (unsigned i = 0; i < diagnosis->n_notes; i++)
        ns_output_list("notes", diagnosis->notes[i]);
}

/* The Makefile knows that this file depends on the page. */
__asm__(".pushsection .rodata\n"
        ".global ns_page\n"
        "ns_page:\n"
        ".incbin \"config/diagnosis.html\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char ns_page[] __attribute__((visibility("hidden")));

char *ns_report_page(const char *json)
{
    const char *place = strstr(ns_page, PLACE);
    char *text = ns_allocate(sizeof "\\u003c" * strlen(json) + strlen(ns_page), 1);
    char *to = mempcpy(text, ns_page, (size_t)(place - ns_page));
    for (; *json; json++)
        to = *json == '<' ? stpcpy(to, "\\u003c") : mempcpy(to, json, 1);
    strcpy(to, place + strlen(PLACE));
    return text;
}
