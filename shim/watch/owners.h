/* SPDX-License-Identifier: MIT */
/* Which process has which socket: the inodes of the descriptors in /proc/PID/fd. The chosen
 * processes are those that are watched; other ones may be at the other end of their connections. */
#ifndef NS_OWNERS_H
#define NS_OWNERS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* --- netns.c: the network namespaces of watched processes: sockets to ask the kernel about the TCP
 * sockets in each, and the ports with listeners. */

struct ns_owners;

struct ns_netns {
    dev_t device;                /* of the namespace */
    ino_t inode;                 /* unique while fd is open */
    uint32_t round;              /* the last one with a process or connection in it */
    int fd, list_fd;             /* for diag.h; negative: entering is not permitted */
    uint8_t listens[65536 / 8];  /* a bit for each port with a listener in the last list */
    uint8_t listened[65536 / 8]; /* and for each that has or had one */
    uint8_t reached[65536 / 8];  /* and for each with one that an undo may restore */
};

/* Note the namespace of a process, by a descriptor of its directory in /proc. -EPERM: this
 * user may not enter it; -EACCES: this user may not examine the process. */
int ns_netns_note(struct ns_owners *owners, int directory);

/* Close the namespaces in which this round and the one before found nothing. An open one keeps the
 * namespace of an ended container alive. */
void ns_netns_drop_unused(struct ns_owners *owners, uint32_t round);

void ns_netns_release(struct ns_owners *owners);

static inline void ns_ports_add(uint8_t *ports, unsigned port)
{
    ports[port / 8] |= (uint8_t)(1U << port % 8);
}

static inline bool ns_ports_have(const uint8_t *ports, unsigned port)
{
    return ports[port / 8] >> port % 8 & 1;
}

/* Raise the soft limit of descriptors, of which each namespace needs some, to the hard limit. */
void ns_netns_raise_limit(void);

/* --- owners.c --- */

struct ns_connection;

/* A socket of any protocol and any process. */
struct ns_owned {
    uint64_t inode;                   /* 0: an empty slot */
    pid_t pid;                        /* 0: not of a process that was examined */
    bool chosen;                      /* it is of a chosen process */
    int fd;                           /* its descriptor in that process, when it was last seen */
    uint32_t stamp;                   /* the last round that saw it */
    bool listed;                      /* a list had it while no owner was known */
    uint8_t tries;                    /* cure's lists that had it, without an owner */
    bool treated;                     /* cure has treated it, or given it up */
    bool unfound;                     /* and has counted it as one of no process */
    bool spared;                      /* cure leaves it as it is */
    unsigned changed;                 /* cure has changed these of its options: NS_CODE_... */
    struct ns_connection *connection; /* NULL: none, or none yet */
    uint64_t started;                 /* of the process, see proc.h; 0: unknown */
    char name[64];                    /* the base name of its executable; "": unknown */
};

struct ns_watched_process {
    pid_t pid;
    uint64_t started;
    int refusal; /* why it could not be examined in the last round: -errno; 0: it could */
};

struct ns_owners {
    struct ns_owned *places; /* a hash table, open addressing */
    size_t room, used;
    uint32_t stamp;
    struct ns_watched_process *processes;
    size_t n_processes;
    bool all, children; /* all: every process is chosen */
    bool everyone;      /* the next round also reads processes that are not chosen */
    uint32_t complete;  /* the stamp of the last round that read every process */
    uint64_t denied;    /* chosen processes that could not be examined, in the last round */
    pid_t refused;      /* the last of them, and why: -errno */
    int refusal;
    unsigned fresh; /* new sockets of chosen processes in the last round */
    struct {        /* the current round */
        bool goes_on;
        uint64_t began; /* the tick of the clock: see ns_owners_add */
        bool chosen;    /* the process that is being read is a chosen one */
        size_t next;    /* index of the next process */
        pid_t *all;     /* every process that there was at its begin; NULL: they are not read */
        size_t next_of_all;
        DIR *list; /* /proc/PID/fd */
        pid_t pid;
        uint64_t denied;
        unsigned fresh;
    } round;
    struct ns_netns **namespaces;
    size_t n_namespaces;
};

/* Add a process that was started before this tick of the clock (ns_state_now), as one had this
 * number when a list with it was read after that. Returns 0, -ESRCH if there is none, or another
 * -errno. One that was started in this tick or later gets -ESRCH, too: read the list again. Only
 * the next round notices missing permission. */
int ns_owners_add(struct ns_owners *owners, pid_t pid, uint64_t before);

/* One that was added and had not ended in the last round, or NULL. */
const struct ns_watched_process *ns_owners_process(const struct ns_owners *owners, pid_t pid);

/* Continue to read the descriptors of all processes and children until this time
 * (CLOCK_MONOTONIC ns), since there may be very many. The list of all processes is read at once:
 * 1.3 us each. 1: there is more; 0: the round is complete.
 * Forgets ended processes, and sockets that were not seen for a while and are not a connection. */
int ns_owners_step(struct ns_owners *owners, uint64_t until);

/* Returns the slot of a socket, or NULL if it has none. With make, it gets one. */
struct ns_owned *ns_owners_place(struct ns_owners *owners, uint64_t inode, bool make);

/* Ends a round that is not complete. */
void ns_owners_stop(struct ns_owners *owners);

void ns_owners_release(struct ns_owners *owners);

#endif
