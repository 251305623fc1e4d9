/* SPDX-License-Identifier: MIT */
/* The experiments of an observed process: at half of the waits, chosen by a coin, a push or an ACK
 * is tried. Nothing here blocks, allocates or takes a lock; errno is unchanged; async-signal-safe.
 */
#ifndef NS_EXPERIMENT_H
#define NS_EXPERIMENT_H

#include "judge/look.h"

#include <stdbool.h>

/* At the beginning of a wait: if the experiment that was asked for applies, toss the coin, do what
 * it says, and note both in the sample. unanswered: data was read and not answered. */
void ns_experiment(int fd, bool unanswered, struct ns_look *sample);

#endif
