/* SPDX-License-Identifier: MIT */
/* liburing, which writes and reads unseen, if the program has it or opens it. */
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

/* Nothing is done without rules or after a seccomp filter. */
bool ns_loader_acts(void)
{
    return ns_fd_has_place(0) && !ns_process_is_disabled();
}

void ns_loader_finds(const char *name, const struct ns_object *object)
{
    if (name ? strncmp(ns_path_base(name), ring_library, PREFIX) == 0
             : ns_object_has_name(object, DT_NEEDED, ring_library, PREFIX))
        ns_handover_all_unseen();
}
