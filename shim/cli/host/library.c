/* SPDX-License-Identifier: MIT */
/* Owns the judgement whether the library may be preloaded into what a system starts: no other user
 * can replace it, and a program starts with it. Changes nothing. Not async-signal-safe. */
#include "cli/host/host.h"

#include "cli/cli.h"
#include "cli/process/preload.h"
#include "cli/process/trial.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SAY(...) ns_say("host", __VA_ARGS__)

/* Do the file and the directories above it belong to root, and can only root write to them? */
static bool is_roots(const char *file)
{
    char path[PATH_MAX], *at = path;
    struct stat st;
    for (snprintf(path, sizeof path, "%s", file);; at = dirname(at)) {
        if (stat(at, &st) != 0) {
            SAY("%s: %s", at, strerror(errno));
            return false;
        }
        if (st.st_uid != 0 || (st.st_mode & (S_IWGRP | S_IWOTH))) {
            SAY("%s (user %u, mode %04o): another user than root could replace the library", at,
                st.st_uid, st.st_mode & 07777);
            return false;
        }
        if (strcmp(at, "/") == 0)
            return true;
    }
}

bool ns_host_judge_library(const struct ns_host *host)
{
    static const char program[] = "/bin/true";
    const char *library = host->library;
    char path[PATH_MAX], reason[1024];
    struct stat st;
    if (strpbrk(library, NS_PRELOAD_SEPARATORS "$#%\"\\"))
        SAY("'%s' has a character that LD_PRELOAD or a unit cannot express", library);
    else if (stat(library, &st) != 0 || !realpath(library, path))
        SAY("%s: %s", library, strerror(errno));
    else if (!S_ISREG(st.st_mode) || !(st.st_mode & S_IROTH))
        SAY("%s is not a file that every user can read (mode %04o)", path, st.st_mode & 07777);
    else if (!is_roots(library) || !is_roots(path))
        return false;
    else if (!ns_trial_start(program, NULL, reason, sizeof reason))
        SAY("%s %s, also without the library: is a line of " NS_PRELOAD_FILE " wrong?", program,
            reason);
    else if (!ns_trial_start(program, library, reason, sizeof reason))
        SAY("%s, started with the library, %s", program, reason);
    else
        return true;
    return false;
}
