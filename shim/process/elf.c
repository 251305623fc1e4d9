/* SPDX-License-Identifier: MIT */
/* Owns the reading of ELF headers. The file may be truncated or hostile: every read is a pread of a
 * fixed size, nothing is mapped, and what cannot be read counts as absent. */
#include "process/elf.h"

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

/* The Go linker's build ID, a note of the owner "Go", which survives strip. */
static bool has_go_note(int fd, const Elf64_Phdr *segment)
{
    uint64_t offset = segment->p_offset, end = offset + segment->p_filesz;
    ElfW(Nhdr) note;
    char owner[4];
    while (offset < end && read_at(fd, &note, sizeof note, offset)) {
        offset += sizeof note;
        if (note.n_namesz == sizeof owner && read_at(fd, owner, sizeof owner, offset) &&
            memcmp(owner, "Go\0", sizeof owner) == 0)
            return true;
        offset += (((uint64_t)note.n_namesz + 3) & ~3ULL) + (((uint64_t)note.n_descsz + 3) & ~3ULL);
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
    for (unsigned i = 0;
         (elf->native || elf->narrow) && ns_elf_segment(read_file, &fd, i, &segment); i++)
        take_segment(fd, &segment, elf);
    elf->is_library = elf->is_library && header.e_type == ET_DYN;
    return 0;
}

bool ns_elf_inspect_exe(int directory, struct ns_elf *elf)
{
    NS_AUTO_CLOSE int fd = openat(directory, "exe", O_RDONLY | O_CLOEXEC);
    return fd >= 0 && ns_elf_inspect(fd, elf) == 0;
}

/* The section of this type, with the names that it links to. */
static bool find_section(int fd, uint32_t type, ElfW(Shdr) * section, ElfW(Shdr) * names)
{
    ElfW(Ehdr) header;
    if (fd < 0 || !read_at(fd, &header, sizeof header, 0) ||
        header.e_ident[EI_CLASS] != __ehdr_start.e_ident[EI_CLASS])
        return false;
    for (unsigned i = 0; i < header.e_shnum; i++)
        if (read_at(fd, section, sizeof *section, header.e_shoff + (uint64_t)i * sizeof *section) &&
            section->sh_type == type)
            return read_at(fd, names, sizeof *names,
                           header.e_shoff + (uint64_t)section->sh_link * sizeof *names);
    return false;
}

bool ns_elf_path_makes_sockets(const char *path)
{
    static const char calls[][8] = {"socket", "connect", "accept", "accept4"};
    NS_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ElfW(Shdr) symbols, names;
    ElfW(Sym) symbol;
    if (!find_section(fd, SHT_DYNSYM, &symbols, &names))
        return true;
    for (uint64_t i = 0; i < symbols.sh_size / sizeof symbol; i++) {
        char name[sizeof calls[0]] = "";
        if (!read_at(fd, &symbol, sizeof symbol, symbols.sh_offset + i * sizeof symbol))
            break;
        if (symbol.st_shndx != SHN_UNDEF || symbol.st_name == 0 ||
            !read_at(fd, name, sizeof name, names.sh_offset + symbol.st_name))
            continue;
        for (size_t j = 0; j < sizeof calls / sizeof calls[0]; j++)
            if (strncmp(name, calls[j], sizeof name) == 0)
                return true;
    }
    return false;
}

bool ns_elf_path_needs(const char *path, bool (*is_meant)(const char *name, size_t length),
                       char *name, size_t size)
{
    NS_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ElfW(Shdr) section, names;
    ElfW(Dyn) entry;
    if (!find_section(fd, SHT_DYNAMIC, &section, &names))
        return false;
    for (uint64_t i = 0; i < section.sh_size / sizeof entry; i++) {
        if (!read_at(fd, &entry, sizeof entry, section.sh_offset + i * sizeof entry) ||
            entry.d_tag != DT_NEEDED)
            continue;
        ssize_t length = pread(fd, name, size - 1, (off_t)(names.sh_offset + entry.d_un.d_val));
        name[length > 0 ? length : 0] = '\0';
        if (is_meant(name, strlen(name)))
            return true;
    }
    return false;
}

const char *ns_elf_path_unfit(const char *path, uint16_t narrow)
{
    static struct ns_elf elf;
    static char text[80];
    struct stat st;
    /* The name may be a FIFO's or a terminal's. */
    NS_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) != 0)
        snprintf(text, sizeof text, "cannot be read: %s", strerror(errno));
    else if (!S_ISREG(st.st_mode))
        return "is not a regular file";
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
