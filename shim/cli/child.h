/* SPDX-License-Identifier: MIT */
/* A program that this command starts and waits for. It gets the streams, environment and signals
 * that it would get from a shell, except for the options here. */
#ifndef NS_CHILD_H
#define NS_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ns_child {
    pid_t pid;
    int socket; /* ns_child_release writes to it: then the child executes the program, or writes
                 * errno of execve back */
    bool ended;
    int status; /* as a shell has it: 128 and the signal's number if one ended it */
};

struct ns_child_options {
    char *const *argv;
    char *const *environment; /* "NAME=VALUE" to set, "NAME" to take away; or NULL */
    bool quiet;               /* standard input and output are /dev/null */
    bool to_stderr;           /* standard output is standard error, since this command uses it */
};

/* Set SIGCHLD to its default: if it is ignored, wait(2) fails. Some supervisors and containers'
 * first processes start programs with SIGCHLD ignored. main calls this first. */
void ns_child_await(void);

/* Restore SIGCHLD and the limit of descriptors to what they were, before execve. */
void ns_child_restore(void);

/* From now on, SIGCHLD and the signals that end programs are for ns_child_take_signals. Call it
 * before the first child. False after a message. */
bool ns_child_signals(void);

/* Fork a process that waits for ns_child_release, so that it can be watched from its first call on.
 * 0 or -errno. */
int ns_child_fork(struct ns_child *child, const struct ns_child_options *options);

/* Let it execute the program. 0, or -errno of execve; then the child has ended. */
int ns_child_release(struct ns_child *child);

/* Read the pending signals. Those that were sent to this process only are passed on to the child,
 * unless it is NULL; a terminal's ^C reaches the child by itself. True if one of them asked this
 * command to end. */
bool ns_child_take_signals(struct ns_child *child);

/* Sleep until this time (CLOCK_MONOTONIC ns) or until a signal. */
void ns_child_wait(uint64_t then);

/* Has it ended? Does not block; status is set. */
bool ns_child_has_ended(struct ns_child *child);

#endif
