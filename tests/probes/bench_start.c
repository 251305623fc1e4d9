/* SPDX-License-Identifier: MIT */
/* The time from starting a program to its end, without and with a preloaded library, by turns. A
 * shell would take longer to start a program than what is to be measured.
 * Usage: bench_start RUNS LIBRARY POLICY PROGRAM prints one line. */
#include "../../examples/common.h"

#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static int64_t run_once(char *program, char **environment)
{
    char *arguments[] = {program, NULL};
    int64_t begun = now_ns();
    int status;
    pid_t child;

    errno = posix_spawn(&child, program, NULL, NULL, arguments, environment);
    if (errno != 0)
        die_errno(program);
    if (waitpid(child, &status, 0) != child || status != 0)
        die("%s failed", program);
    return now_ns() - begun;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static double quantile_us(int64_t *values, size_t count, size_t percent)
{
    qsort(values, count, sizeof(*values), by_size);
    return (double)values[(count - 1) * percent / 100] / 1000;
}

/* The environment with these two in front of it, where ld.so and getenv find them first. */
static char **with(char *preload, char *policy)
{
    size_t count = 0;
    char **all;

    while (environ[count] != NULL)
        count++;
    all = calloc(count + 3, sizeof(*all));
    if (all == NULL)
        die("no memory");
    all[0] = preload;
    all[1] = policy;
    memcpy(all + 2, environ, count * sizeof(*all));
    return all;
}

int main(int argc, char **argv)
{
    char preload[PATH_MAX + 16], policy[PATH_MAX + 32];
    int64_t *plain, *loaded, *added;
    char **environment;
    size_t runs;

    if (argc != 5)
        usage_error("needs RUNS LIBRARY POLICY PROGRAM");
    runs = parse_count(argv[1]);
    snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", argv[2]);
    snprintf(policy, sizeof(policy), "NAGLESHIM_POLICY=%s", argv[3]);
    environment = with(preload, policy);
    plain = calloc(runs, sizeof(*plain));
    loaded = calloc(runs, sizeof(*loaded));
    added = calloc(runs, sizeof(*added));
    if (plain == NULL || loaded == NULL || added == NULL)
        die("no memory");
    for (size_t i = 0; i < runs; i++) {
        plain[i] = run_once(argv[4], environ);
        loaded[i] = run_once(argv[4], environment);
        added[i] = loaded[i] - plain[i];
    }
    printf("added_us %.1f low_us %.1f high_us %.1f plain_us %.1f loaded_us %.1f\n",
           quantile_us(added, runs, 50), quantile_us(added, runs, 25), quantile_us(added, runs, 75),
           quantile_us(plain, runs, 50), quantile_us(loaded, runs, 50));
    return 0;
}
