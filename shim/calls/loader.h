/* SPDX-License-Identifier: MIT */
/* The program's own dlopen. */
#ifndef NS_LOADER_H
#define NS_LOADER_H

/* Start-up: leave RTLD_DEEPBIND out of every dlopen of this process. A library that is opened with
 * it finds the C library's functions before ours (PHP opens its extensions so). */
void ns_loader_ignore_deepbind(void);

#endif
