/* SPDX-License-Identifier: MIT */
/* The parser runs in other people's processes: if any of its allocations fails, it reports that and
 * frees the others; and it never uses the program's heap. This file replaces mmap and munmap, and
 * malloc on top of glibc's own entry points. */
#include "base/arena.h"
#include "policy/match.h"
#include "policy/policy.h"
#include "unit.h"

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);

static long live, until_failure = -1, heap_calls;

void *malloc(size_t size)
{
    heap_calls++;
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    heap_calls++;
    return __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
    heap_calls++;
    return __libc_realloc(old, size);
}

static bool fails(void)
{
    return until_failure >= 0 && until_failure-- == 0;
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (fails()) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    live++;
#ifdef SYS_mmap2 /* 32-bit systems: the offset in units of 4096 bytes */
    return (void *)syscall(SYS_mmap2, at, size, protection, flags, fd, offset >> 12);
#else
    return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
#endif
}

int munmap(void *at, size_t size)
{
    live--;
    return (int)syscall(SYS_munmap, at, size);
}

static const char text[] =
    "{\"version\": 1, \"rules\": [{\"name\": \"a\", \"match\": {\"process\": [\"a\", \"b\"], "
    "\"args\": \"c\", \"local\": \"80\", \"remote\": [\"10.0.0.0/8\", \"90\"]}, "
    "\"sockopt\": {\"SO_SNDBUF\": {\"min\": 5}}}, {}]}";

CHECK(test_pieces)
{
    struct ns_arena arena = {0};
    char *one = ns_arena_alloc(&arena, 1), *two = ns_arena_alloc(&arena, 3 * ns_arena_step);
    char *three = ns_arena_alloc(&arena, ns_arena_step);
    OK(one && two && three && (uintptr_t)two % sizeof(void *) == 0, "pieces of any size");
    memset(one, 1, 1);
    memset(two, 2, 3 * ns_arena_step);
    memset(three, 3, ns_arena_step);
    char *four = ns_arena_alloc(&arena, 64);
    ns_arena_trim(&arena, four, 3);
    OK((char *)ns_arena_alloc(&arena, 8) == four + sizeof(void *),
       "the unused rest of a piece goes to the next one");
    OK(*one == 1 && two[0] == 2 && two[3 * ns_arena_step - 1] == 2, "pieces do not overlap");
    OK(!ns_arena_alloc(&arena, SIZE_MAX) && errno == ENOMEM, "a size beyond memory is refused");
    ns_arena_free(&arena);
    OK(live == 0 && !arena.chunks, "all are freed at once");
}

CHECK(test_heap)
{
    struct ns_policy_error error;
    struct ns_policy *policy;
    long before = heap_calls;
    int result = ns_policy_parse(&(struct ns_arena){0}, text, strlen(text), &policy, &error, NULL);
    long calls = heap_calls - before;
    OK(before > 0 && result == 0 && calls == 0, "a policy uses nothing of the program's heap");
    OK(live == 1, "it has one mapping");
    ns_policy_free(policy);
    OK(live == 0, "which is freed with the policy");
}

/* Fail the nth allocation. Returns what the parser returns; false in *clean if something leaked. */
static int parse_failing(long nth, bool *clean, struct ns_policy_error *error)
{
    struct ns_policy *policy;
    long before = live;
    until_failure = nth;
    int result = ns_policy_parse(&(struct ns_arena){0}, text, strlen(text), &policy, error, NULL);
    until_failure = -1;
    *clean = result == 0 || !policy;
    ns_policy_free(policy);
    *clean &= live == before;
    return result;
}

CHECK(test_parse)
{
    ns_arena_step = 1; /* each allocation is a call of mmap */
    struct ns_policy_error error;
    bool clean = true, all_clean = true, all_told = true;
    long n = 0;
    for (;; n++) {
        int result = parse_failing(n, &clean, &error);
        all_clean &= clean;
        if (result == 0)
            break;
        all_told &= result == -ENOMEM && strcmp(error.message, "out of memory") == 0;
    }
    OK(n > 30, "a policy takes %ld allocations", n);
    OK(all_told, "if any of them fails, the parser reports it");
    OK(all_clean, "nothing leaks, then or after the policy is freed");
}

CHECK(test_ruleset)
{
    struct ns_process process = {.exe = "/bin/true"};
    struct ns_rule many[NS_RULES_FEW + 1] = {0};
    struct ns_policy policy = {.enabled = true, .rules = many, .n_rules = NS_RULES_FEW + 1};
    struct ns_ruleset set;
    long before = live;
    for (size_t i = 0; i < policy.n_rules; i++)
        many[i].role = NS_ROLE_CLIENT;
    until_failure = 0;
    int result = ns_ruleset_build(&set, &policy, &process);
    until_failure = -1;
    OK(result == -ENOMEM && set.n_rules == 0 && live == before,
       "a set of rules without memory is empty");
    ns_ruleset_release(&set);
    OK(ns_ruleset_build(&set, &policy, &process) == 0 && set.n_rules == NS_RULES_FEW + 1 &&
           set.rules[NS_RULES_FEW] == &many[NS_RULES_FEW],
       "a set of many rules is built");
    ns_ruleset_release(&set);
    OK(live == before && set.n_rules == 0, "and freed");
}

#else

CHECK(skipped)
{
    puts("# SKIP mmap can be replaced like this with glibc and without sanitizers only");
}

#endif
