/* SPDX-License-Identifier: MIT */
/* Trials of the library in a child of this command: does a program's own loader accept it, and does
 * a program still start with it? */
#ifndef NS_TRIAL_H
#define NS_TRIAL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* The file that the loader, which must be glibc's, finds for name, a name without a slash in
 * LD_PRELOAD. library: any that needs libc. False if it finds none. */
bool ns_trial_find(const char *loader, const char *library, const char *name, char path[PATH_MAX]);

enum ns_trial { NS_TRIAL_LOADED, NS_TRIAL_REFUSED, NS_TRIAL_UNTRIED };

/* Lets the loader list what it would load; no code of the program or of the library runs. loader:
 * what program asks for, "" if it asks for none. is_preloaded: LD_PRELOAD or ld.so.preload names
 * the library already; otherwise it is put into LD_PRELOAD. reason is filled for REFUSED (the
 * loader's message) and UNTRIED. Takes ten seconds at most. */
enum ns_trial ns_trial_load(const char *loader, const char *program, const char *library,
                            bool is_preloaded, char *reason, size_t size);

/* After NS_TRIAL_LOADED: the next file that the loader has listed, except the libraries of libc and
 * library itself; false if there is none. *place is NULL at first. */
bool ns_trial_next_file(const char **place, const char *library, char path[PATH_MAX]);

/* Runs a program without arguments, in a clean environment with library in LD_PRELOAD; NULL:
 * without LD_PRELOAD. True if it exits with 0 and prints nothing; otherwise reason continues a
 * sentence that begins with the program. Takes ten seconds at most. */
bool ns_trial_start(const char *program, const char *library, char *reason, size_t size);

#endif
