/* SPDX-License-Identifier: MIT */
/* Reads the records of observed processes (judge/record.h), has them judged, and adds them to a
 * diagnosis. The processes may still be writing. Another process wrote the records, so that
 * everything in them is checked. Not async-signal-safe; allocates. */
#ifndef NS_RECORDED_H
#define NS_RECORDED_H

#include "cli/diagnose/rows.h"

#include <stddef.h>

/* Add every record in an open directory. Returns the number of records, or -errno if the directory
 * cannot be read. *n_broken: files that are not a record of this version. */
int ns_recorded_read(int directory, struct ns_diagnosis *diagnosis, size_t *n_broken);

#endif
