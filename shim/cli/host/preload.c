/* SPDX-License-Identifier: MIT */
/* Owns the library's entry in /etc/ld.so.preload, which glibc's loader reads for every program. It
 * must not change the other entries. Not async-signal-safe. */
#include "cli/host/host.h"

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/process/preload.h"
#include "cli/process/trial.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAY(...) ns_say("host", __VA_ARGS__)

/* The text without the entries that are meant; a line that had nothing else is removed. Allocated.
 */
static char *without(const struct ns_host *host, const char *old, bool *found)
{
    char *text = malloc(strlen(old) + 1), *to = text, *line = text;

    *found = false;
    while (text && *old != '\0') {
        bool is_comment = *old == '#';
        size_t length = is_comment ? strcspn(old, "\n") : strcspn(old, NS_PRELOAD_SEPARATORS "#");

        if (!is_comment && ns_host_is_meant(host, old, length)) {
            size_t blanks = strspn(old + length, " \t\r:");
            bool is_last = strchr("\n", old[length + blanks]) != NULL;

            *found = true;
            old += length;
            if (is_last && to == line)
                old += blanks + (old[blanks] == '\n');
            continue;
        }
        if (length == 0) /* a separator */
            length = 1;
        memcpy(to, old, length);
        to += length;
        if (*old == '\n')
            line = to;
        old += length;
    }
    if (text)
        *to = '\0';
    return text;
}

static int read_old(char **old)
{
    int error = ns_file_read(NS_HOST_PRELOAD, old, NULL);

    if (error == -EINVAL)
        SAY(NS_HOST_PRELOAD " is not a regular file, or is too large; nothing was changed");
    else if (error)
        SAY(NS_HOST_PRELOAD ": %s", strerror(-error));
    return error ? ns_host_exit(error) : NS_EXIT_YES;
}

bool ns_host_preload_entry(char entry[PATH_MAX])
{
    char *old = NULL;
    bool found = ns_file_read(NS_HOST_PRELOAD, &old, NULL) == 0 && old &&
                 ns_preload_find_in_file(old, entry);

    free(old);
    return found;
}

/* A file with blank lines only is removed. */
static int write_new(const char *text, struct ns_change *change)
{
    bool is_empty = text[strspn(text, NS_PRELOAD_SEPARATORS)] == '\0';
    int error = ns_change_make(change, NS_HOST_PRELOAD, is_empty ? NULL : text);

    if (!error)
        return NS_EXIT_YES;
    SAY(NS_HOST_PRELOAD " cannot be written: %s; %s", strerror(-error),
        change->done ? "the old file could not be restored: look at it" : "nothing was changed");
    return change->done ? NS_EXIT_ERROR : ns_host_exit(error);
}

static int put(const struct ns_host *host, const char *text)
{
    struct ns_change change;
    char reason[1024] = "not interrupted";
    int status = write_new(text, &change);

    if (status != NS_EXIT_YES) {
        ns_change_forget(&change);
        return status;
    }
    bool starts = ns_trial_start("/bin/true", NULL, reason, sizeof reason);
    if (starts && !ns_host_interrupted()) {
        ns_output_line(NS_HOST_PRELOAD " names %s: every program that starts from now on loads it",
                       host->library);
        SAY("note: programs built with gcc's -fsanitize=address do not start while any library is "
            "in " NS_HOST_PRELOAD ", unless ASAN_OPTIONS=verify_asan_link_order=0 is set, and "
            "32-bit programs on a 64-bit system print an error");
    } else {
        bool undone = ns_change_undo(&change);

        status = NS_EXIT_ERROR;
        SAY("%s%s; %s", starts ? "interrupted" : "/bin/true, started with the library, ",
            starts ? "" : reason,
            undone ? "nothing was changed"
                   : NS_HOST_PRELOAD " cannot be restored: take the library out of it");
    }
    ns_change_forget(&change);
    return status;
}

int ns_host_preload_enable(const struct ns_host *host)
{
    char *old = NULL, *rest = NULL, *text = NULL;
    bool found;
    int status = ns_host_judge_library(host, true);

    if (status == NS_EXIT_YES)
        status = read_old(&old);
    if (status == NS_EXIT_YES) {
        /* First: a library before it could hide calls from it. */
        rest = without(host, old ? old : "", &found);
        if (!rest || asprintf(&text, "%s\n%s", host->library, rest) < 0) {
            SAY("%s", strerror(ENOMEM));
            status = NS_EXIT_ERROR;
        } else if (old && strcmp(old, text) == 0) {
            ns_output_line(NS_HOST_PRELOAD " names %s already", host->library);
        } else {
            status = put(host, text);
        }
    }
    free(text);
    free(rest);
    free(old);
    return status;
}

int ns_host_preload_disable(const struct ns_host *host, bool *found)
{
    struct ns_change change;
    char *old, *rest;
    int status = read_old(&old);

    *found = false;
    if (status != NS_EXIT_YES)
        return status;
    rest = without(host, old ? old : "", found);
    if (rest && *found) {
        status = write_new(rest, &change);
        if (status == NS_EXIT_YES)
            ns_output_line(NS_HOST_PRELOAD " no longer names %s",
                           host->only ? host->only : "the library");
        else
            *found = false;
        ns_change_forget(&change);
    }
    free(rest);
    free(old);
    return rest ? status : NS_EXIT_ERROR;
}
