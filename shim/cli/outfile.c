/* SPDX-License-Identifier: MIT */
/* Owns files for results. It must not truncate or remove an existing file before there is
 * something to write. */
#include "cli/output.h"

#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void say_failure(const struct ns_outfile *file, int error)
{
    ns_say("cannot write '%s': %s", file->name, strerror(error));
}

bool ns_outfile_is_stdout(const struct ns_outfile *file)
{
    return file->name && strcmp(file->name, "-") == 0;
}

bool ns_outfile_claim(const char *name)
{
    static struct stat claimed[4];
    static unsigned n;
    struct stat *st = &claimed[n];
    /* Devices take any number of results. */
    if ((strcmp(name, "-") == 0 ? fstat(STDOUT_FILENO, st) : stat(name, st)) != 0 ||
        S_ISCHR(st->st_mode))
        return true;
    for (unsigned i = 0; i < n; i++)
        if (claimed[i].st_dev == st->st_dev && claimed[i].st_ino == st->st_ino)
            return NS_REFUSE("'%s' is named by two options; name a file of its own for each", name);
    n++;
    return true;
}

bool ns_outfile_open(struct ns_outfile *file)
{
    const char *name = file->name;
    *file = (struct ns_outfile){.name = name, .fd = -1};
    if (!name)
        return true;
    errno = EBADF;
    if (!ns_outfile_is_stdout(file)) {
        file->fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0666);
        file->made = file->fd >= 0;
        if (!file->made && errno == EEXIST)
            file->fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
    } else if ((fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) != O_RDONLY) {
        file->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    }
    if (file->fd < 0)
        say_failure(file, errno);
    return file->fd >= 0 && ns_outfile_claim(name);
}

bool ns_outfile_write(struct ns_outfile *file, const char *text)
{
    struct stat st;
    bool is_file = fstat(file->fd, &st) == 0 && S_ISREG(st.st_mode) && !ns_outfile_is_stdout(file);
    if (file->fd < 0)
        return true;
    bool good = (!is_file || ftruncate(file->fd, 0) == 0) && dprintf(file->fd, "%s\n", text) >= 0;
    int error = errno;
    if (good && close(file->fd) == 0) {
        file->fd = -1;
        return true;
    }
    say_failure(file, good ? errno : error);
    ns_outfile_drop(file);
    return false;
}

void ns_outfile_drop(struct ns_outfile *file)
{
    if (file->fd < 0)
        return;
    close(file->fd);
    if (file->made)
        unlink(file->name);
    file->fd = -1;
}
