/* SPDX-License-Identifier: MIT */
/* The program's own dlopen. */
#ifndef NS_LOADER_H
#define NS_LOADER_H

/* Start-up: remove RTLD_DEEPBIND from every dlopen of this process. A library that is opened with
 * it finds libc's functions before the exported ones (PHP opens its extensions so). */
void ns_loader_ignore_deepbind(void);

#endif
