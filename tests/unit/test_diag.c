/* SPDX-License-Identifier: MIT */
/* The socket of watch/diag.c gets messages of the kernel only: root of a container could otherwise
 * answer in its place. */
#include "watch/diag.h"

#include "unit.h"

#include <linux/netlink.h>
#include <netinet/tcp.h>
#include <sched.h>

/* Sends a message to a netlink socket, as another process would. Returns errno. */
static int forge(int fd)
{
    struct sockaddr_nl to = {.nl_family = AF_NETLINK};
    struct nlmsghdr head = {.nlmsg_len = sizeof head, .nlmsg_type = NLMSG_DONE, .nlmsg_seq = 1};
    socklen_t length = sizeof to;
    int from = socket(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG);
    bool known = getsockname(fd, (struct sockaddr *)&to, &length) == 0 && to.nl_pid != 0;
    errno = 0;
    ssize_t n = sendto(from, &head, sizeof head, 0, (struct sockaddr *)&to, length);
    int error = n < 0 ? errno : known ? 0 : EBADF;
    close(from);
    return error;
}

static void count(void *context, const struct ns_diag_socket *socket)
{
    *(unsigned *)context += socket->state == TCP_LISTEN;
}

CHECK(check_sender)
{
    struct sockaddr_nl any = {.nl_family = AF_NETLINK};
    int plain, fd, listener;
    unsigned n = 0;
    char byte;
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        printf("# SKIP no network namespace\n");
        return;
    }
    listener = socket(AF_INET, SOCK_STREAM, 0);
    plain = socket(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG);
    OK(bind(plain, (struct sockaddr *)&any, sizeof any) == 0 && forge(plain) == 0 &&
           recv(plain, &byte, 1, MSG_DONTWAIT) == 1,
       "any netlink socket gets messages of others");
    fd = ns_diag_open();
    OK(forge(fd) == ECONNREFUSED && recv(fd, &byte, 1, MSG_DONTWAIT) < 0, "this one does not");
    struct ns_diag_list list = {0};
    OK(listen(listener, 1) == 0 && ns_diag_list_begin(&list, fd, 1 << TCP_LISTEN) == 0 &&
           ns_diag_list_next(&list, count, &n) >= 0 && n == 1,
       "it gets those of the kernel");
}
