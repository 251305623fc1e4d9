/* SPDX-License-Identifier: MIT */
/* Owns the files of outfile.h. It must not truncate or remove an existing file before there is
 * something to write. Not async-signal-safe. */
#include "cli/outfile.h"

#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void say_failure(const struct ns_outfile *file, int error)
{
    ns_say(file->verb, "cannot write '%s': %s", file->name, strerror(error));
}

static bool is_stdout(const struct ns_outfile *file)
{
    return strcmp(file->name, "-") == 0;
}

bool ns_outfile_open(struct ns_outfile *file, const char *verb, const char *name)
{
    *file = (struct ns_outfile){.verb = verb, .name = name, .fd = -1};
    if (!name)
        return true;
    errno = EBADF;
    if (!is_stdout(file)) {
        file->fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0666);
        file->made = file->fd >= 0;
        if (!file->made && errno == EEXIST)
            file->fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
    } else if ((fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) != O_RDONLY) {
        file->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    }
    if (file->fd < 0)
        say_failure(file, errno);
    return file->fd >= 0;
}

FILE *ns_outfile_begin(struct ns_outfile *file)
{
    struct stat st;
    FILE *stream = NULL;

    if (file->fd < 0)
        return NULL;
    if (is_stdout(file) || fstat(file->fd, &st) != 0 || !S_ISREG(st.st_mode) ||
        ftruncate(file->fd, 0) == 0)
        stream = fdopen(file->fd, "w");
    if (!stream)
        say_failure(file, errno);
    return stream;
}

bool ns_outfile_end(struct ns_outfile *file, FILE *stream)
{
    bool ok = !ferror(stream);

    file->fd = -1;
    if (fclose(stream) == 0 && ok)
        return true;
    say_failure(file, errno);
    if (file->made)
        unlink(file->name);
    return false;
}

bool ns_outfile_write(struct ns_outfile *file, const char *text)
{
    if (!text) {
        say_failure(file, ENOMEM);
        ns_outfile_drop(file);
        return false;
    }
    FILE *stream = ns_outfile_begin(file);
    if (stream)
        fprintf(stream, "%s\n", text);
    return stream && ns_outfile_end(file, stream);
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
