/* SPDX-License-Identifier: MIT */
/* The descriptors of the program and their connections, and what makes results depend on the script
 * alone: data has arrived before it is read, and has left the buffers before they could be full.
 * Queries descriptors only by raw system calls that change nothing. Async-signal-safe. */
#include "program.h"

#include <linux/sockios.h>

struct shared *shared;
struct slot slots[SLOTS];

/* Microseconds; a nap of 20 takes some 80. */
enum { ARRIVAL_MOST = 400000, NAP = 20, STEP = 80 };

struct reply ask(int verb, int connection, int64_t number, int64_t extra)
{
    struct message message = {
        .verb = verb, .connection = connection, .number = number, .extra = extra};
    struct reply reply = {-1, -1};
    long result;

    do
        result = RAW(write, CONTROL_FD, &message, sizeof message, 0);
    while (result == -EINTR);
    do
        result = RAW(read, CONTROL_FD, &reply, sizeof reply, 0);
    while (result == -EINTR);
    return reply;
}

void nap(long microseconds)
{
    struct timespec time = {0, microseconds * 1000};
    RAW(nanosleep, &time, NULL, 0, 0);
}

int raw_ioctl(int fd, unsigned long request)
{
    int value = 0;
    return RAW(ioctl, fd, request, &value, 0) == 0 ? value : -1;
}

int raw_option(int fd, int level, int name)
{
    int value[4] = {0};
    socklen_t length = sizeof value;
    if (raw(SYS_getsockopt, fd, level, name, (long)value, (long)&length, 0) != 0)
        return -1;
    return value[0] | value[1] | value[2] | value[3];
}

short raw_poll(int fd, short events, int milliseconds)
{
    struct pollfd item = {.fd = fd, .events = events};
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    raw(SYS_ppoll, (long)&item, 1, (long)&time, 0, 0, 0);
    return item.revents;
}

bool raw_nonblocking(int fd)
{
    long flags = RAW(fcntl, fd, F_GETFL, 0, 0);
    return flags >= 0 && (flags & O_NONBLOCK);
}

int new_connection(enum kind kind)
{
    for (int i = 0; i < CONNECTIONS; i++)
        if (shared->connections[i].kind == FREE) {
            shared->connections[i] = (struct connection){.kind = kind};
            return i;
        }
    return -1;
}

struct connection *connection_of(const struct slot *slot)
{
    return slot->fd >= 0 && slot->connection >= 0 ? &shared->connections[slot->connection] : NULL;
}

struct stream *incoming(const struct slot *slot)
{
    return &connection_of(slot)->stream[1 - slot->end];
}

struct stream *outgoing(const struct slot *slot)
{
    return &connection_of(slot)->stream[slot->end];
}

static struct slot *find(int connection, int end)
{
    for (int i = 0; i < SLOTS; i++)
        if (slots[i].fd >= 0 && slots[i].connection == connection && slots[i].end == end)
            return &slots[i];
    return NULL;
}

struct slot *partner(const struct slot *slot)
{
    return slot->connection < 0 ? NULL : find(slot->connection, 1 - slot->end);
}

int references(const struct slot *slot)
{
    int count = 0;
    for (int i = 0; i < SLOTS; i++)
        count += slots[i].fd >= 0 && slots[i].connection == slot->connection &&
                 slots[i].end == slot->end;
    return count;
}

/* What has arrived and was not read: bytes, or whether there is a datagram. */
long available(const struct slot *slot)
{
    const struct connection *connection = connection_of(slot);
    if (!connection)
        return 0;
    if (connection->kind == UDP)
        return (raw_poll(slot->fd, POLLIN, 0) & POLLIN) != 0;
    return raw_ioctl(slot->fd, FIONREAD);
}

/* A read finds an end or an error, if it does not find bytes. */
bool finished(const struct slot *slot)
{
    return raw_poll(slot->fd, POLLRDHUP, 0) != 0;
}

/* A receiver of the program's own may delay its acknowledgement, and Nagle's algorithm waits for
 * it. */
static void acknowledge(int fd)
{
    int on = 1;
    raw(SYS_setsockopt, fd, IPPROTO_TCP, TCP_QUICKACK, (long)&on, sizeof on, 0);
}

/* A call that failed for a bad address may have taken bytes nevertheless. */
void count_again(const struct slot *slot)
{
    const struct connection *connection = connection_of(slot);
    if (!connection)
        return;
    long left = available(slot);
    if (left >= 0 && (connection->kind != UDP || left == 0))
        incoming(slot)->read = incoming(slot)->written - left;
}

/* Until what was sent to this end has arrived. */
void settle(const struct slot *slot)
{
    const struct connection *connection = connection_of(slot);
    if (!connection)
        return;
    int64_t unread = incoming(slot)->written - incoming(slot)->read;
    if (connection->kind == UDP)
        unread = unread > 0;
    for (long waited = 0; waited < ARRIVAL_MOST && available(slot) < unread; waited += STEP) {
        if (waited && (finished(slot) || raw_option(slot->fd, SOL_SOCKET, SO_ACCEPTCONN) > 0))
            break;
        if (connection->kind == PAIR && waited > 5 * STEP)
            acknowledge(slot->fd);
        nap(NAP);
    }
}

bool peer_has_all(const struct slot *slot)
{
    struct connection *connection = connection_of(slot);
    if (!connection || connection->kind != PEER || connection->held[0] || connection->over ||
        connection->uncertain)
        return false;
    if (connection->stopped)
        ask(RESUME, slot->connection, 0, 0);
    return ask(CHECK, slot->connection, 0, 0).number == connection->stream[0].written;
}

static bool acknowledged(const struct slot *slot)
{
    for (long waited = 0; waited < ARRIVAL_MOST / 4; waited += STEP) {
        if (raw_ioctl(slot->fd, SIOCOUTQ) <= 0)
            return true;
        nap(NAP);
    }
    return false;
}

/* The other end reads so much that it cannot be what keeps a write waiting. */
void drain(const struct slot *slot)
{
    static char waste[65536];
    const struct slot *reader = partner(slot);
    if (!reader)
        return;
    settle(reader);
    while (available(reader) > 0) {
        long n = RAW(read, reader->fd, waste, sizeof waste, 0);
        if (n < 0 || (n == 0 && connection_of(reader)->kind != UDP))
            break;
        incoming(reader)->read += connection_of(reader)->kind == UDP ? 1 : n;
    }
}

/* Of SO_SNDBUF's: what it has room for depends on what is acknowledged. */
bool small_buffer(const struct slot *slot)
{
    return raw_option(slot->fd, SOL_SOCKET, SO_SNDBUF) <= 40000;
}

/* Room for what is coming, without any doubt. */
void settle_writes(const struct slot *slot, long coming)
{
    static const int64_t most[] = {
        [PEER] = 8192, [PAIR] = 40000, [UNIX] = 20000, [PIPE] = 20000, [UDP] = 20};
    const struct connection *connection = connection_of(slot);
    if (!connection)
        return;
    if (connection->kind != PEER) {
        if (outgoing(slot)->written - outgoing(slot)->read > most[connection->kind])
            drain(slot);
        return;
    }
    long room = small_buffer(slot) ? 0 : most[PEER];
    if (!connection->stopped && raw_ioctl(slot->fd, SIOCOUTQ) + coming > room && peer_has_all(slot))
        acknowledged(slot);
}

/* The other end writes, unseen. */
void feed_now(struct slot *slot, long bytes)
{
    const struct slot *writer = partner(slot);
    if (!writer)
        return;
    if (bytes > 4096)
        bytes = 4096;
    struct stream *stream = outgoing(writer);
    bool datagram = connection_of(writer)->kind == UDP;
    const char *data =
        pattern_at(shared, writer->connection, writer->end, datagram ? 0 : stream->written);
    long n = RAW(write, writer->fd, data, bytes, 0);
    if (n > 0)
        stream->written += datagram ? 1 : n;
    settle(slot);
}

char *outgoing_bytes(const struct slot *slot, long size)
{
    /* A handler must not change what the call that it interrupts writes. */
    static char usual[FLOOD], in_handler[2 * WRITE_MOST];
    char *bytes = handler_depth ? in_handler : usual;
    const struct connection *connection = connection_of(slot);
    int number = connection ? slot->connection : 0;
    int64_t offset = connection && connection->kind != UDP ? outgoing(slot)->written : 0;

    for (long done = 0; done < size; done += WRITE_MOST)
        memcpy(bytes + done, pattern_at(shared, number, slot->end, offset + done),
               (size_t)(size - done < WRITE_MOST ? size - done : WRITE_MOST));
    return bytes;
}

/* What was in the slot is closed. */
void set_slot(struct slot *slot, int fd, int connection, int end)
{
    if (slot->fd >= 0) {
        struct slot old = *slot;
        before_last_close(slot);
        slot->fd = -1;
        close(old.fd);
        after_close(old.connection, old.end);
    }
    *slot = (struct slot){.fd = fd, .connection = connection, .end = end};
}

/* A close with bytes unread, or with SO_LINGER at 0, is a reset, and what is on its way is lost or
 * not as time has it. */
void before_last_close(const struct slot *slot)
{
    struct connection *connection = connection_of(slot);
    if (!connection || references(slot) > 1 ||
        (connection->kind != PEER && connection->kind != PAIR))
        return;
    settle(slot);
    struct slot *other = partner(slot);
    if (connection->kind == PAIR && other) {
        drain(other);
    } else if (connection->kind == PEER && !connection->over &&
               (available(slot) > 0 || raw_option(slot->fd, SOL_SOCKET, SO_LINGER) == 1)) {
        if (!peer_has_all(slot))
            connection->uncertain = true;
    }
}

void after_close(int connection, int end)
{
    const struct slot closed = {.connection = connection, .end = end};
    const struct slot *other = connection < 0 ? NULL : partner(&closed);
    if (other && references(&closed) == 0 && connection_of(other)->kind == PAIR)
        raw_poll(other->fd, POLLRDHUP, 200);
}

int cut_in_pieces(struct iovec *pieces, int count, char *data, long size, bool bad_buffer)
{
    if (count > PIECES)
        count = PIECES;
    for (int i = 0; i < count; i++) {
        long n = i == count - 1 ? size : i % 3 == 1 ? 0 : size / 2;
        pieces[i] = (struct iovec){bad_buffer ? BAD_ADDRESS : data, (size_t)n};
        data += n;
        size -= n;
    }
    return count;
}
