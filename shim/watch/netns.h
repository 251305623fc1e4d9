/* SPDX-License-Identifier: MIT */
/* The network namespaces of watched processes: sockets to ask the kernel about the TCP sockets in
 * each, and the ports with listeners. */
#ifndef NS_NETNS_H
#define NS_NETNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ns_netns {
    dev_t device;                /* of the namespace */
    ino_t inode;                 /* unique while fd is open */
    uint32_t round;              /* the last one with a process or connection in it */
    int fd, list_fd;             /* for diag.h; negative: entering is not permitted */
    int snmp;                    /* its /proc/net/snmp; -1: not readable */
    uint8_t listened[65536 / 8]; /* a bit for each port with a listener */
};

/* Note the namespace of a process, by a descriptor of its directory in /proc. -EPERM: this
 * user may not enter it; -EACCES: this user may not examine the process. */
int ns_netns_note(struct ns_netns ***namespaces, size_t *n_namespaces, int directory,
                  uint32_t round);

/* Close the namespaces in which this round and the one before found nothing. An open one keeps the
 * namespace of an ended container alive. */
void ns_netns_drop_unused(struct ns_netns **namespaces, size_t *n_namespaces, uint32_t round);

void ns_netns_release(struct ns_netns **namespaces, size_t n_namespaces);

/* How many TCP connections were opened in it so far, by either end; 0 if that is not known. */
uint64_t ns_netns_opened(const struct ns_netns *netns);

static inline void ns_netns_set_listened(struct ns_netns *netns, uint16_t port)
{
    netns->listened[port / 8] |= (uint8_t)(1U << port % 8);
}

static inline bool ns_netns_is_listened(const struct ns_netns *netns, uint16_t port)
{
    return netns->listened[port / 8] >> port % 8 & 1;
}

/* Raise the soft limit of descriptors, of which each namespace needs some, to the hard limit. */
void ns_netns_raise_limit(void);

#endif
