/* SPDX-License-Identifier: MIT */
/* Fuzzes the answers of sock_diag(7), and the judge with the samples in them: single answers of a
 * list and to questions. A pair of sockets stands in for the kernel. Each input is read twice, with
 * other bytes behind it in the reader's buffer: what it finds must be the same.
 * NS_FUZZ_BROKEN in the environment: no socket is expected, so that it fails. */
#include "judge/judge.h"
#include "must.h"
#include "watch/diag.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>

enum { KEYS = 4, FOUND_MOST = 512, SIZE_MOST = 8192 };

struct found {
    struct ns_diag_socket sockets[FOUND_MOST];
    size_t n;
    int results[KEYS];
};

static void visit(void *context, const struct ns_diag_socket *socket)
{
    struct found *found = context;
    MUST(socket->position < KEYS);
    if (found->n < FOUND_MOST) {
        struct ns_diag_socket *last = &found->sockets[found->n++];
        *last = *socket;
        last->look.at = found->n; /* the clock's time */
    }
}

/* A message whose bytes are the input's, but for what makes the reader look at it. */
static size_t message(struct input *in, uint16_t type, uint32_t sequence, char *to)
{
    struct nlmsghdr *head = (void *)to;
    struct inet_diag_msg *socket = NLMSG_DATA(head);
    size_t room = sizeof *socket + take(in, 256) * 4, how = take(in, 16);
    for (size_t i = 0; i < NLMSG_LENGTH(room); i++)
        to[i] = (char)take(in, 256);
    if (how < 12) { /* with a tcp_info */
        struct rtattr *attribute = (struct rtattr *)(socket + 1);
        if (room >= sizeof *socket + sizeof *attribute)
            *attribute = (struct rtattr){(uint16_t)(room - sizeof *socket), INET_DIAG_INFO};
        socket->idiag_family = how & 1 ? AF_INET : AF_INET6;
    }
    if (how != 15)
        *head = (struct nlmsghdr){.nlmsg_len = (uint32_t)NLMSG_LENGTH(room),
                                  .nlmsg_type = how == 14 ? NLMSG_ERROR : type,
                                  .nlmsg_seq = sequence};
    return NLMSG_ALIGN(NLMSG_LENGTH(room));
}

static void fill_buffer(int to, int from, int byte)
{
    static char bytes[SIZE_MOST], sink[SIZE_MOST];
    struct ns_diag_list list = {.fd = from, .sequence = UINT32_MAX};
    struct found none = {0};
    memset(bytes, byte, sizeof bytes);
    MUST(send(to, bytes, sizeof bytes, 0) == sizeof bytes);
    ns_diag_list_next(&list, visit, &none);
    while (recv(to, sink, sizeof sink, MSG_DONTWAIT) > 0)
        ;
}

static void read_all(const uint8_t *data, size_t size, int byte, struct found *found)
{
    static _Alignas(struct nlmsghdr) char bytes[SIZE_MOST];
    static uint32_t asked; /* as in ns_diag_ask */
    struct input in = {data, data + size};
    struct ns_diag_key key = {.family = AF_INET};
    const struct ns_diag_key *keys[KEYS] = {&key, &key, &key, &key};
    int ends[2];
    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    fill_buffer(ends[0], ends[1], byte);
    size_t n = 0;
    for (unsigned i = take(&in, 5); i > 0; i--)
        n += message(&in, TCPDIAG_GETSOCK, 7, bytes + n);
    n -= n > 40 ? take(&in, 40) : 0; /* the last one may be cut */
    if (n > 0) {
        struct ns_diag_list list = {.fd = ends[1], .sequence = 7};
        MUST(send(ends[0], bytes, n, 0) == (ssize_t)n);
        found->results[0] = ns_diag_list_next(&list, visit, found);
    }
    asked += NS_DIAG_AT_ONCE;
    for (unsigned i = take(&in, KEYS + 1); i > 0; i--) {
        n = message(&in, SOCK_DIAG_BY_FAMILY, asked + take(&in, KEYS + 1), bytes);
        n -= take(&in, 40);
        MUST(send(ends[0], bytes, n, 0) == (ssize_t)n);
    }
    found->results[1] = ns_diag_ask(ends[1], keys, KEYS, visit, found);
    close(ends[0]);
    close(ends[1]);
}

/* Field by field, without the bytes between them. */
static bool same(const struct ns_diag_socket *one, const struct ns_diag_socket *other)
{
    return memcmp(&one->key.id, &other->key.id, sizeof one->key.id) == 0 &&
           one->key.family == other->key.family && one->inode == other->inode &&
           one->state == other->state && one->position == other->position &&
           memcmp(&one->look, &other->look, offsetof(struct ns_look, backoff) + 1) == 0;
}

static void judge(const struct found *found)
{
    struct ns_judge judge;
    struct ns_verdict verdict;
    struct ns_hold hold;
    ns_judge_begin(&judge, 4000000);
    for (size_t i = 0; i < found->n; i++)
        if (found->sockets[i].inode && ns_judge_look(&judge, &found->sockets[i].look, &hold))
            MUST(hold.begin <= hold.end && hold.cost <= hold.end - hold.begin);
    ns_judge_verdict(&judge, &verdict);
    MUST(verdict.certain_ns <= verdict.most_ns);
    MUST(verdict.grade != NS_GRADE_PROVEN || verdict.stalls > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct found found[2];
    memset(found, 0, sizeof found);
    read_all(data, size, 0x00, &found[0]);
    read_all(data, size, 0xff, &found[1]);
    MUST(found[0].n == found[1].n);
    MUST(memcmp(found[0].results, found[1].results, sizeof found[0].results) == 0);
    for (size_t i = 0; i < found[0].n; i++)
        MUST(same(&found[0].sockets[i], &found[1].sockets[i]));
    MUST(!(getenv("NS_FUZZ_BROKEN") && found[0].n > 0));
    judge(&found[0]);
    return 0;
}
