/* SPDX-License-Identifier: MIT */
/* See real.h. Owns ns_real. Must never call an interposed function. Looking up is not
 * async-signal-safe; using the table is. */
#include "base/real.h"

#include "base/object.h"

#include <dlfcn.h>
#include <string.h>

struct ns_real ns_real;

/* Replacements for calls that the libc lacks. They have no parameters but are called with some,
 * which every ABI of machine.h allows: the caller removes the arguments. thrd_sleep: -1
 * means that a signal came, any other negative value an error (C11, 7.26.5.7). */
#define EACH_MISSING(_)                                                                            \
    _(MINUS_ONE, long, (errno = ENOSYS, -1))                                                       \
    _(NULL_POINTER, void *, (errno = ENOSYS, NULL))                                                \
    _(ENOSYS_CODE, int, ENOSYS)                                                                    \
    _(THRD_ERROR, int, thrd_error)                                                                 \
    _(MINUS_TWO, int, -2)                                                                          \
    _(ZERO, int, 0)
#define FUNCTION(id, type, value)                                                                  \
    static type missing_##id(void)                                                                 \
    {                                                                                              \
        return value;                                                                              \
    }
EACH_MISSING(FUNCTION)

enum missing {
#define ID(id, type, value) id,
    EACH_MISSING(ID)
};

static void (*const missing[])(void) = {
#define ADDRESS(id, type, value) (void (*)(void)) missing_##id,
    EACH_MISSING(ADDRESS)};

/* One string instead of pointers: each pointer would be a relocation at every process start. */
const char ns_real_names[] =
#define NS_CALL(result, name, parameters, failure) #name "\0"
#define NS_UNEXPORTED NS_CALL
#include "base/calls.def"
#undef NS_CALL
    ;

static const unsigned char missing_of[NS_CALL_COUNT] = {
#define NS_CALL(result, name, parameters, failure) failure,
#define NS_UNEXPORTED NS_CALL
#include "base/calls.def"
#undef NS_CALL
};

static void *stand_in(enum ns_call_id id)
{
    void *function;
    memcpy(&function, &missing[missing_of[id]], sizeof function);
    return function;
}

/* The members of ns_real differ in type but not in size, and are in the order of the rows. */
_Static_assert((int)NS_CALL_COUNT <= NS_SYMBOL_MOST, "found in one pass");
_Static_assert(sizeof(struct ns_real) == NS_CALL_COUNT * sizeof(void *), "one pointer per row");
typedef void *__attribute__((may_alias)) any_pointer;

void ns_real_load_all(void)
{
    void *found[NS_CALL_COUNT] = {NULL};
    ns_symbol_find(NS_SYMBOL_NEXT, ns_real_names, NS_CALL_COUNT, found);
    /* If the library was loaded with dlopen, it is the last object, and the calls are in earlier
     * ones. */
    if (!found[NS_CALL_write])
        ns_symbol_find(NS_SYMBOL_FIRST, ns_real_names, NS_CALL_COUNT, found);
    for (enum ns_call_id id = 0; id < NS_CALL_COUNT; id++) {
        void *call = found[id];
        /* Before 2.34 glibc had the thread calls in libpthread and dlopen in libdl, which a program
         * may load late, for example with a plugin. */
        if (!call && !found[NS_CALL_gnu_get_libc_version])
            call = stand_in(id);
        __atomic_store_n((any_pointer *)&ns_real + id, call, __ATOMIC_RELEASE);
    }
}

/* All are looked up together, which needs one pass over the objects' tables. */
void *ns_real_load(enum ns_call_id id)
{
    ns_real_load_all();
    void *call = ((any_pointer *)&ns_real)[id];
    return call ? call : stand_in(id);
}

int ns_real_has(enum ns_call_id id)
{
    void *call = ((any_pointer *)&ns_real)[id];
    return call && call != stand_in(id);
}
