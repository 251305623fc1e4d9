/* SPDX-License-Identifier: MIT */
/* Which watched process has which socket: the inodes of the descriptors in /proc/PID/fd. */
#ifndef NS_OWNERS_H
#define NS_OWNERS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ns_netns;
struct ns_connection;

/* A socket, whatever its protocol, of a watched process, or of somebody else. */
struct ns_owned {
    uint64_t inode;                   /* 0: an empty place */
    pid_t pid;                        /* 0: none of the watched processes has it */
    uint32_t stamp;                   /* of the round in which it was there last */
    bool listed;                      /* a list has had it while nobody owned it */
    struct ns_connection *connection; /* NULL: none, or none yet */
};

struct ns_watched_process {
    pid_t pid;
    int directory; /* in /proc: another process that gets its number later is not taken for it */
    bool denied;   /* it may not be looked into, in the last round */
};

/* What a process was called when a socket of its was found, for it may be gone the next moment. */
struct ns_named_process {
    pid_t pid;
    bool used;        /* it has a socket */
    uint64_t started; /* see state.h; 0: not known */
    char name[64];    /* the base name of its executable; "": not known */
};

struct ns_owners {
    struct ns_owned *places; /* a hash table, open addressing */
    size_t room, used;
    uint32_t stamp;
    struct ns_watched_process *processes;
    size_t n_processes;
    struct ns_named_process *names; /* by their pids */
    size_t n_names;
    bool all, children;
    uint64_t denied; /* processes that may not be looked into, in the last round */
    uint64_t unread; /* those that there was no descriptor or no memory for */
    unsigned fresh;  /* sockets of watched processes that it found for the first time */
    struct {         /* the round that goes on */
        bool goes_on;
        size_t next; /* process, of the chosen ones */
        DIR *all;    /* /proc */
        DIR *list;   /* descriptors of a process */
        pid_t pid;
        bool named;
        uint64_t denied, unread;
        unsigned fresh;
    } round;
    struct ns_netns **spaces;
    size_t n_spaces;
};

/* 0, -ESRCH, or -ENOMEM. What may not be looked into is found by the next round. */
int ns_owners_add(struct ns_owners *owners, pid_t pid);

/* Go on reading the descriptors of all processes, those of new children too, until that time
 * (CLOCK_MONOTONIC ns): a process may have very many. 1: it goes on; 0: the round is complete.
 * Forgets processes that have ended, and sockets that were not seen for a while and are no
 * connection. */
int ns_owners_step(struct ns_owners *owners, uint64_t until);

/* The place of a socket, made if make is set; NULL if there is none, or no memory. */
struct ns_owned *ns_owners_place(struct ns_owners *owners, uint64_t inode, bool make);

/* What is known of a process that has a socket; NULL if nothing is. */
const struct ns_named_process *ns_owners_named(const struct ns_owners *owners, pid_t pid);

void ns_owners_release(struct ns_owners *owners);

#endif
