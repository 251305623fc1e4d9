/* SPDX-License-Identifier: MIT */
/* Owns the search for the library in a process's memory. It looks at memory, not at files: the file
 * may have been replaced, renamed, or be in another mount namespace. The process may hold anything
 * there, so every number is checked before it is used. Not async-signal-safe. */
#include "cli/process/loaded.h"

#include "base/path.h"
#include "cli/cli.h"
#include "cli/process/preload.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

enum { SEGMENTS_MOST = 64, NOTES_MOST = 4096 };

struct search {
    const struct ns_proc *proc;
    struct ns_loaded *loaded;
    uint64_t status; /* address of the status section; 0: not found */
    bool is_there;
};

/* The file's name may have a version behind it. */
static bool is_named(const char *base, const char *name)
{
    return strncmp(base, name, strlen(name)) == 0;
}

/* The status section's address from the library's note in this segment; 0 if there is none. */
static uint64_t read_notes(const struct ns_proc *proc, uint64_t at, uint64_t size)
{
    static const char owner[] = NS_STATUS_NOTE;
    char bytes[NOTES_MOST];
    size_t from = 0;

    if (size > sizeof bytes || ns_proc_memory(proc, at, bytes, size) != 0)
        return 0;
    while (from + sizeof(ElfW(Nhdr)) <= size) {
        ElfW(Nhdr) note;
        int32_t distance;

        memcpy(&note, bytes + from, sizeof note);
        if (note.n_namesz > size || note.n_descsz > size)
            return 0;
        size_t name = from + sizeof note, descriptor = name + ((note.n_namesz + 3u) & ~3u);
        from = descriptor + ((note.n_descsz + 3u) & ~3u);
        if (from > size || note.n_namesz != sizeof owner || note.n_type != NS_STATUS_NOTE_TYPE ||
            note.n_descsz != sizeof distance || memcmp(bytes + name, owner, sizeof owner) != 0)
            continue;
        memcpy(&distance, bytes + descriptor, sizeof distance);
        return at + descriptor + (uint64_t)(int64_t)distance;
    }
    return 0;
}

/* Does the file that is mapped at base, from its beginning, have the library's note? Sets *status.
 */
static int read_image(const struct ns_proc *proc, uint64_t base, uint64_t *status)
{
    ElfW(Ehdr) header;
    ElfW(Phdr) segments[SEGMENTS_MOST];
    uint64_t bias = base;
    int error = ns_proc_memory(proc, base, &header, sizeof header);

    if (error)
        return error;
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phnum > SEGMENTS_MOST ||
        header.e_phentsize != sizeof segments[0])
        return 0;
    error =
        ns_proc_memory(proc, base + header.e_phoff, segments, header.e_phnum * sizeof segments[0]);
    if (error)
        return error;
    for (unsigned i = 0; i < header.e_phnum; i++)
        if (segments[i].p_type == PT_LOAD && segments[i].p_offset == 0)
            bias = base - segments[i].p_vaddr;
    for (unsigned i = 0; i < header.e_phnum && !*status; i++)
        if (segments[i].p_type == PT_NOTE)
            *status = read_notes(proc, bias + segments[i].p_vaddr, segments[i].p_memsz);
    return 0;
}

static bool visit_mapping(void *context, const struct ns_mapping *mapping)
{
    struct search *search = context;
    struct ns_loaded *loaded = search->loaded;
    const char *base = ns_path_base(mapping->path);
    uint64_t status = 0;

    if (mapping->offset != 0 || !mapping->has_file)
        return true;
    loaded->observes = loaded->observes || is_named(base, NS_OBSERVER_NAME);
    int error = read_image(search->proc, mapping->start, &status);
    loaded->denied = loaded->denied || error == -EPERM || error == -EACCES;
    if (!status && !is_named(base, NS_LIBRARY_NAME))
        return true;
    search->is_there = true;
    search->status = status;
    loaded->error = error;
    size_t length = ns_path_length(mapping->path);
    loaded->deleted = mapping->path[length] != '\0';
    snprintf(loaded->path, sizeof loaded->path, "%.*s", (int)length, mapping->path);
    ns_sanitize(loaded->path);
    return status == 0; /* the first copy is the one that is in use */
}

/* The mapping of an address is writable if it is the library's data, and not a file that the
 * process only reads. */
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
        return;
    if (!error)
        error = ns_proc_memory(proc, at, status, sizeof *status);
    if (error) {
        loaded->state = error == -EFAULT ? NS_LOADED_BROKEN : NS_LOADED_UNREADABLE;
        loaded->error = error;
        return;
    }
    if (status->magic != NS_STATUS_MAGIC) {
        loaded->state = status->magic ? NS_LOADED_BROKEN : NS_LOADED_STARTING;
        return;
    }
    status->library[sizeof status->library - 1] = '\0';
    memcpy(loaded->library, ns_sanitize(status->library), sizeof loaded->library);
    /* A smaller section lacks members, so that foreign bytes were read in their place. */
    if (status->version != NS_STATUS_VERSION || status->size < sizeof *status)
        loaded->state = NS_LOADED_VERSION;
    else if (status->state < NS_STATUS_OFF || status->state > NS_STATUS_ACTIVE)
        loaded->state = NS_LOADED_BROKEN;
    else
        loaded->state = NS_LOADED_YES;
}

int ns_loaded_find(const struct ns_proc *proc, struct ns_loaded *loaded)
{
    struct search search = {.proc = proc, .loaded = loaded};

    *loaded = (struct ns_loaded){.state = NS_LOADED_NO};
    int error = ns_proc_each_mapping(proc, visit_mapping, &search);
    if (error)
        return error;
    if (search.status)
        read_status(proc, search.status, loaded);
    else if (search.is_there) /* a version without a status section has no note */
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
        int error = ns_proc_memory(proc, status->rules + i * sizeof rule, &rule, sizeof rule);

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
    if (loaded->status.state != NS_STATUS_ACTIVE)
        return loaded->status.state == NS_STATUS_OFF ? NS_SHIM_OFF : NS_SHIM_DISABLED;
    return ns_loaded_each_rule(proc, &loaded->status, judge_rule, &shim) ? NS_SHIM_UNKNOWN : shim;
}
