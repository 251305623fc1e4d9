/* SPDX-License-Identifier: MIT */
/* See redirect.h. Owns nothing. Must never call an interposed function. */
#include "base/redirect.h"

#include "base/object.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#if defined(__x86_64__)
enum { JUMP_SLOT = R_X86_64_JUMP_SLOT, GLOB_DAT = R_X86_64_GLOB_DAT, ADDRESS = R_X86_64_64 };
#elif defined(__aarch64__)
enum { JUMP_SLOT = R_AARCH64_JUMP_SLOT, GLOB_DAT = R_AARCH64_GLOB_DAT, ADDRESS = R_AARCH64_ABS64 };
#else
#error "the relocations of this machine are not known"
#endif

struct redirect {
    uintptr_t within;
    const struct ns_redirection *functions;
    size_t count;
    struct ns_object exports; /* this library */
    struct ns_object object;
    const struct dl_phdr_info *info;
    uintptr_t sealed, sealed_end; /* memory that the loader has made read-only after relocation */
    bool unsealed;
};

/* Where a call of a name ends. */
struct target {
    const char *name;
    uint32_t hash;
    uintptr_t now;
    bool libc;      /* libc defines it at this address */
    bool elsewhere; /* an object other than libc and this library defines it, too */
};

/* Before 2.34 glibc had the calls of threads and others in further libraries. */
static bool is_libc(const struct ns_object *object, const ElfW(Dyn) * entry)
{
    static const char names[][12] = {"libc.so.", "libpthread.", "librt.so.", "libdl.so.",
                                     "libutil."};
    for (; entry->d_tag != DT_NULL && entry->d_tag != DT_SONAME; entry++)
        ;
    const char *name = entry->d_tag == DT_SONAME ? object->strings + entry->d_un.d_val : "";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static int look(struct dl_phdr_info *info, size_t size, void *context)
{
    struct target *target = context;
    const ElfW(Dyn) *dynamic = ns_object_dynamic(info);
    struct ns_object object;
    (void)size;
    if (!dynamic || dynamic == _DYNAMIC || !ns_object_read(info, dynamic, &object))
        return 0;
    uint32_t index = ns_object_find(&object, target->name, target->hash);
    if (index == STN_UNDEF)
        return 0;
    if (!is_libc(&object, dynamic))
        target->elsewhere = true;
    else if (ns_object_is_default(&object, index))
        target->libc |= (uintptr_t)ns_object_resolve(&object, index) == target->now;
    return target->elsewhere;
}

/* Make the slot writable. */
static bool unseal(struct redirect *redirect, uintptr_t slot)
{
    if (redirect->unsealed || slot - redirect->sealed >= redirect->sealed_end - redirect->sealed)
        return true;
    redirect->unsealed = mprotect((void *)redirect->sealed, redirect->sealed_end - redirect->sealed,
                                  PROT_READ | PROT_WRITE) == 0;
    return redirect->unsealed;
}

/* The function to call instead of the named one; 0: do not replace it. */
static uintptr_t instead(const struct redirect *redirect, const char *name, uint32_t hash)
{
    for (size_t i = 0; i < redirect->count; i++)
        if (strcmp(redirect->functions[i].name, name) == 0)
            return (uintptr_t)redirect->functions[i].to;
    uint32_t index = redirect->count ? STN_UNDEF : ns_object_find(&redirect->exports, name, hash);
    return index == STN_UNDEF ? 0 : (uintptr_t)ns_object_resolve(&redirect->exports, index);
}

static void relocate(struct redirect *redirect, const ElfW(Rela) * entry)
{
    const struct ns_object *object = &redirect->object;
    unsigned long type = ELF64_R_TYPE(entry->r_info);
    if ((type != JUMP_SLOT && type != GLOB_DAT && type != ADDRESS) || entry->r_addend)
        return;
    const ElfW(Sym) *symbol = &object->symbols[ELF64_R_SYM(entry->r_info)];
    if (symbol->st_shndx != SHN_UNDEF)
        return; /* its own */
    const char *name = object->strings + symbol->st_name;
    uint32_t hash = ns_object_hash(name);
    uintptr_t wrapper = instead(redirect, name, hash);
    uintptr_t *slot = (uintptr_t *)(object->base + entry->r_offset);
    struct target target = {name, hash, __atomic_load_n(slot, __ATOMIC_RELAXED), false, false};
    if (!wrapper || target.now == wrapper)
        return;
    dl_iterate_phdr(look, &target);
    /* Until its first call, a slot leads to the loader, by code of the object itself. */
    bool lazy = type == JUMP_SLOT && ns_object_has(redirect->info, target.now);
    if (!target.elsewhere && (target.libc || lazy) && unseal(redirect, (uintptr_t)slot))
        __atomic_store_n(slot, wrapper, __ATOMIC_RELAXED);
}

/* The relocations in a table of the dynamic section. skipped: the entry with the number of leading
 * relocations without a symbol. */
static void relocate_all(struct redirect *redirect, const ElfW(Dyn) * entry, ElfW(Sxword) table,
                         ElfW(Sxword) size, ElfW(Sxword) skipped)
{
    const ElfW(Rela) *first = NULL;
    size_t bytes = 0, skip = 0;
    for (; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == table)
            first = ns_object_at(redirect->info, entry);
        else if (entry->d_tag == size)
            bytes = entry->d_un.d_val;
        else if (entry->d_tag == skipped)
            skip = entry->d_un.d_val;
    }
    for (size_t i = skip; first && i < bytes / sizeof *first; i++)
        relocate(redirect, &first[i]);
}

static int find_exports(struct dl_phdr_info *info, size_t size, void *context)
{
    struct redirect *redirect = context;
    (void)size;
    return ns_object_dynamic(info) == _DYNAMIC &&
           ns_object_read(info, _DYNAMIC, &redirect->exports);
}

/* All is done inside the loader's lock, so no other thread makes the memory read-only again. */
static int visit(struct dl_phdr_info *info, size_t size, void *context)
{
    struct redirect *redirect = context;
    const ElfW(Dyn) *dynamic = ns_object_dynamic(info);
    uintptr_t page = getauxval(AT_PAGESZ);
    (void)size;
    if (!dynamic || dynamic == _DYNAMIC || !ns_object_has(info, redirect->within) ||
        !ns_object_read(info, dynamic, &redirect->object))
        return 0;
    redirect->info = info;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_GNU_RELRO) {
            redirect->sealed = (info->dlpi_addr + part->p_vaddr) & -page;
            redirect->sealed_end = (info->dlpi_addr + part->p_vaddr + part->p_memsz) & -page;
        }
    }
    relocate_all(redirect, dynamic, DT_JMPREL, DT_PLTRELSZ, DT_NULL);
    relocate_all(redirect, dynamic, DT_RELA, DT_RELASZ, DT_RELACOUNT);
    if (redirect->unsealed)
        mprotect((void *)redirect->sealed, redirect->sealed_end - redirect->sealed, PROT_READ);
    return 1;
}

void ns_redirect_calls(const void *within, const struct ns_redirection *functions, size_t count)
{
    struct redirect redirect = {
        .within = (uintptr_t)within, .functions = functions, .count = count};
    int saved = errno;
    if (dl_iterate_phdr(find_exports, &redirect))
        dl_iterate_phdr(visit, &redirect);
    errno = saved;
}
