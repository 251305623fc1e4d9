/* SPDX-License-Identifier: MIT */
/* Options of sockets and flags of descriptors. Values that depend on time are read but not traced.
 */
#include "program.h"

static int level_of(const char *name)
{
    return strncmp(name, "TCP_", 4) == 0  ? IPPROTO_TCP
           : strncmp(name, "IP_", 3) == 0 ? IPPROTO_IP
                                          : SOL_SOCKET;
}

static const char *option_name(const struct op *op)
{
    return op->words > 2 ? op->word[2] : "";
}

/* TCP_CORK holds written bytes until it is 0 again. */
static void corked(struct slot *slot, int name, int level, int value)
{
    struct connection *connection = connection_of(slot);
    if (connection && level == IPPROTO_TCP && name == TCP_CORK) {
        connection->corked = value != 0;
        if (!value)
            connection->held = false;
    }
}

/* setsockopt SLOT NAME VALUE [LENGTH] */
SLOT_CALLS(setsockopt)
{
    const char *text = option_name(op);
    int name = (int)name_value(text, word_number(op, 2)), level = level_of(text);
    int value[8] = {(int)word_number(op, 3)};
    socklen_t length = op->words > 4 ? (socklen_t)word_number(op, 4) : sizeof(int);
    const struct connection *connection = connection_of(slot);
    if (connection && connection->over &&
        ((level == SOL_SOCKET && name == SO_LINGER) || (level == IPPROTO_TCP && name == TCP_CORK)))
        return note(op, " skipped");
    if (level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO)) {
        struct timeval time = {0, value[0]};
        memcpy(value, &time, sizeof time);
        length = op->words > 4 ? length : sizeof time;
    } else if (level == SOL_SOCKET && name == SO_LINGER) {
        /* -1: off; 0: a reset at close */
        value[1] = value[0];
        value[0] = value[0] >= 0;
        length = op->words > 4 ? length : 2 * sizeof(int);
    }
    CALL(op, setsockopt(slot->fd, level, name, op->bad_buffer ? BAD_ADDRESS : value, length));
    if (op->result == 0)
        corked(slot, name, level, value[0]);
}

/* Is the value fixed? Not if the kernel tunes the option. */
static bool says_something(const struct slot *slot, const char *text)
{
    static const char *const tuned[] = {"TCP_QUICKACK",   "SO_RCVBUF",  "SO_SNDBUF",
                                        "TCP_INFO",       "TCP_MAXSEG", "TCP_WINDOW_CLAMP",
                                        "SO_INCOMING_CPU"};
    (void)slot;
    for (size_t i = 0; i < sizeof tuned / sizeof *tuned; i++)
        if (strcmp(text, tuned[i]) == 0)
            return false;
    return true;
}

/* getsockopt SLOT NAME [LENGTH] */
SLOT_CALLS(getsockopt)
{
    const char *text = option_name(op);
    int name = (int)name_value(text, word_number(op, 2)), level = level_of(text);
    int value[64];
    socklen_t length = op->words > 3 ? (socklen_t)word_number(op, 3) : sizeof(int);
    if (length > sizeof value && (int)length > 0)
        length = sizeof value;
    memset(value, 0x55, sizeof value);
    CALL(op, getsockopt(slot->fd, level, name, op->bad_buffer ? BAD_ADDRESS : value,
                        op->bad_argument ? BAD_ADDRESS : &length));
    note_number(op, " length ", (int)length);
    if (says_something(slot, text)) {
        note_number(op, " value ", value[0]);
        note_number(op, " ", value[1]);
    }
}

SLOT_CALLS(fcntl)
{
    CALL(op, fcntl(slot->fd, (int)word_number(op, 2), word_flags(op, 3)));
}

SLOT_CALLS(fionbio)
{
    int on = (int)word_number(op, 2);
    CALL(op, ioctl(slot->fd, FIONBIO, op->bad_argument ? BAD_ADDRESS : &on));
}

static void note_address(struct op *op, const struct sockaddr_in *address, socklen_t length)
{
    note_result(op);
    note_number(op, " length ", (int)length);
    note_number(op, " family ", address->sin_family);
    note(op, address->sin_port ? " bound" : " unbound");
}

#define NAME(function)                                                                             \
    CALLS(function)                                                                                \
    {                                                                                              \
        struct sockaddr_in address = {0};                                                          \
        socklen_t length = op->words > 2 ? (socklen_t)word_number(op, 2) : sizeof address;         \
        CALL_ONLY(op, function(word_slot(op, 1)->fd, (struct sockaddr *)&address, &length));       \
        note_address(op, &address, length);                                                        \
    }
NAME(getpeername)
NAME(getsockname)
