/* SPDX-License-Identifier: MIT */
/* The network namespaces in which watched processes live: for each a socket through which the
 * kernel is asked about the TCP sockets there, and the ports that are listened on. */
#ifndef NS_NETNS_H
#define NS_NETNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ns_netns {
    dev_t device;                /* of the namespace, */
    ino_t inode;                 /* which no other has while this is open */
    uint32_t round;              /* the last one that found a process or a connection in it */
    int fd, list_fd;             /* for diag.h; fd < 0: it may not be entered */
    uint8_t listened[65536 / 8]; /* a bit for each port that somebody was seen to listen on */
};

/* The namespace of the process whose directory in /proc this is, from the list or added to it.
 * -EPERM: this user may not enter it; -EACCES: nor look into the process. */
int ns_netns_find(struct ns_netns ***spaces, size_t *n_spaces, int directory, uint32_t round,
                  struct ns_netns **found);

/* Close those that neither this round nor the one before has found anything in: as long as one is
 * open, the kernel keeps the namespace of a container that has ended. */
void ns_netns_drop_unused(struct ns_netns **spaces, size_t *n_spaces, uint32_t round);

void ns_netns_release(struct ns_netns **spaces, size_t n_spaces);

static inline void ns_netns_set_listened(struct ns_netns *space, uint16_t port)
{
    space->listened[port / 8] |= (uint8_t)(1U << port % 8);
}

static inline bool ns_netns_is_listened(const struct ns_netns *space, uint16_t port)
{
    return space->listened[port / 8] >> port % 8 & 1;
}

#endif
