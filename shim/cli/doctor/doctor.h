/* SPDX-License-Identifier: MIT */
/* The three forms of `nagleshim doctor`. Each prints what it finds and returns the exit status. */
#ifndef NS_DOCTOR_H
#define NS_DOCTOR_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

/* The file of names that glibc's loader preloads into every program. */
#define NS_DOCTOR_PRELOAD_FILE "/etc/ld.so.preload"

/* words: the program, and its arguments. */
int ns_doctor_program(char **words, unsigned n);
int ns_doctor_process(pid_t pid);

/* Every process; with every, also those without TCP sockets and without the shim. */
int ns_doctor_all(bool every);

/* The entry for the library in an ld.so.preload that was opened, or -errno of that. False if there
 * is none. Closes fd. */
bool ns_doctor_read_preload_file(int fd, char entry[PATH_MAX]);

#endif
