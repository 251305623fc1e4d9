/* SPDX-License-Identifier: MIT */
/* What systemd, or the unit files of an image, say about a service's LD_PRELOAD. */
#ifndef NS_HOST_UNIT_H
#define NS_HOST_UNIT_H

#include "cli/host/host.h"

/* The last drop-in by name takes effect: this one comes after the override.conf of systemctl edit.
 */
#define NS_HOST_DROPIN "zz-nagleshim.conf"

struct ns_unit {
    char load_state[32];          /* systemd's LoadState: "loaded", "not-found", "masked" ... */
    char preload[PATH_MAX];       /* the unit's LD_PRELOAD; "": it sets none */
    bool has_preload;             /* also if it is set to nothing */
    bool hides_files;             /* it has a root of its own, or hides directories */
    bool has_noexec;              /* NoExecPaths= */
    char blocked[PATH_MAX + 256]; /* why a drop-in cannot set LD_PRELOAD; "": it can */
};

/* Asks systemctl for the settings of a service; of systemd itself if name is NULL. False, and the
 * reason is printed, if systemctl fails. */
bool ns_unit_ask(const char *name, struct ns_unit *unit);

/* The same from the unit files and drop-ins of an image, which are searched for the names of the
 * settings alone. */
void ns_unit_search(const char *name, struct ns_unit *unit);

#endif
