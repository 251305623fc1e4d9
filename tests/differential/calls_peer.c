/* SPDX-License-Identifier: MIT */
/* Actions of the peer, which is the runner, and a descriptor that is passed to it. */
#include "program.h"

/* The runner gets the descriptor, writes that many bytes on it, and closes it. */
SLOT_CALLS(lend)
{
    struct connection *connection = connection_of(slot);
    struct message message = {
        .verb = RIGHTS, .connection = slot->connection, .number = word_number(op, 2) % 4096};
    struct right right;
    struct reply reply = {0};
    if (!connection || connection->over || connection->stopped)
        return note(op, " skipped");
    CALL(op, sendmsg(CONTROL_FD, right_message(&right, &message, sizeof message, slot->fd), 0));
    if (op->result < 0)
        return;
    RAW(read, CONTROL_FD, &reply, sizeof reply, 0);
    note_number(op, " driver wrote ", reply.number);
    if (reply.number > 0) {
        connection->stream[0].written += reply.number;
        connection->held = connection->corked;
    }
}

static void peer_does(struct op *op, int verb, bool needs_all)
{
    struct slot *slot = word_slot(op, 1);
    struct connection *connection = connection_of(slot);
    if (!connection || connection->over ||
        (needs_all && (connection->corked || !peer_has_all(slot))))
        return note(op, " skipped");
    int64_t unread = connection->stream[1].written - connection->stream[1].read;
    if (verb == SEND && (connection->half || unread > 20000))
        return note(op, " skipped");
    ask(verb, slot->connection, word_number(op, 2) % 20000, 0);
    settle(slot);
    if (verb == HALF || verb == CLOSE)
        raw_poll(slot->fd, POLLRDHUP, 500);
    if (verb == RESET)
        raw_poll(slot->fd, 0, 500);
}

ONE_CALL(peer_send, peer_does(op, SEND, false))
ONE_CALL(peer_stop, peer_does(op, STOP, false))
ONE_CALL(peer_resume, peer_does(op, RESUME, false))
ONE_CALL(peer_half, peer_does(op, HALF, false))
ONE_CALL(peer_close, peer_does(op, CLOSE, true))
ONE_CALL(peer_reset, peer_does(op, RESET, true))

/* All written bytes have arrived, and are correct. */
SLOT_CALLS(check)
{
    struct connection *connection = connection_of(slot);
    if (!connection || connection->held || connection->over || connection->uncertain)
        return note(op, " skipped");
    if (connection->stopped)
        ask(RESUME, slot->connection, 0, 0);
    struct reply reply = ask(CHECK, slot->connection, 0, 0);
    note(op, reply.number == connection->stream[0].written ? " all came" : " TOO FEW CAME");
    if (reply.wrong >= 0)
        note(op, " WRONG");
}
