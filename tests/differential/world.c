/* SPDX-License-Identifier: MIT */
/* The descriptors of the program and their connections. To make results depend on the script only,
 * data arrives before it is read, and leaves the buffers before they are full. Queries descriptors
 * only by raw system calls that change nothing. Async-signal-safe. */
#include "program.h"

struct shared *shared;
struct slot slots[SLOTS];

/* Microseconds; a nap of 20 takes about 80. */
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

const uint64_t all_signals = ~0ULL;

short raw_poll(int fd, short events, int milliseconds)
{
    struct pollfd item = {.fd = fd, .events = events};
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    raw(SYS_ppoll, (long)&item, 1, (long)&time, (long)&all_signals, sizeof all_signals, 0);
    return item.revents;
}

bool raw_nonblocking(int fd)
{
    long flags = RAW(fcntl, fd, F_GETFL, 0, 0);
    return flags >= 0 && (flags & O_NONBLOCK);
}

int new_connection(void)
{
    for (int i = 0; i < CONNECTIONS; i++)
        if (!shared->connections[i].used) {
            shared->connections[i] = (struct connection){.used = true};
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
    return &connection_of(slot)->stream[1];
}

struct stream *outgoing(const struct slot *slot)
{
    return &connection_of(slot)->stream[0];
}

int references(const struct slot *slot)
{
    int count = 0;
    for (int i = 0; i < SLOTS; i++)
        count += slots[i].fd >= 0 && slots[i].connection == slot->connection;
    return count;
}

/* The number of bytes that have arrived and were not read. */
long available(const struct slot *slot)
{
    return connection_of(slot) ? raw_ioctl(slot->fd, FIONREAD) : 0;
}

/* Would a read without data find an end or an error? */
bool finished(const struct slot *slot)
{
    return raw_poll(slot->fd, POLLRDHUP, 0) != 0;
}

/* A call that failed because of a bad address may still have taken bytes. */
void count_again(const struct slot *slot)
{
    long left = available(slot);
    if (connection_of(slot) && left >= 0)
        incoming(slot)->read = incoming(slot)->written - left;
}

/* Waits until all bytes that were sent to this end have arrived. */
void settle(const struct slot *slot)
{
    if (!connection_of(slot))
        return;
    int64_t unread = incoming(slot)->written - incoming(slot)->read;
    for (long waited = 0; waited < ARRIVAL_MOST && available(slot) < unread; waited += STEP) {
        if (waited && (finished(slot) || raw_option(slot->fd, SOL_SOCKET, SO_ACCEPTCONN) > 0))
            break;
        nap(NAP);
    }
}

bool peer_has_all(const struct slot *slot)
{
    struct connection *connection = connection_of(slot);
    if (!connection || connection->held || connection->over || connection->uncertain)
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

/* Was SO_SNDBUF made small? Then the room depends on the acknowledged bytes. */
bool small_buffer(const struct slot *slot)
{
    return raw_option(slot->fd, SOL_SOCKET, SO_SNDBUF) <= 40000;
}

/* Waits until there is enough room for the coming bytes. */
void settle_writes(const struct slot *slot, long coming)
{
    enum { MOST = 8192 };
    const struct connection *connection = connection_of(slot);
    if (!connection)
        return;
    long room = small_buffer(slot) ? 0 : MOST;
    if (!connection->stopped && raw_ioctl(slot->fd, SIOCOUTQ) + coming > room && peer_has_all(slot))
        acknowledged(slot);
}

char *outgoing_bytes(const struct slot *slot, long size)
{
    /* A handler must not change the bytes of the call that it interrupts. */
    static char usual[FLOOD], in_handler[2 * WRITE_MOST];
    char *bytes = handler_depth ? in_handler : usual;
    const struct connection *connection = connection_of(slot);
    int number = connection ? slot->connection : 0;
    int64_t offset = connection ? outgoing(slot)->written : 0;

    for (long done = 0; done < size; done += WRITE_MOST)
        memcpy(bytes + done, pattern_at(shared, number, 0, offset + done),
               (size_t)(size - done < WRITE_MOST ? size - done : WRITE_MOST));
    return bytes;
}

/* Closes the slot's old descriptor. */
void set_slot(struct slot *slot, int fd, int connection)
{
    if (slot->fd >= 0) {
        int old = slot->fd;
        before_last_close(slot);
        slot->fd = -1;
        close(old);
    }
    *slot = (struct slot){.fd = fd, .connection = connection};
}

/* A close with unread bytes, or with SO_LINGER at 0, is a reset. Whether bytes in flight are lost
 * then depends on time. */
void before_last_close(const struct slot *slot)
{
    struct connection *connection = connection_of(slot);
    if (!connection || references(slot) > 1)
        return;
    settle(slot);
    if (!connection->over &&
        (available(slot) > 0 || raw_option(slot->fd, SOL_SOCKET, SO_LINGER) == 1) &&
        !peer_has_all(slot))
        connection->uncertain = true;
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
