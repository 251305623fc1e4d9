/* SPDX-License-Identifier: MIT */
/* Fuzzes the search for the library in a process, and the reading of its status: a file is the
 * memory, another one the list of mappings, and the input changes the bytes of both. Whatever is
 * there, texts end, and what is said agrees.
 * NS_FUZZ_BROKEN in the environment: the library may work nowhere, so that it fails. */
#include "process/loaded.h"

#include "must.h"

#include <link.h>
#include <sys/mman.h>

extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

enum { DATA = 4096 }; /* where the mapping begins that can be written to */

/* The image of a library that works. */
struct image {
    ElfW(Ehdr) header;
    ElfW(Phdr) segments[2];
    struct {
        ElfW(Nhdr) header;
        char owner[(sizeof NS_STATUS_NOTE + 3) / 4 * 4];
        int32_t distance;
    } note;
    _Alignas(DATA) struct ns_status status;
    struct ns_stats stats;
};

static void make(struct image *image)
{
    *image = (struct image){
        .header = __ehdr_start,
        .segments = {{.p_type = PT_LOAD},
                     {.p_type = PT_NOTE,
                      .p_vaddr = offsetof(struct image, note),
                      .p_memsz = sizeof image->note}},
        .note = {{sizeof NS_STATUS_NOTE, sizeof(int32_t), NS_STATUS_NOTE_TYPE},
                 NS_STATUS_NOTE,
                 (int32_t)(DATA - offsetof(struct image, note.distance))},
        .status = {.magic = NS_STATUS_MAGIC,
                   .version = NS_STATUS_VERSION,
                   .size = sizeof image->status,
                   .library = "1.0",
                   .state = NS_STATUS_ACTIVE,
                   .counters = offsetof(struct image, stats),
                   .n_counters = sizeof image->stats / sizeof(uint64_t)},
        .stats = {.sockets = 3},
    };
    image->header.e_phoff = offsetof(struct image, segments);
    image->header.e_phnum = 2;
}

static void check(const struct ns_proc *proc)
{
    static struct ns_loaded loaded;
    int error = ns_loaded_find(proc, &loaded);
    MUST(error == 0 && loaded.shim <= NS_SHIM_WORKS && ns_shim_name(loaded.shim));
    MUST(memchr(loaded.path, '\0', sizeof loaded.path));
    MUST(memchr(loaded.library, '\0', sizeof loaded.library));
    MUST(!loaded.has_stats || loaded.has_status);
    MUST(!loaded.has_status || loaded.status.magic == NS_STATUS_MAGIC);
    MUST(loaded.shim != NS_SHIM_WORKS || loaded.has_status);
    MUST(!(loaded.shim == NS_SHIM_WORKS && getenv("NS_FUZZ_BROKEN")));
}

static char directory[] = "/tmp/fuzz-status-XXXXXX"; /* the process's in /proc */

static void remove_directory(void)
{
    char path[sizeof directory + 5];
    snprintf(path, sizeof path, "%s/maps", directory);
    unlink(path);
    rmdir(directory);
}

static void change(struct input *in, void *bytes, size_t size)
{
    for (unsigned n = take(in, 64); n > 0; n--) {
        size_t at = take(in, 256) + 256 * take(in, 256);
        ((uint8_t *)bytes)[at % size] = (uint8_t)take(in, 256);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ns_proc proc = {.dir = -1};
    static struct image image;
    static int list;
    char maps[] = "0-1000 r--p 00000000 08:01 5 /lib/libnagleshim.so\n"
                  "1000-3000 rw-p 00001000 08:01 5 /lib/libnagleshim.so (deleted)\n";
    struct input in = {data, data + size};
    if (proc.dir < 0) {
        atexit(remove_directory);
        MUST(mkdtemp(directory) && (proc.dir = open(directory, O_RDONLY | O_DIRECTORY)) >= 0);
        list = memfd_create("maps", 0);
        proc.memory = memfd_create("memory", 0);
        char link[32];
        snprintf(link, sizeof link, "/proc/self/fd/%d", list);
        MUST(symlinkat(link, proc.dir, "maps") == 0);
    }
    make(&image);
    change(&in, &image, sizeof image);
    change(&in, maps, sizeof maps - 1);
    MUST(pwrite(proc.memory, &image, sizeof image, 0) == (ssize_t)sizeof image);
    MUST(ftruncate(list, 0) == 0 && pwrite(list, maps, sizeof maps - 1, 0) > 0);
    size_t left = (size_t)(in.end - in.at); /* further lines */
    MUST(pwrite(list, in.at, left, sizeof maps - 1) == (ssize_t)left);
    check(&proc);
    return 0;
}
