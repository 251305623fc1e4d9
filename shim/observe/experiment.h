/* SPDX-License-Identifier: MIT */
/* The experiment of an observed process: a push or an ACK before half of the waits, chosen by
 * chance. Never blocks, allocates or takes a lock; errno is unchanged; async-signal-safe. */
#ifndef NS_EXPERIMENT_H
#define NS_EXPERIMENT_H

#include "judge/look.h"

#include <stdbool.h>

/* Called before a wait. If the experiment applies, push or acknowledge in half of the cases, and
 * note in the sample whether it did. unanswered: data was read and not answered. */
void ns_experiment(int fd, bool unanswered, struct ns_look *sample);

#endif
