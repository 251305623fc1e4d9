/* SPDX-License-Identifier: MIT */
/* See pending.h. Owns ns_thread, and ns_conn.held, which out.c sets. */
#include "traffic/pending.h"

#include "base/real.h"
#include "conn/kernel.h"
#include "conn/process.h"
#include "report/log.h"
#include "report/status.h"
#include "traffic/learned.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <sys/syscall.h>

enum { MS_PER_S = 1000, US_PER_S = 1000000, NS_PER_S = 1000000000 };

_Atomic bool ns_push_any;

/* In 1 / second. Not ns_clock_now: a program may have its own function called clock_gettime. */
static inline uint32_t now_by(clockid_t clock, uint32_t second)
{
    struct timespec now;
    NS_REAL(clock_gettime)(clock, &now);
    return (uint32_t)now.tv_sec * second + (uint32_t)now.tv_nsec / (NS_PER_S / second);
}

uint16_t ns_push_clock(void)
{
    return (uint16_t)now_by(CLOCK_MONOTONIC_COARSE, MS_PER_S);
}

static _Atomic bool always_coarse;

void ns_push_without_tsc(void)
{
    atomic_store(&always_coarse, true);
}

uint32_t ns_push_time(bool coarse)
{
    coarse |= atomic_load_explicit(&always_coarse, memory_order_relaxed);
    return now_by(coarse ? CLOCK_MONOTONIC_COARSE : CLOCK_MONOTONIC, US_PER_S);
}

/* Set an option that makes the socket send. If fd was closed by a way that the library cannot see,
 * another descriptor of the connection is tried. 0 or -errno. */
static int set(int fd, struct ns_conn *conn, int option, int value)
{
    int error = ns_kernel_set(fd, IPPROTO_TCP, option, value);
    if (error != -EBADF && error != -ENOTSOCK)
        return error;
    int other = ns_fd_other(conn, fd);
    return other < 0 ? error : ns_kernel_set(other, IPPROTO_TCP, option, value);
}

void ns_enforce_nodelay(int fd, struct ns_conn *conn)
{
    int wanted = ns_conn_wants_nodelay(conn);
    if (wanted == NS_GET(conn, kernel_nodelay) || NS_GET(conn, held) || ns_process_is_disabled())
        return;
    if (set(fd, conn, TCP_NODELAY, wanted) == 0)
        NS_PUT(conn, kernel_nodelay, (uint8_t)wanted);
    else /* a filter or an LSM: not tried again, as a push would fail, too */
        NS_PUT(conn, send, NS_SEND_APP);
    uint8_t flags = NS_GET(conn, flags);
    if (wanted && NS_GET(conn, kernel_nodelay) && !(flags & NS_COUNTED)) {
        NS_PUT(conn, flags, flags | NS_COUNTED);
        NS_COUNT(nodelay);
    }
    NS_DEBUG_FROM(fd, "TCP_NODELAY in the kernel is", NS_GET(conn, kernel_nodelay));
}

void ns_push_failed(int fd, struct ns_conn *conn, int error)
{
    if (error == -EBADF || error == -ENOTSOCK || error == -ENOPROTOOPT || error == -EOPNOTSUPP)
        ns_fd_refresh(fd, conn);
    else /* a filter or an LSM: bytes that cannot be pushed must not be held */
        ns_conn_no_batch(conn, NS_NO_PUSH);
}

/* The burst ends here. */
static void end_burst(struct ns_conn *conn, const struct ns_send_mode *mode)
{
    struct ns_burst burst = ns_conn_burst(conn);
    uint16_t now = ns_push_clock();
    unsigned pause = ns_push_pause(conn, mode);
    if (ns_burst_paused(&burst, now, pause))
        NS_COUNT(late);
    ns_burst_pushed(&burst, mode->from, now, pause);
    ns_conn_burst_put(conn, burst);
    if (ns_send_corks(NS_GET(conn, send)) && burst.doubt == NS_BURST_DOUBT_MOST &&
        !(NS_GET(conn, no_batch) & NS_WAS_LATE)) {
        ns_conn_no_batch(conn, NS_WAS_LATE);
        NS_COUNT(unheld);
    }
}

/* Setting TCP_NODELAY sends what Nagle's algorithm holds, and clearing TCP_CORK sends what it holds
 * if TCP_NODELAY is set (tcp(7); __tcp_sock_set_nodelay and __tcp_sock_set_cork, net/ipv4/tcp.c). A
 * cork that stayed for the next burst would save a call, and hold what anybody else writes. */
void ns_push_held(int fd, struct ns_conn *conn)
{
    const struct ns_send_mode *mode = &ns_send_modes[NS_GET(conn, send)];
    /* If a signal handler jumps away from here, the next write sets TCP_NODELAY again. */
    if (mode->option == TCP_NODELAY)
        NS_PUT(conn, kernel_nodelay, 0);
    /* Cleared first: a thread that begins to hold meanwhile notices (hold, out.c). */
    if (!atomic_exchange(&conn->held, 0) || !mode->option)
        return;
    NS_COUNT(pushes);
    end_burst(conn, mode);
    if (mode->option == TCP_CORK) /* the program may have cleared TCP_NODELAY since */
        ns_enforce_nodelay(fd, conn);
    int error = set(fd, conn, mode->option, mode->push);
    if (error) {
        ns_push_failed(fd, conn, error);
    } else if (mode->option == TCP_NODELAY) {
        NS_PUT(conn, kernel_nodelay, 1);
        ns_enforce_nodelay(fd, conn); /* off again where the mode leaves it to the application */
    }
}

/* TCP_QUICKACK sends a pending ACK. An even value leaves the connection in interactive mode, in
 * which the next answer carries its ACK. An odd one ends it, but the kernel does not always
 * acknowledge at once then: not a segment that is larger than those before it
 * (__tcp_sock_set_quickack, net/ipv4/tcp.c; tcp_measure_rcv_mss, net/ipv4/tcp_input.c). */
void ns_acknowledge(int fd, struct ns_conn *conn)
{
    struct ns_ack_state before = ns_conn_ack(conn), state = before;
    if (!ns_ack_is_pending(state))
        return;
    ns_ack_send(&state, (unsigned)NS_GET(&ns_stats, acks));
    ns_learned_put(conn, before, &state);
    int error = set(fd, conn, TCP_QUICKACK, 2);
    if (error == -EBADF || error == -ENOTSOCK)
        ns_fd_refresh(fd, conn);
    else if (error)
        NS_PUT(conn, ack, NS_ACK_APP); /* a protocol without the option: do not try again */
    NS_COUNT(acks);
}

void ns_push_carries_ack(struct ns_conn *conn)
{
    struct ns_ack_state before = ns_conn_ack(conn), state = before;
    bool timed = ns_ack_is_pending(state) && ns_delack_is_ours(conn);
    unsigned age = timed ? ns_ack_age(state, ns_push_time(false)) : 0;
    ns_ack_wrote(&state, age >= NS_ACK_LIMITED && age < NS_ACK_DELAY);
    ns_learned_put(conn, before, &state);
}

/* Some compilers would align it to more, which leaves a gap. */
_Thread_local _Alignas(struct ns_thread) struct ns_thread ns_thread;
_Static_assert(sizeof(struct ns_thread) <= 576, "static TLS is scarce in processes that dlopen us");

static _Atomic uint32_t threads;
static pthread_key_t ends; /* its destructor runs in each thread that ends */
static bool sees_end;

static void end(void *unused)
{
    (void)unused;
    ns_flush_pending();
    ns_thread.id = 0; /* if a later destructor uses TCP, this one runs again */
}

void ns_thread_start(void)
{
    enum { KEPT_IN_THREAD = 32 }; /* glibc allocates memory for the values of further keys */
    /* Not NS_REAL: before 2.34 glibc has it in libpthread, which a program may lack. */
    sees_end = ns_real.pthread_key_create && ns_real.pthread_key_create(&ends, end) == 0 &&
               ends < KEPT_IN_THREAD;
}

void ns_thread_begin(void)
{
    ns_thread.id = atomic_fetch_add(&threads, 1) + 1;
    /* Far from those of other threads, and a multiple of NS_BURST_SAMPLE: samples are taken as if
     * all threads began at 0. */
    ns_thread.waits += ns_thread.id * 41475559u * NS_BURST_SAMPLE;
    if (sees_end)
        NS_REAL(pthread_setspecific)(ends, &ns_thread);
}

void ns_pending_set(int fd)
{
    do { /* again, if a signal handler has sent the set in between */
        atomic_fetch_or(&ns_thread.groups, ns_pending_bit((unsigned)fd / NS_PENDING_BITS));
        atomic_fetch_or(&ns_thread.ns_pending_word(fd), ns_pending_bit((unsigned)fd));
        atomic_fetch_or(&ns_thread.words, ns_pending_bit((unsigned)fd / NS_PENDING_WORD));
    } while (!ns_pending_has(fd));
}

/* A word is empty. */
static void unset_word(unsigned at)
{
    atomic_fetch_and(&ns_thread.words, ~ns_pending_bit(at));
    if (NS_GET(&ns_thread, bits[at])) { /* a signal handler has added something */
        atomic_fetch_or(&ns_thread.words, ns_pending_bit(at));
    } else if (!NS_GET(&ns_thread, words)) {
        NS_PUT(&ns_thread, groups, 0);
        if (NS_GET(&ns_thread, words))
            NS_PUT(&ns_thread, groups, ~0ul);
    }
}

/* What is done for a connection of the set. */
enum task { LOOK, PUSH, PUSH_FIRST, SEND_OLD, SEND };
/* What is left there. */
enum { LEFT = 1, BESIDE = 2 };

static inline unsigned visit(int fd, struct ns_conn *conn, enum task task,
                             const struct ns_conn *but)
{
    struct ns_burst burst = ns_conn_burst(conn);
    bool old = task == SEND_OLD;
    if (old ? ns_burst_waits(&burst, (uint8_t)ns_thread.waits) >= NS_PENDING_WAITS
            : task != LOOK && (task != PUSH_FIRST || !burst.crossing))
        ns_push_own(fd, conn);
    if (task == SEND ||
        (old && ns_ack_waits(ns_conn_ack(conn), ns_thread.waits) >= NS_PENDING_WAITS))
        ns_acknowledge(fd, conn);
    return !ns_pending_is(conn) ? 0 : conn == but ? LEFT : LEFT | BESIDE;
}

static unsigned lowest(unsigned long word)
{
    return (unsigned)__builtin_ctzl(word);
}

/* Visits the connections of a bit. */
static unsigned visit_bit(unsigned bit, enum task task, const struct ns_conn *but)
{
    unsigned left = 0, used = atomic_load_explicit(&ns_fd_used, memory_order_relaxed);
    for (unsigned long groups = NS_GET(&ns_thread, groups); groups; groups &= groups - 1)
        for (unsigned fd = lowest(groups) * NS_PENDING_BITS + bit; fd < used;
             fd += NS_PENDING_BITS * NS_PENDING_WORD) {
            struct ns_conn *conn = ns_fd_conn((int)fd);
            if (conn)
                left |= visit((int)fd, conn, task, but);
        }
    return left;
}

/* Visits all connections of the set, and removes descriptors with nothing left. Is something left
 * on another connection than but? LOOK ends when that is known. */
static bool visit_all(enum task task, const struct ns_conn *but)
{
    unsigned left = 0;
    int saved = errno;
    for (unsigned long words = NS_GET(&ns_thread, words); words; words &= words - 1) {
        unsigned at = lowest(words);
        for (unsigned long set = NS_GET(&ns_thread, bits[at]); set; set &= set - 1) {
            unsigned bit = at * NS_PENDING_WORD + lowest(set), here = visit_bit(bit, task, but);
            if (!here) {
                atomic_fetch_and(&ns_thread.bits[at], ~ns_pending_bit(bit));
                here = visit_bit(bit, LOOK, but); /* of a signal handler, before that */
                if (here)
                    atomic_fetch_or(&ns_thread.bits[at], ns_pending_bit(bit));
            }
            left |= here;
            if (task == LOOK && left & BESIDE)
                return true;
        }
        if (!NS_GET(&ns_thread, bits[at]))
            unset_word(at);
    }
    errno = saved;
    return left & BESIDE;
}

bool ns_pending_beside(const struct ns_conn *conn)
{
    return visit_all(LOOK, conn);
}

bool ns_pending_before_wait(void)
{
    return visit_all(PUSH_FIRST, NULL);
}

void ns_flush_pending(void)
{
    ns_thread.corked = false;
    while (NS_GET(&ns_thread, words)) /* a signal handler may add something */
        visit_all(SEND, NULL);
}

void ns_flush_pushes(void)
{
    visit_all(PUSH, NULL);
}

void ns_flush_old(void)
{
    visit_all(SEND_OLD, NULL);
}

/* Is fd ready for events, or a file, so that a call does not wait? */
static bool is_ready(int fd, short events)
{
    bool file = !ns_fd_conn(fd) && ns_kernel_is_file(fd);
    if (!ns_has_other_fds())
        ns_fd_fill(fd, file ? NS_FD_FILE : NS_FD_UNKNOWN);
    if (file)
        return true;
    struct pollfd one = {.fd = fd, .events = events};
    struct timespec none = {0, 0};
    int saved = errno;
    /* By number: ppoll() is a cancellation point, and some callers (sendfile) are not. */
    if (events)
        NS_REAL(syscall)(SYS_ppoll, &one, 1l, &none, NULL, 0l);
    errno = saved;
    return one.revents & ~POLLERR; /* which MSG_ZEROCOPY sets, and then a read waits */
}

void ns_flush_unless_ready(int fd, const struct ns_conn *conn, short events)
{
    bool reads = events == POLLIN;
    uint8_t *ready = &ns_thread.ready[reads];
    if (!ns_pending_any() || ns_pending_skips(fd, reads) || !ns_pending_beside(conn))
        return;
    if (is_ready(fd, events)) {
        *ready = *ready < NS_PENDING_READY ? *ready + 1 : NS_PENDING_READY;
    } else {
        *ready = 0;
        ns_flush_pending();
    }
}

static void push_any(int fd, struct ns_conn *conn, void *context)
{
    (void)context;
    ns_push(fd, conn);
}

void ns_flush_process(void)
{
    int saved = errno;
    if (atomic_load(&ns_push_any) && atomic_exchange(&ns_push_any, false))
        ns_fd_each(push_any, NULL);
    errno = saved;
}
