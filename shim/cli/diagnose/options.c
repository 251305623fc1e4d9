/* SPDX-License-Identifier: MIT */
/* Owns the options of `nagleshim diagnose`. Not async-signal-safe. */
#include "cli/diagnose/diagnose.h"

#include "cli/cli.h"
#include "cli/verbs.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SAY(...) ns_say("diagnose", __VA_ARGS__)

static bool take_number(const char *option, const char *unit, double least, double most,
                        double *value)
{
    char *end;

    errno = 0;
    *value = strtod(optarg, &end);
    /* No sign, no "inf", no hexadecimal number. */
    if (strspn(optarg, "0123456789.") == strlen(optarg) && end != optarg && *end == '\0' &&
        errno == 0 && *value >= least && *value <= most)
        return true;
    SAY("%s must be %s from %.10g to %.10g, not '%s'", option, unit, least, most, optarg);
    return false;
}

static bool take_grade(enum ns_grade *grade)
{
    if (strcmp(optarg, "likely") == 0)
        *grade = NS_GRADE_LIKELY;
    else if (strcmp(optarg, "proven") == 0)
        *grade = NS_GRADE_PROVEN;
    else
        SAY("--fail-on must be likely or proven, not '%s'", optarg);
    return *grade != NS_GRADE_CANNOT_TELL;
}

static bool take_experiment(const char **experiment)
{
    *experiment = optarg;
    if (strcmp(optarg, "push") == 0 || strcmp(optarg, "acknowledge") == 0)
        return true;
    SAY("--experiment must be push or acknowledge, not '%s'", optarg);
    return false;
}

static bool take_option(int option, char **argv, struct ns_diagnose_options *options)
{
    switch (option) {
    case NS_DIAGNOSE_PID:
        return ns_take_pid("diagnose", &options->pid);
    case NS_DIAGNOSE_ALL:
        options->all = true;
        return true;
    case NS_DIAGNOSE_FOR:
        return take_number("--for", "seconds", 0.1, 1e6, &options->seconds);
    case NS_DIAGNOSE_FAIL_ON:
        return take_grade(&options->fail_on);
    case NS_DIAGNOSE_MAX_LOST_MS:
        return take_number("--max-lost-ms", "milliseconds", 0, 1e9, &options->max_lost_ms);
    case NS_DIAGNOSE_JSON:
        options->json = optarg;
        return true;
    case NS_DIAGNOSE_REPORT:
        options->page = optarg;
        return true;
    case NS_DIAGNOSE_POLICY:
        options->policy = optarg;
        return true;
    case NS_DIAGNOSE_EXPERIMENT:
        return take_experiment(&options->experiment);
    case NS_DIAGNOSE_OUTSIDE:
        options->outside = true;
        return true;
    default:
        ns_say_option("diagnose", argv, option);
        return false;
    }
}

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
    int option;

    *options = (struct ns_diagnose_options){.verb = "diagnose", .max_lost_ms = -1};
    while ((option = ns_verbs_next_option("diagnose", argc, argv)) != -1)
        if (!take_option(option, argv, options))
            return false;
    if (optind < argc)
        options->program = argv + optind;
    /* Without --fail-on, --max-lost-ms counts likely stalls as well. */
    if (options->max_lost_ms >= 0 && !options->fail_on)
        options->fail_on = NS_GRADE_LIKELY;
    return judge(options);
}
