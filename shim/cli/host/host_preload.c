/* SPDX-License-Identifier: MIT */
/* Owns the library's place in /etc/ld.so.preload, which glibc's loader reads for every program of
 * the system. What else stands there must stay as it is. Not async-signal-safe. */
#include "cli/host/host.h"

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/process/preload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAY(...) ns_say("host", __VA_ARGS__)

/* A word of it; # begins a comment. The length of what stands before it is *before. */
static size_t next_word(const char *at, size_t *before)
{
    *before = 0;
    for (;;) {
        *before += strspn(at + *before, NS_PRELOAD_SEPARATORS);
        if (at[*before] != '#')
            return strcspn(at + *before, NS_PRELOAD_SEPARATORS "#");
        *before += strcspn(at + *before, "\n");
    }
}

/* Every entry that is meant taken out, and lines that had nothing else with them. */
static char *without(const struct ns_host *host, const char *old, bool *found)
{
    char *text = malloc(strlen(old) + 1), *to = text;

    *found = false;
    while (text && *old != '\0') {
        size_t line = strcspn(old, "\n"), at = 0, before, length;
        char *begin = to;
        bool had = false, has = false;

        line += old[line] == '\n';
        while (at < line && (length = next_word(old + at, &before)) > 0 && at + before < line) {
            bool ours = ns_host_is_meant(host, old + at + before, length);

            memcpy(to, old + at, before + (ours ? 0 : length));
            to += before + (ours ? 0 : length);
            had = had || ours;
            has = has || !ours;
            at += before + length;
        }
        memcpy(to, old + at, line - at);
        to += line - at;
        if (had && !has && !memchr(begin, '#', (size_t)(to - begin)))
            to = begin;
        *found = *found || had;
        old += line;
    }
    if (text)
        *to = '\0';
    return text;
}

/* Is there anything but blank lines? */
static bool is_empty(const char *text)
{
    return text[strspn(text, NS_PRELOAD_SEPARATORS)] == '\0';
}

static int read_old(const struct ns_host *host, char own[PATH_MAX], char **old)
{
    int error = ns_host_path(host, NS_HOST_PRELOAD, own) ? ns_host_read(own, old) : -ENAMETOOLONG;

    if (error == -EINVAL)
        SAY("%s is not a regular file, or is very large: nothing was changed", own);
    else if (error)
        SAY("%s: %s", own, strerror(-error));
    return error;
}

bool ns_host_preload_entry(const struct ns_host *host, char entry[PATH_MAX])
{
    char own[PATH_MAX], *old = NULL;
    bool found = ns_host_path(host, NS_HOST_PRELOAD, own) && ns_host_read(own, &old) == 0 && old &&
                 ns_preload_find_in_file(old, entry);

    free(old);
    return found;
}

/* An exit status. */
static int write_new(const char *own, const char *text, struct ns_change *change)
{
    int error = ns_change_make(change, own, is_empty(text) ? NULL : text);

    if (!error)
        return NS_EXIT_YES;
    SAY("%s cannot be written: %s; %s", own, strerror(-error),
        change->done ? "nor can it be put back: look at it" : "nothing was changed");
    return change->done ? NS_EXIT_ERROR : ns_host_exit(error);
}

/* It is on standard error of each of them, and not where they cannot be started. */
static void warn_of_other_class(const struct ns_host *host)
{
#if defined(__x86_64__)
    static const char loader[] = "/lib/ld-linux.so.2";
#elif defined(__aarch64__)
    static const char loader[] = "/lib/ld-linux-armhf.so.3";
#else
    static const char loader[] = "/";
#endif
    int fd = loader[1] ? ns_host_open(host, loader, O_PATH) : -1;

    if (fd < 0)
        return;
    close(fd);
    SAY("%s%s is there: each 32-bit program complains at its start that it cannot load the "
        "library, and runs without it",
        host->root, loader);
}

static int put(const struct ns_host *host, const char *own, const char *old, const char *rest)
{
    struct ns_change change;
    size_t size = strlen(host->library) + strlen(rest) + 2;
    char *text = malloc(size);
    int status;

    if (!text)
        return NS_EXIT_ERROR;
    /* First: what stands before it could hide calls from it. */
    snprintf(text, size, "%s\n%s", host->library, rest);
    if (old && strcmp(old, text) == 0) {
        ns_output_line("%s names %s already", own, host->library);
        status = NS_EXIT_YES;
    } else if ((status = write_new(own, text, &change)) == NS_EXIT_YES) {
        status = ns_host_trial(host, false);
        if (status == NS_EXIT_YES && ns_host_signals_came()) {
            SAY("interrupted");
            status = NS_EXIT_ERROR;
        }
        if (status == NS_EXIT_YES) {
            ns_output_line("%s names %s: every program that is started from now on has it", own,
                           host->library);
            warn_of_other_class(host);
        } else {
            ns_change_undo(&change);
            status = change.done ? NS_EXIT_ERROR : status;
            SAY(change.done ? "%s cannot be put back: take the library out of it"
                            : "%s is as it was before",
                own);
        }
        ns_change_forget(&change);
    }
    free(text);
    return status;
}

int ns_host_preload_enable(struct ns_host *host, const char *library)
{
    char own[PATH_MAX], *old, *rest;
    bool found;
    int status = ns_host_library(host, library, true), error;

    if (status != NS_EXIT_YES)
        return status;
    error = read_old(host, own, &old);
    if (error)
        return ns_host_exit(error);
    status = NS_EXIT_ERROR;
    rest = without(host, old ? old : "", &found);
    if (rest)
        status = put(host, own, old, rest);
    free(rest);
    free(old);
    return status;
}

int ns_host_preload_disable(const struct ns_host *host, bool *found)
{
    struct ns_change change;
    char own[PATH_MAX], *old, *rest;
    int status = NS_EXIT_YES, error = read_old(host, own, &old);

    *found = false;
    if (error)
        return ns_host_exit(error);
    ns_change_sweep(own);
    rest = without(host, old ? old : "", found);
    if (!rest) {
        status = NS_EXIT_ERROR;
    } else if (*found) {
        status = write_new(own, rest, &change);
        if (status == NS_EXIT_YES) {
            ns_output_line("%s names %s no more", own, host->only ? host->only : "the library");
            ns_change_forget(&change);
        } else {
            *found = false;
        }
    }
    free(rest);
    free(old);
    return status;
}
