/* SPDX-License-Identifier: MIT */
/* Questions to the kernel about TCP sockets by sock_diag(7): all of a network namespace, or single
 * ones. The messages are made and read with the kernel's own headers, as sock_diag(7) shows; a
 * library for that would be one more that a machine may lack. Errors are -errno. */
#ifndef NS_DIAG_H
#define NS_DIAG_H

#include "judge/look.h"

#include <linux/inet_diag.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which socket: enough to ask for it alone, and never to get another for it. */
struct ns_diag_key {
    struct inet_diag_sockid id;
    uint8_t family;
};

struct ns_diag_socket {
    struct ns_diag_key key;
    uint64_t at;    /* CLOCK_MONOTONIC ns, when the kernel looked */
    uint64_t inode; /* 0: no descriptor refers to it */
    uint8_t state;
    const void *info; /* struct tcp_info; NULL: the kernel had none */
    size_t info_size;
};

/* Of the network namespace that the caller is in. */
int ns_diag_open(void);

/* All TCP sockets in these states (bits 1 << TCP_ESTABLISHED and so on), a part at a time: of many
 * thousands a list takes longer than the time between two looks at one of them. */
struct ns_diag_list {
    int fd; /* one of its own */
    uint32_t states, sequence;
    uint8_t family;
    uint64_t at;
};

int ns_diag_list_begin(struct ns_diag_list *list, int fd, uint32_t states);

/* Calls visit for each socket of the next part. 1: there is more; 0: that was the last part. A
 * socket that is made or closed meanwhile may be in it or not. -EPROTONOSUPPORT: a kernel without
 * it. */
int ns_diag_list_next(struct ns_diag_list *list,
                      void (*visit)(void *context, const struct ns_diag_socket *socket),
                      void *context);

/* False: the kernel told too little. */
bool ns_diag_look(const struct ns_diag_socket *seen, struct ns_look *look);

enum { NS_DIAG_AT_ONCE = 32 };

/* Ask for single sockets, NS_DIAG_AT_ONCE at most, in one system call. visit gets the position in
 * keys, and NULL for a socket that is not there any more; it is not called for one whose answer was
 * lost. */
int ns_diag_ask(int fd, const struct ns_diag_key *const *keys, size_t n_keys,
                void (*visit)(void *context, size_t position, const struct ns_diag_socket *socket),
                void *context);

#endif
