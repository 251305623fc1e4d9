/* SPDX-License-Identifier: MIT */
/* What the files of `nagleshim host` share: the system that is changed, the library that it is
 * given, and changes of files that can be undone. Each function that can fail says why, in one
 * line. */
#ifndef NS_HOST_H
#define NS_HOST_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct ns_host {
    const char *root;       /* "" for this system, else a directory without a slash at its end */
    char library[PATH_MAX]; /* its path there */
    const char *only;       /* disable takes nothing but this library; NULL: whichever it is */
};

/* The system's own path of a path in it; false if that is too long. */
bool ns_host_path(const struct ns_host *host, const char *path, char own[PATH_MAX]);

/* Open a path in it; its links stay in it. The descriptor, which programs that are started do not
 * get, or -errno. */
int ns_host_open(const struct ns_host *host, const char *path, int flags);

/* The same path without links in its directories, which lead nowhere out of the system; those that
 * are missing stay as they are. 0 or -errno. */
int ns_host_resolve(const struct ns_host *host, const char *path, char own[PATH_MAX]);

/* The system's own path of what a path there leads to, without any link; of what is missing,
 * without those in its directories. 0 or -errno. */
int ns_host_real(const struct ns_host *host, const char *path, char own[PATH_MAX]);

/* Is this entry of LD_PRELOAD the library, and the one that host->only names if that is set? One
 * that leads to the same file by links is. */
bool ns_host_is_meant(const struct ns_host *host, const char *entry, size_t length);

/* Let no other `nagleshim host` change this system until this one ends. If one does so all the
 * time, it is said, and false if this one must be alone. Every user can hold the lock, so that what
 * takes the library away must not depend on it. */
bool ns_host_lock(const struct ns_host *host, bool must);

/* From now on signals that would end this command wait. A child restores what was before, and so
 * does this one at its end, which such a signal then is. Has one come? Then what was changed is to
 * be undone. */
void ns_host_signals_hold(void);
void ns_host_signals_restore(void);
bool ns_host_signals_came(void);

/* The text of a file there, allocated; NULL if it cannot be read. */
char *ns_host_text(const struct ns_host *host, const char *path);

/* Calls each for every entry of a directory there, without any order. */
void ns_host_entries(const struct ns_host *host, const char *path,
                     void (*each)(void *context, const char *directory, const char *name),
                     void *context);

/* The exit status for an error, -errno: missing rights have one of their own. */
int ns_host_exit(int error);

/* May library be preloaded into what this system starts? Judges the file and every directory on the
 * way to it, and starts a program with it. at_boot: also where the file system of the library is
 * not mounted from the start. Its path goes to host->library as it was given, so that the links of
 * it stay. An exit status. */
int ns_host_library(struct ns_host *host, const char *library, bool at_boot);

/* Are there programs to try the library with, and does their libc read NS_HOST_PRELOAD, if by_file?
 */
bool ns_host_programs(const struct ns_host *host, bool by_file);

/* Start a program of the system: with the library in LD_PRELOAD, or with nothing but what the
 * system itself preloads. It must have the shim in its memory, end with 0 and print nothing. An
 * exit status. */
int ns_host_trial(const struct ns_host *host, bool preload);

/* What has become of a file. */
struct ns_change {
    char path[PATH_MAX];
    char *old; /* what it was; NULL: it was not there */
    size_t old_size;
    mode_t mode;
    uid_t user;
    gid_t group;
    unsigned made_directories; /* above it */
    bool done;                 /* it is not what it was */
};

/* The whole of a regular file with a zero byte behind it, in *text, allocated; NULL if it is not
 * there. 0 or -errno; -EINVAL: it is no regular file, or a large one. */
int ns_host_read(const char *path, char **text);

/* Replace a file by this text as a whole, or remove it if text is NULL; its directories are made if
 * they are missing. 0 or -errno: then it is as it was, unless change->done.
 */
int ns_change_make(struct ns_change *change, const char *path, const char *text);
void ns_change_undo(struct ns_change *change);   /* change->done: that failed */
void ns_change_forget(struct ns_change *change); /* frees */

/* Is there what a change of this file left beside it that was ended half-way? sweep removes it. */
bool ns_change_is_left(const char *path);
bool ns_change_sweep(const char *path);

/* /etc/ld.so.preload with and without the library. */
#define NS_HOST_PRELOAD "/etc/ld.so.preload"
int ns_host_preload_enable(struct ns_host *host, const char *library);
int ns_host_preload_disable(const struct ns_host *host, bool *found);

/* The entry of it that is the library; false if there is none. */
bool ns_host_preload_entry(const struct ns_host *host, char entry[PATH_MAX]);

/* Units. A name without a type is that of a service. */
#define NS_HOST_UNITS "/etc/systemd/system"
/* Of drop-ins the last by name has the word: behind the override.conf of systemctl edit. */
#define NS_HOST_DROPIN "zz-nagleshim.conf"
/* systemd has a link here for each unit that runs, made anew at its start. */
#define NS_HOST_RUNNING "/run/systemd/units"

bool ns_host_unit_name(const char *word, char name[NAME_MAX]);
int ns_host_units_enable(struct ns_host *host, char **names, unsigned n, const char *library);
int ns_host_units_disable(const struct ns_host *host, char **names, unsigned n, bool *found);

/* The system's own path of a unit's drop-in. 0 or -errno. */
int ns_host_dropin_path(const struct ns_host *host, const char *name, char own[PATH_MAX]);

/* Calls each with the unit's name and the drop-in's text, for all that this command has written;
 * without a text where it was ended before it had. 0 or -errno. */
int ns_host_units_each(const struct ns_host *host,
                       void (*each)(void *context, const char *name, const char *text),
                       void *context);

/* The library in the text of a drop-in that this command has written; "" if it names none. */
void ns_host_dropin_entry(const char *text, char entry[PATH_MAX]);

/* Is the drop-in of this name for that unit: its own, its template's, or that of its prefix? */
bool ns_host_is_for(const char *name, const char *unit);

/* What systemd reads again once its files have changed. */
bool ns_host_reload(const struct ns_host *host);

int ns_host_status(const struct ns_host *host);

#endif
