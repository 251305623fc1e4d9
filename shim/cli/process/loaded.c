/* SPDX-License-Identifier: MIT */
/* Owns the search for the shim in a process's memory. It looks at memory and not at files: the file
 * may have been replaced, be in another mount namespace, or have another name. The process may hold
 * anything there: every number is checked before it is followed. Not async-signal-safe. */
#include "cli/process/loaded.h"

#include "cli/cli.h"

#include "base/path.h"
#include "cli/process/preload.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SEGMENTS_MOST = 64, NOTES_MOST = 4096 };

struct search {
    const struct ns_proc *proc;
    struct ns_loaded *loaded;
    uint64_t status; /* address of the status section; 0: no note was found */
};

static bool is_named(const char *path, const char *name)
{
    return strncmp(ns_path_base(path), name, strlen(name)) == 0;
}

static bool is_libc(const char *path)
{
    const char *base = ns_path_base(path);

    return strncmp(base, "libc.so", 7) == 0 || strncmp(base, "libc-2.", 7) == 0 ||
           strncmp(base, "ld-musl-", 8) == 0;
}

/* The status section's address by the note at this place, 0 if there is none of ours. */
static uint64_t read_notes(const struct search *search, uint64_t at, uint64_t size)
{
    static const char owner[] = NS_STATUS_NOTE;
    char bytes[NOTES_MOST];
    size_t from = 0;

    if (size > sizeof(bytes) || ns_proc_memory(search->proc, at, bytes, size) != 0)
        return 0;
    while (from + sizeof(ElfW(Nhdr)) <= size) {
        ElfW(Nhdr) note;
        size_t name = from + sizeof(note), descriptor;
        int32_t distance;

        memcpy(&note, bytes + from, sizeof(note));
        if (note.n_namesz > size || note.n_descsz > size)
            return 0;
        descriptor = name + ((note.n_namesz + 3u) & ~3u);
        from = descriptor + ((note.n_descsz + 3u) & ~3u);
        if (from > size || note.n_namesz != sizeof(owner) || note.n_type != NS_STATUS_NOTE_TYPE ||
            note.n_descsz != sizeof(distance) || memcmp(bytes + name, owner, sizeof(owner)) != 0)
            continue;
        memcpy(&distance, bytes + descriptor, sizeof(distance));
        return at + descriptor + (uint64_t)(int64_t)distance;
    }
    return 0;
}

/* An ELF file is mapped at base, from its beginning: has it our note? */
static int read_image(struct search *search, uint64_t base)
{
    ElfW(Ehdr) header;
    ElfW(Phdr) segments[SEGMENTS_MOST];
    uint64_t bias = base;
    int error = ns_proc_memory(search->proc, base, &header, sizeof(header));

    if (error)
        return error;
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phnum > SEGMENTS_MOST ||
        header.e_phentsize != sizeof(segments[0]))
        return 0;
    error = ns_proc_memory(search->proc, base + header.e_phoff, segments,
                           header.e_phnum * sizeof(segments[0]));
    if (error)
        return error;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        if (segments[i].p_type == PT_LOAD && segments[i].p_offset == 0)
            bias = base - segments[i].p_vaddr;
    }
    for (unsigned i = 0; i < header.e_phnum && !search->status; i++) {
        if (segments[i].p_type == PT_NOTE)
            search->status = read_notes(search, bias + segments[i].p_vaddr, segments[i].p_memsz);
    }
    return 0;
}

static void take_path(struct ns_loaded *loaded, const char *path)
{
    size_t length = ns_path_length(path);

    loaded->deleted = path[length] != '\0';
    snprintf(loaded->path, sizeof(loaded->path), "%.*s", (int)length, path);
    ns_sanitize(loaded->path);
}

static bool visit_mapping(void *context, const struct ns_mapping *mapping)
{
    struct search *search = context;
    struct ns_loaded *loaded = search->loaded;
    bool named = is_named(mapping->path, NS_LIBRARY_NAME);
    uint64_t before = search->status;
    int error;

    if (mapping->offset != 0 || !mapping->has_file)
        return true;
    loaded->libcs += is_libc(mapping->path);
    loaded->observes = loaded->observes || is_named(mapping->path, NS_OBSERVER_NAME);
    search->status = 0;
    error = read_image(search, mapping->start);
    loaded->denied = loaded->denied || error == -EPERM || error == -EACCES;
    if (!search->status && !named) {
        search->status = before;
        return true;
    }
    loaded->copies++;
    if (before) { /* the first has the say */
        search->status = before;
        return true;
    }
    loaded->error = error;
    take_path(loaded, mapping->path);
    return true;
}

/* A mapping that holds the place of the status section: the library's data, not a file that
 * somebody only reads. */
struct place {
    uint64_t address;
    bool found;
};

static bool visit_place(void *context, const struct ns_mapping *mapping)
{
    struct place *place = context;

    place->found =
        place->address >= mapping->start && place->address < mapping->end && mapping->writable;
    return !place->found;
}

static void read_status(const struct ns_proc *proc, uint64_t at, struct ns_loaded *loaded)
{
    struct ns_status *status = &loaded->status;
    struct place place = {.address = at};
    int error = ns_proc_each_mapping(proc, visit_place, &place);

    if (!error && !place.found)
        return; /* no library, but its file, which somebody reads */
    if (!error)
        error = ns_proc_memory(proc, at, status, sizeof(*status));
    if (error) {
        loaded->state = error == -EFAULT ? NS_LOADED_BROKEN : NS_LOADED_UNREADABLE;
        loaded->error = error;
        return;
    }
    if (status->magic != NS_STATUS_MAGIC) {
        loaded->state = status->magic ? NS_LOADED_BROKEN : NS_LOADED_STARTING;
        return;
    }
    status->library[sizeof(status->library) - 1] = '\0';
    memcpy(loaded->library, ns_sanitize(status->library), sizeof(loaded->library));
    /* A smaller one lacks members; what was read instead of them lies behind it. */
    if (status->version != NS_STATUS_VERSION || status->size < sizeof(*status))
        loaded->state = NS_LOADED_VERSION;
    else if (status->state < NS_STATUS_OFF || status->state > NS_STATUS_ACTIVE)
        loaded->state = NS_LOADED_BROKEN;
    else
        loaded->state = NS_LOADED_YES;
}

int ns_loaded_find(const struct ns_proc *proc, struct ns_loaded *loaded)
{
    struct search search = {.proc = proc, .loaded = loaded};
    int error;

    *loaded = (struct ns_loaded){.state = NS_LOADED_NO};
    error = ns_proc_each_mapping(proc, visit_mapping, &search);
    if (error)
        return error;
    if (search.status)
        read_status(proc, search.status, loaded);
    else if (loaded->copies > 0) /* one from before there was a status section has no note */
        loaded->state = loaded->error ? NS_LOADED_UNREADABLE : NS_LOADED_VERSION;
    return 0;
}

int ns_loaded_each_rule(const struct ns_proc *proc, const struct ns_status *status,
                        void (*visit)(void *context, unsigned number,
                                      const struct ns_status_rule *rule),
                        void *context)
{
    struct ns_status_rule rule;

    for (unsigned i = 0; i < status->n_rules && i < NS_LOADED_RULES_MOST; i++) {
        int error = ns_proc_memory(proc, status->rules + i * sizeof(rule), &rule, sizeof(rule));

        if (error)
            return error;
        if (rule.applies)
            visit(context, i + 1, &rule);
    }
    return 0;
}

static void judge_rule(void *context, unsigned number, const struct ns_status_rule *rule)
{
    enum ns_shim *shim = context;

    (void)number;
    if (rule->sockets > 0)
        *shim = NS_SHIM_WORKS;
}

enum ns_shim ns_loaded_shim(const struct ns_proc *proc, int error, const struct ns_loaded *loaded)
{
    enum ns_shim shim = NS_SHIM_READY;

    if (!error && loaded->state == NS_LOADED_UNREADABLE)
        error = loaded->error;
    if (error)
        return error == -EACCES || error == -EPERM ? NS_SHIM_DENIED : NS_SHIM_UNKNOWN;
    switch (loaded->state) {
    case NS_LOADED_NO:
        if (loaded->observes)
            return NS_SHIM_OBSERVES;
        return loaded->denied ? NS_SHIM_UNNAMED : NS_SHIM_NO;
    case NS_LOADED_STARTING:
        return NS_SHIM_STARTING;
    case NS_LOADED_VERSION:
        return NS_SHIM_VERSION;
    case NS_LOADED_YES:
        break;
    default:
        return NS_SHIM_UNKNOWN;
    }
    if (loaded->status.state == NS_STATUS_OFF)
        return NS_SHIM_OFF;
    if (loaded->status.state == NS_STATUS_ASIDE)
        return NS_SHIM_DISABLED;
    return ns_loaded_each_rule(proc, &loaded->status, judge_rule, &shim) ? NS_SHIM_UNKNOWN : shim;
}
