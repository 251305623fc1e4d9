/* SPDX-License-Identifier: MIT */
/* Observing ("send": "observe") stands between the exported calls and the C library. */
#ifndef NS_OBSERVED_H
#define NS_OBSERVED_H

/* Start-up, where a rule observes and there is somewhere to record it. Not async-signal-safe. */
void ns_observed_open(void);

#endif
