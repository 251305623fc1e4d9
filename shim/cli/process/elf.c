/* SPDX-License-Identifier: MIT */
/* Owns the reading of ELF headers. The file may be cut off or hostile: every read is a pread of a
 * fixed size, nothing is mapped, and what cannot be read counts as absent. */
#include "cli/process/elf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
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

/* The file's size as its program headers have it, or 0 if they are cut off themselves. */
static uint64_t wanted_size(int fd, const ElfW(Ehdr) * header, bool *has_dynamic)
{
    uint64_t most = sizeof(*header);
    ElfW(Phdr) segment;

    for (unsigned i = 0; i < header->e_phnum; i++) {
        uint64_t end;

        if (!read_at(fd, &segment, sizeof(segment),
                     header->e_phoff + (uint64_t)i * header->e_phentsize))
            return 0;
        *has_dynamic = *has_dynamic || segment.p_type == PT_DYNAMIC;
        end = segment.p_offset + segment.p_filesz;
        if (segment.p_type == PT_LOAD && end > most)
            most = end;
    }
    return most;
}

static void judge_library(int fd, uint64_t has, char *reason, size_t size)
{
    ElfW(Ehdr) header;
    struct ns_elf elf;
    bool has_dynamic = false;
    uint64_t wants;

    if (has == 0)
        snprintf(reason, size, "is empty");
    else if (ns_elf_inspect(fd, &elf) != 0 || !read_at(fd, &header, sizeof(header), 0))
        snprintf(reason, size, "is no library");
    else if (!elf.native)
        snprintf(reason, size, "is built for another kind of machine");
    else if ((wants = wanted_size(fd, &header, &has_dynamic)) == 0)
        snprintf(reason, size, "is cut off: its program headers are not there");
    else if (wants > has)
        snprintf(reason, size, "is cut off: it has %" PRIu64 " bytes, and needs %" PRIu64, has,
                 wants);
    else if (header.e_type != ET_DYN || !has_dynamic)
        snprintf(reason, size, "is no library");
}

bool ns_elf_is_unfit(int fd, char *reason, size_t size)
{
    struct stat st;

    reason[0] = '\0';
    if (fstat(fd, &st) != 0)
        snprintf(reason, size, "cannot be looked at: %s", strerror(errno));
    else if (!S_ISREG(st.st_mode))
        snprintf(reason, size, "is not a regular file");
    else
        judge_library(fd, (uint64_t)st.st_size, reason, size);
    return reason[0] != '\0';
}

bool ns_elf_path_is_unfit(const char *path, char *reason, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool unfit;

    if (fd < 0) {
        snprintf(reason, size, "cannot be read: %s", strerror(errno));
        return true;
    }
    unfit = ns_elf_is_unfit(fd, reason, size);
    close(fd);
    return unfit;
}
