/* SPDX-License-Identifier: MIT */
/* See diag.h. Owns the format of the messages. It must never send a message that changes a socket
 * (SOCK_DESTROY). Not async-signal-safe. */
#include "watch/diag.h"

#include "base/clock.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    DUMP_ROOM = 32 << 10,  /* the largest message of a dump */
    ANSWER_ROOM = 1 << 10, /* twice the size of an answer */
};

static struct ns_address address_of(uint8_t family, const uint32_t *bytes, uint16_t port)
{
    struct ns_address address = {.known = true, .port = ntohs(port)};
    if (family == AF_INET) { /* IPv4-mapped */
        address.addr.s6_addr[10] = address.addr.s6_addr[11] = 0xff;
        memcpy(&address.addr.s6_addr[12], bytes, sizeof(struct in_addr));
    } else {
        memcpy(&address.addr, bytes, sizeof address.addr);
    }
    return address;
}

struct ns_address ns_diag_local(const struct ns_diag_key *key)
{
    return address_of(key->family, key->id.idiag_src, key->id.idiag_sport);
}

struct ns_address ns_diag_remote(const struct ns_diag_key *key)
{
    return address_of(key->family, key->id.idiag_dst, key->id.idiag_dport);
}

struct ns_diag_key ns_diag_other_end(const struct ns_diag_key *key)
{
    struct ns_diag_key other = {.family = key->family};
    memcpy(other.id.idiag_src, key->id.idiag_dst, sizeof other.id.idiag_src);
    memcpy(other.id.idiag_dst, key->id.idiag_src, sizeof other.id.idiag_dst);
    other.id.idiag_sport = key->id.idiag_dport;
    other.id.idiag_dport = key->id.idiag_sport;
    other.id.idiag_cookie[0] = other.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    return other;
}

/* A connected one gets no messages of other processes: whoever has CAP_NET_ADMIN in a container may
 * send them (netlink_getsockbyportid in net/netlink/af_netlink.c). */
int ns_diag_open(void)
{
    const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&kernel, sizeof kernel) == 0)
        return fd < 0 ? -errno : fd;
    int error = -errno;
    close(fd);
    return error;
}

/* The first attribute of INET_DIAG_ULP_INFO is the name of the protocol above TCP. */
static bool is_subflow(const struct rtattr *protocol)
{
    static const char name[] = "mptcp";
    const struct rtattr *first = RTA_DATA(protocol);
    return RTA_PAYLOAD(protocol) >= RTA_LENGTH(sizeof name) &&
           first->rta_type == INET_ULP_INFO_NAME && memcmp(RTA_DATA(first), name, sizeof name) == 0;
}

static bool read_socket(const struct nlmsghdr *head, uint64_t at, struct ns_diag_socket *out)
{
    const struct inet_diag_msg *message = NLMSG_DATA(head);
    const char *const end = (const char *)head + head->nlmsg_len, *part;
    const struct rtattr *attribute;
    if (head->nlmsg_len < NLMSG_LENGTH(sizeof *message))
        return false;
    *out = (struct ns_diag_socket){
        .key = {.id = message->id, .family = message->idiag_family},
        .inode = message->idiag_inode,
        .state = message->idiag_state,
        .user = message->idiag_uid,
    };
    for (part = (const char *)(message + 1); part < end; part += RTA_ALIGN(attribute->rta_len)) {
        attribute = (const void *)part;
        if (!RTA_OK(attribute, (size_t)(end - part)))
            break;
        if (attribute->rta_type == INET_DIAG_INFO) {
            out->look.at = at;
            ns_look_take(&out->look, RTA_DATA(attribute), RTA_PAYLOAD(attribute));
        }
        out->is_mptcp |= attribute->rta_type == INET_DIAG_ULP_INFO && is_subflow(attribute);
    }
    return true;
}

/* The error in NLMSG_ERROR or NLMSG_DONE, which ends a failed list; 0: none. */
static int error_of(const struct nlmsghdr *head)
{
    const struct nlmsgerr *answer = NLMSG_DATA(head);
    if (head->nlmsg_len < NLMSG_LENGTH(sizeof answer->error))
        return -EPROTO;
    bool is_missing =
        answer->error == -ENOENT || answer->error == -EINVAL || answer->error == -EOPNOTSUPP;
    return is_missing ? -EPROTONOSUPPORT : answer->error;
}

/* The older form of the request is for both families. */
int ns_diag_list_begin(struct ns_diag_list *list, int fd, uint32_t states)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req request;
        struct rtattr attribute;
        uint32_t protocol;
    } message = {
        .head = {.nlmsg_len = list->mptcp ? sizeof message : offsetof(typeof(message), attribute),
                 .nlmsg_type = TCPDIAG_GETSOCK,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
                 .nlmsg_seq = ++list->sequence},
        .request = {.idiag_states = states,
                    .idiag_ext = list->brief ? 0 : 1 << (INET_DIAG_INFO - 1)},
        .attribute = {RTA_LENGTH(sizeof message.protocol), INET_DIAG_REQ_PROTOCOL},
        .protocol = IPPROTO_MPTCP,
    };
    /* The kernel refuses a new list until the old one was read to its end. */
    while (recv(fd, NULL, 0, MSG_DONTWAIT | MSG_TRUNC) > 0)
        continue;
    list->fd = fd;
    list->at = ns_clock_now(CLOCK_MONOTONIC);
    return send(fd, &message, message.head.nlmsg_len, 0) < 0 ? -errno : 0;
}

int ns_diag_list_next(struct ns_diag_list *list,
                      void (*visit)(void *context, const struct ns_diag_socket *socket),
                      void *context)
{
    static _Alignas(struct nlmsghdr) char buffer[DUMP_ROOM];
    uint64_t at = list->at;
    const struct nlmsghdr *head;
    ssize_t n;
    do
        n = recv(list->fd, buffer, sizeof buffer, 0);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return n < 0 ? -errno : -EPROTO;
    /* The kernel fills the next part when this one is read. */
    list->at = ns_clock_now(CLOCK_MONOTONIC);
    /* NLMSG_NEXT and RTA_NEXT would go beyond the end of what is cut. */
    for (size_t used = 0; used < (size_t)n; used += NLMSG_ALIGN(head->nlmsg_len)) {
        struct ns_diag_socket seen;
        head = (const void *)(buffer + used);
        if (!NLMSG_OK(head, (unsigned)((size_t)n - used)))
            break;
        if (head->nlmsg_seq != list->sequence)
            continue; /* of an abandoned list */
        if (head->nlmsg_type == NLMSG_DONE || head->nlmsg_type == NLMSG_ERROR)
            return error_of(head);
        if (head->nlmsg_type == TCPDIAG_GETSOCK && read_socket(head, at, &seen))
            visit(context, &seen);
    }
    return 1;
}

int ns_diag_list_all(int fd, uint32_t states, bool mptcp,
                     void (*visit)(void *context, const struct ns_diag_socket *socket),
                     void *context)
{
    struct ns_diag_list list = {.brief = true, .mptcp = mptcp};
    int more = ns_diag_list_begin(&list, fd, states);
    if (!more)
        do
            more = ns_diag_list_next(&list, visit, context);
        while (more > 0);
    return more;
}

int ns_diag_ask(int fd, const struct ns_diag_key *const *keys, size_t n_keys,
                void (*visit)(void *context, const struct ns_diag_socket *socket), void *context)
{
    static _Alignas(struct nlmsghdr) char buffer[ANSWER_ROOM];
    static uint32_t first;
    const struct nlmsghdr *head = (const void *)buffer;
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 request;
    } questions[NS_DIAG_AT_ONCE];
    uint64_t at = ns_clock_now(CLOCK_MONOTONIC);
    ssize_t n;
    first += NS_DIAG_AT_ONCE;
    for (uint32_t i = 0; i < n_keys; i++) {
        questions[i].head = (struct nlmsghdr){.nlmsg_len = sizeof questions[i],
                                              .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                                              .nlmsg_flags = NLM_F_REQUEST,
                                              .nlmsg_seq = first + i};
        questions[i].request = (struct inet_diag_req_v2){.sdiag_family = keys[i]->family,
                                                         .sdiag_protocol = IPPROTO_TCP,
                                                         .idiag_ext = 1 << (INET_DIAG_INFO - 1),
                                                         .idiag_states = ~0U,
                                                         .id = keys[i]->id};
    }
    if (send(fd, questions, n_keys * sizeof questions[0], 0) < 0)
        return -errno;
    /* The kernel has answered all of them before send returns. What had no room is lost, and the
     * rest must be read. */
    while ((n = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT)) > 0 || errno == ENOBUFS) {
        struct ns_diag_socket seen;
        const size_t position = n > 0 ? head->nlmsg_seq - first : n_keys;
        if (position >= n_keys || !NLMSG_OK(head, (unsigned)n))
            continue;
        if (head->nlmsg_type != SOCK_DIAG_BY_FAMILY || !read_socket(head, at, &seen))
            seen = (struct ns_diag_socket){0};
        seen.position = position;
        visit(context, &seen);
    }
    return n < 0 && errno != EAGAIN ? -errno : 0;
}
