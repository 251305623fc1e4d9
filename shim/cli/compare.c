/* SPDX-License-Identifier: MIT */
/* Owns `nagleshim compare`: it runs a program without and with the library, and tests whether the
 * difference is significant. Both kinds of runs are watched from outside, so that watching makes no
 * difference. */
#include "cli/child.h"
#include "cli/cli.h"
#include "cli/diagnose/diagnose.h"
#include "cli/file.h"
#include "cli/output.h"
#include "cli/program/program.h"
#include "cli/verbs.h"
#include "judge/statistics.h"
#include "process/scope.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum { RUNS_DEFAULT = 7 };
enum { WITHOUT, WITH, ARMS };

/* What is measured: the lines of the table, and the members of --json. */
enum { MEDIAN, HOLDS, LATE_MEDIAN, LATE_MOST, VALUES };
static const struct {
    const char *line, *member;
} values[VALUES] = {
    [MEDIAN] = {"ms a run, median", "median_ms"},
    [HOLDS] = {"holds a run, seen from outside", "stalls"},
    [LATE_MEDIAN] = {"ms until half of the writes left", "late_median_ms"},
    [LATE_MOST] = {"ms until 99% of the writes left", "late_most_ms"},
};

/* The runs of one kind. */
struct arm {
    unsigned n;
    double ms[NS_RUNS_MOST];   /* run times; sorted at the end */
    double late[NS_RUNS_MOST]; /* the value LATE_MOST of each run */
    struct ns_verdict sum;     /* of all connections of all runs */
    double values[VALUES];
};

struct comparison {
    struct ns_outfile output;
    struct ns_subject subject;
    char policy[PATH_MAX]; /* of --policy; "": none */
    unsigned wanted;       /* runs of each kind */
    struct arm arms[ARMS];
    double p, late_p;
    char *preload, *policy_variable;
    const char *failure; /* of a run; NULL: none */
    bool interrupted;
};

/* Prepare the environment of the runs with the library. */
static bool take_environment(struct comparison *comparison)
{
    const char *policy = ns_option_text(NS_COMPARE_POLICY);
    char path[PATH_MAX];
    ns_subject_describe(&comparison->subject, ns_operands.words[0], ns_operands.words + 1,
                        ns_operands.n - 1);
    if (policy &&
        (!ns_environment_policy_file(policy, comparison->policy) ||
         !ns_outfile_claim(comparison->policy) ||
         asprintf(&comparison->policy_variable, "NAGLESHIM_POLICY=%s", comparison->policy) < 0))
        return false;
    if (comparison->subject.reach.verdict == NS_REACH_OTHER_MACHINE)
        ns_say("%s %s", ns_operands.words[0], ns_reach_reason(comparison->subject.reach.verdict));
    else if (ns_preload_take(comparison->subject.reach.narrow, path))
        comparison->preload = ns_preload_variable(path, comparison->subject.reach.file);
    return comparison->preload != NULL;
}

static void count(struct arm *arm, const struct ns_diagnosis *diagnosis)
{
    struct ns_verdict run = {0};
    for (size_t i = 0; i < diagnosis->n_rows; i++)
        ns_verdict_add(&run, &diagnosis->rows[i]->verdict);
    ns_verdict_add(&arm->sum, &run);
    arm->late[arm->n] = ns_verdict_lateness(&run, 0.99);
    arm->ms[arm->n++] = (double)(diagnosis->end - diagnosis->begin) / 1e6;
}

/* A run. Returns an exit status if the comparison cannot continue. */
static int run_once(struct comparison *comparison, unsigned number)
{
    /* Without the library, NAGLESHIM_OFF disables it if LD_PRELOAD names it anyway. */
    char *const environments[ARMS][4] = {
        [WITHOUT] = {"NAGLESHIM_OFF=1"},
        [WITH] = {comparison->preload, "NAGLESHIM_OFF", comparison->policy_variable},
    };
    struct ns_child_options wanted = {
        .argv = ns_operands.words, .environment = environments[number], .quiet = true};
    struct ns_diagnosis diagnosis = {0};
    struct ns_child child;
    int error = ns_child_fork(&child, &wanted);
    if (error)
        return NS_FAIL("cannot start a process: %s", strerror(-error));
    int status = ns_diagnose_watch(&child, &diagnosis);
    comparison->interrupted = diagnosis.interrupted;
    if (status == 0 && !diagnosis.interrupted && child.status != 0) {
        comparison->failure =
            ns_words("a run %s the library failed with status %d, so nothing can be compared",
                     number == WITH ? "with" : "without", child.status);
        status = NS_EXIT_ERROR;
    } else if (status == 0 && !diagnosis.interrupted) {
        count(&comparison->arms[number], &diagnosis);
    }
    ns_diagnosis_release(&diagnosis);
    return status;
}

/* Each pair in random order, so that slow changes of the machine favour neither kind. */
static int run_all(struct comparison *comparison)
{
    int status = NS_EXIT_YES;
    bool progress = ns_output_is_screen(stderr);
    for (unsigned pair = 0; pair < comparison->wanted && status == NS_EXIT_YES; pair++) {
        unsigned char coin = 0;
        if (getrandom(&coin, 1, 0) != 1)
            coin = (unsigned char)pair;
        for (unsigned i = 0; i < 2 && status == NS_EXIT_YES && !comparison->interrupted; i++) {
            if (progress)
                ns_print(stderr, "\r\033[Krun %u of %u", 2 * pair + i + 1, 2 * comparison->wanted);
            status = run_once(comparison, (coin ^ i) & 1);
        }
    }
    if (progress)
        ns_print(stderr, "\r\033[K");
    if (comparison->failure)
        ns_say("%s", comparison->failure);
    return comparison->interrupted ? NS_EXIT_INTERRUPTED : status;
}

static void conclude(struct comparison *comparison)
{
    struct arm *arms = comparison->arms;
    comparison->p =
        ns_statistics_mann_whitney(arms[WITHOUT].ms, arms[WITHOUT].n, arms[WITH].ms, arms[WITH].n);
    comparison->late_p = ns_statistics_mann_whitney(arms[WITHOUT].late, arms[WITHOUT].n,
                                                    arms[WITH].late, arms[WITH].n);
    for (struct arm *arm = arms; arm < arms + ARMS; arm++) {
        arm->values[HOLDS] = (double)(arm->sum.stalls + arm->sum.maybe) / arm->n;
        arm->values[LATE_MEDIAN] = ns_verdict_lateness(&arm->sum, 0.5);
        arm->values[LATE_MOST] = ns_verdict_lateness(&arm->sum, 0.99);
        arm->values[MEDIAN] = ns_statistics_median(arm->ms, arm->n); /* sorts them */
    }
}

/* Only the writes differ, not the run times. */
static bool is_about_writes(const struct comparison *comparison)
{
    return comparison->p >= NS_P_SIGNIFICANT && comparison->late_p < NS_P_SIGNIFICANT;
}

static const char *verdict(const struct comparison *comparison)
{
    double without = comparison->arms[WITHOUT].values[MEDIAN];
    double with = comparison->arms[WITH].values[MEDIAN];
    bool faster = with < without;
    if (comparison->arms[WITHOUT].n < NS_RUNS_LEAST || comparison->arms[WITH].n < NS_RUNS_LEAST)
        return "too few runs for a conclusion";
    if (is_about_writes(comparison))
        return ns_words(
            "no significant difference in time (p = %.2g), but writes leave %s with the "
            "library",
            comparison->p,
            comparison->arms[WITH].values[LATE_MOST] < comparison->arms[WITHOUT].values[LATE_MOST]
                ? "sooner"
                : "later");
    if (comparison->p >= NS_P_SIGNIFICANT)
        return "no significant difference";
    double factor = faster ? without / with : with / without;
    return ns_words("%.*f times %s with the library", factor < 10 ? 1 : 0, factor,
                    faster ? "faster" : "slower");
}

static void print(const struct comparison *comparison)
{
    const struct arm *without = &comparison->arms[WITHOUT], *with = &comparison->arms[WITH];
    bool is_faster = with->values[MEDIAN] < without->values[MEDIAN];
    const int width = ns_output_columns(stderr);
    ns_print(stderr, "nagleshim compare: ");
    if (comparison->p < NS_P_SIGNIFICANT)
        ns_print_colour(stderr, is_faster ? NS_GREEN : NS_RED);
    ns_print_words(stderr,
                   ns_words("%s (%u and %u runs, p = %.2g)", verdict(comparison), without->n,
                            with->n,
                            is_about_writes(comparison) ? comparison->late_p : comparison->p),
                   sizeof "nagleshim compare:", 0, width);
    ns_print_colour(stderr, NS_PLAIN);
    ns_print(stderr, "\n   without      with  the library\n");
    for (unsigned i = 0; i < VALUES; i++) {
        int column = ns_print(stderr, "%10.1f%10.1f  ", without->values[i], with->values[i]);
        ns_print_words(stderr, values[i].line, column, column, width);
    }
}

static void add_arm(cJSON *object, const char *name, const struct arm *arm)
{
    cJSON *entry = cJSON_AddObjectToObject(object, name);
    cJSON_AddNumberToObject(entry, "runs", arm->n);
    for (unsigned i = 0; i < VALUES; i++)
        cJSON_AddNumberToObject(entry, values[i].member, arm->values[i]);
    cJSON_AddItemToObject(entry, "runs_ms", cJSON_CreateDoubleArray(arm->ms, (int)arm->n));
}

static bool write_json(struct comparison *comparison, int status)
{
    cJSON *object = ns_output_object();
    if (!comparison->output.name)
        return true;
    ns_output_text(object, "verdict", verdict(comparison));
    cJSON_AddNumberToObject(object, "p", comparison->p);
    cJSON_AddBoolToObject(object, "differs", comparison->p < NS_P_SIGNIFICANT);
    add_arm(object, "without", &comparison->arms[WITHOUT]);
    add_arm(object, "with", &comparison->arms[WITH]);
    NS_AUTO_FREE char *text = ns_output_take(status);
    return ns_outfile_write(&comparison->output, text);
}

static int compare(struct comparison *comparison)
{
    ns_run_forewarn(&comparison->subject, comparison->policy[0] ? comparison->policy : NULL);
    int status = ns_child_signals() ? run_all(comparison) : NS_EXIT_ERROR;
    const unsigned without = comparison->arms[WITHOUT].n, with = comparison->arms[WITH].n;
    bool is_empty = without == 0 || with == 0;
    if (comparison->interrupted)
        ns_say("interrupted after %u of %u runs%s", without + with, 2 * comparison->wanted,
               is_empty ? "; compare runs a program that ends by itself: start a server apart, and "
                          "compare its client"
                        : "");
    if (is_empty || (status != NS_EXIT_YES && status != NS_EXIT_INTERRUPTED))
        return status;
    conclude(comparison);
    print(comparison);
    return write_json(comparison, status) ? status : NS_EXIT_ERROR;
}

int ns_compare_main(void)
{
    static struct comparison comparison;
    comparison.wanted = (unsigned)ns_option_number(NS_COMPARE_RUNS, RUNS_DEFAULT);
    comparison.output.name = ns_option_text(NS_JSON);
    if (ns_operands.n == 0)
        return NS_FAIL("no program is named; see 'nagleshim compare --help'");
    if (!take_environment(&comparison) || !ns_outfile_open(&comparison.output))
        return NS_EXIT_ERROR;
    return compare(&comparison);
}
