/* SPDX-License-Identifier: MIT */
/* The library's reading of symbol tables, compared with dlsym for every row of the call table;
 * and the times of the log, compared with gmtime. */
#include "base/real.h"
#include "base/object.h"
#include "report/log.h"
#include "unit.h"

static const char *const names[] = {
#define NS_CALL(result, name, parameters, failure) #name,
#define NS_UNEXPORTED NS_CALL
#include "base/calls.def"
#undef NS_CALL
};

/* RTLD_DEFAULT and not RTLD_NEXT, which gives the oldest version before glibc 2.36; this program
 * defines none of the names itself. */
CHECK(test_rows)
{
    unsigned found = 0;
    ns_real_load_all();
    for (unsigned id = 0; id < NS_CALL_COUNT; id++) {
        void *call, *expected = dlsym(RTLD_DEFAULT, names[id]);
        memcpy(&call, (char *)&ns_real + id * sizeof call, sizeof call);
        found += expected != NULL;
        OK(expected ? call == expected : call != NULL, "%s is dlsym's%s", names[id],
           expected ? "" : ", or a stand-in");
        OK(ns_real_has((enum ns_call_id)id) == (expected != NULL), "%s is reported as %s",
           names[id], expected ? "there" : "missing");
    }
    OK(found > 50, "the libc has %u of the calls", found);
}

CHECK(test_missing)
{
    static const char several[] = "ns_no_such_function\0strlen\0ns_nor_this\0getpid\0";
    void *found[4] = {NULL};
    errno = 77;
    ns_symbol_find(NS_SYMBOL_NEXT, several, 4, found);
    OK(!found[0] && !found[2], "a symbol that no object has is not found");
    OK(found[1] && found[3] == dlsym(RTLD_DEFAULT, "getpid"), "others in the same list are");
    OK(errno == 77, "errno is unchanged");
    OK(((size_t(*)(const char *))found[1])("four") == 4, "an indirect function is resolved");
}

#define FUNCTION_AT(name, address)                                                                 \
    {                                                                                              \
        .st_name = (name), .st_value = (address), .st_shndx = 1,                                   \
        .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC)                                             \
    }

/* Of objects that are linked with --hash-style=sysv. */
CHECK(test_old_hash_table)
{
    enum { BUCKETS = 2, HIDDEN = 0x8000 };
    static const char strings[] = "\0one\0two";
    static const ElfW(Sym)
        symbols[] = {{0}, FUNCTION_AT(5, 1), FUNCTION_AT(1, 2), FUNCTION_AT(1, 3)};
    ElfW(Half) versions[] = {0, 2 | HIDDEN, 2 | HIDDEN, 3};
    /* Hashes: 0x7645 of "one", 0x7bdf of "two", 0x7a08 of "six". */
    static const Elf_Symndx table[] = {BUCKETS, 4, 0, 1, 0, 2, 3, 0};
    const struct ns_object object = {
        .symbols = symbols, .strings = strings, .versions = versions, .sysv_hash = table};
    OK(ns_object_find(&object, "one", 0) == 3, "the default version is found in an old hash table");
    versions[3] |= HIDDEN;
    OK(ns_object_find(&object, "one", 0) == 3, "or the last one of others");
    OK(ns_object_find(&object, "two", 0) == 1, "or the only one");
    OK(ns_object_find(&object, "six", 0) == STN_UNDEF, "and not what is not there");
}

static time_t pretended;

static int pretend(clockid_t clock, struct timespec *now)
{
    *now = (struct timespec){pretended, clock == CLOCK_REALTIME_COARSE ? 7999999 : 0};
    return 0;
}

/* Each hour and a bit until February 2100, or until 2038 where that is the last time. */
CHECK(test_times_of_the_log)
{
    const int64_t end = sizeof pretended > 4 ? INT64_C(4107542400) : INT32_MAX;
    char expected[64] = "";
    struct ns_line line = {0};
    ns_real.clock_gettime = pretend;
    for (int64_t at = 0; at < end && strncmp(line.text, expected, strlen(expected)) == 0;
         at += 3607) {
        pretended = (time_t)at;
        ns_line_begin(&line);
        strftime(expected, sizeof expected, "%FT%T.007Z nagleshim[", gmtime(&pretended));
    }
    OK(pretended + INT64_C(3607) >= end, "times are gmtime's, up to %s%.24s", expected, line.text);
}
