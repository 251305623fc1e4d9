/* SPDX-License-Identifier: MIT */
/* See symbol.h. Must never allocate or call an interposed function. Not async-signal-safe.
 *
 * It does not use dlsym, for four reasons. Before glibc 2.34 dlsym is in libdl, which every process
 * would have to load. Before glibc 2.36 RTLD_NEXT finds the oldest version of a symbol (BZ 14932),
 * and the old pthread_cond_wait is another function. dlsym may call calloc, which may be the
 * program's own and not ready yet. And a hundred calls of dlsym are a third of what the library
 * adds to the start of a process. */
#include "base/symbol.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));

struct wanted {
    const char *name;
    uint32_t hash; /* of DT_GNU_HASH */
    void **found;
};

struct search {
    struct wanted wanted[NS_SYMBOL_MOST]; /* those that are not found yet */
    size_t count;
    bool begun; /* past the object where the search starts */
};

/* The tables of one object. */
struct object {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Half) * versions;
    const uint32_t *gnu_hash, *sysv_hash;
};

static uint32_t gnu_hash(const char *name)
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

/* Is the address in a loaded segment of the object? */
static bool is_within(const struct dl_phdr_info *info, uintptr_t address)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && address - (info->dlpi_addr + part->p_vaddr) < part->p_memsz)
            return true;
    }
    return false;
}

static bool read_dynamic(const ElfW(Dyn) * entry, const struct dl_phdr_info *info,
                         struct object *object)
{
    *object = (struct object){.base = info->dlpi_addr};
    for (; entry->d_tag != DT_NULL; entry++) {
        /* glibc adds the base in place, except in read-only sections; musl does not. */
        uintptr_t at = entry->d_un.d_ptr;
        const void *table = (const void *)(is_within(info, at) ? at : info->dlpi_addr + at);
        if (entry->d_tag == DT_SYMTAB)
            object->symbols = table;
        else if (entry->d_tag == DT_STRTAB)
            object->strings = table;
        else if (entry->d_tag == DT_VERSYM)
            object->versions = table;
        else if (entry->d_tag == DT_GNU_HASH)
            object->gnu_hash = table;
        else if (entry->d_tag == DT_HASH)
            object->sysv_hash = table;
    }
    return object->symbols && object->strings && (object->gnu_hash || object->sysv_hash);
}

static bool defines(const struct object *object, uint32_t index, const char *name)
{
    const ElfW(Sym) *symbol = &object->symbols[index];
    unsigned type = ELF64_ST_TYPE(symbol->st_info), binding = ELF64_ST_BIND(symbol->st_info);
    return symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0 && binding != STB_LOCAL &&
           (type == STT_FUNC || type == STT_NOTYPE || type == STT_GNU_IFUNC) &&
           strcmp(object->strings + symbol->st_name, name) == 0;
}

/* Is it the default version? The others are for programs that were linked earlier. */
static bool is_default(const struct object *object, uint32_t index)
{
    const ElfW(Half) hidden = 0x8000;
    return !object->versions || !(object->versions[index] & hidden);
}

/* These two return the default version of a function, otherwise any version, otherwise STN_UNDEF.
 */
static uint32_t in_gnu_hash(const struct object *object, const struct wanted *wanted)
{
    const uint32_t *head = object->gnu_hash, hash = wanted->hash;
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
        if ((other | 1) == (hash | 1) && defines(object, index, wanted->name)) {
            best = index;
            if (is_default(object, index))
                return best;
        }
        if (other & 1)
            return best;
    }
}

static uint32_t in_sysv_hash(const struct object *object, const struct wanted *wanted)
{
    uint32_t n_buckets = object->sysv_hash[0], best = STN_UNDEF;
    const uint32_t *buckets = object->sysv_hash + 2, *chain = buckets + n_buckets;
    uint32_t index = buckets[sysv_hash(wanted->name) % n_buckets];
    for (; index != STN_UNDEF; index = chain[index]) {
        if (defines(object, index, wanted->name)) {
            best = index;
            if (is_default(object, index))
                return best;
        }
    }
    return best;
}

/* An indirect function (STT_GNU_IFUNC), such as vfork in libpthread until glibc 2.25. */
static void *resolve(const struct object *object, uint32_t index)
{
    const ElfW(Sym) *symbol = &object->symbols[index];
    void *address = (void *)(object->base + symbol->st_value);
    if (ELF64_ST_TYPE(symbol->st_info) != STT_GNU_IFUNC)
        return address;
    void *(*resolver)(unsigned long);
    memcpy(&resolver, &address, sizeof resolver);
    return resolver(getauxval(AT_HWCAP)); /* aarch64 passes it, x86-64 nothing */
}

static int visit(struct dl_phdr_info *info, size_t size, void *context)
{
    struct search *search = context;
    const ElfW(Dyn) *dynamic = NULL;
    struct object object;
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    if (dynamic == _DYNAMIC)
        search->begun = true;
    if (!search->begun || !dynamic || dynamic == _DYNAMIC || !read_dynamic(dynamic, info, &object))
        return 0;
    size_t left = 0;
    for (size_t i = 0; i < search->count; i++) {
        const struct wanted *wanted = &search->wanted[i];
        uint32_t index =
            object.gnu_hash ? in_gnu_hash(&object, wanted) : in_sysv_hash(&object, wanted);
        bool good = index != STN_UNDEF && is_default(&object, index);
        if (good || (index != STN_UNDEF && !*wanted->found))
            *wanted->found = resolve(&object, index);
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
        search.wanted[search.count] = (struct wanted){names, gnu_hash(names), &found[search.count]};
        search.count++;
    }
    dl_iterate_phdr(visit, &search);
    errno = saved;
}
