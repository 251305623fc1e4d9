/* SPDX-License-Identifier: MIT */
/* Runs scripts without a library and with it, and reports where the traces differ. A difference
 * counts if the runs without the library agree with each other, and the one with it differs again.
 * What is found is cut down and written to a directory. See usage(). */
#include "driver.h"

#include <getopt.h>
#include <libgen.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { POLICIES_MOST = 16, AGAIN = 4, SIGNATURES = 256, ALIKE_MOST = 2 };

struct counts {
    unsigned programs, runs, calls, unsteady, once, differences, alike;
};

static struct {
    const char *program, *library, *findings, *show;
    uint64_t seed;
    long count, seconds, most;
    int jobs;
    unsigned left_out; /* features */
    struct variant variants[POLICIES_MOST];
    int variant_count;
} options = {.seed = 1, .jobs = 1, .most = 20};

static struct counts *counts;
static const struct variant plain = {.name = "none"};

_Noreturn static void usage(void)
{
    fprintf(stderr, "usage: differential -l LIBRARY [-p POLICY]... [-P JSON] [-s SEED] [-n COUNT] "
                    "[-t SECONDS]\n"
                    "                    [-j JOBS] [-m FINDINGS] [-o DIRECTORY] [-x PROGRAM] [-f "
                    "FEATURE]... [-e NAME=VALUE] [SCRIPT]...\n"
                    "       differential -S SEED|SCRIPT [-l LIBRARY [-p POLICY]]: show one trace\n"
                    "policies:");
    for (const struct variant *policy = policies; policy->name; policy++)
        fprintf(stderr, " %s", policy->name);
    fprintf(stderr, "\n");
    exit(2);
}

static char *run(const char *script, const struct variant *variant)
{
    counts->runs++;
    return run_script(script, variant, &counts->calls);
}

static bool same(const char *script, const struct variant *variant, const char *wanted)
{
    char *trace = run(script, variant);
    bool equal = strcmp(trace, wanted) == 0;
    free(trace);
    return equal;
}

/* Good enough while lines are left out; what comes of it is tried more carefully. */
static bool seems_to_differ(const char *script, const struct variant *variant)
{
    char *wanted = run(script, &plain);
    bool found = !same(script, variant, wanted);
    free(wanted);
    return found;
}

/* The same without the library each time, and something else with it. */
static bool differs(const char *script, const struct variant *variant)
{
    char *wanted = run(script, &plain);
    bool found = !same(script, variant, wanted) && same(script, &plain, wanted) &&
                 !same(script, variant, wanted) && same(script, &plain, wanted);
    free(wanted);
    return found;
}

/* Both traces up to where they differ. */
static void first_difference(const char **a, const char **b)
{
    for (;;) {
        size_t n = strcspn(*a, "\n"), m = strcspn(*b, "\n");
        if (!**a || !**b || n != m || memcmp(*a, *b, n) != 0)
            return;
        *a += n + ((*a)[n] == '\n');
        *b += m + ((*b)[m] == '\n');
    }
}

static void print_difference(FILE *file, const char *a, const char *b)
{
    first_difference(&a, &b);
    fprintf(file, "# without: %.*s\n# with:    %.*s\n", (int)strcspn(a, "\n"), a,
            (int)strcspn(b, "\n"), b);
}

static void write_script(FILE *file, const char *script, const struct variant *variant)
{
    char *without = run(script, &plain), *with = run(script, variant);
    fprintf(file, "# under: %s\n", variant->name);
    print_difference(file, without, with);
    fputs(script, file);
    free(without);
    free(with);
}

static void found(const char *name, const char *script, const struct variant *variant)
{
    static char shorter[SCRIPT_MOST], path[4096];
    snprintf(shorter, sizeof shorter, "%s", script);
    run_patience /= 4;
    reduce(shorter, variant, seems_to_differ);
    run_patience *= 4;
    if (!differs(shorter, variant))
        snprintf(shorter, sizeof shorter, "%s", script);
    printf("--- %s\n", name);
    write_script(stdout, shorter, variant);
    fflush(stdout);
    if (!options.findings)
        return;
    snprintf(path, sizeof path, "%s/%s-%s.txt", options.findings, variant->name, name);
    FILE *file = fopen(path, "w");
    if (!file)
        driver_fail(path);
    write_script(file, shorter, variant);
    fclose(file);
}

static void keep(const char *kind, const char *name, const char *script, const char *a,
                 const char *b)
{
    char path[4096];
    if (!options.findings)
        return;
    snprintf(path, sizeof path, "%s/%s-%s.txt", options.findings, kind, name);
    FILE *file = fopen(path, "w");
    if (!file)
        return;
    print_difference(file, a, b);
    fputs(script, file);
    fclose(file);
}

/* A trace that differs: is it the library, and does it do so again? */
static void judge(const char *name, const char *script, const struct variant *variant,
                  const char *without, const char *with)
{
    int again = 0;
    for (int i = 0; i < AGAIN; i++) {
        char *third = run(script, &plain);
        bool steady = strcmp(third, without) == 0;
        if (!steady) {
            counts->unsteady++;
            keep("unsteady", name, script, without, third);
            free(third);
            return;
        }
        free(third);
        again += !same(script, variant, without);
    }
    if (again < AGAIN / 2) {
        counts->once++;
        keep("once", name, script, without, with);
        return;
    }
    counts->differences++;
    found(name, script, variant);
}

/* The calls where differences began: of those that look alike, a few are enough. */
static bool seen_enough(const struct variant *variant, const char *without, const char *with)
{
    static struct {
        char text[128];
        unsigned count;
    } seen[SIGNATURES];
    char text[128], word[2][24] = {"", ""};
    first_difference(&without, &with);
    bool hangs = strncmp(with, "HANGS in ", 9) == 0;
    const char *line = hangs ? with + 9 : without;
    static const char *const prefixes[] = {"interrupted ", "bad_buffer ", "bad_argument "};
    for (int i = 0; i < 3; i++)
        if (strncmp(line, prefixes[i], strlen(prefixes[i])) == 0)
            line += strlen(prefixes[i]);
    sscanf(line, "%23[^ :] %*s %23[^ :]", word[0], word[1]);
    bool option = strcmp(word[0], "getsockopt") == 0;
    snprintf(text, sizeof text, "%s %s %s %s", variant->name, hangs ? "hangs" : "differs", word[0],
             option ? word[1] : "");
    for (int i = 0; i < SIGNATURES; i++) {
        if (seen[i].count && strcmp(seen[i].text, text) != 0)
            continue;
        snprintf(seen[i].text, sizeof seen[i].text, "%s", text);
        return seen[i].count++ >= ALIKE_MOST;
    }
    return false;
}

static bool suits(const struct variant *variant, unsigned features)
{
    return (features & ~variant->features) == 0;
}

static void compare(const char *name, const char *script, unsigned features)
{
    char *without = run(script, &plain);
    bool random = name[strspn(name, "0123456789")] == '\0';
    for (int i = 0; i < options.variant_count; i++) {
        const struct variant *variant = &options.variants[i];
        if (!suits(variant, features))
            continue;
        char *with = run(script, variant);
        if (strcmp(without, with) != 0 && random && seen_enough(variant, without, with))
            counts->alike++;
        else if (strcmp(without, with) != 0)
            judge(name, script, variant, without, with);
        free(with);
    }
    counts->programs++;
    free(without);
}

/* What every policy allows now and then, and otherwise what this one does. */
static unsigned features_of(uint64_t seed)
{
    unsigned features = 0;
    for (int i = 0; i < options.variant_count; i++)
        features |= options.variants[i].features;
    features &= ~options.left_out;
    return seed % 3 == 0 ? 0 : seed % 3 == 1 ? features & RESETS : features;
}

static void random_scripts(int job, struct counts *total)
{
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (long i = job; !options.count || i < options.count; i += options.jobs) {
        static char script[SCRIPT_MOST];
        char name[32];
        uint64_t seed = options.seed + (uint64_t)i;
        unsigned all = 0;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (options.seconds && now.tv_sec - begun.tv_sec >= options.seconds)
            break;
        for (int j = 0; j < options.jobs; j++)
            all += total[j].differences;
        if (all >= (unsigned)options.most)
            break;
        generate(seed, features_of(seed), script);
        snprintf(name, sizeof name, "%llu", (unsigned long long)seed);
        compare(name, script, features_of(seed));
    }
}

static void read_script(const char *path, char script[SCRIPT_MOST])
{
    FILE *file = fopen(path, "r");
    if (!file)
        driver_fail(path);
    script[fread(script, 1, SCRIPT_MOST - 1, file)] = '\0';
    fclose(file);
}

/* A script says in a comment which policies may differ: "not under: NAME NAME". */
static bool is_excepted(const char *script, const char *name)
{
    const char *at = strstr(script, "# not under:");
    char line[512], word[64];
    if (!at)
        return false;
    snprintf(line, sizeof line, " %.*s ", (int)strcspn(at + 12, "\n"), at + 12);
    snprintf(word, sizeof word, " %s ", name);
    return strstr(line, word) != NULL;
}

static void compare_file(char *path)
{
    static char script[SCRIPT_MOST];
    int kept = options.variant_count;
    struct variant all[POLICIES_MOST];
    memcpy(all, options.variants, sizeof all);
    read_script(path, script);
    options.variant_count = 0;
    for (int i = 0; i < kept; i++)
        if (!is_excepted(script, all[i].name))
            options.variants[options.variant_count++] = all[i];
    compare(basename(path), script, 0);
    memcpy(options.variants, all, sizeof all);
    options.variant_count = kept;
}

static void show(const char *what)
{
    static char script[SCRIPT_MOST];
    char *end;
    uint64_t seed = strtoull(what, &end, 10);
    if (*end)
        read_script(what, script);
    else
        generate(seed, features_of(seed), script);
    char *trace = run(script, options.library ? &options.variants[0] : &plain);
    printf("%s---\n%s", script, trace);
    free(trace);
}

static void add_policy(const char *name)
{
    for (const struct variant *policy = policies; policy->name; policy++)
        if (strcmp(policy->name, name) == 0 || strcmp(name, "all") == 0) {
            if (options.variant_count == POLICIES_MOST)
                usage();
            options.variants[options.variant_count++] = *policy;
            if (strcmp(name, "all") != 0)
                return;
        }
    if (strcmp(name, "all") != 0)
        usage();
}

static unsigned feature_named(const char *name)
{
    if (strcmp(name, "threads") == 0)
        return THREADS;
    if (strcmp(name, "resets") == 0)
        return RESETS;
    if (strcmp(name, "bad-arguments") == 0)
        return BAD_ARGUMENTS;
    usage();
}

static void parse(int argc, char **argv)
{
    int option;
    while ((option = getopt(argc, argv, "l:p:P:s:S:n:t:j:m:o:x:f:e:")) != -1) {
        switch (option) {
        case 'l':
            options.library = realpath(optarg, NULL);
            if (!options.library)
                driver_fail(optarg);
            break;
        case 'p':
            add_policy(optarg);
            break;
        case 'P':
            options.variants[options.variant_count++] =
                (struct variant){.name = "given", .policy = optarg, .features = RESETS};
            break;
        case 's':
            options.seed = strtoull(optarg, NULL, 10);
            break;
        case 'S':
            options.show = optarg;
            break;
        case 'n':
            options.count = atol(optarg);
            break;
        case 't':
            options.seconds = atol(optarg);
            break;
        case 'j':
            options.jobs = atoi(optarg);
            break;
        case 'm':
            options.most = atol(optarg);
            break;
        case 'o':
            options.findings = optarg;
            mkdir(optarg, 0777);
            break;
        case 'f':
            options.left_out |= feature_named(optarg);
            break;
        case 'e':
            putenv(optarg);
            break;
        case 'x':
            options.program = realpath(optarg, NULL);
            break;
        default:
            usage();
        }
    }
}

static void defaults(char *self)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/program", dirname(self));
    if (!options.program)
        options.program = realpath(path, NULL);
    if (!options.program || options.jobs < 1 || options.jobs > 64 ||
        (!options.library && !options.show))
        usage();
    if (options.variant_count == 0)
        add_policy("default");
    for (int i = 0; i < options.variant_count; i++)
        options.variants[i].library = options.library;
}

static int sum_up(const struct counts *each, double took)
{
    struct counts sum = {0};
    for (int i = 0; i < options.jobs; i++) {
        sum.programs += each[i].programs;
        sum.runs += each[i].runs;
        sum.calls += each[i].calls;
        sum.unsteady += each[i].unsteady;
        sum.once += each[i].once;
        sum.differences += each[i].differences;
        sum.alike += each[i].alike;
    }
    printf(
        "programs %u runs %u calls %u unsteady %u once %u differences %u alike %u seconds %.1f\n",
        sum.programs, sum.runs, sum.calls, sum.unsteady, sum.once, sum.differences, sum.alike,
        took);
    return sum.differences ? 1 : 0;
}

int main(int argc, char **argv)
{
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    parse(argc, argv);
    defaults(strdup(argv[0]));
    struct counts *each =
        mmap(NULL, sizeof *each * 64, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (each == MAP_FAILED)
        driver_fail("memory");
    for (int i = 0; i < options.jobs; i++) {
        pid_t pid = options.jobs == 1 ? 0 : fork();
        if (pid != 0)
            continue;
        counts = &each[i];
        run_setup(options.program);
        if (options.show)
            show(options.show);
        else if (optind < argc)
            for (int file = optind + i; file < argc; file += options.jobs)
                compare_file(argv[file]);
        else
            random_scripts(i, each);
        if (options.jobs > 1)
            exit(0);
    }
    int status = 0, worst = 0;
    while (wait(&status) > 0)
        worst |= status;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (options.show)
        return 0;
    int differences = sum_up(each, (double)(now.tv_sec - begun.tv_sec) +
                                       (double)(now.tv_nsec - begun.tv_nsec) / 1e9);
    return worst ? 2 : differences;
}
