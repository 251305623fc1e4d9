/* SPDX-License-Identifier: MIT */
/* The network namespaces in which watched processes live: for each a socket through which the
 * kernel is asked about the TCP sockets there, and the ports that are listened on. */
#ifndef NS_SPACE_H
#define NS_SPACE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ns_space {
    uint64_t inode;              /* of the namespace */
    int fd, list_fd;             /* for diag.h; fd < 0: why it could not be entered */
    uint8_t listened[65536 / 8]; /* a bit for each port that somebody was seen to listen on */
};

/* The namespace of the process whose directory in /proc this is, from the list or added to it.
 * -EACCES: this user may not enter it, or not look into the process. */
int ns_space_find(struct ns_space ***spaces, size_t *n_spaces, int directory,
                  struct ns_space **found);

void ns_space_release(struct ns_space **spaces, size_t n_spaces);

static inline void ns_space_set_listened(struct ns_space *space, uint16_t port)
{
    space->listened[port / 8] |= (uint8_t)(1U << port % 8);
}

static inline bool ns_space_is_listened(const struct ns_space *space, uint16_t port)
{
    return space->listened[port / 8] >> port % 8 & 1;
}

#endif
