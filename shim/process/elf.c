/* SPDX-License-Identifier: MIT */
/* Owns the reading of ELF headers. The file may be truncated, sparse or hostile: nothing is mapped,
 * each part is read once, up to a limit, and what cannot be read counts as absent. */
#include "process/elf.h"

#include "process/open.h"
#include "process/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The linker's name for the ELF header of this command: what "native" means, without a list of
 * architectures. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

static bool read_at(int fd, void *buffer, size_t size, uint64_t offset)
{
    return offset <= INT64_MAX && pread(fd, buffer, size, (off_t)offset) == (ssize_t)size;
}

enum {
    SEGMENTS_MOST = 128,
    NOTES_MOST = 64 << 10, /* bytes of a segment of notes */
    PART_MOST = 16 << 20,  /* bytes of a section */
};

/* A part of the file, to be freed, with a zero byte behind it. *size: how much was read. */
static char *read_part(int fd, uint64_t offset, uint64_t *size)
{
    size_t most = *size < PART_MOST ? (size_t)*size : PART_MOST;
    char *part = ns_allocate(1, most + 1);
    ssize_t n = offset <= INT64_MAX ? pread(fd, part, most, (off_t)offset) : 0;
    *size = n > 0 ? (uint64_t)n : 0;
    return part;
}

/* The Go linker's build ID, a note of the owner "Go", which survives strip. */
static bool has_go_note(int fd, const Elf64_Phdr *segment)
{
    static const char owner[4] = "Go";
    uint64_t size = segment->p_filesz < NOTES_MOST ? segment->p_filesz : NOTES_MOST, at = 0;
    NS_AUTO_FREE char *notes = read_part(fd, segment->p_offset, &size);
    ElfW(Nhdr) note;
    while (at + sizeof note + sizeof owner <= size) {
        memcpy(&note, notes + at, sizeof note);
        at += sizeof note;
        if (note.n_namesz == sizeof owner && memcmp(notes + at, owner, sizeof owner) == 0)
            return true;
        at += (((uint64_t)note.n_namesz + 3) & ~3ULL) + (((uint64_t)note.n_descsz + 3) & ~3ULL);
    }
    return false;
}

static void take_segment(int fd, const Elf64_Phdr *segment, struct ns_elf *elf)
{
    uint64_t end = segment->p_offset + segment->p_filesz;
    if (segment->p_type == PT_LOAD && end > elf->needs)
        elf->needs = end;
    if (segment->p_type == PT_NOTE && has_go_note(fd, segment))
        elf->is_go = true;
    if (segment->p_type == PT_DYNAMIC)
        elf->is_library = true;
    if (segment->p_type == PT_INTERP && segment->p_filesz < sizeof elf->interpreter &&
        !read_at(fd, elf->interpreter, (size_t)segment->p_filesz, segment->p_offset))
        elf->interpreter[0] = '\0';
}

bool ns_elf_segment(bool (*read)(const void *from, void *buffer, size_t size, uint64_t at),
                    const void *from, unsigned i, Elf64_Phdr *segment)
{
    Elf64_Ehdr wide;
    Elf32_Ehdr header;
    Elf32_Phdr narrow;
    if (!read(from, &header, sizeof header, 0) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return false;
    if (header.e_ident[EI_CLASS] == ELFCLASS64)
        return read(from, &wide, sizeof wide, 0) && i < wide.e_phnum &&
               read(from, segment, sizeof *segment, wide.e_phoff + (uint64_t)i * wide.e_phentsize);
    if (i >= header.e_phnum ||
        !read(from, &narrow, sizeof narrow, header.e_phoff + (uint64_t)i * header.e_phentsize))
        return false;
    *segment = (Elf64_Phdr){.p_type = narrow.p_type,
                            .p_offset = narrow.p_offset,
                            .p_vaddr = narrow.p_vaddr,
                            .p_filesz = narrow.p_filesz,
                            .p_memsz = narrow.p_memsz};
    return true;
}

static bool read_file(const void *fd, void *buffer, size_t size, uint64_t at)
{
    return read_at(*(const int *)fd, buffer, size, at);
}

int ns_elf_inspect(int fd, struct ns_elf *elf)
{
    Elf32_Ehdr header; /* its first members are those of both classes */
    Elf64_Phdr segment;
    *elf = (struct ns_elf){0};
    if (!read_at(fd, &header, sizeof header, 0) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return -ENOEXEC;
    bool same_order = header.e_ident[EI_DATA] == __ehdr_start.e_ident[EI_DATA];
    elf->native = header.e_ident[EI_CLASS] == __ehdr_start.e_ident[EI_CLASS] && same_order &&
                  header.e_machine == __ehdr_start.e_machine;
    /* Of the 32-bit programs that 64-bit systems of this machine run. */
    bool is_narrow = (__ehdr_start.e_machine == EM_X86_64 && header.e_machine == EM_386) ||
                     (__ehdr_start.e_machine == EM_AARCH64 && header.e_machine == EM_ARM);
    if (__ehdr_start.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_CLASS] == ELFCLASS32 &&
        same_order && is_narrow)
        elf->narrow = header.e_machine;
    for (unsigned i = 0; (elf->native || elf->narrow) && i < SEGMENTS_MOST &&
                         ns_elf_segment(read_file, &fd, i, &segment);
         i++)
        take_segment(fd, &segment, elf);
    elf->is_library = elf->is_library && header.e_type == ET_DYN;
    return 0;
}

/* The contents of the section of this type and of the section of names that it links to, to be
 * freed; a name's zero byte may be the one behind the names. */
struct sections {
    char *entries, *names;
    uint64_t size, names_size;
};

static bool read_sections(const char *path, uint32_t type, struct sections *sections)
{
    NS_AUTO_CLOSE int fd = ns_open_regular(AT_FDCWD, path);
    ElfW(Ehdr) header;
    ElfW(Shdr) section, names;
    if (fd < 0 || !read_at(fd, &header, sizeof header, 0) ||
        header.e_ident[EI_CLASS] != __ehdr_start.e_ident[EI_CLASS])
        return false;
    uint64_t size = (uint64_t)header.e_shnum * sizeof section;
    NS_AUTO_FREE char *table = read_part(fd, header.e_shoff, &size);
    for (uint64_t i = 0; i < size / sizeof section; i++) {
        memcpy(&section, table + i * sizeof section, sizeof section);
        if (section.sh_type != type || section.sh_link >= size / sizeof section)
            continue;
        memcpy(&names, table + section.sh_link * sizeof names, sizeof names);
        *sections = (struct sections){.size = section.sh_size, .names_size = names.sh_size};
        sections->entries = read_part(fd, section.sh_offset, &sections->size);
        sections->names = read_part(fd, names.sh_offset, &sections->names_size);
        return true;
    }
    return false;
}

static void release(struct sections *sections)
{
    free(sections->entries);
    free(sections->names);
}

bool ns_elf_path_makes_sockets(const char *path)
{
    static const char *const calls[] = {"socket", "connect", "accept", "accept4"};
    struct sections symbols;
    ElfW(Sym) symbol;
    if (!read_sections(path, SHT_DYNSYM, &symbols))
        return true;
    bool found = symbols.size == PART_MOST; /* there may be more */
    for (uint64_t at = 0; !found && at + sizeof symbol <= symbols.size; at += sizeof symbol) {
        memcpy(&symbol, symbols.entries + at, sizeof symbol);
        if (symbol.st_shndx == SHN_UNDEF && symbol.st_name < symbols.names_size)
            for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
                found |= strcmp(symbols.names + symbol.st_name, calls[i]) == 0;
    }
    release(&symbols);
    return found;
}

bool ns_elf_path_needs(const char *path, bool (*is_meant)(const char *name, size_t length),
                       char *name, size_t size)
{
    struct sections dynamic;
    ElfW(Dyn) entry;
    bool found = false;
    if (!read_sections(path, SHT_DYNAMIC, &dynamic))
        return false;
    for (uint64_t at = 0; !found && at + sizeof entry <= dynamic.size; at += sizeof entry) {
        memcpy(&entry, dynamic.entries + at, sizeof entry);
        if (entry.d_tag != DT_NEEDED || entry.d_un.d_val >= dynamic.names_size)
            continue;
        snprintf(name, size, "%s", dynamic.names + entry.d_un.d_val);
        found = is_meant(name, strlen(name));
    }
    release(&dynamic);
    return found;
}

const char *ns_elf_path_unfit(const char *path, uint16_t narrow)
{
    static struct ns_elf elf;
    static char text[80];
    struct stat st;
    NS_AUTO_CLOSE int fd = ns_open_regular(AT_FDCWD, path);
    if (fd == -EINVAL)
        return "is not a regular file";
    if (fd < 0 || fstat(fd, &st) != 0)
        snprintf(text, sizeof text, "cannot be read: %s", strerror(fd < 0 ? -fd : errno));
    else if (st.st_size == 0)
        return "is empty";
    else if (ns_elf_inspect(fd, &elf) != 0 || ((elf.native || elf.narrow) && !elf.is_library))
        return "is not a library";
    else if (elf.interpreter[0])
        return "is a program";
    else if (narrow ? elf.narrow != narrow : !elf.native)
        return "is built for another kind of machine";
    else if (elf.needs > (uint64_t)st.st_size)
        snprintf(text, sizeof text, "is truncated: it has %" PRIu64 " bytes and needs %" PRIu64,
                 (uint64_t)st.st_size, elf.needs);
    else
        return NULL;
    return text;
}
