/* SPDX-License-Identifier: MIT */
/* Runs the scenario that its argument names. Each must behave in the same way with and without the
 * library, except that bytes may be late without it. A "role-..." is the part of another process in
 * a scenario. The last line has the results. */
#include "life_handed.h"
#include "life_processes.h"
#include "life_tcp.h"

static int open_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += RAW(fcntl, fd, F_GETFD, 0, 0) >= 0;
    return count;
}

int main(int argc, char **argv)
{
    make_results();
    alarm((unsigned)from_environment("LIFE_SECONDS", 25) - 5);
    RAW(close_range, 100, ~0U, 0, 0); /* descriptors that were inherited */
    int before = open_descriptors();
    if (argc < 2 || !run_scenario(argv[1], strlen(argv[1]))) {
        fprintf(stderr, "usage: %s SCENARIO\n", argv[0]);
        return 2;
    }
    if (strncmp(argv[1], "role-", 5) == 0)
        return results->wrong != 0;
    int after = open_descriptors();
    if (before != after)
        wrong("%d descriptors, and %d before", after, before);
    printf("held %d late %d wrong %d\n", results->held, results->late, results->wrong);
    return results->wrong != 0;
}
