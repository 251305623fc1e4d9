/* SPDX-License-Identifier: MIT */
/* Owns the search for the library and the order of LD_PRELOAD. Changes no environment. */
#include "cli/program/program.h"

#include "base/path.h"
#include "cli/cli.h"
#include "cli/file.h"
#include "cli/output.h"
#include "process/scope.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool exists_in(const char *directory, const char *name, char path[PATH_MAX])
{
    const char *candidate = ns_words("%s/%s", directory, name);
    return access(candidate, R_OK) == 0 && realpath(candidate, path);
}

/* Adds the files of this pattern that differ from the first one, path. Returns how many there are.
 */
static unsigned add_found(unsigned n, const char *pattern, uint16_t narrow, char path[PATH_MAX])
{
    NS_AUTO_GLOB glob_t files = {0};
    char found[PATH_MAX];
    glob(pattern, GLOB_BRACE, NULL, &files);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        if (ns_elf_path_unfit(files.gl_pathv[i], narrow) || !realpath(files.gl_pathv[i], found) ||
            (n > 0 && strcmp(found, path) == 0))
            continue;
        if (n++ == 0)
            snprintf(path, PATH_MAX, "%s", found);
    }
    return n;
}

/* The directories that loaders search without being told to, and those of ldconfig's list. */
unsigned ns_preload_search(const char *entry, uint16_t narrow, char path[PATH_MAX])
{
#define LIBS "lib{,64,32,/*-linux-gnu*}"
    const char *lib = strstr(entry, "$LIB/");
    if (lib)
        return add_found(0, ns_words("%.*s" LIBS "%s", (int)(lib - entry), entry, lib + 4), narrow,
                         path);
    if (strpbrk(entry, "/$"))
        return 0;
    unsigned n = add_found(0, ns_words("{/usr,}/" LIBS "/%s", entry), narrow, path);
    NS_AUTO_FCLOSE FILE *list = fopen("/etc/ld.so.cache", "re"); /* has paths, with zero bytes */
    NS_AUTO_FREE char *line = NULL;
    size_t room = 0;
    while (list && getdelim(&line, &room, '\0', list) > 0)
        if (*line == '/' && strcmp(ns_path_base(line), entry) == 0)
            n = add_found(n, line, narrow, path);
    return n;
#undef LIBS
}

const char *ns_preload_locate(const char *name, uint16_t narrow, char path[PATH_MAX])
{
    char here[PATH_MAX] = "";
    if (readlink("/proc/self/exe", here, sizeof here - 1) > 0)
        *strrchr(here, '/') = '\0';
    const char *lib = ns_words("%s/../lib", here);
    /* lib, lib/i386-linux-gnu beside lib/x86_64-linux-gnu, lib32 beside lib */
    const char *pattern =
        ns_words("{%s," NS_LIBDIR ",/usr/local/lib,/usr/lib}{,/*,/../*}/%s", here, name);
    if (narrow && add_found(0, pattern, narrow, path) == 0)
        return ns_words(
            "there is no %s for 32-bit programs: install the package libnagleshim:%s, or type "
            "'make install-library CC=%s-gcc B=build/%s LIBDIR=DIRECTORY'",
            name, narrow == EM_386 ? "i386" : "armhf",
            narrow == EM_386 ? "i686-linux-gnu" : "arm-linux-gnueabihf",
            narrow == EM_386 ? "i386" : "armhf");
    if (!narrow && !exists_in(here, name, path) && !exists_in(lib, name, path) &&
        !exists_in(NS_LIBDIR, name, path))
        return ns_words("cannot find %s beside this command, in ../lib or in " NS_LIBDIR, name);
    /* The loader replaces $LIB and other names after a dollar sign. */
    if (strpbrk(path, NS_PRELOAD_SEPARATORS "$"))
        return ns_words("'%s' cannot be written in LD_PRELOAD: its path must have no space, colon "
                        "or dollar sign",
                        path);
    /* A truncated file would end the program with SIGBUS; the loader ignores other unfit files. */
    const char *unfit = ns_elf_path_unfit(path, narrow);
    return unfit ? ns_words("the library would not load: %s %s; install it again", path, unfit)
                 : NULL;
}

/* Is this the run-time library of a sanitizer of gcc or clang (asan, ubsan, hwasan ...)? It refuses
 * to run if it is not the first library. */
static bool is_sanitizer(const char *entry, size_t length)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.*s", (int)length, entry);
    return fnmatch("@(lib@([almt]|ub|hwa)san.so*|libclang_rt.*san[.-]*)", ns_path_base(path),
                   FNM_EXTMATCH) == 0;
}

/* Adds the entries of old, without our libraries: the sanitizers' libraries, or the others. */
static const char *add_entries(const char *list, const char *old, bool sanitizers)
{
    for (size_t length; *old != '\0'; old += length + (old[length] != '\0')) {
        length = strcspn(old, NS_PRELOAD_SEPARATORS);
        if (length > 0 && !ns_preload_is_the_library(old, length) &&
            is_sanitizer(old, length) == sanitizers)
            list = ns_words("%s%s%.*s", list, *list ? ":" : "", (int)length, old);
    }
    return list;
}

const char *ns_preload_join(const char *old, const char *library)
{
    const char *list = add_entries("", old, true);
    /* A library before this one could hide calls from it. */
    list = ns_words("%s%s%s", list, *list ? ":" : "", library);
    return add_entries(list, old, false);
}

bool ns_preload_find_in_file(const char *path, char entry[PATH_MAX])
{
    NS_AUTO_FREE char *text = ns_file_read(path);
    return text && ns_preload_find(text, entry);
}

bool ns_preload_take(uint16_t narrow, char path[PATH_MAX])
{
    const char *reason = ns_preload_locate(NS_LIBRARY_NAME, narrow, path);
    return !reason || NS_REFUSE("%s", reason);
}

char *ns_preload_variable(const char *library, const char *program)
{
    const char *own = getenv("LD_PRELOAD");
    char name[NAME_MAX + 1] = "";
    if (!ns_elf_path_needs(program, is_sanitizer, name, sizeof name))
        name[0] = '\0';
    const char *old = ns_words("%s:%s", name, own ? own : "");
    return ns_words("LD_PRELOAD=%s", ns_preload_join(old, library));
}
