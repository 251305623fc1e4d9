/* SPDX-License-Identifier: MIT */
/* Puts large arrays behind all other variables (layout.ld), so that the variables that every
 * process and every forked child writes share one page. */
#ifndef NS_LARGE_H
#define NS_LARGE_H

#define NS_LARGE_ARRAY __attribute__((section(".bss.large"), aligned(64)))

#endif
