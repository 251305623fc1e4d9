/* SPDX-License-Identifier: MIT */
/* Owns the reading of ELF headers. The file may be cut off or hostile: every read is a pread of a
 * fixed size, nothing is mapped, and what cannot be read counts as absent. */
#include "cli/elf.h"

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

static bool read_section(int fd, const ElfW(Ehdr) * header, unsigned index, ElfW(Shdr) * section)
{
    return header->e_shoff != 0 && read_at(fd, section, sizeof(*section),
                                           header->e_shoff + (uint64_t)index * header->e_shentsize);
}

/* Has the file a section of this name that begins so? */
static bool has_section(int fd, const ElfW(Ehdr) * header, const char *wanted, const char *begins)
{
    ElfW(Shdr) names, section;
    char text[32];
    size_t length = strlen(wanted) + 1, begun = strlen(begins);

    if (length > sizeof(text) || begun > sizeof(text) ||
        !read_section(fd, header, header->e_shstrndx, &names))
        return false;
    for (unsigned i = 0; i < header->e_shnum; i++) {
        if (!read_section(fd, header, i, &section))
            return false;
        if (read_at(fd, text, length, names.sh_offset + section.sh_name) &&
            memcmp(text, wanted, length) == 0)
            return section.sh_size >= begun && read_at(fd, text, begun, section.sh_offset) &&
                   memcmp(text, begins, begun) == 0;
    }
    return false;
}

/* Does it define a version of symbols whose name begins so? That is the loader's to read, and so
 * survives strip. */
static bool defines_version(int fd, const ElfW(Ehdr) * header, const ElfW(Shdr) * section,
                            const char *begins)
{
    ElfW(Shdr) names;
    ElfW(Verdef) version;
    ElfW(Verdaux) name;
    char text[32];
    size_t begun = strlen(begins);
    uint64_t offset = section->sh_offset;

    if (!read_section(fd, header, section->sh_link, &names))
        return false;
    for (unsigned left = section->sh_info; left > 0; left--) {
        if (!read_at(fd, &version, sizeof(version), offset) ||
            !read_at(fd, &name, sizeof(name), offset + version.vd_aux) || begun > sizeof(text) ||
            !read_at(fd, text, begun, names.sh_offset + name.vda_name))
            return false;
        if (memcmp(text, begins, begun) == 0)
            return true;
        if (version.vd_next == 0)
            return false;
        offset += version.vd_next;
    }
    return false;
}

static bool has_version(int fd, const ElfW(Ehdr) * header, const char *begins)
{
    ElfW(Shdr) section;

    for (unsigned i = 0; i < header->e_shnum && read_section(fd, header, i, &section); i++)
        if (section.sh_type == SHT_GNU_verdef && defines_version(fd, header, &section, begins))
            return true;
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
    elf->is_go = elf->is_go || has_section(fd, &header, ".go.buildinfo", "");
    elf->is_pascal = has_section(fd, &header, ".fpcdata", "FPC ");
    elf->is_bun = has_version(fd, &header, "BUN_");
    return 0;
}
