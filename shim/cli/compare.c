/* SPDX-License-Identifier: MIT */
/* Owns `nagleshim compare`: it runs a program without and with the library, and tests whether the
 * difference is significant. Both kinds of runs are watched from outside, so that watching makes no
 * difference. */
#include "cli/child.h"
#include "cli/cli.h"
#include "cli/diagnose/diagnose.h"
#include "cli/outfile.h"
#include "cli/output.h"
#include "cli/program/environment.h"
#include "cli/program/preload.h"
#include "cli/program/reach.h"
#include "cli/verbs.h"
#include "judge/statistics.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define SAY(...) ns_say("compare", __VA_ARGS__)

/* With fewer than 5 runs of each kind, no difference can be significant. */
enum { RUNS_DEFAULT = 7, RUNS_LEAST = 5, RUNS_MOST = 1000 };
enum { WITHOUT, WITH, ARMS };
enum { STALLS, DELAYED_ACKS, SEGMENTS, COUNTS };
/* Its line of the table, which needs so many runs of a kind. */
enum { PERCENTILE = 2, PERCENTILE_LEAST = 20 };

/* The runs of one kind. */
struct arm {
    unsigned n;
    double ms[RUNS_MOST];    /* run times; sorted at the end */
    uint64_t counts[COUNTS]; /* sums */
    double median_ms;
};

struct comparison {
    const char *policy, *json;
    struct ns_outfile output;
    char **program;
    unsigned wanted; /* runs of each kind */
    struct arm arms[ARMS];
    double p;
    char *preload, *policy_variable;
    int signals;
    bool interrupted;
};

static bool take_options(int argc, char **argv, struct comparison *comparison)
{
    double runs = RUNS_DEFAULT;
    const struct ns_target targets[] = {{NS_COMPARE_RUNS, &runs, RUNS_LEAST, RUNS_MOST},
                                        {NS_COMPARE_POLICY, &comparison->policy, 0, 0},
                                        {NS_COMPARE_JSON, &comparison->json, 0, 0},
                                        {0}};
    if (!ns_verbs_read("compare", argc, argv, targets))
        return false;
    comparison->wanted = (unsigned)runs;
    comparison->program = argv + optind;
    if (optind >= argc)
        SAY("no program is named; see 'nagleshim compare --help'");
    return optind < argc;
}

static bool take_policy(struct comparison *comparison)
{
    char path[PATH_MAX];
    if (!comparison->policy)
        return true;
    return ns_environment_policy_file("compare", comparison->policy, path) &&
           asprintf(&comparison->policy_variable, "NAGLESHIM_POLICY=%s", path) >= 0;
}

static bool take_library(struct comparison *comparison)
{
    char path[PATH_MAX];
    if (ns_preload_take("compare", path))
        comparison->preload = ns_preload_variable(path);
    return comparison->preload != NULL;
}

/* A counter of this network namespace. The file has a line of names and a line of values for each
 * group. */
static uint64_t read_counter(const char *file, const char *group, const char *name)
{
    char names[4096], values[4096], *rest_names, *rest_values;
    FILE *stream = fopen(file, "re");
    uint64_t result = 0;
    while (stream && fgets(names, sizeof names, stream) && fgets(values, sizeof values, stream)) {
        if (strncmp(names, group, strlen(group)) != 0)
            continue;
        char *word = strtok_r(names, " \n", &rest_names);
        char *number = strtok_r(values, " \n", &rest_values);
        while (word && number && strcmp(word, name) != 0) {
            word = strtok_r(NULL, " \n", &rest_names);
            number = strtok_r(NULL, " \n", &rest_values);
        }
        if (word && number)
            result = strtoull(number, NULL, 10);
    }
    if (stream)
        fclose(stream);
    return result;
}

static void read_counters(uint64_t counts[COUNTS])
{
    counts[STALLS] = 0; /* the kernel does not count them */
    counts[DELAYED_ACKS] = read_counter("/proc/net/netstat", "TcpExt:", "DelayedACKs");
    counts[SEGMENTS] = read_counter("/proc/net/snmp", "Tcp:", "OutSegs");
}

static void count(struct arm *arm, const struct ns_diagnosis *diagnosis,
                  const uint64_t before[COUNTS])
{
    uint64_t now[COUNTS];
    read_counters(now);
    for (size_t i = 0; i < diagnosis->n_rows; i++)
        now[STALLS] += diagnosis->rows[i].verdict.stalls + diagnosis->rows[i].verdict.maybe;
    for (unsigned i = 0; i < COUNTS; i++)
        arm->counts[i] += now[i] - before[i];
    arm->ms[arm->n++] = (double)(diagnosis->end - diagnosis->begin) / 1e6;
}

/* A run. Returns an exit status if the comparison cannot continue. */
static int run_once(struct comparison *comparison, unsigned number)
{
    /* Without the library, NAGLESHIM_OFF disables it if LD_PRELOAD names it anyway. */
    const char *const environments[ARMS][4] = {
        [WITHOUT] = {"NAGLESHIM_OFF=1"},
        [WITH] = {comparison->preload, "NAGLESHIM_OFF", comparison->policy_variable},
    };
    struct ns_diagnose_options options = {
        .verb = "compare", .program = comparison->program, .outside = true};
    struct ns_child_options wanted = {
        .argv = comparison->program, .environment = environments[number], .quiet = true};
    struct ns_diagnose_end end = {0};
    struct ns_diagnosis diagnosis = {0};
    uint64_t before[COUNTS];
    struct ns_child child;

    read_counters(before);
    int error = ns_child_fork(&child, &wanted);
    if (error) {
        SAY("cannot start a process: %s", strerror(-error));
        return NS_EXIT_ERROR;
    }
    ns_diagnose_watch(&options, &child, comparison->signals, &diagnosis, &end);
    comparison->interrupted = end.interrupted;
    if (!end.failure && !end.interrupted && end.status != 0) {
        SAY("a run %s the library failed with status %d, so nothing can be compared",
            number == WITH ? "with" : "without", end.status);
        end.failure = NS_EXIT_ERROR;
    } else if (!end.failure && !end.interrupted) {
        count(&comparison->arms[number], &diagnosis, before);
    }
    for (unsigned i = 0; i < end.n_notes; i++)
        free(end.notes[i]);
    ns_diagnosis_release(&diagnosis);
    return end.failure;
}

/* Each pair in random order, so that slow changes of the machine favour neither kind. */
static int run_all(struct comparison *comparison)
{
    int status = NS_EXIT_YES;
    bool progress = isatty(STDERR_FILENO);
    for (unsigned pair = 0; pair < comparison->wanted && status == NS_EXIT_YES; pair++) {
        unsigned char coin = 0;
        if (getrandom(&coin, 1, 0) != 1)
            coin = (unsigned char)pair;
        for (unsigned i = 0; i < 2 && status == NS_EXIT_YES && !comparison->interrupted; i++) {
            if (progress)
                fprintf(stderr, "\r\033[Krun %u of %u", 2 * pair + i + 1, 2 * comparison->wanted);
            status = run_once(comparison, (coin ^ i) & 1);
        }
    }
    if (progress)
        fprintf(stderr, "\r\033[K");
    return status;
}

static void conclude(struct comparison *comparison)
{
    struct arm *without = &comparison->arms[WITHOUT], *with = &comparison->arms[WITH];
    comparison->p = ns_statistics_mann_whitney(without->ms, without->n, with->ms, with->n);
    without->median_ms = ns_statistics_median(without->ms, without->n);
    with->median_ms = ns_statistics_median(with->ms, with->n);
}

/* Of sorted values. */
static double percentile(const struct arm *arm, unsigned percent)
{
    unsigned rank = (arm->n * percent + 99) / 100;
    return arm->ms[rank ? rank - 1 : 0];
}

static const char *verdict(const struct comparison *comparison)
{
    static char text[80];
    double without = comparison->arms[WITHOUT].median_ms, with = comparison->arms[WITH].median_ms;
    bool faster = with < without;
    if (comparison->p >= NS_P_SIGNIFICANT)
        return "no significant difference";
    double factor = faster ? without / with : with / without;
    snprintf(text, sizeof text, "%.*f times %s with the library", factor < 10 ? 1 : 0, factor,
             faster ? "faster" : "slower");
    return text;
}

static double each(const struct arm *arm, unsigned count)
{
    return arm->n ? (double)arm->counts[count] / arm->n : 0;
}

static void print(const struct comparison *comparison)
{
    const struct arm *without = &comparison->arms[WITHOUT], *with = &comparison->arms[WITH];
    const struct {
        const char *name;
        double without, with;
    } lines[] = {
        {"ms a run, median", without->median_ms, with->median_ms},
        {"ms a run, longest", percentile(without, 100), percentile(with, 100)},
        {"ms a run, 90th percentile", percentile(without, 90), percentile(with, 90)},
        {"stalls a run, seen from outside", each(without, STALLS), each(with, STALLS)},
        {"delayed ACKs a run, all programs", each(without, DELAYED_ACKS), each(with, DELAYED_ACKS)},
        {"segments a run, all programs", each(without, SEGMENTS), each(with, SEGMENTS)},
    };

    bool colour = comparison->p < NS_P_SIGNIFICANT && ns_output_has_colour(stderr);
    const char *shown = with->median_ms < without->median_ms ? NS_GREEN : NS_RED;

    fprintf(stderr, "nagleshim compare: %s%s%s (%u and %u runs, p = %.2g)\n\n", colour ? shown : "",
            verdict(comparison), colour ? NS_PLAIN : "", without->n, with->n, comparison->p);
    fprintf(stderr, "%-34s%14s%18s\n", "", "without", "with the library");
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (i != PERCENTILE || without->n + with->n >= 2 * PERCENTILE_LEAST)
            fprintf(stderr, "%-34s%14.1f%18.1f\n", lines[i].name, lines[i].without, lines[i].with);
}

static void add_arm(cJSON *object, const char *name, const struct arm *arm)
{
    cJSON *entry = cJSON_AddObjectToObject(object, name);
    cJSON_AddNumberToObject(entry, "runs", arm->n);
    cJSON_AddNumberToObject(entry, "median_ms", arm->median_ms);
    cJSON_AddNumberToObject(entry, "longest_ms", arm->ms[arm->n - 1]);
    cJSON_AddNumberToObject(entry, "stalls", each(arm, STALLS));
    cJSON_AddNumberToObject(entry, "delayed_acks", each(arm, DELAYED_ACKS));
    cJSON_AddNumberToObject(entry, "segments", each(arm, SEGMENTS));
    cJSON *list = cJSON_AddArrayToObject(entry, "ms");
    for (unsigned i = 0; i < arm->n; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber(arm->ms[i]));
}

static bool write_json(struct comparison *comparison)
{
    cJSON *object = ns_output_object();
    if (!comparison->json)
        return true;
    cJSON_AddStringToObject(object, "verdict", verdict(comparison));
    cJSON_AddNumberToObject(object, "p", comparison->p);
    cJSON_AddBoolToObject(object, "differs", comparison->p < NS_P_SIGNIFICANT);
    add_arm(object, "without", &comparison->arms[WITHOUT]);
    add_arm(object, "with", &comparison->arms[WITH]);
    char *text = ns_output_take(NS_EXIT_YES);
    bool ok = ns_outfile_write(&comparison->output, text);
    free(text);
    return ok;
}

static int compare(struct comparison *comparison)
{
    static struct ns_reach reach;
    ns_reach_inspect(comparison->program[0], &reach);
    const char *reason = ns_reach_reason(reach.verdict);
    if (reason)
        SAY("warning: the library cannot be loaded: %s %s", reach.file, reason);
    comparison->signals = ns_child_signals();
    if (comparison->signals < 0) {
        SAY("cannot receive signals: %s", strerror(-comparison->signals));
        return NS_EXIT_ERROR;
    }
    int status = run_all(comparison);
    if (status != NS_EXIT_YES)
        return status;
    if (comparison->arms[WITHOUT].n == 0 || comparison->arms[WITH].n == 0) {
        SAY("interrupted before a run of each kind had ended; compare runs a program that ends by "
            "itself: start a server apart, and compare its client");
        return NS_EXIT_ERROR;
    }
    conclude(comparison);
    if (!write_json(comparison))
        return NS_EXIT_ERROR;
    print(comparison);
    return NS_EXIT_YES;
}

int ns_compare_main(int argc, char **argv)
{
    static struct comparison comparison;
    if (!take_options(argc, argv, &comparison))
        return NS_EXIT_ERROR;
    if (!take_policy(&comparison) || !take_library(&comparison) ||
        !ns_outfile_open(&comparison.output, "compare", comparison.json))
        return NS_EXIT_ERROR;
    int status = compare(&comparison);
    ns_outfile_drop(&comparison.output);
    return status;
}
