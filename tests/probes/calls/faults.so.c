/* SPDX-License-Identifier: MIT */
/* Is preloaded after the library, or into the command, and lets the call FAULT_CALL fail: the
 * FAULT_AT-th call by the library or by the command, and with FAULT_ON also all later ones. Calls
 * by others are passed on. Creates FAULT_FILE at the first failure. */
#include "raw.h"

#include <link.h>
#include <stdarg.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static uintptr_t shim_low, shim_high;

static int find_shim(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    if (!strstr(info->dlpi_name, "libnagleshim.so"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            shim_low = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            shim_high = shim_low + info->dlpi_phdr[i].p_memsz;
        }
    return 1;
}

/* May be called before any constructor: relocation is done, and the environment exists. */
static bool of_shim(const void *caller)
{
    if (strcmp(program_invocation_short_name, "nagleshim") == 0)
        return true;
    if (!shim_high && environ)
        dl_iterate_phdr(find_shim, NULL);
    return (uintptr_t)caller >= shim_low && (uintptr_t)caller < shim_high;
}

static bool fails(const char *name, const void *caller)
{
    static _Atomic int calls;
    static __thread bool inside; /* calls made by this library */
    const char *wanted = environ ? getenv("FAULT_CALL") : NULL, *at = getenv("FAULT_AT");
    if (inside || !wanted || strcmp(wanted, name) != 0 || !at)
        return false;
    inside = true;
    bool counts = of_shim(caller);
    inside = false;
    if (!counts)
        return false;
    int call = atomic_fetch_add(&calls, 1) + 1;
    if (call < atoi(at) || (call > atoi(at) && !getenv("FAULT_ON")))
        return false;
    const char *file = getenv("FAULT_FILE");
    long fd = file ? RAW(openat, AT_FDCWD, file, O_CREAT | O_WRONLY, 0600) : -1;
    RAW(close, fd, 0, 0, 0);
    return true;
}

#define FAILS(name) fails(#name, __builtin_return_address(0))

static long result_of(long result)
{
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

static int refuse(int error)
{
    errno = error;
    return -1;
}

#define ALLOCATES(name, parameters, ...)                                                           \
    void *name parameters                                                                          \
    {                                                                                              \
        return FAILS(allocation) && refuse(ENOMEM) ? NULL : __libc_##name(__VA_ARGS__);            \
    }
ALLOCATES(malloc, (size_t size), size)
ALLOCATES(calloc, (size_t count, size_t size), count, size)
ALLOCATES(realloc, (void *old, size_t size), old, size)

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (FAILS(mmap)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
#ifdef SYS_mmap2 /* 32-bit systems: the offset in units of 4096 bytes */
    return (void *)result_of(
        raw(SYS_mmap2, (long)at, (long)size, protection, flags, fd, (long)(offset >> 12)));
#else
    return (void *)result_of(raw(SYS_mmap, (long)at, (long)size, protection, flags, fd, offset));
#endif
}

/* Lets the call fail with this error, or makes it. */
#define REFUSES(type, name, parameters, error, made)                                               \
    type name parameters                                                                           \
    {                                                                                              \
        return FAILS(name) ? (type)refuse(error) : (type)result_of(made);                          \
    }
REFUSES(int, getrlimit, (__rlimit_resource_t which, struct rlimit *limit), EPERM,
        RAW(prlimit64, 0, which, NULL, limit))
REFUSES(int, getsockopt, (int fd, int level, int option, void *value, socklen_t *len), EPERM,
        raw(SYS_getsockopt, fd, level, option, (long)value, (long)len, 0))
REFUSES(int, setsockopt, (int fd, int level, int option, const void *value, socklen_t len), EPERM,
        raw(SYS_setsockopt, fd, level, option, (long)value, (long)len, 0))

/* The calls that the library makes by number. */
long syscall(long number, ...)
{
    static const struct {
        long number;
        const char *name;
        int error;
    } rows[] = {{SYS_openat, "openat", EMFILE},
                {SYS_lseek, "lseek", EIO},
                {SYS_readlinkat, "readlinkat", EACCES}};
    long a[6];
    va_list arguments;
    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(arguments, long);
    va_end(arguments);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].number == number && fails(rows[i].name, __builtin_return_address(0)))
            return refuse(rows[i].error);
    return result_of(raw(number, a[0], a[1], a[2], a[3], a[4], a[5]));
}

/* Only reads of files fail, because the sockets belong to the program. */
ssize_t read(int fd, void *data, size_t size)
{
    int type;
    socklen_t len = sizeof type;
    bool file = raw(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, (long)&type, (long)&len, 0) != 0;
    return file && FAILS(read) ? refuse(EIO) : result_of(RAW(read, fd, data, size, 0));
}
