/* SPDX-License-Identifier: MIT */
/* Owns the command line of `nagleshim doctor`. Not async-signal-safe. */
#include "cli/doctor/doctor.h"

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/verbs.h"

#include <getopt.h>

#define SAY(...) ns_say("doctor", __VA_ARGS__)

struct options {
    pid_t pid;
    bool all, every, help;
};

static bool take_options(int argc, char **argv, struct options *options)
{
    int option;

    while ((option = ns_verbs_next_option("doctor", argc, argv)) != -1) {
        switch (option) {
        case NS_DOCTOR_HELP:
            options->help = true;
            return true;
        case NS_DOCTOR_JSON:
            break;
        case NS_DOCTOR_ALL:
            options->all = true;
            break;
        case NS_DOCTOR_EVERY:
            options->every = true;
            break;
        case NS_DOCTOR_PID:
            if (!ns_take_pid("doctor", &options->pid))
                return false;
            break;
        default:
            ns_say_option("doctor", argv, option);
            return false;
        }
    }
    return true;
}

/* A program, --pid or --all: exactly one of them. */
static bool is_clear(int argc, char **argv, const struct options *options)
{
    if ((options->pid || options->all) && optind < argc)
        SAY("'%s': a program and %s cannot be used together", argv[optind],
            options->all ? "--all" : "--pid");
    else if (options->pid && options->all)
        SAY("--pid and --all cannot be used together");
    else if (options->every && !options->all)
        SAY("--every needs --all");
    else if (!options->pid && !options->all && optind >= argc)
        SAY("a program, --pid or --all is missing; see 'nagleshim doctor --help'");
    else
        return true;
    return false;
}

int ns_doctor_main(int argc, char **argv)
{
    struct options options = {0};

    ns_output_expect("facts");
    if (!take_options(argc, argv, &options))
        return NS_EXIT_ERROR;
    if (options.help) {
        ns_help_print("doctor");
        return NS_EXIT_YES;
    }
    if (!is_clear(argc, argv, &options))
        return NS_EXIT_ERROR;
    if (options.all)
        return ns_doctor_all(options.every);
    if (options.pid)
        return ns_doctor_process(options.pid);
    return ns_doctor_program(argv + optind, (unsigned)(argc - optind));
}
