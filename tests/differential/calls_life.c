/* SPDX-License-Identifier: MIT */
/* How descriptors are made, copied, passed and closed. */
#include "program.h"

static struct sockaddr_in address_of(uint32_t address, uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_addr.s_addr = address, .sin_port = port};
}

static struct sockaddr_in driver_address(void)
{
    return address_of(shared->listener, shared->listener_port);
}

SLOT_CALLS(socket)
{
    CALL(op, socket(AF_INET, SOCK_STREAM | word_flags(op, 2), 0));
    set_slot(slot, (int)op->result, -1);
}

static bool room_for_connection(void)
{
    for (int i = 0; i < CONNECTIONS; i++)
        if (!shared->connections[i].used)
            return true;
    return false;
}

/* Connects to the runner, which accepts the connection. */
static void connect_slot(struct op *op, struct slot *slot)
{
    struct sockaddr_in address = driver_address();
    if (!room_for_connection())
        return note(op, " skipped");
    CALL(op, connect(slot->fd, (struct sockaddr *)&address, sizeof address));
    if (op->result != 0 && op->error != EINPROGRESS)
        return;
    int connection = new_connection();
    ask(ACCEPT, connection, 0, 0);
    raw_poll(slot->fd, POLLOUT, 500);
    slot->connection = connection;
}

/* connect SLOT [FLAGS]: a new socket that is connected to the peer. */
CALLS(connect)
{
    call_socket(op);
    connect_slot(op, word_slot(op, 1));
}

/* connect on an existing socket. */
SLOT_CALLS(reconnect)
{
    struct sockaddr_in address = driver_address();
    if (connection_of(slot) || slot->listens) {
        CALL(op, connect(slot->fd, op->bad_buffer ? BAD_ADDRESS : (struct sockaddr *)&address,
                         sizeof address));
        return;
    }
    connect_slot(op, slot);
}

SLOT_CALLS(refused)
{
    struct sockaddr_in address = address_of(shared->listener, shared->refused_port);
    CALL(op, connect(slot->fd, (struct sockaddr *)&address, sizeof address));
    if (op->error == EINPROGRESS)
        raw_poll(slot->fd, 0, 500);
}

SLOT_CALLS(disconnect)
{
    struct sockaddr address = {.sa_family = AF_UNSPEC};
    struct connection *connection = connection_of(slot);
    if (slot->listens || (connection && references(slot) > 1))
        return note(op, " skipped");
    peer_has_all(slot);
    CALL(op, connect(slot->fd, &address, sizeof address));
    if (connection && op->result == 0) {
        connection->uncertain = connection->over = true;
        slot->connection = -1;
    }
}

/* Binds to an address that only this process uses, so that no port is in TIME_WAIT. */
static int bind_own(int fd)
{
    uint32_t pid = (uint32_t)RAW(getpid, 0, 0, 0, 0);
    struct sockaddr_in address = address_of(htonl(0x7f400001U + (pid & 0x1fffff)), 0);
    return (int)RAW(bind, fd, &address, sizeof address, 0);
}

SLOT_CALLS(listen)
{
    CALL(op, socket(AF_INET, SOCK_STREAM | word_flags(op, 2), 0));
    set_slot(slot, (int)op->result, -1);
    bind_own(slot->fd);
    CALL(op, listen(slot->fd, 8));
    slot->listens = op->result == 0;
}

static struct sockaddr_in own_address(int fd)
{
    struct sockaddr_in address = {0};
    socklen_t length = sizeof address;
    RAW(getsockname, fd, &address, &length, 0);
    return address;
}

static struct message connect_later(const struct slot *listener, int connection, long bytes)
{
    struct sockaddr_in address = own_address(listener->fd);
    return (struct message){.verb = CONNECT,
                            .connection = connection,
                            .number = (int64_t)address.sin_addr.s_addr << 16 | address.sin_port,
                            .extra = bytes};
}

/* accept SLOT NEW [FLAGS|-] [address]: accepts a listener's next connection, which the peer makes.
 */
CALLS(accept)
{
    struct slot *slot = word_slot(op, 1), *new = word_slot(op, 2);
    bool has_flags = op->words > 3 && strcmp(op->word[3], "-") != 0;
    struct sockaddr_in address = {0};
    socklen_t length = sizeof address;
    bool asks = op->words > 4;
    int connection = -1;
    bool gives_up = op->interrupted && !raw_nonblocking(slot->fd) && !(alarm_flags & SA_RESTART);
    if (slot->listens && raw_option(slot->fd, SOL_SOCKET, SO_RCVTIMEO) > 0)
        return note(op, " skipped");
    if (slot->listens && !gives_up && (connection = new_connection()) >= 0) {
        struct message message = connect_later(slot, connection, 1);
        if (raw_nonblocking(slot->fd)) {
            ask(CONNECT, connection, message.number, message.extra);
            raw_poll(slot->fd, POLLIN, 500);
        } else {
            op->later = message;
            op->restarts = true;
        }
    } else if (slot->listens && !gives_up) {
        note(op, " skipped");
        return;
    }
    struct sockaddr *to = !asks ? NULL : op->bad_buffer ? BAD_ADDRESS : (struct sockaddr *)&address;
    socklen_t *room = asks ? &length : NULL;
    if (has_flags)
        CALL(op, accept4(slot->fd, to, room, word_flags(op, 3)));
    else
        CALL(op, accept(slot->fd, to, room));
    note_number(op, " length ", (int)length);
    note_number(op, " family ", address.sin_family);
    if (op->result >= 0)
        set_slot(new, (int)op->result, connection);
    else if (connection >= 0)
        shared->connections[connection].uncertain = true;
}

static void copied(struct op *op, struct slot *from, struct slot *to)
{
    if (op->result < 0 || to == from)
        return;
    int fd = (int)op->result;
    if (to->fd == fd) {
        /* The call has closed the old descriptor. */
        *to = *from;
        to->fd = fd;
        return;
    }
    struct slot copy = *from;
    set_slot(to, fd, copy.connection);
    to->listens = copy.listens;
    to->epoll = copy.epoll;
    to->watched = copy.watched;
}

CALLS(dup)
{
    struct slot *from = word_slot(op, 1), *to = word_slot(op, 2);
    CALL(op, dup(from->fd));
    copied(op, from, to);
}

CALLS(dupfd)
{
    struct slot *from = word_slot(op, 1), *to = word_slot(op, 2);
    CALL(op, fcntl(from->fd, op->words > 3 ? F_DUPFD_CLOEXEC : F_DUPFD, 40));
    copied(op, from, to);
}

/* The descriptor of the other slot, or an unused one. */
static int onto(struct slot *from, struct slot *to)
{
    if (to->fd >= 0 && to != from && from->fd >= 0)
        before_last_close(to);
    return to->fd >= 0 ? to->fd : 60 + (int)(to - slots);
}

CALLS(dup2)
{
    struct slot *from = word_slot(op, 1), *to = word_slot(op, 2);
    int target = onto(from, to);
    if (strcmp(op->word[0], "dup3") == 0)
        CALL(op, dup3(from->fd, target, word_flags(op, 3)));
    else
        CALL(op, dup2(from->fd, target));
    copied(op, from, to);
}

SAME_CALL(dup3, dup2)

static void forget(struct slot *slot)
{
    *slot = (struct slot){.fd = -1, .connection = -1};
}

/* syscall_close: without libc's close, as libuv and stdio do. */
SLOT_CALLS(close)
{
    bool raw_close = strcmp(op->word[0], "syscall_close") == 0;
    before_last_close(slot);
    CALL(op, raw_close ? (int)syscall(SYS_close, slot->fd) : close(slot->fd));
    if (slot->fd >= 0)
        forget(slot);
}
SAME_CALL(syscall_close, close)

SLOT_CALLS(close_range)
{
    unsigned flags = (unsigned)word_flags(op, 2);
    if (slot->fd < 0)
        return note(op, " skipped");
    if (!(flags & CLOSE_RANGE_CLOEXEC))
        before_last_close(slot);
    CALL(op, close_range((unsigned)slot->fd, (unsigned)slot->fd, (int)flags));
    if (!(flags & CLOSE_RANGE_CLOEXEC) && op->result == 0)
        forget(slot);
}

SLOT_CALLS(shutdown)
{
    int how = (int)word_number(op, 2);
    /* Whether the peer reads or rejects later bytes depends on time. */
    if (how != SHUT_WR && connection_of(slot)) {
        settle(slot);
        connection_of(slot)->half = true;
    }
    CALL(op, shutdown(slot->fd, how));
}

/* The program sends the descriptor to itself, receives a copy, and closes the original: while both
 * are open, the copy is another connection to the library. */
CALLS(pass)
{
    struct slot *from = word_slot(op, 1), *to = word_slot(op, 2);
    int fds[2], came = -1;
    char byte = 'x';
    struct right right;
    if (connection_of(from) && references(from) > 1)
        return note(op, " skipped");
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0)
        return;
    CALL(op, sendmsg(fds[0], right_message(&right, &byte, 1, from->fd), 0));
    bool sent = op->result == 1;
    if (sent) {
        CALL(op, recvmsg(fds[1], right_message(&right, &byte, 1, -1), 0));
        op->result = came = right_of(&right);
        note_number(op, " descriptor ", came);
    }
    close(fds[0]);
    close(fds[1]);
    if (!sent)
        return;
    copied(op, from, to);
    if (from != to)
        set_slot(from, -1, -1);
}
