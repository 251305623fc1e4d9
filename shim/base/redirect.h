/* SPDX-License-Identifier: MIT */
/* Changes where the calls of an object lead that was opened with RTLD_DEEPBIND, which finds libc's
 * functions before the exported ones. */
#ifndef NS_REDIRECT_H
#define NS_REDIRECT_H

#include "base/object.h"

#include <dlfcn.h>

/* This thread's last dlopen; 0: none. Stays, because the library cannot see when that call ends. */
enum { NS_OPENED = 1, NS_OPENED_DEEP };
extern _Thread_local uint8_t ns_opened __attribute__((visibility("hidden")));

/* Each of the two libraries has its own. Does it look at what the program opens? And: the program
 * opens a library by name, or object (name is NULL) is initialized. */
bool ns_loader_acts(void);
void ns_loader_finds(const char *name, const struct ns_object *object);

/* Redirect the calls of all exported functions, before the object's constructors run. Changes only
 * slots of calls and function addresses that lead to libc's definition, or will at their first
 * call, in memory that is writable or was until the loader had relocated the object. count: the
 * number of loaded objects. Does nothing in a dlopen without the flag. Only inside dlopen; errno is
 * unchanged; not async-signal-safe. */
void ns_redirect_calls(const struct dl_phdr_info *info, const struct ns_object *object,
                       size_t count);

#endif
