/* SPDX-License-Identifier: MIT */
/* Measures the time from the start of a program to its end, without and with a preloaded library by
 * turns. A shell would need longer to start a program than the measured time.
 * Usage: bench_start RUNS PROGRAM NAME=VALUE... [-- NAME=VALUE...] prints one line; the variables
 * are for the runs with the library, those after -- for the runs without it.
 *        bench_start RUNS prints the time of a fork, an _exit in the child and a wait. */
#include "bench.h"

extern char **environ;

struct cost {
    int64_t wall;   /* ns */
    int64_t faults; /* page faults of the child */
};

static struct cost run_once(char *program, char **environment)
{
    char *arguments[] = {program, NULL};
    int64_t begun = now_ns();
    struct rusage used;
    int status;
    pid_t child;
    errno = posix_spawn(&child, program, NULL, NULL, arguments, environment);
    if (errno != 0)
        die_errno(program);
    if (wait4(child, &status, 0, &used) != child || status != 0)
        die("%s failed", program);
    return (struct cost){now_ns() - begun, used.ru_minflt};
}

static struct cost fork_once(void)
{
    int64_t begun = now_ns();
    struct rusage used;
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    if (wait4(child, &status, 0, &used) != child || status != 0)
        die("fork failed");
    return (struct cost){now_ns() - begun, used.ru_minflt};
}

static double quantile_us(int64_t *values, size_t count, size_t percent)
{
    return (double)quantile(values, count, percent) / 1000;
}

static int bench_fork(size_t runs)
{
    int64_t *wall = numbers(runs), *faults = numbers(runs);
    for (size_t i = 0; i < runs; i++) {
        struct cost cost = fork_once();
        wall[i] = cost.wall;
        faults[i] = cost.faults;
    }
    printf("fork_us %.2f faults %lld\n", quantile_us(wall, runs, 25),
           (long long)quantile(faults, runs, 50));
    return 0;
}

/* The environment with these variables first, where ld.so and getenv find them first. */
static char **with(char **variables, size_t more)
{
    size_t count = 0;
    char **all;
    while (environ[count] != NULL)
        count++;
    all = calloc(count + more + 1, sizeof(*all));
    if (all == NULL)
        die("no memory");
    memcpy(all, variables, more * sizeof(*all));
    memcpy(all + more, environ, count * sizeof(*all));
    return all;
}

int main(int argc, char **argv)
{
    if (argc == 2)
        return bench_fork(parse_count(argv[1]));
    if (argc < 4)
        usage_error("needs RUNS, or RUNS PROGRAM NAME=VALUE...");
    size_t runs = parse_count(argv[1]), ours = 3;
    for (; ours < (size_t)argc && strcmp(argv[ours], "--") != 0;)
        ours++;
    char **environment = with(argv + 3, ours - 3);
    char **other = ours < (size_t)argc ? with(argv + ours + 1, (size_t)argc - ours - 1) : environ;
    int64_t *plain = numbers(runs), *loaded = numbers(runs), *faults = numbers(runs);
    for (size_t i = 0; i < runs; i++) {
        struct cost without = run_once(argv[2], other);
        struct cost with_it = run_once(argv[2], environment);
        plain[i] = without.wall;
        loaded[i] = with_it.wall;
        faults[i] = with_it.faults - without.faults;
    }
    printf("plain_us %.1f loaded_us %.1f faults %lld\n", quantile_us(plain, runs, 50),
           quantile_us(loaded, runs, 50), (long long)quantile(faults, runs, 50));
    return 0;
}
