/* SPDX-License-Identifier: MIT */
/* Owns the judgement of a policy file's permissions. The shim itself never asks: a policy cannot
 * make it run, read or send anything, and volumes of containers have owners of all kinds. Must not
 * change anything. */
#include "cli/process/trust.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { NOBODY = 65534 }; /* what an owner looks like whom the user namespace does not know */

/* A group of the owner's own, as most distributions give every user, has nobody else in it. */
static bool group_may_write(const struct stat *st)
{
    return (st->st_mode & S_IWGRP) && st->st_gid != st->st_uid;
}

static bool is_foreign(uid_t owner, uid_t user)
{
    return owner != 0 && owner != user && owner != NOBODY;
}

void ns_trust_judge(const struct stat *file, const struct stat *directory, uid_t user,
                    void (*report)(void *context, const char *text), void *context)
{
    const mode_t mode = file->st_mode & 07777;
    char text[160];

    if (mode & S_IWOTH) {
        snprintf(text, sizeof(text), "can be changed by everybody (mode %04o)", mode);
        report(context, text);
    } else if (group_may_write(file)) {
        snprintf(text, sizeof(text), "can be changed by group %u (mode %04o)", file->st_gid, mode);
        report(context, text);
    }
    if (is_foreign(file->st_uid, user)) {
        snprintf(text, sizeof(text), "belongs to user %u, who is neither root nor user %u",
                 file->st_uid, user);
        report(context, text);
    }
    /* In a sticky directory nobody can replace a file of somebody else. */
    if (!directory || (directory->st_mode & S_ISVTX))
        return;
    if (directory->st_mode & S_IWOTH)
        report(context, "can be replaced by everybody, who may write to its directory");
    else if (group_may_write(directory)) {
        snprintf(text, sizeof(text),
                 "can be replaced by group %u, which may write to its directory",
                 directory->st_gid);
        report(context, text);
    }
    if (is_foreign(directory->st_uid, user) && directory->st_uid != file->st_uid) {
        snprintf(text, sizeof(text), "can be replaced by user %u, whose directory it is in",
                 directory->st_uid);
        report(context, text);
    }
}

void ns_trust_judge_path(const char *path, uid_t user,
                         void (*report)(void *context, const char *text), void *context)
{
    char directory[PATH_MAX];
    const char *slash = strrchr(path, '/');
    struct stat file, above;

    snprintf(directory, sizeof(directory), "%.*s", slash ? (int)(slash - path) : 1,
             slash ? path : ".");
    if (stat(path, &file) != 0)
        return;
    ns_trust_judge(&file, stat(slash == path ? "/" : directory, &above) == 0 ? &above : NULL, user,
                   report, context);
}
