/* SPDX-License-Identifier: MIT */
/* Owns the choice of the library and of the policy for a program that this command starts. Reads
 * the environment and files, and changes neither. Not async-signal-safe. */
#include "cli/process/injection.h"

#include "cli/cli.h"
#include "cli/process/elf.h"
#include "cli/process/preload.h"

#include "policy/find.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

char *ns_injection_preload(const char *command)
{
    char path[PATH_MAX], reason[128];
    char *list;
    int result = ns_preload_locate(path);

    if (result == -ENOENT) {
        ns_say(command,
               "cannot find " NS_LIBRARY_NAME " beside this command, in ../lib or in " NS_LIBDIR);
        return NULL;
    }
    if (result != 0) {
        ns_say(command,
               "'%s' cannot be written in LD_PRELOAD: its path must have no space, colon or dollar "
               "sign",
               path);
        return NULL;
    }
    /* A truncated file would end the program with SIGBUS; the loader ignores other unfit files. */
    if (ns_elf_path_is_unfit(path, reason, sizeof reason)) {
        ns_say(command, "the library would not load: %s %s; install it again", path, reason);
        return NULL;
    }
    list = ns_preload_join(getenv("LD_PRELOAD"), path);
    if (!list)
        ns_say(command, "cannot set LD_PRELOAD: %s", strerror(ENOMEM));
    return list;
}

bool ns_injection_policy(const char *command, const char *file, char path[PATH_MAX])
{
    static struct ns_policy_found found;
    struct stat st;
    char text[PATH_MAX + sizeof found.where.message + 32];

    if (strcmp(file, "-") == 0) {
        ns_say(command, "'-': the policy cannot be read from standard input here; name a file");
        return false;
    }
    /* The program reads the file again, and so may programs that it starts. */
    if (stat(file, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        ns_say(command,
               "%s: cannot be read: it is not a regular file; the JSON itself may be in "
               "NAGLESHIM_POLICY",
               file);
        return false;
    }
    ns_policy_read(file, &found);
    if (!found.policy)
        ns_say(command, "%s", ns_policy_error_text(&found, text, sizeof text));
    else if (!realpath(file, path))
        ns_say(command, "%s: cannot be read: %s", file, strerror(errno));
    else
        return true;
    return false;
}
