/* SPDX-License-Identifier: MIT */
/* The facts of an ELF file that decide whether a library can be preloaded into it. */
#ifndef NS_ELF_H
#define NS_ELF_H

#include <elf.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ns_elf {
    bool native;     /* same class, byte order and machine as this command */
    uint16_t narrow; /* or the machine (EM_386) of a 32-bit file that a 64-bit system runs, too */
    char interpreter[PATH_MAX]; /* PT_INTERP, the loader; "": it has none */
    bool is_go;
    bool is_library; /* or a position-independent program */
    uint64_t needs;  /* the size of the file up to the last loaded byte */
};

/* Fills elf from an open file, whose offset is unchanged. 0, or -ENOEXEC if it is not an ELF file.
 * For a file that is neither native nor narrow, nothing else is set. */
int ns_elf_inspect(int fd, struct ns_elf *elf);

/* Segment number i of an ELF file of either class, or of its image in memory, from which read
 * reads. Of a 32-bit segment, flags, alignment and physical address are not set. Returns false if
 * there is no such segment. */
bool ns_elf_segment(bool (*read)(const void *from, void *buffer, size_t size, uint64_t at),
                    const void *from, unsigned i, Elf64_Phdr *segment);

/* Does the file import functions from libc that make or accept connections? True also if its
 * symbols cannot be read. */
bool ns_elf_path_makes_sockets(const char *path);

/* Does the file need a library for whose name is_meant is true? Then the name is in name. */
bool ns_elf_path_needs(const char *path, bool (*is_meant)(const char *name, size_t length),
                       char *name, size_t size);

/* Why the loader of a native program, or of a program whose elf.narrow this is, would refuse the
 * file as a library, or map a truncated one without looking at its size, so that the process gets
 * SIGBUS: the end of a sentence that begins with the file, valid until the next call. NULL: it
 * would not. */
const char *ns_elf_path_unfit(const char *path, uint16_t narrow);

#endif
