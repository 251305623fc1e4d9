/* SPDX-License-Identifier: MIT */
/* See redirect.h. Owns what it has learned about libc and about other definitions of the exported
 * names. The loader's lock, which the caller's dlopen holds, protects it. */
#include "base/redirect.h"

#include "base/machine.h"
#include "base/real.h"

#include <elf.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

typedef ElfW(NS_RELOCATION(Rela, Rel)) relocation;
enum { TABLE = NS_RELOCATION(DT_RELA, DT_REL), SIZE = NS_RELOCATION(DT_RELASZ, DT_RELSZ) };
static const ElfW(Addr) types[] = {NS_RELOCATION_TYPES};
enum { R_SYM_SHIFT = sizeof(ElfW(Addr)) == 4 ? 8 : 32 }; /* ELF32_R_SYM, ELF64_R_SYM in elf.h */

/* Before 2.34 glibc had the calls of threads and others in further libraries. */
enum { LIBC_COUNT = 5, EXPORTS_MOST = 256 };
static const char libc_names[LIBC_COUNT][16] = {"libc.so.6", "libpthread.so.0", "librt.so.1",
                                                "libdl.so.2", "libutil.so.1"};
static struct ns_object exports, libc[LIBC_COUNT];
static bool elsewhere[EXPORTS_MOST]; /* another object defines this export, too */
static unsigned long long learned;   /* objects, as dlpi_adds counts them */

/* Looks at each object once. New ones are at the end of the loader's list. */
static int learn(struct dl_phdr_info *info, size_t size, void *context)
{
    size_t *left = context;
    struct ns_object object;
    (void)size;
    if ((*left)-- > info->dlpi_adds - learned ||
        !ns_object_read(info->dlpi_addr, ns_object_dynamic(info), &object) ||
        object.dynamic == _DYNAMIC)
        return 0;
    for (size_t i = 0; i < LIBC_COUNT; i++)
        if (ns_object_has_name(&object, DT_SONAME, libc_names[i], sizeof libc_names[i])) {
            libc[i] = object;
            return 0;
        }
    for (const char *name = ns_real_names; *name; name += strlen(name) + 1) {
        uint32_t hash = ns_object_hash(name);
        if (ns_object_find(&object, name, hash) != STN_UNDEF)
            elsewhere[ns_object_find(&exports, name, hash) % EXPORTS_MOST] = true;
    }
    return 0;
}

/* Has this dlopen brought another definition, too? count: the number of loaded objects. */
static bool is_elsewhere(const struct dl_phdr_info *info, size_t count, uint32_t index)
{
    if (learned != info->dlpi_adds)
        dl_iterate_phdr(learn, &count);
    learned = info->dlpi_adds;
    return elsewhere[index % EXPORTS_MOST];
}

/* Does libc define the name at this address, and not as an older version? */
static bool is_libcs(const char *name, uint32_t hash, uintptr_t address)
{
    for (size_t i = 0; i < LIBC_COUNT; i++) {
        uint32_t index = libc[i].symbols ? ns_object_find(&libc[i], name, hash) : STN_UNDEF;
        if (index != STN_UNDEF && ns_object_is_default(&libc[i], index) &&
            (uintptr_t)ns_object_resolve(&libc[i], index) == address)
            return true;
    }
    return false;
}

_Thread_local uint8_t ns_opened;

struct redirect {
    const struct ns_object *object;
    const struct dl_phdr_info *info;
    size_t count;                  /* of loaded objects */
    uintptr_t sealed, sealed_size; /* PT_GNU_RELRO: read-only since its relocation */
    bool unsealed;
};

static bool make_writable(struct redirect *redirect, uintptr_t slot)
{
    if (slot - redirect->sealed >= redirect->sealed_size)
        return ns_object_has(redirect->info, slot, PF_W);
    if (!redirect->unsealed)
        redirect->unsealed =
            mprotect((void *)redirect->sealed, redirect->sealed_size, PROT_READ | PROT_WRITE) == 0;
    return redirect->unsealed;
}

static void relocate(struct redirect *redirect, const relocation *entry)
{
    const struct ns_object *object = redirect->object;
    ElfW(Addr) type = entry->r_info & (((ElfW(Addr))1 << R_SYM_SHIFT) - 1);
    const ElfW(Sym) *symbol = &object->symbols[entry->r_info >> R_SYM_SHIFT];
    if ((type != types[0] && type != types[1]) || symbol->st_shndx != SHN_UNDEF)
        return;
    const char *name = object->strings + symbol->st_name;
    uint32_t hash = ns_object_hash(name), index = ns_object_find(&exports, name, hash);
    uintptr_t *slot = (uintptr_t *)(object->base + entry->r_offset);
    uintptr_t now = __atomic_load_n(slot, __ATOMIC_RELAXED);
    /* Until its first call, a slot leads to the loader, by code of the object itself. What the
     * loader will find is certain if there is one definition, in one version. */
    bool lazy = type == types[0] && ns_object_has(redirect->info, now, PF_X);
    if (index != STN_UNDEF &&
        (lazy ? !ns_object_has_version(&exports, index) &&
                    !is_elsewhere(redirect->info, redirect->count, index)
              : is_libcs(name, hash, now)) &&
        make_writable(redirect, (uintptr_t)slot))
        __atomic_compare_exchange_n(slot, &now, (uintptr_t)ns_object_resolve(&exports, index),
                                    false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

void ns_redirect_calls(const struct dl_phdr_info *info, const struct ns_object *object,
                       size_t count)
{
    extern const char __ehdr_start[] __attribute__((visibility("hidden"))); /* of this library */
    struct redirect redirect = {.object = object, .info = info, .count = count};
    uintptr_t page = getauxval(AT_PAGESZ);
    const relocation *tables[2] = {NULL};
    size_t sizes[2] = {0};
    if (ns_opened != NS_OPENED_DEEP)
        return;
    if (!learned && ns_object_read((uintptr_t)__ehdr_start, _DYNAMIC, &exports))
        is_elsewhere(info, count, 0); /* and where libc is */
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_GNU_RELRO) {
            redirect.sealed = (object->base + part->p_vaddr) & -page;
            redirect.sealed_size =
                ((object->base + part->p_vaddr + part->p_memsz) & -page) - redirect.sealed;
        }
    }
    for (const ElfW(Dyn) *entry = object->dynamic; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_JMPREL || entry->d_tag == TABLE)
            tables[entry->d_tag == TABLE] = ns_object_at(object, entry);
        else if (entry->d_tag == DT_PLTRELSZ || entry->d_tag == SIZE)
            sizes[entry->d_tag == SIZE] = entry->d_un.d_val / sizeof *tables[0];
    }
    for (unsigned table = 0; table < 2; table++)
        for (size_t i = 0; tables[table] && i < sizes[table]; i++)
            relocate(&redirect, &tables[table][i]);
    if (redirect.unsealed)
        mprotect((void *)redirect.sealed, redirect.sealed_size, PROT_READ);
}
