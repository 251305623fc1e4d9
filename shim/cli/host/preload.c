/* SPDX-License-Identifier: MIT */
/* Owns the library's entry in /etc/ld.so.preload, which glibc's loader reads for every program, the
 * copies of the library that it names, and the judgement whether what a system starts may have the
 * library. It must not change the other entries, write to a copy in place, or remove a copy that
 * the file names. */
#include "cli/host/host.h"

#include "cli/cli.h"
#include "cli/file.h"
#include "cli/output.h"
#include "cli/program/program.h"
#include "process/scope.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool ns_host_judge_library(const char *library)
{
    char path[PATH_MAX];
    const char *reason;
    struct stat st;
    if (strpbrk(library, NS_PRELOAD_SEPARATORS "$#%\"\\"))
        return NS_REFUSE("'%s' has a character that LD_PRELOAD or a unit cannot express", library);
    if (stat(library, &st) != 0 || !realpath(library, path))
        return NS_REFUSE("%s: %s", library, strerror(errno));
    if (!S_ISREG(st.st_mode) || !(st.st_mode & S_IROTH))
        return NS_REFUSE("%s is not a file that every user can read (mode %04o)", path,
                         st.st_mode & 07777);
    if ((reason = ns_trial_replaceable(library)))
        return NS_REFUSE("%s", reason);
    if ((reason = ns_trial_start(NULL)))
        return NS_REFUSE("/bin/true %s, also without the library: is a line of " NS_PRELOAD_FILE
                         " wrong?",
                         reason);
    if ((reason = ns_trial_start(library)))
        return NS_REFUSE("/bin/true, started with the library, %s", reason);
    return true;
}

static const struct {
    const char *loader;
    uint16_t machine; /* ns_elf.narrow */
} narrow_loaders[] = {{"/lib/ld-linux.so.2", EM_386}, {"/lib/ld-linux-armhf.so.3", EM_ARM}};

/* Is this library the only file that the loader of its programs may find for a name without a
 * slash? */
static bool is_found(const char *name, const char *library)
{
    char found[PATH_MAX], meant[PATH_MAX];
    uint16_t narrow = 0;
    for (size_t i = 0; i < sizeof narrow_loaders / sizeof *narrow_loaders; i++)
        if (!ns_elf_path_unfit(library, narrow_loaders[i].machine))
            narrow = narrow_loaders[i].machine;
    return ns_preload_search(name, narrow, found) == 1 && realpath(library, meant) &&
           strcmp(found, meant) == 0;
}

bool ns_host_is_meant(const char *only, const char *entry, size_t length)
{
    char path[PATH_MAX], real[PATH_MAX], meant[PATH_MAX];
    if (!ns_preload_is_the_library(entry, length) || length >= sizeof path)
        return false;
    snprintf(path, sizeof path, "%.*s", (int)length, entry);
    if (!only || strcmp(path, only) == 0)
        return true;
    if (*path != '/') /* the loader searches for it */
        return is_found(path, only);
    return realpath(path, real) && realpath(only, meant) && strcmp(real, meant) == 0;
}

/* May 32-bit programs start here, too? Then a path would fit one kind of program only, but each
 * loader finds its library by the name if that is in a directory that it searches: name becomes
 * that. False, after a message, if a library is elsewhere. */
static bool name_for_both(const char *library, const char **name)
{
    static struct ns_reach reach;
    char narrow[PATH_MAX];
    for (size_t i = 0; i < sizeof narrow_loaders / sizeof *narrow_loaders; i++) {
        ns_reach_inspect(narrow_loaders[i].loader, &reach);
        if (reach.narrow != narrow_loaders[i].machine)
            continue;
        const char *missing = ns_preload_locate(NS_LIBRARY_NAME, reach.narrow, narrow);
        if (missing) {
            ns_say("warning: there are 32-bit programs, for %s, and each will print an error: %s",
                   narrow_loaders[i].loader, missing);
            continue;
        }
        const char *const libraries[] = {library, narrow};
        for (size_t j = 0; j < 2; j++) {
            const char *reason = ns_trial_replaceable(libraries[j]);
            if (reason)
                return NS_REFUSE("%s", reason);
            if (!is_found(NS_LIBRARY_NAME, libraries[j]))
                return NS_REFUSE(
                    "%s is not the only file that its loader may find for " NS_LIBRARY_NAME
                    ", the name that fits 32-bit programs, too: install it in a directory that "
                    "ldconfig lists, and no other one",
                    libraries[j]);
        }
        *name = NS_LIBRARY_NAME;
    }
    return true;
}

/* On the root file system, as the first programs of a system need it. Writing to a mapped library
 * would kill every program that has it. */
#define COPIES "/usr/lib/nagleshim/"

/* The name of the directory is the directory of the library that is copied. */
static void name_copy(const char *library, char copy[PATH_MAX])
{
    const char *base = strrchr(library, '/');
    int length = snprintf(copy, PATH_MAX, COPIES);
    for (const char *at = library + 1; at < base && length < PATH_MAX - NAME_MAX; at++)
        copy[length++] = *at == '/' ? '-' : *at;
    snprintf(copy + length, (size_t)(PATH_MAX - length), "%s", base);
}

/* Makes or renews the copy. False, and errno, if that fails. */
static bool write_copy(const char *library, const char *copy)
{
    NS_AUTO_CLOSE int fd = open(library, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        return false;
    NS_AUTO_FREE char *data = malloc((size_t)st.st_size);
    errno = data ? EIO : ENOMEM;
    return data && pread(fd, data, (size_t)st.st_size, 0) == st.st_size &&
           ns_file_make(copy, data, (size_t)st.st_size);
}

/* Removes the copies that the file does not name. */
static void sweep_copies(void)
{
    NS_AUTO_FREE char *text = ns_file_read(NS_PRELOAD_FILE);
    NS_AUTO_GLOB glob_t found = {0};
    if (!text && errno != ENOENT)
        return;
    glob(COPIES "*/" NS_LIBRARY_NAME, 0, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (!text || !strstr(text, found.gl_pathv[i]))
            ns_file_remove(found.gl_pathv[i]);
    rmdir(COPIES);
}

/* Removes the entries that are meant, each with the separator after it. A copy of the one library
 * that is meant is meant, too. */
static bool remove_entries(const char *only, char *text)
{
    char copy[PATH_MAX] = "";
    bool found = false;
    if (only)
        name_copy(only, copy);
    for (char *at = text; *at != '\0';) {
        size_t length = *at == '#' ? strcspn(at, "\n") : strcspn(at, NS_PRELOAD_SEPARATORS "#");
        size_t next = length + (at[length] != '\0' && at[length] != '#');
        bool is_copy = length > 0 && length == strlen(copy) && strncmp(at, copy, length) == 0;
        if (*at == '#' || !(is_copy || ns_host_is_meant(only, at, length))) {
            at += next;
            continue;
        }
        memmove(at, at + next, strlen(at + next) + 1);
        found = true;
    }
    return found;
}

/* Starts a program with the new file; restores the old one if that fails. */
static int try_file(const char *library, struct ns_change *change)
{
    const char *reason = ns_trial_start(NULL);
    if (reason)
        return NS_FAIL("/bin/true, started with the library, %s; %s", reason,
                       ns_change_undo(change) ? "nothing was changed"
                                              : NS_PRELOAD_FILE
                           " cannot be restored: remove the library");
    ns_output_line(NS_PRELOAD_FILE " names %s: every program that starts from now on loads it",
                   library);
    ns_say("note: programs built with gcc's -fsanitize=address do not start while any library is "
           "in " NS_PRELOAD_FILE ", unless ASAN_OPTIONS=verify_asan_link_order=0 is set");
    ns_say("note: if %s is ever damaged, no program can start, not even this command. Then type "
           "': >" NS_PRELOAD_FILE
           "' in a root shell that has been running since before this command, "
           "or in a rescue system: the shell does this itself, without a program",
           library);
    return NS_EXIT_YES;
}

/* The file names the copy. On a read-only file system, where there can be none, nothing can write
 * to the library either. */
static bool make_copy(const char *library, char copy[PATH_MAX])
{
    name_copy(library, copy);
    if (write_copy(library, copy))
        return true;
    if (errno != EROFS)
        ns_say("%s cannot be written: %s", copy, strerror(errno));
    else
        snprintf(copy, PATH_MAX, "%s", library);
    return errno == EROFS;
}

int ns_host_preload_enable(const char *library)
{
    struct ns_change change = {.path = NS_PRELOAD_FILE};
    int status = NS_EXIT_ERROR;
    char copy[PATH_MAX];
    static struct ns_reach reach;
    ns_reach_inspect("/bin/true", &reach);
    const char *name = copy, *libc = ns_reach_libc(reach.loader);
    if (libc && strcmp(libc, "musl") == 0)
        return NS_FAIL("this system's libc is musl, whose loader does not read " NS_PRELOAD_FILE);
    if (!ns_host_judge_library(library) || !name_for_both(library, &name) ||
        (name == copy && !make_copy(library, copy)))
        return NS_EXIT_ERROR;
    NS_AUTO_FREE char *rest = ns_file_read(NS_PRELOAD_FILE);
    if (rest)
        remove_entries(NULL, rest);
    /* First: a library before it could hide calls from it. */
    if (asprintf(&change.text, "%s\n%s", name, rest ? rest : "") < 0)
        change.text = NULL;
    else
        status = ns_change_make(&change);
    if (status == NS_EXIT_YES && change.done)
        status = try_file(name, &change);
    else if (status == NS_EXIT_YES)
        ns_output_line(NS_PRELOAD_FILE " names %s already, which is renewed", name);
    sweep_copies();
    return status;
}

/* A file with blank lines only is removed. */
int ns_host_preload_disable(const char *only, bool *changed)
{
    struct ns_change change = {.path = NS_PRELOAD_FILE, .text = ns_file_read(NS_PRELOAD_FILE)};
    int status = NS_EXIT_YES;
    if (change.text && remove_entries(only, change.text)) {
        if (change.text[strspn(change.text, NS_PRELOAD_SEPARATORS)] == '\0')
            change.text = NULL;
        status = ns_change_make(&change);
        if (status == NS_EXIT_YES) {
            *changed = true;
            ns_output_line(NS_PRELOAD_FILE " no longer names %s", only ? only : "the library");
        }
    }
    sweep_copies();
    return status;
}
