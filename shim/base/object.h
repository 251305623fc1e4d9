/* SPDX-License-Identifier: MIT */
/* The symbol tables of a loaded object, as ld.so reads them. Nothing here allocates or calls an
 * interposed function. */
#ifndef NS_OBJECT_H
#define NS_OBJECT_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* This library's own dynamic section. */
extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));

/* The tables of one object. */
struct ns_object {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Half) * versions;
    const uint32_t *gnu_hash, *sysv_hash;
};

/* The dynamic section of an object; NULL if it has none. */
const ElfW(Dyn) * ns_object_dynamic(const struct dl_phdr_info *info);

/* Is the address in a loaded segment of the object? */
bool ns_object_has(const struct dl_phdr_info *info, uintptr_t address);

/* The address that an entry of the dynamic section gives. */
const void *ns_object_at(const struct dl_phdr_info *info, const ElfW(Dyn) * entry);

/* Fill in object. Returns false if the object has no symbols to look up. */
bool ns_object_read(const struct dl_phdr_info *info, const ElfW(Dyn) * dynamic,
                    struct ns_object *object);

/* The hash of a name for DT_GNU_HASH. */
uint32_t ns_object_hash(const char *name);

/* The index of a function that the object defines: its default version, otherwise any version,
 * otherwise STN_UNDEF. hash: ns_object_hash(name). */
uint32_t ns_object_find(const struct ns_object *object, const char *name, uint32_t hash);

/* Is it the default version? The others are for programs that were linked earlier. */
bool ns_object_is_default(const struct ns_object *object, uint32_t index);

/* The address of a function. Calls the resolver of an indirect one. */
void *ns_object_resolve(const struct ns_object *object, uint32_t index);

#endif
