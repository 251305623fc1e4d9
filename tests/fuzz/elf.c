/* SPDX-License-Identifier: MIT */
/* Fuzzes the reader of ELF files: with the input itself as a file, or with a small program whose
 * bytes the input changes. Whatever the file, texts end, and a second look says the same.
 * NS_FUZZ_BROKEN in the environment: no file may be a Go program, so that it fails. */
#include "process/elf.h"

#include "must.h"

#include <link.h>
#include <sys/mman.h>

extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

static const char names[] = "\0socket\0libc.so.6\0libssl.so.3\0";

/* A Go program that needs libraries and calls socket(). */
struct file {
    ElfW(Ehdr) header;
    ElfW(Phdr) segments[4];
    ElfW(Shdr) sections[4];
    struct {
        ElfW(Nhdr) header;
        char owner[4];
    } note;
    char interpreter[32], names[sizeof names];
    ElfW(Dyn) dynamic[3];
    ElfW(Sym) symbols[3];
};

#define PART(member) offsetof(struct file, member), sizeof((struct file *)0)->member

static ElfW(Phdr) segment(uint32_t type, size_t offset, size_t size)
{
    return (ElfW(Phdr)){.p_type = type, .p_offset = offset, .p_filesz = size};
}

static ElfW(Shdr) section(uint32_t type, size_t offset, size_t size)
{
    return (ElfW(Shdr)){.sh_type = type, .sh_link = 1, .sh_offset = offset, .sh_size = size};
}

static void make(struct file *file)
{
    *file = (struct file){
        .header = __ehdr_start,
        .segments = {segment(PT_LOAD, 0, sizeof *file), segment(PT_NOTE, PART(note)),
                     segment(PT_INTERP, PART(interpreter)), segment(PT_DYNAMIC, PART(dynamic))},
        .sections = {[1] = section(SHT_STRTAB, PART(names)),
                     section(SHT_DYNSYM, PART(symbols)),
                     section(SHT_DYNAMIC, PART(dynamic))},
        .note = {{.n_namesz = 4, .n_type = 4}, "Go"},
        .interpreter = "/lib64/ld-linux-x86-64.so.2",
        .dynamic = {{DT_NEEDED, {8}}, {DT_NEEDED, {18}}, {DT_NULL, {0}}},
        .symbols = {{0}, {.st_name = 8, .st_shndx = 1}, {.st_name = 1}},
    };
    memcpy(file->names, names, sizeof names);
    file->header.e_type = ET_DYN;
    file->header.e_phoff = offsetof(struct file, segments);
    file->header.e_phnum = 4;
    file->header.e_shoff = offsetof(struct file, sections);
    file->header.e_shnum = 4;
}

static bool is_no_libc(const char *name, size_t length)
{
    MUST(strlen(name) == length && length < 16);
    return strncmp(name, "libc.", 5) != 0;
}

static void check(int fd, const char *path)
{
    static struct ns_elf one, other;
    char name[16] = "";
    int error = ns_elf_inspect(fd, &one);
    MUST(error == 0 || error == -ENOEXEC);
    MUST(ns_elf_inspect(fd, &other) == error && memcmp(&one, &other, sizeof one) == 0);
    MUST(memchr(one.interpreter, '\0', sizeof one.interpreter));
    MUST(error == 0 || !(one.native || one.narrow || one.is_go || one.is_library));
    MUST(!(one.is_go && getenv("NS_FUZZ_BROKEN")));
    const char *unfit = ns_elf_path_unfit(path, 0);
    MUST(!unfit || strlen(unfit) < 80);
    MUST(unfit || (one.native && one.is_library && !one.interpreter[0]));
    MUST(ns_elf_path_makes_sockets(path) == ns_elf_path_makes_sockets(path));
    MUST(!ns_elf_path_needs(path, is_no_libc, name, sizeof name) || strncmp(name, "libc.", 5) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[32];
    struct input in = {data, data + size};
    struct file file;
    if (fd < 0)
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd = memfd_create("fuzz", 0));
    MUST(fd >= 0 && ftruncate(fd, 0) == 0);
    if (take(&in, 2)) {
        MUST(pwrite(fd, in.at, (size_t)(in.end - in.at), 0) == in.end - in.at);
    } else {
        make(&file);
        while (in.end - in.at >= 3) {
            size_t at = take(&in, 256) + 256 * take(&in, 256);
            ((uint8_t *)&file)[at % sizeof file] = (uint8_t)take(&in, 256);
        }
        MUST(pwrite(fd, &file, sizeof file, 0) == (ssize_t)sizeof file);
        /* Holes, of which nothing large may be read. */
        MUST(ftruncate(fd, take(&in, 2) ? (off_t)1 << 40 : (off_t)sizeof file) == 0);
    }
    check(fd, path);
    return 0;
}
