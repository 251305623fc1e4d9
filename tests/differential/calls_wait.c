/* SPDX-License-Identifier: MIT */
/* Every kind of wait, for descriptors and for time. A set is written a:POLLIN,b:POLLIN|POLLOUT. A
 * wait that would never end is woken by the runner, or shortened. */
#include "program.h"

enum { SET_MOST = 8 };

struct set {
    struct pollfd item[SET_MOST];
    struct slot *slot[SET_MOST];
    int count;
};

/* Its flags are events by name. */
static struct set parse_set(const struct op *op, int i)
{
    struct set set = {.count = 0};
    if (i >= op->words)
        return set;
    for (const char *at = op->word[i]; *at && set.count < SET_MOST;) {
        char text[64];
        struct op word = {.word = {text}, .words = 1};
        size_t n = strcspn(at, ",");
        if (n > 2 && n < sizeof text) {
            memcpy(text, at, n);
            text[n] = '\0';
            word.word[0] = text + 2;
            struct slot *slot = at[0] >= 'a' && at[0] <= 'z' ? &slots[at[0] - 'a'] : NULL;
            set.slot[set.count] = slot;
            set.item[set.count++] = (struct pollfd){.fd = slot ? slot->fd : -1,
                                                    .events = (short)word_flags(&word, 0),
                                                    .revents = 0x5555};
        }
        at += n + (at[n] == ',');
    }
    return set;
}

/* poll always reports hangups, select only if it asks for reading. */
static bool ready(const struct set *set, bool for_select)
{
    struct pollfd copy[SET_MOST];
    struct timespec now = {0, 0};
    memcpy(copy, set->item, sizeof copy);
    long count = raw(SYS_ppoll, (long)copy, set->count, (long)&now, (long)&all_signals,
                     sizeof all_signals, 0);
    if (!for_select)
        return count != 0;
    for (int i = 0; i < set->count; i++) {
        short events = copy[i].events, found = copy[i].revents;
        if ((found & POLLNVAL) || ((events & POLLIN) && (found & (POLLIN | POLLHUP | POLLERR))) ||
            ((events & POLLOUT) && (found & (POLLOUT | POLLERR))) ||
            ((events & POLLPRI) && (found & POLLPRI)))
            return true;
    }
    return false;
}

/* Lets the runner wake it with enough bytes to make the socket readable. */
static bool feed_later(struct op *op, struct slot *slot)
{
    const struct connection *connection = slot ? connection_of(slot) : NULL;
    if (!connection || connection->half || finished(slot))
        return false;
    long missing = raw_option(slot->fd, SOL_SOCKET, SO_RCVLOWAT) - available(slot);
    op->later = (struct message){
        .verb = SEND, .connection = slot->connection, .number = missing > 0 ? missing : 1};
    return true;
}

/* A timeout in milliseconds that is not infinite. */
static int prepare(struct op *op, const struct set *set, int timeout, bool for_select,
                   bool has_invalid)
{
    for (int i = 0; i < set->count; i++)
        if (set->slot[i]) {
            settle(set->slot[i]);
            settle_writes(set->slot[i], 0);
        }
    op->restarts = false;
    if (timeout >= 0 && !op->interrupted)
        return timeout > 3 ? 3 : timeout;
    if (has_invalid || ready(set, for_select) || op->interrupted)
        return timeout;
    for (int i = 0; i < set->count; i++)
        if ((set->item[i].events & POLLIN) && feed_later(op, set->slot[i]))
            return timeout;
    return 1;
}

/* These are only interrupted if they sleep. */
static int timeout_of(const struct op *op, int i)
{
    int timeout = (int)word_number(op, i);
    return op->interrupted ? -1 : timeout;
}

static void note_set(struct op *op, const struct set *set)
{
    note_result(op);
    for (int i = 0; i < set->count; i++)
        note_number(op, i ? "," : " revents ", set->item[i].revents);
}

int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                const sigset_t *mask, size_t room);

#define POLL(name, expression)                                                                     \
    CALLS(name)                                                                                    \
    {                                                                                              \
        struct set set = parse_set(op, 1);                                                         \
        int timeout = prepare(op, &set, timeout_of(op, 2), false, op->bad_argument);               \
        struct timespec time = {timeout / 1000, timeout % 1000 * 1000000L};                        \
        struct timespec *when = timeout < 0 ? NULL : &time;                                        \
        sigset_t room;                                                                             \
        const sigset_t *mask = word_mask(op, 3, &room);                                            \
        struct pollfd *items = op->bad_argument ? BAD_ADDRESS : set.item;                          \
        nfds_t count = (nfds_t)set.count;                                                          \
        (void)when;                                                                                \
        (void)mask;                                                                                \
        CALL_ONLY(op, expression);                                                                 \
        note_set(op, &set);                                                                        \
    }
POLL(poll, poll(items, count, timeout))
POLL(ppoll, ppoll(items, count, when, mask))
POLL(poll_chk, __poll_chk(items, count, timeout, sizeof set.item))
POLL(ppoll_chk, __ppoll_chk(items, count, when, mask, sizeof set.item))

struct selection {
    fd_set in, out, except;
    int most;
};

static struct selection select_from(const struct set *set)
{
    struct selection selection = {.most = 0};
    for (int i = 0; i < set->count; i++) {
        int fd = set->item[i].fd;
        if (fd < 0 || fd >= FD_SETSIZE)
            continue;
        if (set->item[i].events & POLLIN)
            FD_SET(fd, &selection.in);
        if (set->item[i].events & POLLOUT)
            FD_SET(fd, &selection.out);
        if (set->item[i].events & POLLPRI)
            FD_SET(fd, &selection.except);
        selection.most = fd >= selection.most ? fd + 1 : selection.most;
    }
    return selection;
}

static void note_selection(struct op *op, const struct set *set, struct selection *selection)
{
    note_result(op);
    note(op, " ");
    for (int i = 0; i < set->count; i++) {
        int fd = set->item[i].fd;
        if (fd < 0 || fd >= FD_SETSIZE)
            continue;
        note(op, FD_ISSET(fd, &selection->in) ? "r" : "-");
        note(op, FD_ISSET(fd, &selection->out) ? "w" : "-");
        note(op, FD_ISSET(fd, &selection->except) ? "x" : "-");
    }
}

#define SELECT(name, expression)                                                                   \
    CALLS(name)                                                                                    \
    {                                                                                              \
        struct set set = parse_set(op, 1);                                                         \
        int timeout = prepare(op, &set, timeout_of(op, 2), true, op->bad_argument);                \
        struct selection selection = select_from(&set);                                            \
        struct timespec time = {timeout / 1000, timeout % 1000 * 1000000L};                        \
        struct timeval left = {timeout / 1000, timeout % 1000 * 1000};                             \
        struct timespec *when = timeout < 0 ? NULL : &time;                                        \
        struct timeval *until = timeout < 0 ? NULL : &left;                                        \
        sigset_t room;                                                                             \
        const sigset_t *mask = word_mask(op, 3, &room);                                            \
        fd_set *in = op->bad_argument && selection.most ? BAD_ADDRESS : &selection.in;             \
        (void)when;                                                                                \
        (void)until;                                                                               \
        (void)mask;                                                                                \
        CALL_ONLY(op, expression);                                                                 \
        note_selection(op, &set, &selection);                                                      \
        if (until && op->result == 0 && (left.tv_sec || left.tv_usec) &&                           \
            left.tv_usec != timeout * 1000)                                                        \
            note(op, " time left");                                                                \
    }
SELECT(select, select(selection.most, in, &selection.out, &selection.except, until))
SELECT(pselect, pselect(selection.most, in, &selection.out, &selection.except, when, mask))

SLOT_CALLS(epoll)
{
    CALL(op, epoll_create1(word_number(op, 2) ? EPOLL_CLOEXEC : 0));
    set_slot(slot, (int)op->result, -1);
    slot->epoll = true;
}

CALLS(epoll_ctl)
{
    struct slot *epoll = word_slot(op, 1), *slot = word_slot(op, 3);
    static const char *const verbs[] = {"", "add", "del", "mod"};
    int verb = 0;
    for (int i = 1; i < 4; i++)
        if (op->words > 2 && strcmp(op->word[2], verbs[i]) == 0)
            verb = i;
    unsigned events = (unsigned)word_flags(op, 4);
    struct epoll_event event = {.events = events, .data.u64 = (unsigned char)slot_letter(slot)};
    CALL(op, epoll_ctl(epoll->fd, verb, slot->fd, &event));
    unsigned bit = slot->fd >= 0 ? 1U << (slot - slots) : 0;
    if (op->result == 0)
        epoll->watched &= ~bit;
    if (op->result == 0 && (events & POLLIN) && !(events & EPOLLONESHOT) && verb != 2)
        epoll->watched |= bit;
}

/* The runner may wake a wait for a registered slot. Without one, the timeout ends the wait. */
static int prepare_epoll(struct op *op, const struct slot *epoll, int timeout)
{
    struct slot *candidate = NULL;
    for (int i = 0; i < SLOTS; i++) {
        settle(&slots[i]);
        settle_writes(&slots[i], 0);
        if (!candidate && (epoll->watched >> i & 1) && feed_later(op, &slots[i]))
            candidate = &slots[i];
    }
    op->restarts = false;
    if (timeout != -1 || op->interrupted || (raw_poll(epoll->fd, POLLIN, 0) & POLLIN))
        op->later.verb = NOTHING;
    if (op->interrupted || (timeout == -1 && (raw_poll(epoll->fd, POLLIN, 0) & POLLIN)))
        return timeout;
    return timeout == -1 && candidate ? 40 : timeout > 3 || timeout < 0 ? 1 : timeout;
}

/* Events are noted in the order of their slots, because their order in the set depends on time. */
static void note_events(struct op *op, const struct epoll_event *events)
{
    for (int slot = 0; slot < SLOTS; slot++)
        for (long i = 0; i < op->result; i++) {
            char letter[] = {' ', (char)events[i].data.u64, '\0'};
            if (letter[1] != (char)slot_letter(&slots[slot]))
                continue;
            note(op, letter);
            note_number(op, ":", events[i].events);
        }
}

#define EPOLL(name, expression)                                                                    \
    CALLS(name)                                                                                    \
    {                                                                                              \
        struct slot *epoll = word_slot(op, 1);                                                     \
        struct epoll_event events[PIECES] = {0}, *room = op->bad_buffer ? BAD_ADDRESS : events;    \
        int most = (int)word_number(op, 2), timeout = prepare_epoll(op, epoll, timeout_of(op, 3)); \
        if (most > PIECES)                                                                         \
            most = PIECES;                                                                         \
        struct timespec time = {timeout / 1000, timeout % 1000 * 1000000L};                        \
        struct timespec *when = op->bad_argument ? BAD_ADDRESS : timeout < 0 ? NULL : &time;       \
        sigset_t mask_room;                                                                        \
        const sigset_t *mask = word_mask(op, 4, &mask_room);                                       \
        (void)when;                                                                                \
        (void)mask;                                                                                \
        CALL_ONLY(op, expression);                                                                 \
        note_result(op);                                                                           \
        note_events(op, events);                                                                   \
    }
EPOLL(epoll_wait, epoll_wait(epoll->fd, room, most, timeout))
EPOLL(epoll_pwait, epoll_pwait(epoll->fd, room, most, timeout, mask))
EPOLL(epoll_pwait2, epoll_pwait2(epoll->fd, room, most, when, mask))

/* waits for time and for signals */
static long short_time(const struct op *op, int i)
{
    long microseconds = word_number(op, i);
    return op->interrupted ? 500000 : microseconds > 3000 ? 3000 : microseconds;
}

CALLS(nanosleep)
{
    if (ticking)
        return note(op, " skipped");
    struct timespec time = {0, short_time(op, 1) * 1000}, rest = {7, 7};
    CALL(op, nanosleep(op->bad_argument ? BAD_ADDRESS : &time, &rest));
    note(op, rest.tv_sec == 7 ? " rest untouched" : " rest set");
}

CALLS(clock_nanosleep)
{
    if (ticking)
        return note(op, " skipped");
    struct timespec time = {0, short_time(op, 1) * 1000};
    CALL(op, clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL));
}

CALLS(pause)
{
    if (ticking)
        return note(op, " skipped");
    op->interrupted = true;
    CALL(op, pause());
}

/* True only for pending signals. */
static bool pending(const sigset_t *mask, bool outside)
{
    sigset_t waiting;
    sigemptyset(&waiting);
    RAW(rt_sigpending, &waiting, 8, 0, 0);
    for (int i = 1; i < 32; i++)
        if (sigismember(&waiting, i) && mask && sigismember(mask, i) != outside)
            return true;
    return false;
}

CALLS(sigsuspend)
{
    if (ticking)
        return note(op, " skipped");
    sigset_t room;
    const sigset_t *mask = word_mask(op, 1, &room);
    op->interrupted = !pending(mask, true);
    sigdelset(&room, SIGALRM);
    CALL(op, sigsuspend(&room));
}

CALLS(sigwait)
{
    sigset_t room;
    const sigset_t *mask = word_mask(op, 1, &room);
    int number = -7;
    if (!pending(mask, false))
        return note(op, " skipped");
    CALL(op, sigwait(mask, &number));
    note_number(op, " signal ", number);
}

CALLS(sigtimedwait)
{
    sigset_t room;
    const sigset_t *mask = word_mask(op, 1, &room);
    struct timespec time = {0, short_time(op, 2) * 1000};
    siginfo_t info = {0};
    CALL(op, sigtimedwait(mask ? mask : &room, &info, &time));
    note_number(op, " signal ", info.si_signo);
}
