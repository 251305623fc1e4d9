/* SPDX-License-Identifier: MIT */
/* What is known of a systemd unit as far as the library goes, and which files say it. */
#ifndef NS_HOST_UNIT_H
#define NS_HOST_UNIT_H

#include "cli/host/host.h"

enum { NS_UNIT_FILES_MOST = 32 };

struct ns_unit {
    const struct ns_host *host;
    const char *name;
    char *preload;         /* what it sets; NULL: nothing */
    char *manager_preload; /* what systemd sets for all; NULL: nothing */
    bool has_root, has_cover, has_noexec;
    char *files[NS_UNIT_FILES_MOST]; /* values of EnvironmentFile= */
    unsigned n_files;
    bool is_there;      /* it has a file of its own, or its template has */
    char blocked[1024]; /* why a drop-in would be in vain; "": it would not */
};

/* Where units lie: of files of one name the first is taken (systemd.unit(5)). NULL past the last.
 */
extern const char *const ns_unit_places[];

/* A name of a directory of drop-ins that goes for this unit, the nearest first; number 0 is its
 * own. NULL past the last. */
const char *ns_unit_dropin_directory(const char *unit, unsigned number, char name[NAME_MAX]);

/* Do drop-ins of this name go for units that begin with it? For a template's instances? */
bool ns_unit_is_prefix(const char *name);
bool ns_unit_is_template(const char *name);

/* Note why a drop-in would be in vain; the first reason stays. */
__attribute__((format(printf, 2, 3))) void ns_unit_block(struct ns_unit *unit, const char *format,
                                                         ...);

/* Take the settings of a unit's file, a drop-in or system.conf, whose text is spoilt. is_late: it
 * has the last word, behind the library's drop-in. */
void ns_unit_take_text(struct ns_unit *unit, char *text, const char *file, bool is_late);
void ns_unit_forget_files(struct ns_unit *unit);

/* The files of EnvironmentFile= are read when the service starts, and go before every
 * Environment=: do they set LD_PRELOAD? */
void ns_unit_judge_files(struct ns_unit *unit);

/* The text of the drop-in for a unit, allocated; NULL if it cannot have one: unit->blocked. */
char *ns_unit_dropin(const struct ns_host *host, const char *name, struct ns_unit *unit);

/* Do the units that there are of a prefix or a template fare well with its drop-in, which has this
 * text? Those with a nearer one, for which has_own is asked with the name of its directory's unit,
 * are not asked after. If not, it is said why. */
bool ns_unit_judge_members(const struct ns_host *host, const char *many, const char *text,
                           bool (*has_own)(void *context, const char *name), void *context);

#endif
