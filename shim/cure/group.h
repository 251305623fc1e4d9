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

enum {
    NS_GROUP_PROGRAMS = 2,
    NS_GROUP_ROOT = 1, /* the root's inode; a cgroup namespace has another root (fs/kernfs) */
};

struct ns_group {
    char path[PATH_MAX]; /* "": it was removed */
    uint64_t id;         /* the inode number of its directory */
};

struct ns_groups {
    struct ns_group *at;
    size_t n;
};

/* Adds a group by its directory, or each group whose name has the word in it, as those of
 * containers and pods have their id; is_unit: each group of a systemd unit. 0; -ENOENT: there is
 * none; -ENODEV: there is no cgroup2 file system. */
int ns_groups_find(struct ns_groups *groups, const char *word, bool is_unit);

/* Is this the name of the unit's group: the unit or "UNIT.service"? */
bool ns_group_is_of_unit(const char *name, const char *unit);

/* Adds the root. Results as above; -EXDEV: it is not visible in this cgroup namespace. */
int ns_groups_find_root(struct ns_groups *groups);

/* Adds each group whose programs have names. 0 or -EACCES; no such group is no error. */
int ns_groups_find_kept(struct ns_groups *groups);

/* The directory of the process's group. False: it is not known. */
bool ns_group_path(pid_t pid, char *path, size_t size);

/* Is one of these groups the process's own, or one above that? Returns it or NULL. */
const struct ns_group *ns_groups_of(const struct ns_groups *groups, pid_t pid);

/* Adds the processes of the groups and of those below. */
void ns_groups_add_processes(const struct ns_groups *groups, struct ns_owners *owners);

/* Makes the directory of the names and locks it, until the process ends, against other cures and
 * undos. Waits for those. is_dry: does neither. 0; -ENXIO: there is no BPF file system; or another
 * -errno. */
int ns_groups_lock(bool is_dry);

/* Cures the connections that are opened in the groups from now on. keep: until ns_groups_remove,
 * for which the names are locked; otherwise until this process ends. Replaces what an earlier call
 * has kept. is_dry: only shows that the kernel accepts the programs. 0; -ENOTSUP, -E2BIG: see
 * ns_code_connections; -EPERM: without the rights; -EBUSY: the groups' other programs allow none
 * beside them; or another -errno. On an error, the groups before the one that failed are cured. */
int ns_groups_cure(struct ns_groups *groups, const struct ns_policy *policy, bool keep,
                   bool is_dry);

/* Ends the cure of new connections, and, with finally, that of the calls by which connections that
 * exist are restored: see ns_group_limit. */
void ns_groups_remove(const struct ns_groups *groups, bool finally);

/* The least limit of delayed ACKs that the kernel accepts, in microseconds: two ticks of its clock
 * (TCP_TIMEOUT_MIN, include/net/tcp.h). */
int ns_group_least_delack(void);

/* The same of TCP_DELACK_MAX_US, as getsockopt(2) returns it; -1: the kernel has no such option. */
int ns_socket_least_delack(void);

/* Limits the delayed ACKs of a borrowed socket to so many microseconds, if the kernel accepts this
 * value. Returns false if the socket's group has no program of nagleshim, or before Linux 5.15. */
bool ns_group_limit(int fd, int delack);

#endif
