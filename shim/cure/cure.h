/* SPDX-License-Identifier: MIT */
/* `nagleshim cure`: sets options on the sockets of running processes, from outside. */
#ifndef NS_CURE_H
#define NS_CURE_H

#include "cure/group.h"
#include "policy/match.h"
#include "watch/owners.h"

enum ns_cure_result {
    NS_CURE_CHANGED,
    NS_CURE_UNCHANGED, /* it has the options already */
    NS_CURE_HALF,      /* the same, but this kernel cannot limit the delay of its ACKs */
    NS_CURE_ACCEPTS,   /* the kernel treats what the listener accepts */
    NS_CURE_NO_RULE,   /* undo: nothing is to be restored */
    NS_CURE_OTHERS,    /* its process belongs to another group that is cured */
    NS_CURE_EARLIER,   /* --for: another cure has changed it */
    NS_CURE_MPTCP,     /* it can have no mark */
    NS_CURE_HAS_LIBRARY,
    NS_CURE_STUCK, /* the process is stuck in the kernel */
    NS_CURE_DENIED,
    NS_CURE_FAILED,
    NS_CURE_RESULTS
};

/* What was done to the sockets of a process; with --follow, of all processes of a name. */
struct ns_cure_row {
    pid_t pid; /* 0 with --follow */
    char name[64];
    unsigned listeners, connections; /* that were changed */
    unsigned nodelay, delack;        /* options that were set or limited */
    unsigned nodelay_restored, delack_restored;
    unsigned results[NS_CURE_RESULTS];
    bool is_new; /* it has a result that it did not have before */
};

struct ns_cure_process;
struct ns_cure_socket;

struct ns_cure {
    /* options */
    const pid_t *pids; /* of --pid; they end with a 0 */
    unsigned port;
    struct ns_groups
        groups;  /* all that were cured before; --unit, --cgroup and --all select some */
    int refusal; /* why the kernel does not cure a group's new connections */
    bool all, follow, undo, dry_run;
    bool list;      /* shows what an undo would restore */
    double seconds; /* of --for, or 0 */
    const struct ns_policy *policy;
    int least_delack;
    bool cures_new;    /* the kernel cures the new connections of groups */
    bool sets_nodelay; /* and sets TCP_NODELAY there */
    /* state of the scan */
    struct ns_owners owners;
    struct ns_netns *listed;        /* that of the sockets which a list shows */
    bool mptcp;                     /* the list is that of MPTCP sockets */
    struct ns_cure_socket *sockets; /* those of the last list that were not treated before */
    size_t n_sockets, n_left;       /* n_left: those that were not treated then, either */
    unsigned unfound;               /* those that were given up */
    unsigned n_full;                /* of the last list: see ns_reader_is_full */
    unsigned n_waiting;             /* of the last list: those that are not accepted yet */
    struct ns_unseen unseen;        /* of the groups */
    struct ns_cure_process *processes;
    int error; /* the last one that prevented a change */
    struct ns_cure_row *rows;
    size_t n_rows;
    unsigned total[NS_CURE_RESULTS]; /* of all rows */
};

/* --- socket.c: one socket --------------------------------------------------------------------- */

/* A descriptor of a process, or -errno; for a thread's id, -ESRCH. */
int ns_cure_open_process(pid_t pid);

/* Options of a socket. A value of -1: it or the kernel has no such option, or it stays. */
struct ns_cure_values {
    int nodelay; /* TCP_NODELAY */
    int delack;  /* TCP_DELACK_MAX_US */
    int mark;    /* see code.h */
};

/* A socket that is to be changed, and what came of it. */
struct ns_cure_change {
    pid_t pid;
    int fd;
    uint64_t cookie;
    bool listens;
    int options; /* of its rule; -1: none matches */
    int least_delack;
    bool undo, dry_run;
    bool in_group;   /* it is, or will be, in a group that is cured */
    bool maybe_in;   /* it may be */
    bool accepts;    /* the kernel treats what a listener in a group accepts */
    unsigned spares; /* these, NS_CODE_..., stay as the cure of its group has set them */
    int result;      /* enum ns_cure_result; -EAGAIN: it is not at this place any more */
    int error;       /* -errno of NS_CURE_FAILED */
    struct ns_cure_values then;
};

enum { NS_CURE_DELACK_DEFAULT_US = 200000 }; /* TCP_DELACK_MAX of include/net/tcp.h: 1/5 s */

/* Changes a struct ns_cure_change. In the reader, as the process can make it wait without end: it
 * locks the socket in a call, or replaces it by a file of its own file system. */
void ns_cure_change(void *change, int unused);

/* --- scan.c: all sockets --------------------------------------------------------------------- */

/* Selects the processes. With --for, notes the sockets that an undo would restore now: they are
 * left as they are. 0; -ESRCH: no process cure->pids[0], to which that has been moved; or -errno.
 */
int ns_cure_begin(struct ns_cure *cure);

/* Lists the sockets and treats the new ones; if is_last, twice or three times, since a descriptor
 * may be handed on, and a listener may accept, while the first scan goes on. 0, or -errno if they
 * cannot be listed. With refresh, it first looks for new processes and namespaces, and for programs
 * that have loaded the library since they were examined. */
int ns_cure_scan(struct ns_cure *cure, bool refresh, bool is_last);

/* Were there sockets, of --port if that was given, whose process could not be examined? */
bool ns_cure_has_unowned(const struct ns_cure *cure);

/* Was every socket of the selected processes reached? */
bool ns_cure_is_complete(const struct ns_cure *cure);

/* Closes the network namespaces, and forgets the processes, until the next scan with refresh. Which
 * sockets are spared is kept. */
void ns_cure_release_owners(struct ns_cure *cure);

/* From now on, restores the sockets; those that were treated, too. */
void ns_cure_reverse(struct ns_cure *cure);

#endif
