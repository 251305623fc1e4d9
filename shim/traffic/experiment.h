/* SPDX-License-Identifier: MIT */
/* The experiments of a process that is observed: at a wait a coin decides whether something is
 * tried. Nothing here blocks, allocates or takes a lock; errno is unchanged; async-signal-safe. */
#ifndef NS_EXPERIMENT_H
#define NS_EXPERIMENT_H

#include "judge/look.h"

#include <stdbool.h>

/* At a wait, look being what it begins with: toss the coin where the experiment that was asked for
 * has something to try, do what it says, and put that down in look. unanswered: something was read
 * and not answered. */
void ns_experiment(int fd, bool unanswered, struct ns_look *look);

#endif
