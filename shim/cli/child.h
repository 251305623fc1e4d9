/* SPDX-License-Identifier: MIT */
/* A program that this command starts and stays beside. It gets its own standard streams,
 * environment and signals as it would from a shell, but for what is asked for here. */
#ifndef NS_CHILD_H
#define NS_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

struct ns_child {
    pid_t pid;
    int gate;    /* closed by ns_child_release: then it becomes the program */
    int failure; /* where it says why it could not */
    bool ended;
    int status; /* as a shell has it: 128 and the signal's number if one ended it */
};

struct ns_child_options {
    char *const *argv;
    const char *const
        *environment; /* "NAME=VALUE" to set, "NAME" to take away; NULL-terminated, or NULL */
    bool quiet;       /* standard input and output are /dev/null */
    int errors;       /* standard error, if quiet */
};

/* Of whoever ignores SIGCHLD the kernel keeps no child to be waited for (wait(2)), and that is
 * inherited: some supervisors, and the first processes of containers, start programs so. main does
 * this before anything else, for whatever is started. */
void ns_child_await(void);

/* SIGCHLD and the limit of descriptors as this command found them. Before a program is executed
 * that is another's. */
void ns_child_restore(void);

/* SIGCHLD and what a terminal or a service manager ends programs with come through the descriptor
 * that this returns (signalfd(2)) from now on; -errno. Before the first child. */
int ns_child_signals(void);

/* A process that waits until it is released: whoever wants to watch it from its first call on can.
 * 0 or -errno. */
int ns_child_fork(struct ns_child *child, const struct ns_child_options *options);

/* Let it become the program. 0, or -errno of execve: it has ended then. */
int ns_child_release(struct ns_child *child);

/* Take what signals are there. What a signal of a person (^C) reaches by itself is left alone;
 * others are handed on to the child, unless it is NULL. True if one of them asked this command to
 * end. */
bool ns_child_take_signals(int signals, struct ns_child *child);

/* Has it ended? Does not block; status is set. */
bool ns_child_has_ended(struct ns_child *child);

#endif
