/* SPDX-License-Identifier: MIT */
/* Actions of the peer, which is the runner, and a descriptor that it is lent. */
#include "program.h"

/* The runner gets the descriptor, writes that many bytes on it, and closes it. */
static void call_lend(struct op *op)
{
    struct slot *slot = word_slot(op, 1);
    struct connection *connection = connection_of(slot);
    struct message message = {
        .verb = RIGHTS, .connection = slot->connection, .number = word_number(op, 2) % 4096};
    union {
        char room[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {.align = {.cmsg_len = CMSG_LEN(sizeof(int)),
                           .cmsg_level = SOL_SOCKET,
                           .cmsg_type = SCM_RIGHTS}};
    struct iovec piece = {&message, sizeof message};
    struct msghdr header = {.msg_iov = &piece,
                            .msg_iovlen = 1,
                            .msg_control = control.room,
                            .msg_controllen = sizeof control.room};
    struct reply reply = {0};
    if (!connection || connection->kind != PEER || connection->over || connection->stopped) {
        note(op, " skipped");
        return;
    }
    memcpy(CMSG_DATA(&control.align), &slot->fd, sizeof(int));
    CALL(op, sendmsg(CONTROL_FD, &header, 0));
    if (op->result < 0)
        return;
    RAW(read, CONTROL_FD, &reply, sizeof reply, 0);
    note_number(op, " driver wrote ", reply.number);
    if (reply.number > 0) {
        connection->stream[0].written += reply.number;
        connection->held[0] = connection->corked[0];
    }
}

static void peer_does(struct op *op, int verb, bool needs_all)
{
    struct slot *slot = word_slot(op, 1);
    struct connection *connection = connection_of(slot);
    if (!connection || connection->kind != PEER || connection->over ||
        (needs_all && (connection->corked[0] || !peer_has_all(slot)))) {
        note(op, " skipped");
        return;
    }
    int64_t unread = connection->stream[1].written - connection->stream[1].read;
    if (verb == SEND && (connection->half || unread > 20000)) {
        note(op, " skipped");
        return;
    }
    ask(verb, slot->connection, word_number(op, 2) % 20000, 0);
    settle(slot);
    if (verb == HALF || verb == CLOSE)
        raw_poll(slot->fd, POLLRDHUP, 500);
    if (verb == RESET)
        raw_poll(slot->fd, 0, 500);
}

#define PEER(name, verb, needs_all)                                                                \
    static void call_##name(struct op *op)                                                         \
    {                                                                                              \
        peer_does(op, verb, needs_all);                                                            \
    }
PEER(peer_send, SEND, false)
PEER(peer_stop, STOP, false)
PEER(peer_resume, RESUME, false)
PEER(peer_half, HALF, false)
PEER(peer_close, CLOSE, true)
PEER(peer_reset, RESET, true)

/* Everything that was written has arrived, and is right. */
static void peer_check(struct op *op)
{
    struct slot *slot = word_slot(op, 1);
    struct connection *connection = connection_of(slot);
    if (!connection || connection->kind != PEER || connection->held[0] || connection->over ||
        connection->uncertain) {
        note(op, " skipped");
        return;
    }
    if (connection->stopped)
        ask(RESUME, slot->connection, 0, 0);
    struct reply reply = ask(CHECK, slot->connection, 0, 0);
    note(op, reply.number == connection->stream[0].written ? " all came" : " TOO FEW CAME");
    if (reply.wrong >= 0)
        note(op, " WRONG");
}

/* clang-format off */
const struct call peer_calls[] = {
    C(lend), C(peer_send), C(peer_stop), C(peer_resume), C(peer_half), C(peer_close), C(peer_reset),
    {"check", peer_check}, {NULL, NULL}};
/* clang-format on */
