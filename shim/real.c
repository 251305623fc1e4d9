/* SPDX-License-Identifier: MIT */
/* Looks up the next definition of each interposed call. Owns ns_real. The only file that calls
 * dlsym. Must never call an interposed function: it is what they stand on. Looking up is not
 * async-signal-safe; using the table is. */
#include "real.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

struct ns_real ns_real;

/* dlsym moved from libdl into libc with glibc 2.34 and got a new version; asking for the first one
 * works with both, since the new libc keeps it. musl has no versions and takes either. Every port
 * that came after glibc 2.17 starts there. */
#if defined(__x86_64__)
__asm__(".symver dlsym, dlsym@GLIBC_2.2.5");
#define NS_SINCE_2_3_2 "GLIBC_2.3.2"
#define NS_SINCE_2_15 "GLIBC_2.15"
#define NS_SINCE_2_24 "GLIBC_2.24"
#elif defined(__aarch64__)
__asm__(".symver dlsym, dlsym@GLIBC_2.17");
#define NS_SINCE_2_3_2 "GLIBC_2.17"
#define NS_SINCE_2_15 "GLIBC_2.17"
#define NS_SINCE_2_24 "GLIBC_2.24"
#else
#error "symbol versions are known for x86-64 and aarch64 only"
#endif
#define NS_SINCE_2_17 "GLIBC_2.17"

/* What stands in for a call that the libc lacks. They take no parameters and are called with some,
 * which both ABIs above allow: the caller removes what it passed. */
static long missing_MINUS_ONE(void)
{
    errno = ENOSYS;
    return -1;
}

static void *missing_NULL_POINTER(void)
{
    errno = ENOSYS;
    return NULL;
}

static int missing_ENOSYS_CODE(void)
{
    return ENOSYS;
}

static int missing_THRD_ERROR(void)
{
    return thrd_error;
}

/* thrd_sleep: -1 means that a signal came, any other negative value an error (C11, 7.26.5.7). */
static int missing_MINUS_TWO(void)
{
    return -2;
}

static int missing_ZERO(void)
{
    return 0;
}

struct row {
    const char *name, *version;
    void (*missing)(void);
};

static const struct row rows[NS_CALL_COUNT] = {
#define NS_CALL(result, name, parameters, version, failure)                                        \
    {#name, version, (void (*)(void))missing_##failure},
#include "calls.def"
#undef NS_CALL
};

/* The members of ns_real differ in type but not in size, and are in the order of the rows. */
_Static_assert(sizeof(struct ns_real) == NS_CALL_COUNT * sizeof(void *), "one pointer per row");
typedef void *__attribute__((may_alias)) any_pointer;

static void *next_definition(const struct row *row)
{
    /* Looked up, not linked: musl has no dlvsym. */
    static void *(*versioned)(void *, const char *, const char *);
    static bool asked;
    if (!asked) {
        void *found = dlsym(RTLD_DEFAULT, "dlvsym");
        memcpy(&versioned, &found, sizeof versioned);
        asked = true;
    }
    if (row->version && versioned) {
        void *found = versioned(RTLD_NEXT, row->name, row->version);
        if (found)
            return found;
    }
    return dlsym(RTLD_NEXT, row->name);
}

void ns_real_load(enum ns_call_id id)
{
    int saved = errno;
    void *found = next_definition(&rows[id]);
    if (!found)
        memcpy(&found, &rows[id].missing, sizeof found);
    __atomic_store_n((any_pointer *)&ns_real + id, found, __ATOMIC_RELEASE);
    errno = saved;
}

void ns_real_load_all(void)
{
    for (unsigned id = 0; id < NS_CALL_COUNT; id++)
        if (!((any_pointer *)&ns_real)[id])
            ns_real_load((enum ns_call_id)id);
}

int ns_real_has(enum ns_call_id id)
{
    void *missing;
    memcpy(&missing, &rows[id].missing, sizeof missing);
    return ((any_pointer *)&ns_real)[id] != missing;
}

void *ns_real_optional(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}
