/* SPDX-License-Identifier: MIT */
/* Looks up the names of the call table as a program that was built for any libc does, and calls
 * those that this libc lacks. They must fail as if the kernel lacked the call. Prints the libc and
 * the missing names. The arguments are the expected output. */
#include "system.h"

#undef __uflow /* a name of the table; another libc's build of the probes defines it */
#define MINUS_ONE -1, ENOSYS
#define NULL_POINTER 0, ENOSYS
#define ENOSYS_CODE ENOSYS, 0
#define THRD_ERROR thrd_error, 0
#define MINUS_TWO -2, 0
#define ZERO 0, 0

static const struct row {
    const char *name;
    int result, error;
} rows[] = {
#define NS_CALL(result, name, parameters, ...) {#name, __VA_ARGS__},
#define NS_PRIVILEGES(...) /* only the observing library has these */
#include "../../../shim/base/calls.def"
#undef NS_CALL
};

enum { LIBRARIES = 5 };

/* The file that a name was found in. */
static const char *home(void *function)
{
    Dl_info info;
    return dladdr(function, &info) && info.dli_fname ? info.dli_fname : "?";
}

/* libpthread, libutil and libdl are separate libraries before glibc 2.34. */
static bool libc_has(const char *name)
{
    static const char *const names[LIBRARIES] = {"libc.so.6", "libpthread.so.0", "libutil.so.1",
                                                 "libdl.so.2", "libc.so"};
    static void *libraries[LIBRARIES];
    for (int i = 0; i < LIBRARIES; i++) {
        void *found;
        if (!libraries[i])
            libraries[i] = dlopen(names[i], RTLD_NOW);
        found = libraries[i] ? dlsym(libraries[i], name) : NULL;
        if (found && !strstr(home(found), "libnagleshim"))
            return true;
    }
    return false;
}

static int check(const struct row *row)
{
    long (*call)(long, long, long, long, long, long);
    void *found = dlsym(RTLD_DEFAULT, row->name);
    if (!found || !strstr(home(found), "libnagleshim")) {
        printf("%s: it is not the library that has it\n", row->name);
        return 1;
    }
    if (libc_has(row->name))
        return 0;
    /* For names of fortified builds nagleshim makes the plain call. */
    if (strncmp(row->name, "__", 2) == 0)
        return 0;
    memcpy(&call, &found, sizeof call);
    errno = 0;
    /* Without a valid descriptor or address the call can do nothing. */
    int result = (int)call(-1, 0, 0, 0, 0, 0);
    printf("%s ", row->name);
    if (result == row->result && errno == row->error)
        return 0;
    printf("answers %d with errno %d, not %d with %d\n", result, errno, row->result, row->error);
    return 1;
}

int main(void)
{
    const char *(*version)(void);
    int failed = 0;
    *(void **)&version = dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
    printf("libc %s\nlacks ", version ? version() : "musl");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        failed += check(&rows[i]);
    printf("\n");
    return failed != 0;
}
