/* SPDX-License-Identifier: MIT */
/* The program headers of an ELF file of either class, whole or cut. */
#include "process/elf.h"

#include <elf.h>

#include "unit.h"

struct file {
    const char *bytes;
    size_t size;
};

static bool read_file(const void *from, void *buffer, size_t size, uint64_t at)
{
    const struct file *file = from;
    if (at > file->size || size > file->size - at)
        return false;
    memcpy(buffer, file->bytes + at, size);
    return true;
}

static Elf64_Phdr segment;

static bool has(const struct file *file, unsigned i)
{
    return ns_elf_segment(read_file, file, i, &segment);
}

#define CHECK_CLASS(bits)                                                                          \
    CHECK(check_class_##bits)                                                                      \
    {                                                                                              \
        struct {                                                                                   \
            Elf##bits##_Ehdr header;                                                               \
            char gap[24];                                                                          \
            Elf##bits##_Phdr segments[2];                                                          \
        } image = {.header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS##bits},     \
                              .e_phoff = sizeof image.header + sizeof image.gap,                   \
                              .e_phentsize = sizeof *image.segments,                               \
                              .e_phnum = 2},                                                       \
                   .segments = {{.p_type = PT_LOAD},                                               \
                                {.p_type = PT_DYNAMIC,                                             \
                                 .p_offset = 11,                                                   \
                                 .p_vaddr = 12,                                                    \
                                 .p_filesz = 13,                                                   \
                                 .p_memsz = 14}}};                                                 \
        struct file file = {(const char *)&image, sizeof image};                                   \
        OK(has(&file, 0) && segment.p_type == PT_LOAD && has(&file, 1) &&                          \
               segment.p_type == PT_DYNAMIC && segment.p_offset == 11 && segment.p_vaddr == 12 &&  \
               segment.p_filesz == 13 && segment.p_memsz == 14,                                    \
           "each segment of a " #bits "-bit file is read");                                        \
        image.header.e_phnum = 1;                                                                  \
        OK(!has(&file, 1), "what follows the last one is not");                                    \
        image.header.e_phnum = 2;                                                                  \
        file.size--;                                                                               \
        OK(!has(&file, 1) && has(&file, 0), "nor is one that is cut");                             \
        image.header.e_ident[0] = 0;                                                               \
        OK(!has(&file, 0), "another file has none");                                               \
    }
CHECK_CLASS(32)
CHECK_CLASS(64)
