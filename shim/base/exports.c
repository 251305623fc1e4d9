/* SPDX-License-Identifier: MIT */
/* The exported functions that are the same in both libraries: stdio's variadic writes, and what
 * notices the libraries that the program opens. Each of those is looked at when it is initialized,
 * before its constructors run; dlopen itself only notes the flag. */
#include "base/redirect.h"
#include "base/wrapper.h"

NS_EXPORT int dprintf(int fd, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int result = vdprintf(fd, format, arguments);
    va_end(arguments);
    return result;
}

NS_EXPORT int __dprintf_chk(int fd, int flag, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int result = __vdprintf_chk(fd, flag, format, arguments);
    va_end(arguments);
    return result;
}

/* Out of line: __gmon_start__ is called for each object of a starting process. */
__attribute__((noinline)) static void initializes(const void *code)
{
    int saved = errno;
    struct dl_phdr_info info;
    struct ns_object object;
    size_t count = ns_object_of(code, &info, &object);
    if (count) {
        ns_loader_finds(NULL, &object);
        ns_redirect_calls(&info, &object, count);
    }
    errno = saved;
}

/* Of glibc's start files: the _init of every object that is linked with crti.o calls it, if some
 * object exports it. */
void __gmon_start__(void);
/* Also called for objects that are initialized before ThreadSanitizer's runtime. */
__attribute__((no_sanitize("thread"))) NS_EXPORT void __gmon_start__(void)
{
    if (__builtin_expect(ns_opened, 0) && ns_loader_acts())
        initializes(__builtin_return_address(0));
}

/* The loader searches according to its caller (DT_RUNPATH, namespace), so libc's dlopen must see
 * the program's return address. */
void *ns_dlopen_begin(const char *name, int mode);
__attribute__((used, no_sanitize("thread"))) void *ns_dlopen_begin(const char *name, int mode)
{
    ns_opened = mode & RTLD_DEEPBIND ? NS_OPENED_DEEP : NS_OPENED;
    if (name && ns_loader_acts())
        ns_loader_finds(name, NULL);
    return (void *)NS_REAL(dlopen);
}
NS_JUMPS("dlopen", "ns_dlopen_begin");
