/* SPDX-License-Identifier: MIT */
/* Libraries that the program opens: those that find libc's functions before the exported ones
 * (RTLD_DEEPBIND, as PHP does for extensions), and liburing. Each is looked at when it is
 * initialized, before its constructors run. dlopen itself only notes the flag. */
#include "base/path.h"
#include "base/redirect.h"
#include "calls/calls.h"

#include <dlfcn.h>
#include <string.h>

static const char ring_library[] = "liburing";
enum { PREFIX = sizeof ring_library - 1 };

static bool is_ring_library(const struct ns_object *object, void *found)
{
    return *(bool *)found = ns_object_has_name(object, DT_SONAME, ring_library, PREFIX);
}

void ns_loader_start(void)
{
    bool found = false;
    ns_object_each(is_ring_library, &found);
    if (found)
        ns_handover_all_unseen();
}

/* Out of line: __gmon_start__ is called for each object of a starting process. */
__attribute__((noinline)) static void initializes(const void *code)
{
    int saved = errno;
    struct dl_phdr_info info;
    struct ns_object object;
    size_t count = ns_object_of(code, &info, &object);
    if (count && ns_object_has_name(&object, DT_NEEDED, ring_library, PREFIX))
        ns_handover_all_unseen();
    if (count)
        ns_redirect_calls(&info, &object, count);
    errno = saved;
}

/* Of glibc's start files: the _init of every object that is linked with crti.o calls it, if some
 * object exports it. */
void __gmon_start__(void);
/* Also called for objects that are initialized before ThreadSanitizer's runtime. */
__attribute__((no_sanitize("thread"))) NS_EXPORT void __gmon_start__(void)
{
    /* Nothing is done without rules or after a seccomp filter. */
    if (__builtin_expect(ns_opened, 0) && ns_fd_is_open(0) && !ns_process_is_disabled())
        initializes(__builtin_return_address(0));
}

/* The loader searches according to its caller (DT_RUNPATH, namespace), so libc's dlopen must see
 * the program's return address. */
void *ns_dlopen_begin(const char *name, int mode);
__attribute__((used, no_sanitize("thread"))) void *ns_dlopen_begin(const char *name, int mode)
{
    ns_redirect_opens(mode);
    if (name && ns_fd_is_open(0) && !ns_process_is_disabled() &&
        strncmp(ns_path_base(name), ring_library, PREFIX) == 0)
        ns_handover_all_unseen();
    return (void *)NS_REAL(dlopen);
}
NS_JUMPS("dlopen", "ns_dlopen_begin");
