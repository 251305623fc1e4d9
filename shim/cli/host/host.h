/* SPDX-License-Identifier: MIT */
/* What the files of `nagleshim host` share. With --root this process has changed its root to the
 * image before any of these functions is called, so that every path is one in the image and no link
 * leads out of it. Functions that can fail print the reason, in one line. Not async-signal-safe. */
#ifndef NS_HOST_H
#define NS_HOST_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

struct ns_host {
    bool is_image;       /* --root: no service manager runs there */
    const char *library; /* enable: the library to preload */
    const char *only;    /* disable: only this library; NULL: every one */
};

/* The exit status for -errno: missing rights have a status of their own. */
int ns_host_exit(int error);

/* Has a signal arrived that asks this command to end? It is blocked while files are changed; the
 * changes must be undone then. */
bool ns_host_interrupted(void);

/* Is this entry of LD_PRELOAD the library, and host->only if that is set? Links are followed. */
bool ns_host_is_meant(const struct ns_host *host, const char *entry, size_t length);

/* May host->library be preloaded into services, or into every program? Judges the file and every
 * directory and link on its path, then starts a program with it. An exit status. */
int ns_host_judge_library(const struct ns_host *host, bool for_every_program);

/* A change of one file that can be undone. */
struct ns_change {
    char path[PATH_MAX];
    char *old; /* the former text; NULL: there was no file */
    struct stat before;
    bool done;
};

/* Reads a regular file into *text, allocated; NULL if there is none. 0 or -errno; -EINVAL: it is a
 * link, no regular file, or larger than 256 KiB. */
int ns_file_read(const char *path, char **text, struct stat *st);

/* Replaces the file as a whole, or removes it if text is NULL. Missing directories are made. 0 or
 * -errno: then the file is as before unless change->done. */
int ns_change_make(struct ns_change *change, const char *path, const char *text);
bool ns_change_undo(struct ns_change *change);
void ns_change_forget(struct ns_change *change); /* frees */

/* /etc/ld.so.preload, which glibc's loader reads for every program. */
#define NS_HOST_PRELOAD "/etc/ld.so.preload"
int ns_host_preload_enable(const struct ns_host *host);
int ns_host_preload_disable(const struct ns_host *host, bool *found);
bool ns_host_preload_entry(char entry[PATH_MAX]);

/* Services of systemd. A name without a type is the name of a service. */
#define NS_HOST_RUNNING "/run/systemd/units" /* systemd keeps a link here for each running unit */

bool ns_host_unit_name(const char *word, char name[NAME_MAX]);
int ns_host_units_enable(const struct ns_host *host, char **names, unsigned n);
int ns_host_units_disable(const struct ns_host *host, char **names, unsigned n, bool *found);

/* Calls visit for each drop-in that this command has written: its path, its unit, and its library
 * ("" if it names none). */
struct ns_dropin {
    char path[PATH_MAX], unit[NAME_MAX + 1], library[PATH_MAX];
};
void ns_host_each_dropin(void (*visit)(void *context, const struct ns_dropin *dropin),
                         void *context);

int ns_host_status(const struct ns_host *host);

#endif
