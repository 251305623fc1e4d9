/* SPDX-License-Identifier: MIT */
/* Owns the reading of ELF headers. The file may be cut off or hostile: every read is a pread of a
 * fixed size, nothing is mapped, and what cannot be read counts as absent. */
#include "elf.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* The linker's name for the ELF header of this very command: what "native" means, without a list of
 * architectures to keep. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

static bool read_at(int fd, void *buffer, size_t size, uint64_t offset)
{
    return offset <= INT64_MAX && pread(fd, buffer, size, (off_t)offset) == (ssize_t)size;
}

/* The Go linker's build ID: a note by the name "Go". It survives strip, which section names do not.
 */
static bool has_go_note(int fd, const ElfW(Phdr) * segment)
{
    uint64_t offset = segment->p_offset;
    uint64_t end = offset + segment->p_filesz;
    ElfW(Nhdr) note;
    char name[4];

    while (offset < end && read_at(fd, &note, sizeof(note), offset)) {
        offset += sizeof(note);
        if (note.n_namesz == sizeof(name) && read_at(fd, name, sizeof(name), offset) &&
            memcmp(name, "Go\0\0", sizeof(name)) == 0)
            return true;
        offset += (((uint64_t)note.n_namesz + 3) & ~3ULL) + (((uint64_t)note.n_descsz + 3) & ~3ULL);
    }
    return false;
}

static void take_interpreter(int fd, const ElfW(Phdr) * segment, struct ns_elf *elf)
{
    elf->has_interpreter = true;
    if (segment->p_filesz >= sizeof(elf->interpreter) ||
        !read_at(fd, elf->interpreter, segment->p_filesz, segment->p_offset))
        elf->interpreter[0] = '\0';
    elf->interpreter[sizeof(elf->interpreter) - 1] = '\0';
}

static void inspect_segments(int fd, const ElfW(Ehdr) * header, struct ns_elf *elf)
{
    ElfW(Phdr) segment;

    for (unsigned i = 0; i < header->e_phnum; i++) {
        uint64_t offset = header->e_phoff + (uint64_t)i * header->e_phentsize;

        if (!read_at(fd, &segment, sizeof(segment), offset))
            return;
        if (segment.p_type == PT_INTERP)
            take_interpreter(fd, &segment, elf);
        else if (segment.p_type == PT_NOTE && has_go_note(fd, &segment))
            elf->is_go = true;
    }
}

static bool has_section(int fd, const ElfW(Ehdr) * header, const char *wanted)
{
    ElfW(Shdr) names, section;
    char name[32];
    size_t length = strlen(wanted) + 1;

    if (header->e_shoff == 0 || length > sizeof(name) ||
        !read_at(fd, &names, sizeof(names),
                 header->e_shoff + (uint64_t)header->e_shstrndx * header->e_shentsize))
        return false;
    for (unsigned i = 0; i < header->e_shnum; i++) {
        uint64_t offset = header->e_shoff + (uint64_t)i * header->e_shentsize;

        if (!read_at(fd, &section, sizeof(section), offset))
            return false;
        if (read_at(fd, name, length, names.sh_offset + section.sh_name) &&
            memcmp(name, wanted, length) == 0)
            return true;
    }
    return false;
}

int ns_elf_inspect(int fd, struct ns_elf *elf)
{
    ElfW(Ehdr) header;

    *elf = (struct ns_elf){0};
    if (!read_at(fd, &header, sizeof(header), 0) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return -ENOEXEC;
    elf->native = header.e_ident[EI_CLASS] == __ehdr_start.e_ident[EI_CLASS] &&
                  header.e_ident[EI_DATA] == __ehdr_start.e_ident[EI_DATA] &&
                  header.e_machine == __ehdr_start.e_machine;
    if (!elf->native)
        return 0;
    inspect_segments(fd, &header, elf);
    elf->is_go = elf->is_go || has_section(fd, &header, ".go.buildinfo");
    return 0;
}
