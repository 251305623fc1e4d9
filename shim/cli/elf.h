/* SPDX-License-Identifier: MIT */
/* The few facts of an ELF file that decide whether a library can be preloaded into it. */
#ifndef NS_ELF_H
#define NS_ELF_H

#include <limits.h>
#include <stdbool.h>

struct ns_elf {
    bool native;          /* same class, byte order and machine as this command */
    bool has_interpreter; /* PT_INTERP: ld.so will load it */
    char interpreter[PATH_MAX];
    bool is_go;
    bool is_pascal; /* Free Pascal */
    bool is_bun;    /* the JavaScript runtime, or a program that was compiled with it */
};

/* Fills elf from the open file, whose offset stays where it is. 0; -ENOEXEC if it is no ELF file.
 * Beyond native, nothing is looked at in a file that is not native. */
int ns_elf_inspect(int fd, struct ns_elf *elf);

#endif
