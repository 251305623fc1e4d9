/* SPDX-License-Identifier: MIT */
/* The parser runs in other people's processes and never uses the program's heap. This file replaces
 * malloc on top of glibc's own entry points. promises/faults.bats makes its mappings fail. */
#include "base/memory.h"
#include "policy/policy.h"
#include "unit.h"

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);

static long heap_calls;

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
    OK(!arena.chunks, "all are freed at once");
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    OK(msync((void *)((uintptr_t)one & -page), 1, MS_ASYNC) == -1 && errno == ENOMEM,
       "and the kernel has them again");
}

CHECK(test_pages)
{
    static void *place;
    char *pages = ns_pages_put(&place, NULL, 1);
    OK(pages && place == pages && !*pages, "pages are zeros at their place");
    OK(ns_pages_put(&place, NULL, 1) == pages && place == pages,
       "a thread that comes second gets those of the first");
}

CHECK(test_heap)
{
    struct ns_policy_error error;
    struct ns_policy *policy;
    long before = heap_calls;
    int result = ns_policy_parse(&(struct ns_arena){0}, text, strlen(text), &policy, &error, NULL);
    long calls = heap_calls - before;
    OK(before > 0 && result == 0 && calls == 0, "a policy uses nothing of the program's heap");
    ns_policy_free(policy);
}

CHECK(test_mistake)
{
    struct ns_arena arena = {0};
    struct ns_policy_error error;
    struct ns_policy *policy;
    int result = ns_policy_parse(&arena, text, strlen(text) - 1, &policy, &error, NULL);
    OK(result == -EINVAL && !policy && !arena.chunks, "a policy with a mistake keeps no memory");
}

#else

CHECK(skipped)
{
    puts("# SKIP malloc can be replaced like this with glibc and without sanitizers only");
}

#endif
