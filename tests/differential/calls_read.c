/* SPDX-License-Identifier: MIT */
/* Every kind of read. A read that would sleep forever gets its data: from the runner when it
 * sleeps, or before that from the other end. */
#include "program.h"

static char bytes_read[2][WRITE_MOST];

static char *incoming_bytes(void)
{
    return bytes_read[handler_depth > 0];
}

static void prepare(struct op *op, struct slot *slot, long size, int flags)
{
    const struct connection *connection = connection_of(slot);
    settle(slot);
    op->restarts = true;
    if (!connection || (flags & (MSG_DONTWAIT | MSG_ERRQUEUE | MSG_OOB)) ||
        raw_nonblocking(slot->fd) || finished(slot))
        return;
    if (raw_option(slot->fd, SOL_SOCKET, SO_RCVTIMEO) > 0) {
        /* The order of the two would depend on time. */
        op->interrupted = false;
        return;
    }
    long lowest = raw_option(slot->fd, SOL_SOCKET, SO_RCVLOWAT);
    long need = flags & MSG_WAITALL || lowest > size ? size : lowest;
    if (need < 1)
        need = 1;
    long missing = need - available(slot);
    if (missing <= 0)
        return;
    /* A sleeping thread is not woken before this much has arrived, even if it asked for less. */
    if (need < lowest)
        missing += lowest - need;
    if (!connection->half && ticking) { /* a tick must find no half of what it asks for */
        ask(SEND, slot->connection, missing, 0);
        settle(slot);
    } else if (!connection->half)
        op->later =
            (struct message){.verb = SEND, .connection = slot->connection, .number = missing};
    else
        op->later = (struct message){.verb = SIGNAL, .number = SIGTERM};
}

/* Takes size bytes off the stream, and notes whether they are those that the other end wrote. */
static void check_bytes(struct op *op, struct slot *slot, const char *data, long size, bool seen)
{
    if (!connection_of(slot) || size <= 0)
        return;
    int64_t wrong =
        !seen ? -1 : pattern_differs(shared, slot->connection, 1, incoming(slot)->read, data, size);
    if (wrong >= 0)
        note_number(op, " WRONG AT ", wrong);
}

static void advance(struct slot *slot, long bytes, int flags)
{
    if (connection_of(slot) && bytes >= 0 && !(flags & (MSG_PEEK | MSG_ERRQUEUE | MSG_OOB)))
        incoming(slot)->read += bytes;
}

static void came(struct op *op, struct slot *slot, long size, int flags)
{
    note_result(op);
    if (!op->bad_buffer && !op->bad_argument)
        check_bytes(op, slot, incoming_bytes(), op->result < size ? op->result : size,
                    !(flags & (MSG_TRUNC | MSG_OOB)));
    advance(slot, op->result, flags);
    if (op->bad_argument || op->bad_buffer)
        count_again(slot);
}

static long wanted(const struct op *op)
{
    long size = word_number(op, 2);
    return size > WRITE_MOST ? WRITE_MOST : size;
}

ssize_t __read_chk(int fd, void *data, size_t size, size_t room);
ssize_t __recv_chk(int fd, void *data, size_t size, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *data, size_t size, size_t room, int flags,
                       struct sockaddr *address, socklen_t *length);

#define READ(name, flags, expression)                                                              \
    SLOT_CALLS(name)                                                                               \
    {                                                                                              \
        int fd = slot->fd, flag = (flags);                                                         \
        long size = wanted(op);                                                                    \
        char *data = op->bad_buffer ? BAD_ADDRESS : incoming_bytes();                              \
        prepare(op, slot, size, flag);                                                             \
        CALL_ONLY(op, expression);                                                                 \
        came(op, slot, size, flag);                                                                \
    }
READ(read, 0, read(fd, data, (size_t)size))
READ(recv, word_flags(op, 3), recv(fd, data, (size_t)size, flag))
READ(read_chk, 0, __read_chk(fd, data, (size_t)size, WRITE_MOST))
READ(recv_chk, word_flags(op, 3), __recv_chk(fd, data, (size_t)size, WRITE_MOST, flag))
READ(recvfrom_chk, word_flags(op, 3),
     __recvfrom_chk(fd, data, (size_t)size, WRITE_MOST, flag, NULL, NULL))

/* recvfrom with an address argument. */
SLOT_CALLS(recvfrom)
{
    int flag = word_flags(op, 3);
    long size = wanted(op);
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    prepare(op, slot, size, flag);
    CALL_ONLY(op, recvfrom(slot->fd, op->bad_buffer ? BAD_ADDRESS : incoming_bytes(), (size_t)size,
                           flag, (struct sockaddr *)&address,
                           op->bad_argument ? BAD_ADDRESS : &length));
    came(op, slot, size, flag);
    note_number(op, " address ", length);
    note_number(op, " family ", address.ss_family);
}

#define READ_PIECES(name, flags, waits, expression)                                                \
    SLOT_CALLS(name)                                                                               \
    {                                                                                              \
        int fd = slot->fd, flag = (flags);                                                         \
        long size = wanted(op);                                                                    \
        struct iovec pieces[PIECES], *vector = op->bad_argument ? BAD_ADDRESS : pieces;            \
        int count = cut_in_pieces(pieces, (int)word_number(op, 3), incoming_bytes(), size,         \
                                  op->bad_buffer);                                                 \
        prepare(op, slot, count ? size : 0, (waits) ? 0 : MSG_DONTWAIT);                           \
        CALL_ONLY(op, expression);                                                                 \
        came(op, slot, size, 0);                                                                   \
    }
READ_PIECES(readv, 0, !flag, readv(fd, vector, count))
READ_PIECES(preadv2, word_flags(op, 4), !(flag & RWF_NOWAIT), preadv2(fd, vector, count, -1, flag))
READ_PIECES(preadv64v2, word_flags(op, 4), !(flag & RWF_NOWAIT),
            preadv64v2(fd, vector, count, -1, flag))

SLOT_CALLS(recvmsg)
{
    int flag = word_flags(op, 4);
    long size = wanted(op);
    struct iovec pieces[PIECES];
    char control[128];
    struct sockaddr_storage address = {0};
    struct msghdr header = {.msg_name = &address,
                            .msg_namelen = sizeof address,
                            .msg_iov = pieces,
                            .msg_iovlen =
                                (size_t)cut_in_pieces(pieces, (int)word_number(op, 3),
                                                      incoming_bytes(), size, op->bad_buffer),
                            .msg_control = control,
                            .msg_controllen = sizeof control};
    prepare(op, slot, size, flag);
    CALL_ONLY(op, recvmsg(slot->fd, op->bad_argument ? BAD_ADDRESS : &header, flag));
    came(op, slot, size, flag);
    note_number(op, " flags ", header.msg_flags);
    note_number(op, " name ", header.msg_namelen);
    note_number(op, " control ", (long)header.msg_controllen);
}

/* Without MSG_WAITFORONE it sleeps for each message. */
SLOT_CALLS(recvmmsg)
{
    int flag = word_flags(op, 4);
    unsigned count = (unsigned)word_number(op, 3) % PIECES;
    if (!(flag & (MSG_WAITFORONE | MSG_DONTWAIT)) && count > 1)
        count = 1;
    long size = wanted(op) % 1000, total = 0;
    struct iovec pieces[PIECES];
    struct mmsghdr messages[PIECES] = {0};
    struct timespec time = {9, 0};
    for (unsigned i = 0; i < count; i++) {
        pieces[i] = (struct iovec){op->bad_buffer ? BAD_ADDRESS : incoming_bytes() + i * size,
                                   (size_t)size};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &pieces[i], .msg_iovlen = 1};
    }
    prepare(op, slot, size, count ? flag : MSG_DONTWAIT);
    CALL_ONLY(op, recvmmsg(slot->fd, op->bad_argument ? BAD_ADDRESS : messages, count, flag,
                           word_number(op, 5) ? &time : NULL));
    note_result(op);
    for (long i = 0; i < op->result; i++) {
        long n = messages[i].msg_len;
        note_number(op, " ", n);
        if (!(flag & (MSG_PEEK | MSG_TRUNC | MSG_OOB)))
            check_bytes(op, slot, pieces[i].iov_base, n, true);
        advance(slot, n, flag);
        total += n;
    }
    note_number(op, " bytes ", total);
    if (op->bad_argument || op->bad_buffer)
        count_again(slot);
}

/* From the socket into a pipe, from which the bytes are then read. */
SLOT_CALLS(splice_from)
{
    unsigned flag = (unsigned)word_flags(op, 3);
    long size = wanted(op) % 30000;
    int ends[2] = {-1, -1};
    /* SPLICE_F_NONBLOCK only concerns the pipe. */
    prepare(op, slot, size, 0);
    RAW(pipe2, ends, 0, 0, 0);
    CALL_ONLY(op, splice(slot->fd, op->bad_argument ? BAD_ADDRESS : NULL, ends[1], NULL,
                         (size_t)size, flag));
    if (op->result > 0)
        RAW(read, ends[0], incoming_bytes(), op->result, 0);
    /* The kernel decides how many segments fit into a pipe. */
    if (op->result > 1)
        note_some(op);
    else
        note_result(op);
    check_bytes(op, slot, incoming_bytes(), op->result, true);
    advance(slot, op->result, 0);
    long rest = size - op->result < available(slot) ? size - op->result : available(slot);
    if (op->result > 1 && rest > 0)
        advance(slot, RAW(read, slot->fd, incoming_bytes(), rest, 0), 0);
    RAW(close, ends[0], 0, 0, 0);
    RAW(close, ends[1], 0, 0, 0);
}

SLOT_CALLS(fionread)
{
    int value = -7;
    settle(slot);
    CALL(op, ioctl(slot->fd, FIONREAD, op->bad_argument ? BAD_ADDRESS : &value));
    note_number(op, " value ", value);
}
