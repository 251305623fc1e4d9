/* SPDX-License-Identifier: MIT */
/* Owns how `nagleshim host` changes a file: as a whole or not at all, and so that the change can be
 * undone. A program that starts meanwhile finds the old file or the new one. */
#include "cli/host/host.h"

#include "cli/cli.h"
#include "cli/file.h"
#include "cli/program/program.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

int ns_change_make(struct ns_change *change)
{
    struct stat st;
    bool is_link = lstat(change->path, &st) == 0 && S_ISLNK(st.st_mode);
    errno = 0;
    change->old = ns_file_read(change->path);
    if (!is_link && change->old && change->text && strcmp(change->old, change->text) == 0)
        return NS_EXIT_YES;
    if (is_link || (!change->old && errno != ENOENT))
        errno = EINVAL;
    else
        change->done = change->text ? ns_file_make(change->path, change->text, strlen(change->text))
                                    : ns_file_remove(change->path);
    if (change->done)
        return NS_EXIT_YES;
    int error = errno;
    ns_say("%s cannot be %s: %s", change->path, change->text ? "written" : "removed",
           error == EINVAL ? "it is not a regular file, or is too large" : strerror(error));
    return error == EACCES || error == EPERM ? NS_EXIT_DENIED : NS_EXIT_ERROR;
}

bool ns_change_undo(struct ns_change *change)
{
    if (change->done)
        change->done = !(change->old ? ns_file_make(change->path, change->old, strlen(change->old))
                                     : ns_file_remove(change->path));
    return !change->done;
}
