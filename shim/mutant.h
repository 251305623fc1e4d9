/* SPDX-License-Identifier: MIT */
/* Marks of single steps that the tests must notice when they are left out (tests/mutants). Without
 * NS_MUTANTS, in every build but that of `make check-mutants`, a mark is false and compiles to
 * nothing. */
#ifndef NS_MUTANT_H
#define NS_MUTANT_H

#ifdef NS_MUTANTS
#include <stdlib.h>
#include <string.h>

/* The environment says which one: one build serves them all. */
#define NS_MUTANT(name)                                                                            \
    (__extension__({                                                                               \
        const char *ns_mutant = getenv("NS_MUTANT");                                               \
        ns_mutant &&strcmp(ns_mutant, #name) == 0;                                                 \
    }))
#else
#define NS_MUTANT(name) 0
#endif

#endif
