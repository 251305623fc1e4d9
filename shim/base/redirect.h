/* SPDX-License-Identifier: MIT */
/* Calls of objects that were opened with RTLD_DEEPBIND. Such an object finds libc's functions
 * before the exported ones. */
#ifndef NS_REDIRECT_H
#define NS_REDIRECT_H

/* Let the object that contains this address call the exported functions, as if it had been opened
 * without the flag. Only its slots that lead, or will lead, to libc's definition of an exported
 * name are changed. If another object defines the name, too, they stay, since the program may want
 * that definition. A slot that cannot be written stays. Takes the loader's lock and allocates
 * nothing; errno is unchanged. Not async-signal-safe. */
void ns_redirect_calls(const void *within);

#endif
