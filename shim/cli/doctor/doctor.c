/* SPDX-License-Identifier: MIT */
/* Owns the command line of `nagleshim doctor`. */
#include "cli/doctor/doctor.h"

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/verbs.h"

#include <getopt.h>

#define SAY(...) ns_say("doctor", __VA_ARGS__)

int ns_doctor_main(int argc, char **argv)
{
    bool all = false;
    pid_t pid = 0;
    const struct ns_target targets[] = {
        {NS_DOCTOR_ALL, &all, 0, 0}, {NS_DOCTOR_PID, &pid, 0, 0}, {0}};
    ns_output_expect("facts");
    if (!ns_verbs_read("doctor", argc, argv, targets))
        return NS_EXIT_ERROR;
    if ((optind < argc) + (pid > 0) + all != 1)
        SAY("one of a program, --pid and --all is needed; see 'nagleshim doctor --help'");
    else if (all)
        return ns_doctor_all();
    else if (pid)
        return ns_doctor_process(pid);
    else
        return ns_doctor_program(argv + optind, (unsigned)(argc - optind));
    return NS_EXIT_ERROR;
}
