/* SPDX-License-Identifier: MIT */
/* `nagleshim doctor PROGRAM`: prints what it finds and returns the exit status. */
#ifndef NS_DOCTOR_H
#define NS_DOCTOR_H

/* words: the program, and its arguments. */
int ns_doctor_program(char **words, unsigned n);

#endif
