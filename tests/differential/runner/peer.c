/* SPDX-License-Identifier: MIT */
/* The other end of the connections of one run. It executes the program's requests from the control
 * socket. Requests for later are executed when the program's thread sleeps, to wake its call, so
 * that results do not depend on time. It reads everything, and acknowledges at once. */
#include "runner.h"

#include <netinet/tcp.h>

enum { LATER_MOST = 4 };
enum ending { OPEN, ENDED, WAS_RESET, LEFT };

static struct end {
    int fd;
    int64_t got, wrong;
    enum ending ending;
} ends[CONNECTIONS];

static struct shared *world;
static int control_fd, listener_fd, stat_fd;
static struct message orders[LATER_MOST];
static int order_count, stat_thread;

void peer_begin(struct shared *shared, int control, int listener)
{
    world = shared;
    control_fd = control;
    listener_fd = listener;
    order_count = 0;
    stat_fd = -1;
    stat_thread = 0;
    for (int i = 0; i < CONNECTIONS; i++)
        ends[i] = (struct end){.fd = -1, .wrong = -1};
}

static void set_option(int fd, int level, int name, int value)
{
    setsockopt(fd, level, name, &value, sizeof value);
}

static void adopt(int connection, int fd)
{
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_OOBINLINE, 1);
    ends[connection].fd = fd;
}

/* Reads the bytes that have arrived. */
static void take(int connection)
{
    static char data[256 * 1024];
    struct end *end = &ends[connection];
    while (end->fd >= 0 && end->ending == OPEN) {
        ssize_t n = recv(end->fd, data, sizeof data, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        if (n <= 0) {
            end->ending = n == 0 ? ENDED : WAS_RESET;
            break;
        }
        if (end->wrong < 0)
            end->wrong = pattern_differs(world, connection, 0, end->got, data, n);
        end->got += n;
    }
    if (end->fd >= 0 && end->ending == OPEN)
        set_option(end->fd, IPPROTO_TCP, TCP_QUICKACK, 1);
}

/* Waits until everything has arrived, or until nothing has arrived for longer than any timer of the
 * kernel. */
static struct reply check(int connection)
{
    struct end *end = &ends[connection];
    int64_t before = -1;
    for (int quiet = 0; quiet < 80; quiet++) {
        take(connection);
        if (end->fd < 0 || end->ending != OPEN ||
            end->got >= world->connections[connection].stream[0].written)
            break;
        if (end->got != before)
            quiet = 0;
        before = end->got;
        struct pollfd item = {.fd = end->fd, .events = POLLIN};
        poll(&item, 1, 5);
    }
    return (struct reply){end->got, end->wrong};
}

static int64_t accept_one(int connection)
{
    struct pollfd item = {.fd = listener_fd, .events = POLLIN};
    if (poll(&item, 1, 500) <= 0)
        return -1;
    int fd = accept4(listener_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return -1;
    adopt(connection, fd);
    return 0;
}

static int64_t send_bytes(int connection, int64_t size)
{
    struct stream *stream = &world->connections[connection].stream[1];
    int64_t done = 0;
    while (done < size) {
        int64_t n = size - done < WRITE_MOST ? size - done : WRITE_MOST;
        ssize_t sent = send(ends[connection].fd, pattern_at(world, connection, 1, stream->written),
                            (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent <= 0)
            break;
        stream->written += sent;
        done += sent;
    }
    return done;
}

static int64_t connect_to(int connection, int64_t where, int64_t bytes)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = (uint32_t)(where >> 16),
                                  .sin_port = (uint16_t)where};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    connect(fd, (struct sockaddr *)&address, sizeof address);
    struct pollfd item = {.fd = fd, .events = POLLOUT};
    poll(&item, 1, 500);
    adopt(connection, fd);
    return send_bytes(connection, bytes);
}

/* The last close is a reset only on request, because everything that arrived was read. */
static void leave(int connection, bool reset)
{
    struct end *end = &ends[connection];
    if (world->connections[connection].stopped)
        world->connections[connection].uncertain = true;
    else
        take(connection);
    if (reset)
        setsockopt(end->fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
    world->connections[connection].over = world->connections[connection].half = true;
    end->ending = LEFT;
    close(end->fd);
    end->fd = -1;
}

/* Reads some bytes of a stream that is otherwise not read. */
static int64_t take_some(int connection, int64_t size)
{
    static char data[256 * 1024];
    struct end *end = &ends[connection];
    ssize_t n =
        recv(end->fd, data, (size_t)size < sizeof data ? (size_t)size : sizeof data, MSG_DONTWAIT);
    if (n <= 0)
        return 0;
    if (end->wrong < 0)
        end->wrong = pattern_differs(world, connection, 0, end->got, data, n);
    end->got += n;
    return n;
}

static int64_t write_lent(int connection, int fd, int64_t size)
{
    ssize_t n = write(
        fd, pattern_at(world, connection, 0, world->connections[connection].stream[0].written),
        (size_t)size);
    close(fd);
    return n;
}

static struct reply perform(const struct message *message, int verb, int passed)
{
    int connection = message->connection;
    struct reply reply = {0, -1};
    if (connection < 0 || connection >= CONNECTIONS)
        return (struct reply){-1, -1};
    struct end *end = &ends[connection];
    bool there = end->fd >= 0;
    if (verb == ACCEPT)
        reply.number = accept_one(connection);
    else if (verb == CONNECT)
        reply.number = connect_to(connection, message->number, message->extra);
    else if (verb == SEND && there)
        reply.number = send_bytes(connection, message->number);
    else if (verb == CHECK)
        reply = check(connection);
    else if (verb == STOP || verb == RESUME)
        world->connections[connection].stopped = verb == STOP;
    else if (verb == TAKE && there)
        reply.number = take_some(connection, message->number);
    else if (verb == RIGHTS && passed >= 0)
        reply.number = write_lent(connection, passed, message->number);
    else if (verb == HALF && there) {
        shutdown(end->fd, SHUT_WR);
        world->connections[connection].half = true;
    } else if ((verb == CLOSE || verb == RESET) && there)
        leave(connection, verb == RESET);
    return reply;
}

void peer_message(void)
{
    struct message message;
    struct right right;
    struct msghdr *header = right_message(&right, &message, sizeof message, -1);
    if (recvmsg(control_fd, header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != sizeof message)
        return;
    if (message.verb == LATER) {
        if (order_count < LATER_MOST)
            orders[order_count++] = message;
        return;
    }
    struct reply reply = {0, -1};
    if (message.verb == DONE)
        order_count = 0;
    else
        reply = perform(&message, message.verb, right_of(&right));
    send(control_fd, &reply, sizeof reply, MSG_NOSIGNAL);
}

static bool sleeps(const struct message *message)
{
    char text[256];
    if (stat_thread != message->thread) {
        snprintf(text, sizeof text, "/proc/%d/task/%d/stat", message->process, message->thread);
        if (stat_fd >= 0)
            close(stat_fd);
        stat_fd = open(text, O_RDONLY | O_CLOEXEC);
        stat_thread = message->thread;
    }
    ssize_t n = pread(stat_fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' && name_end[2] == 'S';
}

/* Executes a request for later if its thread sleeps. If a signal was sent, the thread must sleep
 * again after the handler. If a message has arrived, the thread sleeps for the runner. */
void peer_turn(void)
{
    struct pollfd item = {.fd = control_fd, .events = POLLIN};
    if (!order_count || !sleeps(&orders[0]) || poll(&item, 1, 0) != 0)
        return;
    struct message message = orders[0];
    memmove(orders, orders + 1, sizeof orders - sizeof *orders);
    order_count--;
    if (message.what != SIGNAL) {
        perform(&message, message.what, -1);
        return;
    }
    uint32_t before = world->handled;
    syscall(SYS_tgkill, message.process, message.thread, (int)message.number);
    /* Its handler may also send requests. */
    for (int i = 0; order_count && i < 2000 && world->handled == before; i++) {
        if (poll(&item, 1, 1) > 0)
            peer_message();
    }
}

bool peer_has_orders(void)
{
    return order_count > 0;
}

int peer_descriptors(struct pollfd *items, int count)
{
    for (int i = 0; i < CONNECTIONS; i++)
        if (ends[i].fd >= 0 && ends[i].ending == OPEN && !world->connections[i].stopped)
            items[count++] = (struct pollfd){.fd = ends[i].fd, .events = POLLIN};
    return count;
}

void peer_readable(int fd)
{
    for (int i = 0; i < CONNECTIONS; i++)
        if (ends[i].fd == fd)
            take(i);
}

static void report(int connection, bool killed)
{
    static const char *const how[] = {"open", "end", "reset", "left"};
    const struct end *end = &ends[connection];
    const struct connection *model = &world->connections[connection];
    char *at = world->trace + world->trace_length;
    size_t room = TRACE_MOST - world->trace_length;
    int n;
    if (room < 100 || !model->used)
        return;
    if (end->wrong >= 0)
        n = snprintf(at, room, "connection %d: WRONG AT %lld\n", connection, (long long)end->wrong);
    else if (killed || model->uncertain || end->ending == LEFT)
        n = snprintf(at, room, "connection %d\n", connection);
    else if (end->got == model->stream[0].written)
        n = snprintf(at, room, "connection %d: all bytes, %s\n", connection, how[end->ending]);
    else
        n = snprintf(at, room, "connection %d: lacks %lld bytes, %s\n", connection,
                     (long long)(model->stream[0].written - end->got), how[end->ending]);
    world->trace_length += (uint32_t)n;
}

/* After the end of the program: reads the remaining bytes and the end of the stream. A reset leaves
 * no port in TIME_WAIT. */
void peer_finish(bool killed)
{
    for (int i = 0; i < CONNECTIONS; i++) {
        world->connections[i].stopped = false;
        for (int tries = 0; ends[i].fd >= 0 && ends[i].ending == OPEN && tries < 100; tries++) {
            struct pollfd item = {.fd = ends[i].fd, .events = POLLIN};
            poll(&item, 1, 5);
            take(i);
        }
        report(i, killed);
        if (ends[i].fd >= 0) {
            setsockopt(ends[i].fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0},
                       sizeof(struct linger));
            close(ends[i].fd);
        }
    }
    if (stat_fd >= 0)
        close(stat_fd);
}
