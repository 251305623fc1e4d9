/* SPDX-License-Identifier: MIT */
/* Where large arrays are: behind all other variables (layout.ld), so that those which every process
 * writes at its start, and every forked child, share one page. */
#ifndef NS_LARGE_H
#define NS_LARGE_H

#define NS_LARGE_ARRAY __attribute__((section(".bss.large"), aligned(64)))

#endif
