/* SPDX-License-Identifier: MIT */
/* What the files of `nagleshim host` share. Functions that fail print the reason. */
#ifndef NS_HOST_H
#define NS_HOST_H

#include "cli/verbs.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* In each function, only is the one library that is meant; NULL: every one. */

/* Is this entry of LD_PRELOAD the library, and the one that is meant? Follows links. */
bool ns_host_is_meant(const char *only, const char *entry, size_t length);

/* Refuses a library that another user than root could replace, or with which /bin/true does not
 * start. */
bool ns_host_judge_library(const char *library);

int ns_host_preload_enable(const char *library);
int ns_host_preload_disable(const char *only, bool *changed);

/* The file name for a service's drop-in. The last drop-in by name takes effect: this one comes
 * after the override.conf of systemctl edit. A name without a type is the name of a service. */
bool ns_host_unit_path(const char *word, char path[PATH_MAX]);
int ns_host_units_enable(const char *library, const struct ns_list *units);
int ns_host_units_disable(const char *only, const struct ns_list *units, bool *changed);

/* One drop-in that `host enable` wrote. */
struct ns_dropin {
    char unit[NAME_MAX + 1], library[PATH_MAX];
};

/* False if there is no such file, or if this command did not write it. */
bool ns_dropin_read(const char *path, struct ns_dropin *dropin);

/* A directory that is there while systemd runs, see sd_booted(3). */
#define NS_SYSTEMD_RUNS "/run/systemd/system"

/* A pattern for glob(3) that all drop-ins match. */
#define NS_DROPINS "/etc/systemd/system/*.service.d/zz-nagleshim.conf"

#endif
