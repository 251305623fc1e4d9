/* SPDX-License-Identifier: MIT */
/* The control groups whose connections the kernel cures, by the programs of code.h. The programs
 * stay in force, without a process, as long as they have names in the BPF file system, in
 * NS_GROUP_PINS. A group's removal ends them, and so does a boot. */
#ifndef NS_GROUP_H
#define NS_GROUP_H

#include "policy/policy.h"
#include "watch/owners.h"

#include <limits.h>

#define NS_GROUP_BPF "/sys/fs/bpf"
#define NS_GROUP_PINS NS_GROUP_BPF "/nagleshim"
#define NS_GROUP_NO_MOUNT "no cgroup2 file system is mounted"
#define NS_GROUP_ENDING "a cure or an undo did not finish; repeat the undo"

enum {
    NS_GROUP_PROGRAMS = 2, /* see links.c */
    NS_GROUP_ROOT = 1,     /* the root's inode; a cgroup namespace has another root (fs/kernfs) */
};

struct ns_group {
    char path[PATH_MAX];          /* "": it was removed */
    uint64_t id;                  /* the inode number of its directory */
    bool selected;                /* by ns_groups_find, which is what the command is about */
    bool kept;                    /* its programs have names */
    bool is_ending;               /* an undo has ended its cure and could not restore all sockets */
    int links[NS_GROUP_PROGRAMS]; /* of programs without names, or -1 */
    char policy[256]; /* of its programs, as ns_groups_cure got it; "": it is not known */
    int error;        /* why the kernel does not cure its new connections by this command */
};

struct ns_groups {
    struct ns_group *at;
    size_t n;
};

/* --- group.c: groups and their directories ---------------------------------------------------- */

/* Where the cgroup2 file system is mounted, with its root if that is visible. 0; -EXDEV: the root
 * is not visible in this cgroup namespace; -ENODEV: it is mounted nowhere, and path is "". */
int ns_group_root(char path[PATH_MAX]);

/* Selects a group by its directory, or each group with this name, or those whose name has the word
 * in it, if the word is at least NS_GROUP_DIGITS hexadecimal digits of the id of a container or
 * pod. With is_unit, it selects each group of a systemd unit; without a word, the root. 0;
 * -ENOENT: there is none; -ENODEV or, for the root only, -EXDEV: see ns_group_root. */
enum { NS_GROUP_DIGITS = 12 };
int ns_groups_find(struct ns_groups *groups, const char *word, bool is_unit);

/* Returns the new one, which the next call may move. */
struct ns_group *ns_groups_add(struct ns_groups *groups, const char *path, uint64_t id);

/* The first selected one behind this one, or of all; or NULL. */
struct ns_group *ns_groups_next(const struct ns_groups *groups, const struct ns_group *last);

/* The one with this number, or NULL. */
struct ns_group *ns_groups_with(const struct ns_groups *groups, uint64_t id);

/* The innermost of these groups that has this directory or is above it, and does not have this
 * number. NULL: no group is. */
const struct ns_group *ns_groups_innermost(const struct ns_groups *groups, const char *path,
                                           uint64_t except);

/* Calls visit for a directory and those below it; not for those below one where it returns true.
 * Users may nest groups as deeply as they like: needs one descriptor at a time. */
void ns_group_walk(const char *path, bool (*visit)(void *context, const char *path), void *context);

/* The directory of a process's group, see struct ns_origin. False: it is not known. */
bool ns_group_path(const char *name, char *path, size_t size);

/* The innermost one that has this group of a process: not one whose cure has ended, unless it is
 * selected. */
const struct ns_group *ns_groups_of(const struct ns_groups *groups, const char *name);

/* What was not seen of groups: processes in other PID namespaces, and groups whose processes could
 * not be read, of which what is below was not, either; error: -errno of the last. */
struct ns_unseen {
    unsigned processes, groups;
    int error;
};

/* Adds the processes of the selected groups and of those below. */
struct ns_unseen ns_groups_add_processes(const struct ns_groups *groups, struct ns_owners *owners);

/* --- links.c: the programs in force ----------------------------------------------------------- */

/* Does the kernel cure the new connections of this group of a process, see struct ns_origin? False,
 * too, without CAP_NET_ADMIN and CAP_SYS_ADMIN. */
bool ns_group_is_cured(const char *name);

/* Adds each group whose programs have names, and each other one in which programs of this command
 * are in force, as those of a cure --follow are: its error is -EEXIST. 0; -EACCES: no permission to
 * read the names; -ENOTDIR: as below. No such group is no error. */
int ns_groups_find_cured(struct ns_groups *groups);

/* Makes the directory of the names and locks it, until the process ends, against other cures and
 * undos, for which it waits some seconds. is_dry: does neither. 0; -ENXIO: there is no BPF file
 * system; -ENOTDIR: somebody else than root may write to the directory, or it is none; -EAGAIN:
 * another process has the lock; or another -errno. */
int ns_groups_lock(bool is_dry);

enum {
    NS_GROUPS_KEEP = 1,  /* until ns_groups_remove, for which the names are locked; otherwise until
                          * this process ends */
    NS_GROUPS_DRY = 2,   /* changes nothing */
    NS_GROUPS_FORCE = 4, /* also if that ends another program of a group above */
};

/* Cures the connections that are opened in the selected groups from now on. Replaces what an
 * earlier call has kept. 0, and then each group has its own error; or, without a change: -ENOTSUP,
 * -E2BIG: see ns_code_connections; -EPERM: without the rights; or another -errno. Of a group:
 * -EBUSY: its other programs, or those of one above it, allow none beside them; -EUSERS: that of
 * one above it would run no more, see NS_GROUPS_FORCE; -ENOSPC: they are too many; -EEXIST: another
 * cure is in force, which this one may not replace; -ENOENT: it has ended. from: where the policy
 * is from. */
int ns_groups_cure(struct ns_groups *groups, const struct ns_policy *policy, const char *from,
                   unsigned how);

/* Ends the cure of new connections in the selected groups, and, with finally, that of the calls by
 * which connections that exist are restored: see NS_CODE_OPTION. Names are removed if this process
 * has locked them. */
void ns_groups_remove(struct ns_groups *groups, bool finally);

/* The least limit of delayed ACKs that the kernel accepts, in microseconds: two ticks of its clock
 * (TCP_TIMEOUT_MIN, include/net/tcp.h). */
int ns_group_least_delack(void);

/* In socket.c: the least TCP_DELACK_MAX_US, as getsockopt(2) returns it; -1: the kernel has no such
 * option. */
int ns_socket_least_delack(void);

#endif
