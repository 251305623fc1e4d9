/* SPDX-License-Identifier: MIT */
/* Owns the options of `nagleshim diagnose`. Not async-signal-safe. */
#include "cli/diagnose/diagnose.h"

#include "cli/cli.h"
#include "cli/verbs.h"

#include <getopt.h>
#include <string.h>
#include <sys/stat.h>

#define SAY(...) ns_say("diagnose", __VA_ARGS__)

/* For run and compare, --policy names a file to read. A user who expects that here must not lose
 * his policy. */
static bool exists(const char *file)
{
    struct stat st;

    return file && stat(file, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0;
}

static bool judge(const struct ns_diagnose_options *options)
{
    int subjects = (options->program != NULL) + (options->pid != 0) + options->all;

    if (subjects == 0)
        SAY("name a program, --pid or --all; see 'nagleshim diagnose --help'");
    else if (subjects > 1)
        SAY("a program, --pid and --all: only one of them can be watched");
    else if (exists(options->policy))
        SAY("--policy: '%s' already exists and is not replaced; name a new file", options->policy);
    else if (options->experiment && (!options->program || options->outside))
        SAY("--experiment needs a program to start, and excludes --outside");
    else
        return true;
    return false;
}

bool ns_diagnose_take_options(int argc, char **argv, struct ns_diagnose_options *options)
{
    const char *grade = NULL;
    const struct ns_target targets[] = {{NS_DIAGNOSE_PID, &options->pid, 0, 0},
                                        {NS_DIAGNOSE_ALL, &options->all, 0, 0},
                                        {NS_DIAGNOSE_FOR, &options->seconds, 0.1, 1e6},
                                        {NS_DIAGNOSE_FAIL_ON, &grade, 0, 0},
                                        {NS_DIAGNOSE_MAX_LOST_MS, &options->max_lost_ms, 0, 1e9},
                                        {NS_DIAGNOSE_JSON, &options->json, 0, 0},
                                        {NS_DIAGNOSE_REPORT, &options->page, 0, 0},
                                        {NS_DIAGNOSE_POLICY, &options->policy, 0, 0},
                                        {NS_DIAGNOSE_EXPERIMENT, &options->experiment, 0, 0},
                                        {NS_DIAGNOSE_OUTSIDE, &options->outside, 0, 0},
                                        {0}};

    *options = (struct ns_diagnose_options){.verb = "diagnose", .max_lost_ms = -1};
    if (!ns_verbs_read("diagnose", argc, argv, targets))
        return false;
    if (optind < argc)
        options->program = argv + optind;
    /* Without --fail-on, --max-lost-ms counts likely stalls as well. */
    if (grade || options->max_lost_ms >= 0)
        options->fail_on =
            grade && strcmp(grade, "proven") == 0 ? NS_GRADE_PROVEN : NS_GRADE_LIKELY;
    return judge(options);
}
