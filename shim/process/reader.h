/* SPDX-License-Identifier: MIT */
/* The reader: a child of the command that does what another user's process may delay for ever. If
 * that takes more than a second, or three while it is at work, it is killed, and the next question
 * starts another one. If several of a user's processes take so long, the next ones get less than a
 * second. A reader that even SIGKILL does not end is not waited for, but remembered: there may be
 * few. */
#ifndef NS_READER_H
#define NS_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Who has started a process: its user, or a number for its container, greater than usual users'
 * numbers, as one may have many users there. Of a PID namespace of root's, below which it is, that
 * is the inode of the outermost; otherwise, of the outermost user namespace below this one, its
 * owner counts or, if that is root, its inode. To be asked before the process is: it may end
 * meanwhile. */
uid_t ns_reader_user(pid_t pid);

/* May no further reader have to wait for a process of this user? One user may not use up all. */
bool ns_reader_is_full(uid_t user);

enum { NS_READER_ROOM = 512 << 10 };

/* Lets the reader call work with a copy of data, which has at most NS_READER_ROOM bytes, and copies
 * that back. It is about a process of this user. with_memory: memory is /proc/PID/mem, to be
 * closed, if the reader has no right to open it; otherwise it is -1. The reader may have been made
 * to write anything into its copy. 0, or -errno without an answer: -ESRCH: the process is a child
 * of this command; -ETIMEDOUT: there was no answer in time, or ns_reader_is_full; -EINTR: see
 * ns_reader_until. */
int ns_reader_ask(pid_t pid, uid_t user, bool with_memory, void (*work)(void *data, int memory),
                  void *data, size_t size);

/* From now on, no question waits for long while this is true; NULL: each has its second. */
void ns_reader_until(bool (*is_command_over)(void));

/* Is that so? */
bool ns_reader_is_over(void);

/* From now on, readers that are stuck count for no user, but there may still be few, and each
 * process gets its second again. */
void ns_reader_forgive(void);

#endif
