/* SPDX-License-Identifier: MIT */
/* The moments that behind.so provides. A function stored in a moment runs at that moment, in the
 * thread that reaches it. */
#ifndef PROBES_BEHIND_H
#define PROBES_BEHIND_H

#include <dlfcn.h>

typedef void (*volatile moment)(void);

/* A variable of the program, if behind.so is not loaded. */
__attribute__((unused)) static moment *moment_of(const char *name)
{
    static moment unused;
    moment *found;
    *(void **)&found = dlsym(RTLD_DEFAULT, name);
    return found ? found : &unused;
}

#endif
