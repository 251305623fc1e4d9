/* SPDX-License-Identifier: MIT */
/* The three forms of `nagleshim doctor`. Each prints what it finds and returns the exit status. */
#ifndef NS_DOCTOR_H
#define NS_DOCTOR_H

#include <sys/types.h>

/* words: the program, and its arguments. */
int ns_doctor_program(char **words, unsigned n);
int ns_doctor_process(pid_t pid);

/* Every process with TCP sockets or the library. */
int ns_doctor_all(void);

#endif
