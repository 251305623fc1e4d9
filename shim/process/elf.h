/* SPDX-License-Identifier: MIT */
/* The facts of an ELF file that decide whether a library can be preloaded into it. */
#ifndef NS_ELF_H
#define NS_ELF_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ns_elf {
    bool native;                /* same class, byte order and machine as this command */
    char interpreter[PATH_MAX]; /* PT_INTERP, the loader; "": it has none */
    bool is_go;
    bool is_library; /* or a position-independent program */
    uint64_t needs;  /* the size of the file up to the last loaded byte */
};

/* Fills elf from an open file, whose offset is unchanged. 0, or -ENOEXEC if it is not an ELF file.
 * For a file that is not native, nothing else is set. */
int ns_elf_inspect(int fd, struct ns_elf *elf);

/* The same for the file "exe" below the open directory of a process. False: it cannot be read. */
bool ns_elf_inspect_exe(int directory, struct ns_elf *elf);

/* Does the file import functions from libc that make or accept connections? True also if its
 * symbols cannot be read. */
bool ns_elf_path_makes_sockets(const char *path);

/* Does the file need a library for whose name is_meant is true? Then the name is in name. */
bool ns_elf_path_needs(const char *path, bool (*is_meant)(const char *name, size_t length),
                       char *name, size_t size);

/* Would a loader refuse the file as a library, or map a truncated one without looking at its size,
 * so that the process gets SIGBUS? A file that cannot be opened is unfit, too. Then true, and
 * reason is the end of a sentence that begins with the file. */
bool ns_elf_path_is_unfit(const char *path, char *reason, size_t size);

#endif
