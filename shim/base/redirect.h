/* SPDX-License-Identifier: MIT */
/* Changes where the calls of an object lead that was opened with RTLD_DEEPBIND, which finds libc's
 * functions before the exported ones. */
#ifndef NS_REDIRECT_H
#define NS_REDIRECT_H

#include "base/object.h"

/* Redirect the calls of all exported functions, before the object's constructors run. Changes only
 * slots of calls and function addresses that lead to libc's definition, or will at their first
 * call, in memory that is writable or was until the loader had relocated the object. count: the
 * number of loaded objects. Only inside dlopen; errno is unchanged; not async-signal-safe. */
void ns_redirect_calls(const struct dl_phdr_info *info, const struct ns_object *object,
                       size_t count);

#endif
