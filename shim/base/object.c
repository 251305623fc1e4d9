/* SPDX-License-Identifier: MIT */
/* See object.h. Owns nothing. */
#include "base/object.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/auxv.h>

uint32_t ns_object_hash(const char *name)
{
    uint32_t hash = 5381;
    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

static uint32_t sysv_hash(const char *name)
{
    uint32_t hash = 0;
    for (; *name; name++) {
        hash = (hash << 4) + (unsigned char)*name;
        hash = (hash ^ (hash >> 24 & 0xF0)) & 0x0FFFFFFF;
    }
    return hash;
}

const ElfW(Dyn) * ns_object_dynamic(const struct dl_phdr_info *info)
{
    const ElfW(Dyn) *dynamic = NULL;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    return dynamic;
}

static uintptr_t distance(uintptr_t a, uintptr_t b)
{
    return a < b ? b - a : a - b;
}

/* glibc adds the base in place, except in read-only sections; musl does not. The tables of an
 * object are near its dynamic section. */
const void *ns_object_at(const struct ns_object *object, const ElfW(Dyn) * entry)
{
    uintptr_t at = entry->d_un.d_ptr, here = (uintptr_t)object->dynamic;
    bool added = distance(at, here) <= distance(object->base + at, here);
    return (const void *)(added ? at : object->base + at);
}

bool ns_object_read(uintptr_t base, const ElfW(Dyn) * entry, struct ns_object *object)
{
    *object = (struct ns_object){.base = base, .dynamic = entry};
    for (; entry && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB)
            object->symbols = ns_object_at(object, entry);
        else if (entry->d_tag == DT_STRTAB)
            object->strings = ns_object_at(object, entry);
        else if (entry->d_tag == DT_VERSYM)
            object->versions = ns_object_at(object, entry);
        else if (entry->d_tag == DT_GNU_HASH)
            object->gnu_hash = ns_object_at(object, entry);
        else if (entry->d_tag == DT_HASH)
            object->sysv_hash = ns_object_at(object, entry);
    }
    return object->symbols && object->strings && (object->gnu_hash || object->sysv_hash);
}

bool ns_object_has_name(const struct ns_object *object, ElfW(Sxword) tag, const char *name,
                        size_t size)
{
    for (const ElfW(Dyn) *entry = object->dynamic; entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == tag && strncmp(object->strings + entry->d_un.d_val, name, size) == 0)
            return true;
    return false;
}

bool ns_object_has(const struct dl_phdr_info *info, uintptr_t address, ElfW(Word) flag)
{
    for (unsigned i = 0; i < info->dlpi_phnum && address >= info->dlpi_addr; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && part->p_flags & flag &&
            address - (info->dlpi_addr + part->p_vaddr) < part->p_memsz)
            return true;
    }
    return false;
}

/* The list of objects that the loader keeps for debuggers. NULL if the program has no entry for it,
 * such as libc.so.6 run as a program. */
static const struct link_map *first_of_list(void)
{
    const ElfW(Phdr) *parts = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    struct dl_phdr_info program = {.dlpi_phdr = parts,
                                   .dlpi_phnum = (ElfW(Half))getauxval(AT_PHNUM)};
    for (unsigned i = 0; i < program.dlpi_phnum; i++)
        if (parts[i].p_type == PT_PHDR)
            program.dlpi_addr = (uintptr_t)parts - parts[i].p_vaddr;
    for (const ElfW(Dyn) *entry = ns_object_dynamic(&program); entry && entry->d_tag; entry++)
        if (entry->d_tag == DT_DEBUG && entry->d_un.d_ptr)
            return ((const struct r_debug *)entry->d_un.d_ptr)->r_map;
    return NULL;
}

struct place {
    uintptr_t address;
    struct dl_phdr_info *info;
    size_t count;
    bool found;
};

static int look(struct dl_phdr_info *info, size_t size, void *context)
{
    struct place *place = context;
    (void)size;
    place->count++;
    if (!place->found && ns_object_has(info, place->address, PF_X)) {
        place->found = true;
        *place->info = *info;
    }
    return 0;
}

size_t ns_object_of(const void *code, struct dl_phdr_info *info, struct ns_object *object)
{
    struct place place = {.address = (uintptr_t)code, .info = info};
    dl_iterate_phdr(look, &place);
    return place.found && ns_object_read(info->dlpi_addr, ns_object_dynamic(info), object)
               ? place.count
               : 0;
}

struct walk {
    bool (*visit)(const struct ns_object *object, void *context);
    void *context;
};

static int step(struct dl_phdr_info *info, size_t size, void *context)
{
    const struct walk *walk = context;
    struct ns_object object;
    (void)size;
    return ns_object_read(info->dlpi_addr, ns_object_dynamic(info), &object) &&
           walk->visit(&object, walk->context);
}

void ns_object_each(bool (*visit)(const struct ns_object *object, void *context), void *context)
{
    struct walk walk = {visit, context};
    const struct link_map *map = first_of_list();
    struct ns_object object;
    if (!map)
        dl_iterate_phdr(step, &walk);
    for (; map; map = map->l_next)
        if (ns_object_read(map->l_addr, map->l_ld, &object) && visit(&object, context))
            return;
}

static bool defines(const struct ns_object *object, uint32_t index, const char *name)
{
    const ElfW(Sym) *symbol = &object->symbols[index];
    unsigned type = ELF64_ST_TYPE(symbol->st_info), binding = ELF64_ST_BIND(symbol->st_info);
    const char *other = object->strings + symbol->st_name;
    if (symbol->st_shndx == SHN_UNDEF || symbol->st_value == 0 || binding == STB_LOCAL ||
        (type != STT_FUNC && type != STT_NOTYPE && type != STT_GNU_IFUNC))
        return false;
    /* Not strcmp: on i386, libasan calls syscall before its own strcmp works. */
    for (; *name && *name == *other; name++)
        other++;
    return *name == *other;
}

bool ns_object_is_default(const struct ns_object *object, uint32_t index)
{
    const ElfW(Half) hidden = 0x8000;
    return !object->versions || !(object->versions[index] & hidden);
}

bool ns_object_has_version(const struct ns_object *object, uint32_t index)
{
    return object->versions && object->versions[index] > VER_NDX_GLOBAL;
}

static uint32_t in_gnu_hash(const struct ns_object *object, const char *name, uint32_t hash)
{
    const uint32_t *head = object->gnu_hash;
    uint32_t n_buckets = head[0], first = head[1], n_words = head[2], shift = head[3];
    const ElfW(Addr) *bloom = (const ElfW(Addr) *)(head + 4);
    const uint32_t *buckets = (const uint32_t *)(bloom + n_words), *chain = buckets + n_buckets;
    enum { BITS = 8 * sizeof *bloom };
    ElfW(Addr) word = bloom[hash / BITS % n_words];
    uint32_t best = STN_UNDEF;
    if (!(word >> hash % BITS & word >> (hash >> shift) % BITS & 1))
        return best;
    uint32_t index = buckets[hash % n_buckets];
    if (index < first) /* an empty bucket */
        return best;
    for (;; index++) {
        uint32_t other = chain[index - first];
        if ((other | 1) == (hash | 1) && defines(object, index, name)) {
            best = index;
            if (ns_object_is_default(object, index))
                return best;
        }
        if (other & 1)
            return best;
    }
}

static uint32_t in_sysv_hash(const struct ns_object *object, const char *name)
{
    uint32_t n_buckets = (uint32_t)object->sysv_hash[0], best = STN_UNDEF;
    const Elf_Symndx *buckets = object->sysv_hash + 2, *chain = buckets + n_buckets;
    uint32_t index = (uint32_t)buckets[sysv_hash(name) % n_buckets];
    for (; index != STN_UNDEF; index = (uint32_t)chain[index]) {
        if (defines(object, index, name)) {
            best = index;
            if (ns_object_is_default(object, index))
                return best;
        }
    }
    return best;
}

uint32_t ns_object_find(const struct ns_object *object, const char *name, uint32_t hash)
{
    return object->gnu_hash ? in_gnu_hash(object, name, hash) : in_sysv_hash(object, name);
}

/* An indirect function (STT_GNU_IFUNC), such as vfork in libpthread until glibc 2.25. */
void *ns_object_resolve(const struct ns_object *object, uint32_t index)
{
    const ElfW(Sym) *symbol = &object->symbols[index];
    void *address = (void *)(object->base + symbol->st_value);
    if (ELF64_ST_TYPE(symbol->st_info) != STT_GNU_IFUNC)
        return address;
    void *(*resolver)(unsigned long);
    memcpy(&resolver, &address, sizeof resolver);
    return resolver(getauxval(AT_HWCAP)); /* aarch64 passes it, x86-64 nothing */
}

/* --- functions by name, in all loaded objects --- */

/* ns_symbol_find does not use dlsym, for four reasons. Before glibc 2.34 dlsym is in libdl, which
 * every process would have to load. Before glibc 2.36 RTLD_NEXT finds the oldest version of a
 * symbol (BZ 14932), and the old pthread_cond_wait is another function. dlsym may call calloc,
 * which may be the program's own and not ready yet. And a hundred calls of dlsym would be a third
 * of the time that the library adds to the start of a process. */
struct wanted {
    const char *name;
    uint32_t hash;
    void **found;
};

struct search {
    struct wanted wanted[NS_SYMBOL_MOST]; /* those that are not found yet */
    size_t count;
    bool begun; /* past the object where the search starts */
};

static bool visit(const struct ns_object *object, void *context)
{
    struct search *search = context;
    if (object->dynamic == _DYNAMIC)
        search->begun = true;
    if (!search->begun || object->dynamic == _DYNAMIC ||
        object->base == getauxval(AT_SYSINFO_EHDR)) /* the vDSO, whose names dlsym does not find */
        return false;
    size_t left = 0;
    for (size_t i = 0; i < search->count; i++) {
        const struct wanted *wanted = &search->wanted[i];
        uint32_t index = ns_object_find(object, wanted->name, wanted->hash);
        bool good = index != STN_UNDEF && ns_object_is_default(object, index);
        if (good || (index != STN_UNDEF && !*wanted->found))
            *wanted->found = ns_object_resolve(object, index);
        /* An old version is used only if no object has the default one: glibc's libpthread had old
         * versions of functions that are in libc. */
        if (!good)
            search->wanted[left++] = *wanted;
    }
    search->count = left;
    return left == 0;
}

void ns_symbol_find(enum ns_symbol_from from, const char *names, size_t count, void **found)
{
    struct search search = {.begun = from == NS_SYMBOL_FIRST};
    int saved = errno;
    for (; search.count < count && search.count < NS_SYMBOL_MOST; names += strlen(names) + 1) {
        search.wanted[search.count] =
            (struct wanted){names, ns_object_hash(names), &found[search.count]};
        search.count++;
    }
    ns_object_each(visit, &search);
    errno = saved;
}
