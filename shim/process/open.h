/* SPDX-License-Identifier: MIT */
/* The one way to open a file whose name another user may have chosen, or that he can exchange. */
#ifndef NS_OPEN_H
#define NS_OPEN_H

/* Opens a regular file for reading; path is relative to directory, and links are followed. Another
 * file is not opened, not even for a moment: the open of a FIFO waits, that of a device may do
 * harm. Returns a descriptor, or -errno; -EINVAL: it is no regular file. Waits for the file system.
 * For an open file with O_PATH, the path is its name in /proc/self/fd. */
int ns_open_regular(int directory, const char *path);

/* The text of a regular file, to be freed. NULL, and errno, if it cannot be read: ENOENT if there
 * is none, EINVAL if it is no regular file or larger than 256 KiB. */
char *ns_file_read(const char *path);

#endif
