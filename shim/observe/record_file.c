/* SPDX-License-Identifier: MIT */
/* See record_file.h. Owns the directory's name. Must never write to memory that the file system may
 * refuse to back (SIGBUS, mmap(2)), and must never fill the file system. In memory (tmpfs) a page
 * that was backed once stays so; on btrfs, ZFS or a network it may not. */
#include "observe/record_file.h"

#include "base/clock.h"
#include "base/path.h"
#include "base/system.h"

#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* linux/mman.h, 5.14 */
#endif

static char where[PATH_MAX]; /* "": nowhere */

void ns_record_file_open(const char *directory)
{
    if (directory && *directory == '/' && strlen(directory) < sizeof where)
        memcpy(where, directory, strlen(directory) + 1);
}

bool ns_record_file_is_open(void)
{
    return where[0] != 0;
}

/* path becomes DIRECTORY/PID-TIME.record. False if that is too long. */
static bool name_it(char path[PATH_MAX], uint64_t began)
{
    char digits[2][24];
    uint64_t numbers[2] = {(uint64_t)getpid(), began};
    const char *parts[6] = {where, "/", NULL, "-", NULL, NS_RECORD_SUFFIX};
    for (int i = 0; i < 2; i++) {
        char *at = digits[i] + sizeof digits[i] - 1;
        *at = 0;
        do
            *--at = (char)('0' + numbers[i] % 10);
        while (numbers[i] /= 10);
        parts[2 + 2 * i] = at;
    }
    size_t used = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t length = strlen(parts[i]);
        if (used + length >= PATH_MAX)
            return false;
        memcpy(path + used, parts[i], length + 1);
        used += length;
    }
    return true;
}

/* Would a file of that size raise SIGXFSZ, which ends the program? */
static bool is_too_large(void)
{
    struct rlimit64 most;
    return NS_SYSTEM(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &most) == 0 &&
           most.rlim_cur < NS_RECORD_FILE_SIZE;
}

int ns_record_file_back(void *at, size_t size)
{
    return NS_SYSTEM(SYS_madvise, at, size, MADV_POPULATE_WRITE) == 0 ? 0 : errno;
}

static void begin(struct ns_record_head *head, enum ns_experiment experiment)
{
    struct timespec tick = {0};
    clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
    head->version = NS_RECORD_VERSION;
    head->pid = getpid();
    head->tick_ns = (uint32_t)tick.tv_nsec;
    head->experiment = experiment;
    ssize_t n = readlink("/proc/self/exe", head->exe, sizeof head->exe);
    if (n < 0 || n == (ssize_t)sizeof head->exe)
        n = 0;
    memset(head->exe + n, 0, sizeof head->exe - (size_t)n);
    const char *base = ns_path_program((const char *)getauxval(AT_EXECFN), head->exe);
    memcpy(head->name, base, strnlen(base, sizeof head->name - 1));
    /* release: a reader that finds the magic finds the rest */
    atomic_store_explicit(&head->magic, NS_RECORD_MAGIC, memory_order_release);
}

/* Is there ample room? A server that forks for each connection makes thousands of records, and a
 * full file system harms others. */
static bool has_room(int fd)
{
    const uint64_t ample = UINT64_C(16) << 30;
    struct statfs64 fs;
#ifdef SYS_fstatfs64
    long result = NS_SYSTEM(SYS_fstatfs64, fd, sizeof fs, &fs);
#else
    long result = NS_SYSTEM(SYS_fstatfs, fd, &fs);
#endif
    return result == 0 &&
           (fs.f_bavail >= fs.f_blocks / 2 || fs.f_bavail * (uint64_t)fs.f_bsize >= ample);
}

/* Map the file. NULL if the file system may refuse writes to it. */
static struct ns_record_head *map(int fd, bool *backed)
{
    if (!has_room(fd) || NS_SYSTEM(SYS_ftruncate, fd, (long)NS_RECORD_FILE_SIZE) != 0)
        return NULL;
    void *file = mmap(NULL, NS_RECORD_FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (file == MAP_FAILED)
        return NULL;
    int error = ns_record_file_back(file, NS_RECORD_PIECE);
    if (!error)
        return file;
        /* A kernel that cannot back memory on demand (before 5.14): back the whole file now. */
#if __SIZEOF_LONG__ == 4 /* each offset is two arguments, low half first (i386, arm) */
    *backed = error == EINVAL &&
              NS_SYSTEM(SYS_fallocate, fd, 0, 0l, 0l, (long)NS_RECORD_FILE_SIZE, 0l) == 0;
#else
    *backed =
        error == EINVAL && NS_SYSTEM(SYS_fallocate, fd, 0, 0l, (long)NS_RECORD_FILE_SIZE) == 0;
#endif
    if (*backed)
        return file;
    munmap(file, NS_RECORD_FILE_SIZE);
    return NULL;
}

struct ns_record_head *ns_record_file_make(char path[PATH_MAX], enum ns_experiment experiment,
                                           bool *backed)
{
    uint64_t began = ns_clock_now(CLOCK_MONOTONIC);
    if (is_too_large() || !name_it(path, began))
        return NULL;
    long made = NS_SYSTEM(SYS_openat, AT_FDCWD, path,
                          O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (made < 0)
        return NULL;
    int fd = ns_system_high(made);
    struct ns_record_head *head = fd >= 0 ? map(fd, backed) : NULL;
    if (fd >= 0)
        NS_SYSTEM(SYS_close, fd);
    if (head)
        begin(head, experiment);
    else
        NS_SYSTEM(SYS_unlinkat, AT_FDCWD, path, 0);
    return head;
}
