/* SPDX-License-Identifier: MIT */
/* The symbol tables of a loaded object, as ld.so reads them. Nothing here allocates or calls an
 * interposed function. */
#ifndef NS_OBJECT_H
#define NS_OBJECT_H

#include "base/machine.h"

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* This library's own dynamic section. */
extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));

/* The tables of one object. */
struct ns_object {
    uintptr_t base;
    const ElfW(Dyn) * dynamic;
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Half) * versions;
    const uint32_t *gnu_hash;
    const Elf_Symndx *sysv_hash; /* of 64 bits on s390x */
};

/* Call visit for each object in the loader's order, until it returns true. Reads the loader's list
 * without its lock, which a thread may hold for long: for start-up, when nothing is unloaded. Only
 * in a program that has no DT_DEBUG it takes the lock. */
void ns_object_each(bool (*visit)(const struct ns_object *object, void *context), void *context);

/* The dynamic section of an object; NULL if it has none. */
const ElfW(Dyn) * ns_object_dynamic(const struct dl_phdr_info *info);

/* The address that an entry of the dynamic section gives. */
const void *ns_object_at(const struct ns_object *object, const ElfW(Dyn) * entry);

/* Fill in object. Returns false if the object has no symbols to look up. */
bool ns_object_read(uintptr_t base, const ElfW(Dyn) * dynamic, struct ns_object *object);

/* Has it a name (DT_SONAME), or need a library (DT_NEEDED), whose first size bytes are these? With
 * the NUL they are the whole name. */
bool ns_object_has_name(const struct ns_object *object, ElfW(Sxword) tag, const char *name,
                        size_t size);

/* Is the address in a segment of the object with this flag (PF_W)? */
bool ns_object_has(const struct dl_phdr_info *info, uintptr_t address, ElfW(Word) flag);

/* Fill in info and object for the object that contains code. Returns the number of loaded objects;
 * 0 if the code is in none. Takes the loader's lock: only inside dlopen. */
size_t ns_object_of(const void *code, struct dl_phdr_info *info, struct ns_object *object);

/* The hash of a name for DT_GNU_HASH. */
uint32_t ns_object_hash(const char *name);

/* The index of a function that the object defines: its default version, otherwise any version,
 * otherwise STN_UNDEF. hash: ns_object_hash(name). */
uint32_t ns_object_find(const struct ns_object *object, const char *name, uint32_t hash);

/* Is it the default version? The others are for programs that were linked earlier. */
bool ns_object_is_default(const struct ns_object *object, uint32_t index);

/* Has it a version of its own? */
bool ns_object_has_version(const struct ns_object *object, uint32_t index);

/* The address of a function. Calls the resolver of an indirect one. */
void *ns_object_resolve(const struct ns_object *object, uint32_t index);

/* --- functions by name, in all loaded objects --- */

enum ns_symbol_from {
    NS_SYMBOL_FIRST, /* from the program on, as dlsym(RTLD_DEFAULT) */
    NS_SYMBOL_NEXT,  /* from the object after this library on, as dlsym(RTLD_NEXT) */
};

enum { NS_SYMBOL_MOST = 128 NS_IF_TIME64(+32) };

/* Look up count functions, NS_SYMBOL_MOST at most, in all objects except this library. names: their
 * names one after another, each with its NUL. found[i], which must be NULL, becomes the address of
 * function i, and stays NULL if no object has it. Allocates nothing and takes no lock (see
 * ns_object_each). errno is unchanged. Not async-signal-safe. */
void ns_symbol_find(enum ns_symbol_from from, const char *names, size_t count, void **found);

#endif
