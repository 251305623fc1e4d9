/* SPDX-License-Identifier: MIT */
/* Calls on a socket that gathers. Must answer as the kernel does where the kernel's buffer is full,
 * or the connection is broken; must never block where the application's call would not, but where
 * bytes would otherwise be lost. Async-signal-safe. */
#include "gather_socket.h"

#include "flusher.h"
#include "handler.h"
#include "mutant.h"
#include "real.h"
#include "sock.h"

#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

/* How long a process that ends, or shares its sockets, waits for a peer that takes nothing. */
enum { LEAVING_MS = 2000 };

/* What a thread does to itself comes while it runs, and not while it waits. */
static bool is_fault(int number)
{
    return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL ||
           number == SIGTRAP || number == SIGSYS;
}

/* Does this handler want a blocking call to fail with EINTR? */
static bool interrupts(int number, const struct sigaction *action)
{
    return !is_fault(number) && !(action->sa_flags & SA_RESTART) && !NS_MUTANT(gather_interrupted);
}

/* Wait until the kernel takes bytes again, as a blocking write does. 0 or errno. A place to be
 * cancelled at. */
static int wait_for_room(int fd)
{
    struct timeval limit = {0, 0};
    socklen_t len = sizeof limit;
    int saved = errno, timeout = -1, error = 0;
    if (!NS_MUTANT(gather_wait_settles))
        ns_settle(NS_OWES_ALL); /* what other sockets of this thread are owed */
    NS_REAL(getsockopt)(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, &len);
    if ((limit.tv_sec || limit.tv_usec) && !NS_MUTANT(gather_send_timeout))
        timeout = limit.tv_sec < INT_MAX / 1000 - 1
                      ? (int)(limit.tv_sec * 1000 + (limit.tv_usec + 999) / 1000)
                      : INT_MAX;
    struct pollfd one = {.fd = fd, .events = POLLOUT};
    int ready = NS_REAL(poll)(&one, 1, timeout);
    if (ready == 0)
        error = EAGAIN;
    else if (ready < 0) /* by which signal nobody can tell */
        error = errno == EINTR && timeout < 0 && !ns_has_handler(interrupts) ? 0 : errno;
    errno = saved;
    return error;
}

int ns_gather_report(int fd, struct ns_sock *slot)
{
    if (NS_GET(slot, kind) == NS_FD_READS)
        slot = ns_fd_original(&fd, slot);
    if (NS_GET(slot, kind) != NS_FD_GATHERS || NS_MUTANT(gather_report))
        return 0;
    int error = ns_gather_error(fd);
    if (error)
        ns_gather_broken(fd, slot);
    return error;
}

/* For a write: false if the kernel gives the answer itself, with the signal that belongs to it. */
static bool fails(int fd, struct ns_sock *slot, ssize_t *result)
{
    int error = ns_gather_report(fd, slot);
    if (!error || error == EPIPE)
        return false;
    errno = error;
    *result = -1;
    return true;
}

/* After shutdown(SHUT_WR), which the kernel does not know of yet. */
static void refuse(int flags, ssize_t *result)
{
    if (!(flags & MSG_NOSIGNAL) && !NS_MUTANT(gather_sigpipe))
        ns_real.syscall(SYS_tgkill, (long)getpid(), ns_real.syscall(SYS_gettid), (long)SIGPIPE);
    errno = EPIPE;
    *result = -1;
}

struct request {
    int fd;
    struct ns_sock *slot;
    const struct iovec *vector;
    size_t size;
    int flags;
    bool joins; /* it is gathered, if there is room */
    bool holds; /* and stays, until the burst is over */
};

/* Append the write and send it, if it is not to be held. */
static bool join(const struct request *request, ssize_t *result)
{
    int fd = request->fd;
    if (!request->joins || !ns_gather_append(fd, request->slot, request->vector, request->size))
        return false;
    *result = (ssize_t)request->size;
    if (!request->holds && ns_gather_flush(fd, request->slot, 0) == NS_GATHER_FAILED)
        fails(fd, request->slot, result);
    return true;
}

/* The kernel's buffer is full, and so is ours. Returns whether *result is the outcome; otherwise
 * there may be room now. */
static bool no_room(const struct request *request, ssize_t *result)
{
    if (NS_GET(request->slot, nonblock) || request->flags & MSG_DONTWAIT) {
        uint32_t room = ns_gather_room(request->fd, request->slot);
        bool some = request->joins && room > 0 && room < request->size &&
                    ns_gather_append(request->fd, request->slot, request->vector, room);
        *result = some ? (ssize_t)room : -1;
        if (!some)
            errno = EAGAIN;
        return true;
    }
    int error = wait_for_room(request->fd);
    if (!error)
        return false;
    errno = error;
    *result = -1;
    return true;
}

/* Sent with MSG_MORE, and the call that is to follow may wait (splice): the deadline stands. */
static void watch_what_follows(int fd, struct ns_sock *slot)
{
    uint64_t none = 0;
    atomic_compare_exchange_strong(&slot->held_until, &none, NS_HELD_OVERDUE);
    if (!ns_flusher_watch(fd))
        ns_sock_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

static bool is_ordinary(int flags)
{
    return !(flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL));
}

/* True: *result is the outcome. False: nothing is gathered any more; *follows: what was has been
 * sent with MSG_MORE. */
static bool gather(const struct request *request, ssize_t *result, bool *follows)
{
    int fd = request->fd;
    unsigned how = request->size && is_ordinary(request->flags) ? NS_GATHER_MORE : 0;
    for (;;) {
        if (ns_gather_after(fd) == NS_GATHER_SHUT) {
            refuse(request->flags, result);
            return true;
        }
        if (join(request, result))
            return true;
        bool any = ns_gather_size(fd) > 0;
        switch (ns_gather_flush(fd, request->slot, how)) {
        case NS_GATHER_FAILED:
            return fails(fd, request->slot, result);
        case NS_GATHER_NOTHING:
            *follows |= any && how;
            if (any && join(request, result))
                return true;
            if (*follows && !NS_MUTANT(gather_follows))
                watch_what_follows(fd, request->slot);
            return false;
        case NS_GATHER_REST:
            if (!request->size) /* what has no bytes needs no room */
                return false;
            if (no_room(request, result))
                return true;
            break;
        }
    }
}

bool ns_gather_write(int fd, struct ns_sock *slot, const struct iovec *vector, size_t size,
                     int flags, ssize_t *result, struct ns_plain *before)
{
    struct request request = {fd, slot, vector, size, flags, false, false};
    ns_engine_turns_to(fd);
    const struct ns_rule *rule = NS_GET(slot, rule);
    bool small = size && rule && size <= rule->max_bytes && is_ordinary(flags);
    request.holds = ns_engine_holds(fd, slot, small ? size : NS_LARGE, flags);
    request.joins = request.holds || (small && ns_gather_size(fd) && ns_flusher_ready() &&
                                      !NS_GET(slot, no_hold) && !NS_GET(slot, app_corks));
    bool follows = false;
    /* Before the call, as for any other write: it or the flush carries the ACK. */
    *before = (struct ns_plain){.ack_tempo = NS_GET(slot, ack_tempo)};
    if (!(NS_GET(slot, app_corks) & NS_CORKS_OPTION))
        before->owed = ns_engine_carry(slot);
    if (gather(&request, result, &follows)) {
        ns_engine_carried(slot, *result, *before);
        return true;
    }
    before->mark = follows ? NS_HELD_OVERDUE : 0; /* as watch_what_follows left it */
    return false;
}

bool ns_gather_reader_writes(int fd, struct ns_sock *slot, int flags, ssize_t *result)
{
    enum { ALONE = MSG_EOR }; /* it is not to be joined with what follows */
    struct ns_plain before;
    int kept = flags & (MSG_DONTWAIT | MSG_NOSIGNAL);
    slot = ns_fd_original(&fd, slot);
    return NS_GET(slot, kind) == NS_FD_GATHERS && !NS_MUTANT(reader_writes) &&
           ns_gather_write(fd, slot, NULL, NS_UNGATHERED, kept | ALONE, result, &before);
}

/* Make the kernel's buffer large enough for what we have, where the kernel lets us. */
static void make_room(int fd)
{
    enum { DEFAULT_MOST = 2 * 212992 }; /* net.core.wmem_max, doubled as the kernel does */
    int size = ns_sock_get(fd, SOL_SOCKET, SO_SNDBUF);
    int wanted = size / 2 + 2 * NS_MAX_BYTES_MOST;
    if (NS_MUTANT(gather_makes_room))
        return;
    if (size > 0 && ns_sock_set(fd, SOL_SOCKET, SO_SNDBUFFORCE, wanted) != 0 && size < DEFAULT_MOST)
        ns_sock_set(fd, SOL_SOCKET, SO_SNDBUF, wanted);
}

/* Send all, and wait for the kernel to take it as long as that moves, or for so long. */
static bool drain(int fd, struct ns_sock *slot, unsigned how, int limit_ms)
{
    if (ns_gather_flush(fd, slot, how) != NS_GATHER_REST)
        return true;
    make_room(fd);
    while (ns_gather_flush(fd, slot, how) == NS_GATHER_REST) {
        struct pollfd one = {.fd = fd, .events = POLLOUT};
        struct timespec limit = {limit_ms / 1000, (long)(limit_ms % 1000) * 1000000};
        /* By number: no place to be cancelled at. */
        int saved = errno;
        long ready = ns_real.syscall(SYS_ppoll, &one, 1l, &limit, NULL, 0l);
        bool interrupted = ready < 0 && errno == EINTR;
        errno = saved;
        if (ready <= 0 && !interrupted)
            return false;
    }
    return true;
}

/* Have the rest leave by a duplicate, which the deadline thread closes. */
static bool leave_later(int fd, struct ns_sock *slot)
{
    enum { OUT_OF_THE_WAY = 128 }; /* programs expect the lowest numbers */
    if (!ns_flusher_ready() || NS_MUTANT(gather_leaves_later))
        return false;
    int saved = errno;
    int to = NS_REAL(fcntl)(fd, F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
    if (to < 0)
        to = NS_REAL(fcntl)(fd, F_DUPFD_CLOEXEC, 3);
    errno = saved;
    struct ns_sock *other = to >= 0 ? ns_fd_make(to) : NULL;
    if (other) {
        ns_fd_reset(other);
        NS_PUT(other, domain, NS_GET(slot, domain));
        NS_PUT(other, rule, NS_GET(slot, rule));
        NS_PUT(other, listener, NS_CONNECTION_LEAVING);
        ns_gather_begin(to, other);
    }
    if (!other || NS_GET(other, kind) != NS_FD_GATHERS) {
        if (to >= 0)
            ns_real.syscall(SYS_close, (long)to);
        return false;
    }
    /* The last close is the deadline thread's, and must not wait there; the application's has
     * waited. */
    struct linger none = {0, 0};
    if (!NS_MUTANT(gather_rest_no_linger))
        NS_REAL(setsockopt)(to, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    errno = saved;
    ns_gather_then(to, NS_GATHER_CLOSE);
    ns_gather_move(fd, to, other);
    return true;
}

struct search {
    const struct ns_sock *slot;
    bool found;
};

static void find_reader(int fd, struct ns_sock *slot, void *search)
{
    struct search *for_whom = search;
    (void)fd;
    for_whom->found |=
        NS_GET(slot, kind) == NS_FD_READS && NS_GET(slot, twin) == NS_GET(for_whom->slot, twin);
}

/* Has the socket a duplicate, by which more may be written after this one is closed? */
static bool has_reader(const struct ns_sock *slot)
{
    struct search search = {slot, false};
    if (NS_GET(slot, twin))
        ns_fd_each(find_reader, &search);
    return search.found && !NS_MUTANT(reader_outlives);
}

void ns_gather_closing(int fd, struct ns_sock *slot)
{
    if (ns_gather_flush(fd, slot, 0) == NS_GATHER_REST) {
        struct linger linger = {0, 0};
        socklen_t len = sizeof linger;
        int saved = errno;
        NS_REAL(getsockopt)(fd, SOL_SOCKET, SO_LINGER, &linger, &len);
        errno = saved;
        bool reset = linger.l_onoff && !linger.l_linger; /* the rest is what it throws away */
        int limit_ms = linger.l_linger < INT_MAX / 1000 ? linger.l_linger * 1000 : INT_MAX;
        reset &= !NS_MUTANT(gather_close_reset);
        bool gone =
            reset || (!NS_MUTANT(gather_linger) && linger.l_onoff && drain(fd, slot, 0, limit_ms));
        /* A program that closes all descriptors closes the duplicate, too. */
        bool again = ns_gather_after(fd) == NS_GATHER_CLOSE;
        if (!gone && (again || has_reader(slot) || !leave_later(fd, slot)))
            drain(fd, slot, 0, LEAVING_MS);
        ns_gather_then(fd, NS_GATHER_STAY);
    }
    ns_gather_flush(fd, slot, NS_GATHER_DROP);
}

int ns_gather_shutdown(int fd, struct ns_sock *slot, int how)
{
    if (how != SHUT_WR && how != SHUT_RDWR)
        return how;
    NS_PUT(slot, no_hold, 1); /* a write is the kernel's to refuse */
    if (ns_gather_flush(fd, slot, NS_GATHER_END) != NS_GATHER_REST)
        return how;
    if (!NS_MUTANT(gather_shut_later))
        ns_gather_then(fd, NS_GATHER_SHUT);
    ns_gather_flush(fd, slot, 0); /* it may have left meanwhile */
    return how == SHUT_RDWR ? SHUT_RD : -1;
}

static void end_original(int fd, struct ns_sock *slot, void *twin)
{
    if (NS_GET(slot, kind) == NS_FD_GATHERS && NS_GET(slot, twin) == *(uint32_t *)twin &&
        !NS_MUTANT(gather_reader))
        ns_gather_end(fd, slot);
}

static void end_reader(int fd, struct ns_sock *slot, void *twin)
{
    uint8_t reads = NS_FD_READS;
    (void)fd;
    if (NS_GET(slot, kind) != NS_FD_READS || NS_GET(slot, twin) != *(uint32_t *)twin)
        return;
    NS_PUT(slot, tempo, 0);
    /* Unless it has been closed meanwhile: its number may be that of one that gathers. */
    atomic_compare_exchange_strong(&slot->kind, &reads, NS_FD_RULED);
}

/* Of the socket of a duplicate that reads. Its name is taken once: another thread may close it. */
static void end_all_of(struct ns_sock *reader)
{
    uint32_t twin = NS_GET(reader, twin);
    if (!twin)
        return;
    ns_fd_each(end_original, &twin);
    ns_fd_each(end_reader, &twin);
}

void ns_gather_end(int fd, struct ns_sock *slot)
{
    NS_PUT(slot, listener,
           NS_GET(slot, listener) | (NS_MUTANT(gather_shared) ? 0 : NS_CONNECTION_SHARED));
    switch (NS_GET(slot, kind)) {
    case NS_FD_GATHERS:
        drain(fd, slot, NS_GATHER_END, LEAVING_MS);
        break;
    case NS_FD_READS: /* a write of another thread must not find it ruled before all has left */
        end_all_of(slot);
        break;
    default:
        break;
    }
}

static void end_one(int fd, struct ns_sock *slot, void *context)
{
    (void)context;
    if (NS_GET(slot, kind) != NS_FD_LISTENER && !NS_MUTANT(gather_end_all))
        ns_gather_end(fd, slot);
}

void ns_gather_end_all(void)
{
    ns_fd_each(end_one, NULL);
}

static void drain_one(int fd, struct ns_sock *slot, void *context)
{
    (void)context;
    if (NS_GET(slot, kind) == NS_FD_GATHERS)
        drain(fd, slot, 0, LEAVING_MS);
}

void ns_gather_drain_all(void)
{
    ns_fd_each(drain_one, NULL);
}

static void close_leaving(int fd, struct ns_sock *slot, void *context)
{
    (void)context;
    if (!(NS_GET(slot, listener) & NS_CONNECTION_LEAVING))
        return;
    ns_fd_reset(slot);
    ns_real.syscall(SYS_close, (long)fd);
}

void ns_gather_forked(void)
{
    int saved = errno;
    if (ns_gather_wanted() && !NS_MUTANT(gather_close_in_child))
        ns_fd_each(close_leaving, NULL);
    errno = saved;
}

void ns_gather_stop_all(void)
{
    ns_gather_stop();
    ns_gather_end_all();
}
