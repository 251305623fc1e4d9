/* SPDX-License-Identifier: MIT */
/* Every kind of write. The stream continues after the bytes that a write has taken. */
#include "program.h"

/* No MSG_MORE if the peer has closed, because the time at which it would get held bytes is not
 * fixed. */
static int allowed(const struct slot *slot, int flags)
{
    const struct connection *connection = connection_of(slot);
    return connection && connection->over ? flags & ~MSG_MORE : flags;
}

/* Limits the size so that only the peer can make the write wait, and plans the end of that wait. */
static long prepare(struct op *op, struct slot *slot, long size, int flags)
{
    struct connection *connection = connection_of(slot);
    if (size > WRITE_MOST)
        size = WRITE_MOST;
    if (!connection)
        return size;
    settle_writes(slot, size);
    bool waits = !(flags & MSG_DONTWAIT) && !raw_nonblocking(slot->fd);
    if (connection->stopped && waits) {
        op->restarts = true;
        op->later = (struct message){.verb = RESUME, .connection = slot->connection};
    }
    return size;
}

/* Is the number of written bytes fixed? */
static bool exact(const struct slot *slot, long size, int flags)
{
    const struct connection *connection = connection_of(slot);
    if (!connection || size <= 1)
        return true;
    bool waits = !(flags & MSG_DONTWAIT) && !raw_nonblocking(slot->fd);
    return !connection->stopped && ((waits && !ticking) || size <= 16384) && !small_buffer(slot);
}

static void took(struct slot *slot, long bytes, int flags)
{
    struct connection *connection = connection_of(slot);
    if (!connection || bytes < 0)
        return;
    outgoing(slot)->written += bytes;
    if (bytes > 0)
        connection->held = (flags & MSG_MORE) || connection->corked;
    /* A closed peer answers bytes with a reset. */
    if (bytes > 0 && connection->over && !connection->held)
        raw_poll(slot->fd, 0, 300);
}

static void wrote(struct op *op, struct slot *slot, bool is_exact, int flags)
{
    took(slot, op->result, flags);
    const struct connection *connection = connection_of(slot);
    if (is_exact)
        note_result(op);
    else if (connection && (small_buffer(slot) || connection->stopped) &&
             (op->result > 0 || op->error == EAGAIN))
        note(op, " = some or EAGAIN");
    else
        note_some(op);
}

/* One call with bytes in one piece (data) or in several (vector, header). */
#define WRITE(name, flags, expression)                                                             \
    SLOT_CALLS(name)                                                                               \
    {                                                                                              \
        int fd = slot->fd, flag = allowed(slot, (flags));                                          \
        long size = prepare(op, slot, word_number(op, 2), flag);                                   \
        bool is_exact = exact(slot, size, flag) && !op->interrupted;                               \
        char *bytes = outgoing_bytes(slot, size);                                                  \
        const char *data = op->bad_buffer ? BAD_ADDRESS : bytes;                                   \
        struct iovec pieces[PIECES], *vector = op->bad_argument ? BAD_ADDRESS : pieces;            \
        int count = cut_in_pieces(pieces, (int)word_number(op, 3), bytes, size, op->bad_buffer);   \
        struct msghdr header = {.msg_iov = vector, .msg_iovlen = (size_t)count};                   \
        (void)data, (void)header;                                                                  \
        CALL_ONLY(op, expression);                                                                 \
        wrote(op, slot, is_exact, flag);                                                           \
    }
WRITE(write, 0, write(fd, data, (size_t)size))
WRITE(send, word_flags(op, 3), send(fd, data, (size_t)size, flag))
WRITE(sendto, word_flags(op, 3), sendto(fd, data, (size_t)size, flag, NULL, 0))
WRITE(writev, 0, writev(fd, vector, count))
WRITE(pwritev2, word_flags(op, 4) & RWF_NOWAIT ? MSG_DONTWAIT : 0,
      pwritev2(fd, vector, count, -1, word_flags(op, 4)))
WRITE(pwritev64v2, word_flags(op, 4) & RWF_NOWAIT ? MSG_DONTWAIT : 0,
      pwritev64v2(fd, vector, count, -1, word_flags(op, 4)))
WRITE(sendmsg, word_flags(op, 4), sendmsg(fd, &header, flag))

/* Sends a number of messages of the same size. */
SLOT_CALLS(sendmmsg)
{
    int flag = allowed(slot, word_flags(op, 4));
    unsigned count = (unsigned)word_number(op, 3) % PIECES;
    long size = word_number(op, 2) % 1000;
    const struct connection *connection = connection_of(slot);
    if (connection && connection->over && count > 1) /* the reset may come between two messages */
        count = 1;
    prepare(op, slot, size * (long)count, flag);
    bool is_exact = exact(slot, size * (long)count, flag) && !op->interrupted;
    char *data = outgoing_bytes(slot, size * (long)count);
    struct iovec pieces[PIECES];
    struct mmsghdr messages[PIECES] = {0};
    for (unsigned i = 0; i < count; i++) {
        pieces[i] = (struct iovec){op->bad_buffer ? BAD_ADDRESS : data + i * size, (size_t)size};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &pieces[i], .msg_iovlen = 1};
    }
    CALL_ONLY(op, sendmmsg(slot->fd, op->bad_argument ? BAD_ADDRESS : messages, count, flag));
    long bytes = op->result > 0 ? 0 : op->result;
    for (long i = 0; i < op->result; i++)
        bytes += messages[i].msg_len;
    took(slot, bytes, flag);
    if (!is_exact) {
        note_some(op);
        return;
    }
    note_result(op);
    note_number(op, " bytes ", bytes);
}

/* The file contains the pattern. */
SLOT_CALLS(sendfile)
{
    long size = prepare(op, slot, word_number(op, 2), 0);
    bool is_exact = exact(slot, size, 0) && !op->interrupted;
    int64_t offset = connection_of(slot) ? outgoing(slot)->written : 0;
    off_t at = pattern_at(shared, slot->connection < 0 ? 0 : slot->connection, 0, offset) -
               (const char *)shared;
    off_t begin = at;
    CALL_ONLY(op,
              sendfile(slot->fd, SHARED_FD, op->bad_argument ? BAD_ADDRESS : &at, (size_t)size));
    wrote(op, slot, is_exact, 0);
    if (op->result >= 0 && at - begin != op->result)
        note(op, " offset wrong");
}

SLOT_CALLS(splice)
{
    unsigned flag = (unsigned)word_flags(op, 3);
    if (allowed(slot, MSG_MORE) == 0)
        flag &= ~(unsigned)SPLICE_F_MORE;
    long size = prepare(op, slot, word_number(op, 2) % 30000, flag & SPLICE_F_NONBLOCK);
    bool is_exact = exact(slot, size, 0) && !op->interrupted;
    int ends[2] = {-1, -1};
    RAW(pipe2, ends, 0, 0, 0);
    if (size > 0)
        RAW(write, ends[1], outgoing_bytes(slot, size), size, 0);
    CALL_ONLY(op, splice(ends[0], op->bad_argument ? BAD_ADDRESS : NULL, slot->fd, NULL,
                         (size_t)size + 5, flag | (size ? 0 : SPLICE_F_NONBLOCK)));
    wrote(op, slot, is_exact, flag & SPLICE_F_MORE ? MSG_MORE : 0);
    RAW(close, ends[0], 0, 0, 0);
    RAW(close, ends[1], 0, 0, 0);
}

/* libc writes internally. The closed stream has a duplicate of the descriptor. */
SLOT_CALLS(stdio)
{
    long size = prepare(op, slot, word_number(op, 2), 0);
    char *data = outgoing_bytes(slot, size);
    int fd = dup(slot->fd);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file || raw_nonblocking(slot->fd)) {
        note(op, " skipped");
        if (file)
            fclose(file);
        return;
    }
    CALL_ONLY(op, fwrite(data, 1, (size_t)size, file));
    note_number(op, " = ", op->result);
    prepare(op, slot, 0, 0);
    CALL(op, fflush(file));
    bool flushed = op->result == 0;
    CALL(op, fclose(file));
    took(slot, flushed ? size : 0, 0);
}

SLOT_CALLS(dprintf)
{
    long size = prepare(op, slot, word_number(op, 2) % 4096, 0);
    bool is_exact = exact(slot, size, 0) && !op->interrupted;
    const char *data = outgoing_bytes(slot, size);
    CALL_ONLY(op, dprintf(slot->fd, "%.*s", (int)size, data));
    wrote(op, slot, is_exact, 0);
}

static bool can_fill(struct op *op, const struct slot *slot)
{
    const struct connection *connection = connection_of(slot);
    if (connection && !connection->over && !ticking)
        return true;
    note(op, " skipped");
    return false;
}

/* Writes by raw system calls until neither this end nor the peer has room. */
static void fill(struct slot *slot)
{
    ask(STOP, slot->connection, 0, 0);
    for (int refused = 0; refused < 3;) {
        long n = raw(SYS_sendto, slot->fd, (long)outgoing_bytes(slot, WRITE_MOST), WRITE_MOST,
                     MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0);
        took(slot, n, 0);
        refused = n > 0 ? 0 : refused + 1;
        if (n <= 0)
            nap(200);
    }
}

/* A peer that does not read delays its ACKs by 40 ms, and each makes room. */
static void fill_for_good(struct slot *slot)
{
    int64_t before;
    do {
        before = outgoing(slot)->written;
        fill(slot);
        nap(60000);
    } while (outgoing(slot)->written > before);
}

/* Then the peer reads a few bytes and stops. */
static void fill_nearly(struct slot *slot)
{
    fill(slot);
    ask(TAKE, slot->connection, 30000, 0);
    for (int before = -1, now = 0; before != now; before = now) {
        nap(1000);
        now = raw_ioctl(slot->fd, SIOCOUTQ);
    }
}

/* A write without any room. If a signal should interrupt it, and such an ACK has made room so that
 * it did not sleep, it is made again. */
SLOT_CALLS(full)
{
    bool waits = !raw_nonblocking(slot->fd), interrupted = op->interrupted && waits;
    uint32_t handled = shared->handled;
    if (!can_fill(op, slot))
        return;
    for (int tries = 0; tries < 3; tries++) {
        if (waits)
            fill(slot);
        else
            fill_for_good(slot);
        op->later = (struct message){.verb = RESUME, .connection = slot->connection};
        op->restarts = true;
        CALL_ONLY(op, write(slot->fd, outgoing_bytes(slot, 100), 100));
        took(slot, op->result, 0);
        if (!interrupted || op->result < 0 || shared->handled != handled)
            break;
        op->interrupted = true;
    }
    op->interrupted = false;
    note_result(op);
    ask(RESUME, slot->connection, 0, 0);
}

/* flood SLOT BYTES [reset]: writes more than there is room for. A signal or the peer's reset ends
 * the write early. Its result is the number of bytes that were taken at once. */
SLOT_CALLS(flood)
{
    bool reset = op->words > 3 && strcmp(op->word[3], "reset") == 0;
    long size = word_number(op, 2);
    if (size < 50000 || size > FLOOD)
        size = FLOOD;
    if (!can_fill(op, slot))
        return;
    fill_nearly(slot);
    if (!op->interrupted && !raw_nonblocking(slot->fd))
        op->later =
            (struct message){.verb = reset ? RESET : RESUME, .connection = slot->connection};
    CALL_ONLY(op, write(slot->fd, outgoing_bytes(slot, size), (size_t)size));
    took(slot, op->result, 0);
    /* The kernel's room depends on how earlier bytes are stored in its queue. */
    if (op->result == size && !op->interrupted)
        note_result(op);
    else
        note_some(op);
    if (reset)
        raw_poll(slot->fd, 0, 300);
    if (connection_of(slot)->over)
        return;
    ask(RESUME, slot->connection, 0, 0);
    if (op->result > 0 && peer_has_all(slot))
        note(op, " all came");
}

/* Sends with MSG_ZEROCOPY, and reads the kernel's notifications: the first and the last id. */
static void completions(struct op *op, int fd)
{
    unsigned first = ~0U, last = 0;
    for (;;) {
        char control[128];
        struct msghdr header = {.msg_control = control, .msg_controllen = sizeof control};
        if (raw(SYS_recvmsg, fd, (long)&header, MSG_ERRQUEUE | MSG_DONTWAIT, 0, 0, 0) < 0)
            break;
        struct cmsghdr *item = CMSG_FIRSTHDR(&header);
        unsigned values[4];
        if (!item)
            break;
        /* struct sock_extended_err: ee_info and ee_data come last. */
        memcpy(values, CMSG_DATA(item), sizeof values);
        first = values[2] < first ? values[2] : first;
        last = values[3] > last ? values[3] : last;
    }
    note_number(op, " ids ", (int)first);
    note_number(op, " to ", last);
}

SLOT_CALLS(zerocopy)
{
    struct connection *connection = connection_of(slot);
    int on = 1;
    if (!connection || connection->over || connection->stopped || connection->corked ||
        raw_nonblocking(slot->fd) || op->interrupted || ticking)
        return note(op, " skipped");
    long size = word_number(op, 2), count = word_number(op, 3);
    /* The kernel may read the bytes later, so they must not move. */
    setsockopt(slot->fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on);
    for (long i = 0; i < count; i++) {
        settle_writes(slot, size);
        /* A large write must sleep. */
        if (size > 50000) {
            fill_nearly(slot);
            op->later = (struct message){.verb = RESUME, .connection = slot->connection};
        }
        const char *data = pattern_at(shared, slot->connection, 0, outgoing(slot)->written);
        CALL(op, send(slot->fd, data, (size_t)size, MSG_ZEROCOPY));
        took(slot, op->result, 0);
    }
    ask(RESUME, slot->connection, 0, 0);
    if (peer_has_all(slot))
        note(op, " all came");
    while (count > 0 && op->result > 0 && !(raw_poll(slot->fd, 0, 500) & POLLERR))
        break;
    settle_writes(slot, WRITE_MOST);
    completions(op, slot->fd);
}
