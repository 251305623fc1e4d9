/* SPDX-License-Identifier: MIT */
/* Owns `nagleshim compare`: the same program without and with the shim, by turns, and whether the
 * difference is more than chance. Both arms are watched from outside alike, so that what the
 * watching costs is no difference. Not async-signal-safe. */
#include "cli/compare.h"

#include "cli/child.h"
#include "cli/cli.h"
#include "cli/diagnose/diagnose.h"
#include "cli/process/injection.h"
#include "cli/outfile.h"
#include "cli/output.h"
#include "cli/process/reach.h"
#include "cli/verbs.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define SAY(...) ns_say("compare", __VA_ARGS__)

enum { RUNS_DEFAULT = 7, RUNS_LEAST = 2, WORDS_MOST = 300 };

struct comparison {
    const char *policy, *json;
    struct ns_outfile output;
    char **program;
    bool help;
    struct ns_comparison result;
    char *preload, *policy_variable;
    int signals;
    bool interrupted;
};

static bool take_runs(unsigned *runs)
{
    unsigned long value;

    if (!ns_parse_number(optarg, RUNS_LEAST, NS_COMPARE_RUNS_MOST, &value)) {
        SAY("--runs must be a number from %d to %d, not '%s'", RUNS_LEAST, NS_COMPARE_RUNS_MOST,
            optarg);
        return false;
    }
    *runs = (unsigned)value;
    return true;
}

static bool take_options(int argc, char **argv, struct comparison *comparison)
{
    int option;

    comparison->result.wanted = RUNS_DEFAULT;
    while ((option = ns_verbs_next_option("compare", argc, argv)) != -1) {
        if (option == NS_COMPARE_RUNS) {
            if (!take_runs(&comparison->result.wanted))
                return false;
        } else if (option == NS_COMPARE_POLICY) {
            comparison->policy = optarg;
        } else if (option == NS_COMPARE_JSON) {
            comparison->json = optarg;
        } else if (option == NS_COMPARE_HELP) {
            comparison->help = true;
            return true;
        } else {
            ns_say_option("compare", argv, option);
            return false;
        }
    }
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
    return ns_injection_policy("compare", comparison->policy, path) &&
           asprintf(&comparison->policy_variable, "NAGLESHIM_POLICY=%s", path) >= 0;
}

static bool take_library(struct comparison *comparison)
{
    char *list = ns_injection_preload("compare");

    if (!list || asprintf(&comparison->preload, "LD_PRELOAD=%s", list) < 0)
        comparison->preload = NULL;
    free(list);
    return comparison->preload != NULL;
}

/* A counter of this network namespace, from a file that has names and numbers on lines of their
 * own. */
static uint64_t read_counter(const char *file, const char *group, const char *name)
{
    char names[4096], values[4096], *rest_names, *rest_values, *word, *number;
    FILE *stream = fopen(file, "re");
    uint64_t result = 0;

    while (stream && fgets(names, sizeof(names), stream) && fgets(values, sizeof(values), stream)) {
        if (strncmp(names, group, strlen(group)) != 0)
            continue;
        word = strtok_r(names, " \n", &rest_names);
        number = strtok_r(values, " \n", &rest_values);
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

/* What the program has said last on standard error, on one line. */
static void read_words(int errors, char words[WORDS_MOST])
{
    off_t size = lseek(errors, 0, SEEK_END);
    off_t from = size > WORDS_MOST - 1 ? size - (WORDS_MOST - 1) : 0;
    ssize_t n = pread(errors, words, WORDS_MOST - 1, from);

    words[n > 0 ? n : 0] = '\0';
    while (n > 0 && words[n - 1] == '\n')
        words[--n] = '\0';
    for (char *c = words; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = ' ';
}

/* The shim out of the way where LD_PRELOAD has it for both. */
static const char *const *environment_of(const struct comparison *comparison, unsigned arm,
                                         const char *list[4])
{
    list[0] = arm == NS_ARM_WITH ? comparison->preload : "NAGLESHIM_OFF=1";
    list[1] = arm == NS_ARM_WITH ? "NAGLESHIM_OFF" : NULL;
    list[2] = arm == NS_ARM_WITH ? comparison->policy_variable : NULL;
    list[3] = NULL;
    return list;
}

static void count(struct ns_comparison_arm *arm, const struct ns_diagnosis *diagnosis,
                  uint64_t segments, uint64_t delayed)
{
    uint64_t stalls = 0;

    for (size_t i = 0; i < diagnosis->n_rows; i++)
        stalls += diagnosis->rows[i].verdict.stalls + diagnosis->rows[i].verdict.maybe;
    arm->ms[arm->n] = (double)(diagnosis->end - diagnosis->begin) / 1e6;
    arm->stalls += stalls;
    arm->segments += segments;
    arm->delayed_acks += delayed;
    arm->n++;
}

static uint64_t segments_now(void)
{
    return read_counter("/proc/net/snmp", "Tcp:", "OutSegs");
}

static uint64_t delayed_now(void)
{
    return read_counter("/proc/net/netstat", "TcpExt:", "DelayedACKs");
}

/* One run of one arm. The exit status, where it cannot go on. */
static int run_once(struct comparison *comparison, unsigned arm, int errors)
{
    const char *list[4];
    struct ns_diagnose_options options = {
        .verb = "compare", .program = comparison->program, .outside = true, .silent = true};
    struct ns_child_options wanted = {.argv = comparison->program,
                                    .environment = environment_of(comparison, arm, list),
                                    .quiet = true,
                                    .errors = errors};
    uint64_t segments = segments_now(), delayed = delayed_now();
    struct ns_diagnose_end end = {0};
    struct ns_diagnosis diagnosis = {0};
    struct ns_child child;
    char words[WORDS_MOST];
    int error = ns_child_fork(&child, &wanted);

    if (error) {
        SAY("cannot start a process: %s", strerror(-error));
        return NS_EXIT_ERROR;
    }
    ns_diagnose_watch(&options, &child, comparison->signals, &diagnosis, &end);
    comparison->interrupted = end.interrupted;
    if (!end.failure && !end.interrupted && end.status != 0) {
        read_words(errors, words);
        SAY("a run %s the shim ended with status %d, so that its time means nothing%s%s",
            arm == NS_ARM_WITH ? "with" : "without", end.status, *words ? "; it said: " : "",
            words);
        end.failure = NS_EXIT_ERROR;
    } else if (!end.failure && !end.interrupted) {
        count(&comparison->result.arms[arm], &diagnosis, segments_now() - segments,
              delayed_now() - delayed);
    }
    ns_diagnosis_release(&diagnosis);
    return end.failure;
}

/* Each pair in an order of chance: what drifts or alternates on the machine takes neither side. */
static int run_all(struct comparison *comparison)
{
    int status = NS_EXIT_YES;
    bool progress = isatty(STDERR_FILENO);

    for (unsigned pair = 0; pair < comparison->result.wanted && status == NS_EXIT_YES; pair++) {
        unsigned char coin = 0;

        if (getrandom(&coin, 1, 0) != 1)
            coin = (unsigned char)pair;
        for (unsigned i = 0; i < 2 && status == NS_EXIT_YES && !comparison->interrupted; i++) {
            int errors = memfd_create("errors", MFD_CLOEXEC);

            if (progress)
                fprintf(stderr, "\r\033[Krun %u of %u", 2 * pair + i + 1,
                        2 * comparison->result.wanted);
            status = run_once(comparison, (coin ^ i) & 1, errors);
            close(errors);
        }
    }
    if (progress)
        fprintf(stderr, "\r\033[K");
    return status;
}

static bool write_json(struct comparison *comparison)
{
    char *text;
    bool ok;

    ns_compare_fill_json(ns_output_object(), &comparison->result);
    text = ns_output_take(NS_EXIT_YES);
    ok = ns_outfile_write(&comparison->output, text);
    free(text);
    return ok;
}

static int compare(struct comparison *comparison)
{
    static struct ns_reach reach;
    const char *reason;
    int status;

    ns_reach_inspect(comparison->program[0], &reach);
    reason = ns_reach_reason(reach.verdict);
    if (reason)
        SAY("warning: the shim cannot reach it: %s %s", reach.file, reason);
    if (comparison->result.wanted < ns_compare_runs_least())
        SAY("warning: these are too few runs to tell a difference from chance: it takes --runs %u",
            ns_compare_runs_least());
    comparison->signals = ns_child_signals();
    if (comparison->signals < 0) {
        SAY("cannot take signals: %s", strerror(-comparison->signals));
        return NS_EXIT_ERROR;
    }
    status = run_all(comparison);
    if (status != NS_EXIT_YES)
        return status;
    if (comparison->result.arms[0].n == 0 || comparison->result.arms[1].n == 0) {
        SAY("it was interrupted before both had run");
        return NS_EXIT_ERROR;
    }
    ns_compare_conclude(&comparison->result);
    if (comparison->json && !write_json(comparison))
        return NS_EXIT_ERROR;
    ns_compare_print(stderr, &comparison->result);
    return NS_EXIT_YES;
}

int ns_compare_main(int argc, char **argv)
{
    static struct comparison comparison;
    int status;

    if (!take_options(argc, argv, &comparison))
        return NS_EXIT_ERROR;
    if (comparison.help) {
        ns_help_print("compare");
        return NS_EXIT_YES;
    }
    if (!take_policy(&comparison) || !take_library(&comparison) ||
        !ns_outfile_open(&comparison.output, "compare", comparison.json))
        return NS_EXIT_ERROR;
    status = compare(&comparison);
    ns_outfile_drop(&comparison.output);
    return status;
}
