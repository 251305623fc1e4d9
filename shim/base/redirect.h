/* SPDX-License-Identifier: MIT */
/* Changes where an object's calls lead, in its own slots (DT_JMPREL, DT_RELA). */
#ifndef NS_REDIRECT_H
#define NS_REDIRECT_H

#include <stddef.h>

/* A function of libc, and its replacement. */
struct ns_redirection {
    const char *name;
    void (*to)(void);
};

/* Redirect the calls of the object that contains the address within: count functions or, if count
 * is 0, all that this library exports. (An object that was opened with RTLD_DEEPBIND finds libc's
 * functions before the exported ones.) Changes only slots that lead, or will lead, to libc's
 * definition. If another object defines the name, too, its slots stay, since the program may want
 * that definition. A slot that cannot be written stays. Takes the loader's lock and allocates
 * nothing; errno is unchanged. Not async-signal-safe. */
void ns_redirect_calls(const void *within, const struct ns_redirection *functions, size_t count);

#endif
