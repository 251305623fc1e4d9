/* SPDX-License-Identifier: MIT */
/* Owns the search for the library in a process's memory. It looks at memory, not at files: the file
 * may have been replaced, renamed, or be in another mount namespace. The process may hold anything
 * there, so every number is checked before it is used. */
#include "process/loaded.h"

#include "base/path.h"
#include "process/elf.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

enum { SEGMENTS_MOST = 64, NOTES_MOST = 4096, PAGE = 4096, FILES_MOST = 4096, READ_MOST = 8 << 20 };

struct search {
    const struct ns_proc *proc;
    struct ns_loaded *loaded;
    uint64_t status; /* address of the status section; 0: not found */
    bool is_data;    /* it is in the library's data, and not in a file that the process reads */
    bool observes;   /* libnagleshim-observe.so is there */
    bool unread;     /* not all files were looked at: of the others, names are compared */
    unsigned files;  /* that were looked at, and the bytes of their notes */
    uint64_t bytes;
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
    if (size > sizeof bytes || ns_proc_memory(proc, at, bytes, (size_t)size) != 0)
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

/* Of the first page of an image, which has the table of segments. */
static bool read_page(const void *page, void *buffer, size_t size, uint64_t at)
{
    if (at > PAGE || size > PAGE - at)
        return false;
    memcpy(buffer, (const char *)page + at, size);
    return true;
}

/* Does the file that is mapped at base, from its beginning, have our note? Sets the status. */
static int read_image(struct search *search, uint64_t base)
{
    const struct ns_proc *proc = search->proc;
    Elf64_Phdr segment;
    char page[PAGE] = {0};
    uint64_t bias = base;
    int error = ns_proc_memory(proc, base, page, SELFMAG); /* of a device, no more is read */
    if (!error && memcmp(page, ELFMAG, SELFMAG) == 0)
        error = ns_proc_memory(proc, base, page, sizeof page);
    if (error)
        return error;
    for (unsigned i = 0; i < SEGMENTS_MOST && ns_elf_segment(read_page, page, i, &segment); i++)
        if (segment.p_type == PT_LOAD && segment.p_offset == 0)
            bias = base - segment.p_vaddr;
    for (unsigned i = 0;
         i < SEGMENTS_MOST && !search->status && ns_elf_segment(read_page, page, i, &segment); i++)
        if (segment.p_type == PT_NOTE && search->bytes < READ_MOST) {
            search->bytes += segment.p_memsz < NOTES_MOST ? segment.p_memsz : NOTES_MOST;
            search->status = read_notes(proc, bias + segment.p_vaddr, segment.p_memsz);
        }
    return 0;
}

static bool visit_mapping(void *context, const struct ns_mapping *mapping)
{
    struct search *search = context;
    struct ns_loaded *loaded = search->loaded;
    const char *base = ns_path_base(mapping->path);
    const bool is_library = is_named(base, NS_LIBRARY_NAME);
    if (search->status) { /* of the first copy, which is in use */
        search->is_data = mapping->writable && search->status >= mapping->start;
        return search->status >= mapping->end;
    }
    if (mapping->offset != 0 || !mapping->has_file)
        return true;
    search->observes = search->observes || is_named(base, NS_OBSERVER_NAME);
    /* A database may have many thousands of files below the libraries. */
    const bool is_full = search->files >= (is_library ? 2 : 1) * FILES_MOST;
    int error = is_full ? 0 : read_image(search, mapping->start);
    search->files += !is_full;
    search->unread |= is_full || ns_proc_is_denied(error);
    if (is_full || (!search->status && !is_library))
        return true;
    size_t length = ns_path_length(mapping->path);
    loaded->error = error;
    loaded->deleted = mapping->path[length] != '\0';
    snprintf(loaded->path, sizeof loaded->path, "%.*s", (int)length, mapping->path);
    return true;
}

static enum ns_shim read_status(const struct ns_proc *proc, uint64_t at, struct ns_loaded *loaded)
{
    struct ns_status *status = &loaded->status;
    struct ns_stats *stats = &loaded->stats;
    int error = ns_proc_memory(proc, at, status, sizeof *status);
    loaded->error = error == -EFAULT ? 0 : error;
    if (error)
        return ns_proc_is_denied(error) ? NS_SHIM_DENIED : NS_SHIM_UNKNOWN;
    if (status->magic != NS_STATUS_MAGIC)
        return status->magic ? NS_SHIM_UNKNOWN : NS_SHIM_STARTING;
    status->library[sizeof status->library - 1] = '\0';
    memcpy(loaded->library, status->library, sizeof loaded->library);
    /* A smaller section lacks members, so that foreign bytes were read in their place. */
    if (status->version != NS_STATUS_VERSION || status->size < sizeof *status)
        return NS_SHIM_VERSION;
    if (status->state < NS_STATUS_OFF || status->state > NS_STATUS_ACTIVE)
        return NS_SHIM_UNKNOWN;
    loaded->has_status = true;
    if (status->state != NS_STATUS_ACTIVE)
        return status->state == NS_STATUS_OFF ? NS_SHIM_OFF : NS_SHIM_DISABLED;
    loaded->has_stats = status->n_counters >= sizeof *stats / sizeof(uint64_t) &&
                        ns_proc_memory(proc, status->counters, stats, sizeof *stats) == 0;
    return NS_SHIM_WORKS;
}

int ns_loaded_find(const struct ns_proc *proc, struct ns_loaded *loaded)
{
    struct search search = {.proc = proc, .loaded = loaded};
    *loaded = (struct ns_loaded){.shim = NS_SHIM_NO};
    int error = ns_proc_each_mapping(proc, visit_mapping, &search);
    error = error < 0 ? error : 0;
    if (error || loaded->error) {
        loaded->error = error ? error : loaded->error;
        loaded->shim = ns_proc_is_denied(loaded->error) ? NS_SHIM_DENIED : NS_SHIM_UNKNOWN;
    } else if (search.status && search.is_data) {
        loaded->shim = read_status(proc, search.status, loaded);
    } else if (loaded->path[0] && !search.status) { /* a version without a status section */
        loaded->shim = NS_SHIM_VERSION;
    } else {
        loaded->path[0] = '\0';
        loaded->shim = search.observes ? NS_SHIM_OBSERVES
                       : search.unread ? NS_SHIM_UNNAMED
                                       : NS_SHIM_NO;
    }
    return error;
}

const char *ns_shim_name(enum ns_shim shim)
{
    static const char *const names[] = {
        [NS_SHIM_UNKNOWN] = "?",   [NS_SHIM_DENIED] = "denied",     [NS_SHIM_NO] = "no",
        [NS_SHIM_STUCK] = "stuck", [NS_SHIM_UNNAMED] = "no?",       [NS_SHIM_STARTING] = "starting",
        [NS_SHIM_OFF] = "off",     [NS_SHIM_VERSION] = "version",   [NS_SHIM_DISABLED] = "disabled",
        [NS_SHIM_CURED] = "cured", [NS_SHIM_OBSERVES] = "observes", [NS_SHIM_WORKS] = "works",
    };
    return names[shim];
}
