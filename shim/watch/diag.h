/* SPDX-License-Identifier: MIT */
/* Asks the kernel about TCP sockets by sock_diag(7): all of a network namespace, or single ones. It
 * uses the kernel's headers and no library, which a machine may lack. Errors are -errno. */
#ifndef NS_DIAG_H
#define NS_DIAG_H

#include "judge/look.h"
#include "policy/match.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Identifies a socket, even if its ports are reused. */
struct ns_diag_key {
    struct inet_diag_sockid id;
    uint8_t family;
};

struct ns_address ns_diag_local(const struct ns_diag_key *key);
struct ns_address ns_diag_remote(const struct ns_diag_key *key);
/* The key that finds the other end in the same namespace, of whatever cookie. */
struct ns_diag_key ns_diag_other_end(const struct ns_diag_key *key);

struct ns_diag_socket {
    struct ns_diag_key key;
    uint64_t inode; /* 0: no descriptor refers to it */
    uint8_t state;
    bool is_mptcp;       /* it is a TCP subflow of an MPTCP socket */
    uid_t user;          /* who made it */
    struct ns_look look; /* at 0: the kernel had none */
    size_t position;     /* of an answer: the index of its key */
};

/* A netlink socket in the current network namespace, or -errno. */
int ns_diag_open(void);

/* A list of all TCP sockets in some states (1 << TCP_ESTABLISHED etc.), read in parts: a list of
 * many thousands takes longer than the interval between samples. */
struct ns_diag_list {
    int fd;     /* only for lists */
    bool brief; /* without struct tcp_info, which costs most of the time */
    bool mptcp; /* MPTCP sockets instead: their TCP subflows have no descriptors */
    uint32_t sequence;
    uint64_t at;
};

/* The states of connections whose end here a process has. */
enum {
    NS_DIAG_CONNECTED =
        1 << TCP_ESTABLISHED | 1 << TCP_FIN_WAIT1 | 1 << TCP_FIN_WAIT2 | 1 << TCP_CLOSE_WAIT,
};

/* Had the kernel no memory for a list? Then a later one may succeed. The next one gets EBUSY: the
 * kernel continues the old list only when a message is read, which is then this error
 * (netlink_recvmsg). */
static inline bool ns_diag_may_pass(int error)
{
    return error == -ENOMEM || error == -ENOBUFS || error == -EBUSY;
}

/* brief and mptcp may be set before. */
int ns_diag_list_begin(struct ns_diag_list *list, int fd, uint32_t states);

/* Call visit for each socket of the next part. 1: there is more; 0: this was the last part. A
 * socket that is made or closed meanwhile may be missing. -EPROTONOSUPPORT: not in this kernel. */
int ns_diag_list_next(struct ns_diag_list *list,
                      void (*visit)(void *context, const struct ns_diag_socket *socket),
                      void *context);

/* A whole list, without struct tcp_info. 0 or -errno. */
int ns_diag_list_all(int fd, uint32_t states, bool mptcp,
                     void (*visit)(void *context, const struct ns_diag_socket *socket),
                     void *context);

enum { NS_DIAG_AT_ONCE = 32 };

/* Ask for up to NS_DIAG_AT_ONCE sockets in one system call. The socket has inode 0 if it is gone;
 * visit is not called if the answer was lost. 0 or -errno. */
int ns_diag_ask(int fd, const struct ns_diag_key *const *keys, size_t n_keys,
                void (*visit)(void *context, const struct ns_diag_socket *socket), void *context);

#endif
