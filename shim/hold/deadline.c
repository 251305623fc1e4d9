/* SPDX-License-Identifier: MIT */
/* See deadline.h. Owns the set of descriptors that may hold bytes, and the thread's state. Must
 * never run where no rule holds bytes, never keep the process awake while none are held, and never
 * be believed in by a child: its state lies in memory that fork clears. */
#include "hold/deadline.h"

#include "hold/bare.h"
#include "base/real.h"
#include "conn/process.h"

#include <errno.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum state {
    NONE = 0, /* what fork leaves */
    STARTING,
    TICKING,
    PARKED,
    STOPPING,
};

enum {
    NS_PER_US = 1000,
    NS_PER_S = 1000000000,
    WORD_BITS = 64,
    WORDS = NS_FD_CHUNK * NS_FD_CHUNKS / WORD_BITS,
    STACK_SIZE = 32 * 1024,
    FRAME = 64, /* what the thread starts on is still the stack's: valgrind wants it so */
    /* Parked for so long it ends: a process whose other threads have all ended without a word (by
     * the system call alone) then ends, too. */
    IDLE_NS = 20 * 1000 * 1000,
};

/* One bit a descriptor. Set by whoever holds bytes, cleared by the deadline thread when it looks:
 * so a bit that is set since the last look also says that the process is not quiet. */
static _Atomic uint64_t watched[WORDS];
static _Atomic unsigned words_used; /* no bit is set at or beyond this word */

static struct shared {
    _Atomic uint32_t state; /* a futex word; enum state */
    _Atomic uint32_t tid;   /* the kernel clears it, and wakes its futex, once the thread is gone */
    _Atomic pid_t owner;    /* the process; 0: a child that has yet to say so */
} * shared;
static char *stack;
static uint64_t tick_ns;
static struct ns_deadline_pushes push;
static _Atomic bool failed; /* no thread could be made: hold nothing */

/* The kernel's clock, also where a preloaded library makes up another. */
uint64_t ns_deadline_now(void)
{
    struct timespec now = {0, 0};
    ns_bare_clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

void ns_deadline_open(uint32_t most_us, struct ns_deadline_pushes pushes)
{
    const int protection = PROT_READ | PROT_WRITE, kind = MAP_PRIVATE | MAP_ANONYMOUS;
    tick_ns = (uint64_t)most_us * NS_PER_US;
    push = pushes;
    void *page = mmap(NULL, sizeof(struct shared), protection, kind, -1, 0);
    void *memory = mmap(NULL, STACK_SIZE, protection, kind | MAP_STACK | MAP_NORESERVE, -1, 0);
    /* Linux 4.14. Without it a child could not tell that the thread is gone, since _Fork and clone
     * run no handler: then nothing is held. */
    if (page == MAP_FAILED || memory == MAP_FAILED ||
        madvise(page, sizeof(struct shared), MADV_WIPEONFORK) != 0) {
        atomic_store(&failed, true);
        return;
    }
    stack = memory;
    shared = page;
    ns_deadline_forked();
}

bool ns_deadline_ready(void)
{
    return shared && !atomic_load_explicit(&failed, memory_order_relaxed);
}

/* --- the thread. It has no thread-local memory of its own, and so must not touch errno or call the
 * C library: bare system calls only, also in the push that it is given --- */

/* What the thread saw when it looked. */
struct sight {
    bool any, late; /* bytes were held since the last look; some were due */
    uint64_t next;  /* the earliest deadline of those that are not */
};

/* Overdue somebody else is pushing right now, unless a signal handler has jumped out of that: so
 * only what is so at two looks in a row. */
struct suspects {
    int count, fds[8];
};

static bool is_abandoned(const struct suspects *before, struct suspects *now, int fd)
{
    bool was = false;
    for (int i = 0; i < before->count; i++)
        was |= before->fds[i] == fd;
    if (!was && now->count < (int)(sizeof now->fds / sizeof *now->fds))
        now->fds[now->count++] = fd;
    return was;
}

/* Mark what is due as overdue, and not as gone, until it is; then push it. */
static bool push_if_due(int fd, struct ns_conn *conn, uint64_t now, uint64_t *until,
                        const struct suspects *before, struct suspects *suspects)
{
    do {
        *until = atomic_load(&conn->held_until);
        if (!*until || *until > now)
            return false;
        if (*until == NS_HELD_OVERDUE && !is_abandoned(before, suspects, fd))
            return false;
    } while (*until > NS_HELD_OVERDUE &&
             !atomic_compare_exchange_strong(&conn->held_until, until, NS_HELD_OVERDUE));
    push.overdue(fd, conn);
    return true;
}

/* When to look again at what is overdue: a push that goes on for so long has been jumped out of. */
static uint64_t until_abandoned(void)
{
    enum { MOST_NS = 50000000 };
    return tick_ns < MOST_NS ? tick_ns : MOST_NS;
}

/* Push what is due at the time now, and keep a bit for what is not. */
static struct sight look(uint64_t now, struct suspects *suspects)
{
    struct sight sight = {.next = UINT64_MAX};
    struct suspects before = *suspects;
    suspects->count = 0;
    unsigned used = atomic_load(&words_used);
    for (unsigned word = 0; word < used; word++) {
        if (!atomic_load(&watched[word]))
            continue;
        /* Cleared first and read after, both sequentially consistent: whoever marks a connection
         * after we have read it finds the bit gone, and sets it again. */
        uint64_t bits = atomic_exchange(&watched[word], 0);
        sight.any = true;
        for (; bits; bits &= bits - 1) {
            int fd = (int)(word * WORD_BITS) + __builtin_ctzll(bits);
            struct ns_conn *conn = ns_fd_conn(fd);
            uint64_t until = 0;
            if (!conn)
                continue;
            if (push_if_due(fd, conn, now, &until, &before, suspects)) {
                sight.late |= until > NS_HELD_OVERDUE;
            } else if (until) {
                atomic_fetch_or(&watched[word], bits & -bits);
                if (until == NS_HELD_OVERDUE)
                    until = now + until_abandoned();
                if (until < sight.next)
                    sight.next = until;
            }
        }
    }
    return sight;
}

static void futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t limit_ns)
{
    struct timespec time = {(time_t)(limit_ns / NS_PER_S), (long)(limit_ns % NS_PER_S)};
    ns_bare_futex(word, FUTEX_WAIT, expected, limit_ns ? &time : NULL);
}

static void futex_wake(_Atomic uint32_t *word)
{
    ns_bare_futex(word, FUTEX_WAKE, INT32_MAX, NULL);
}

/* Sleep until somebody holds a byte again. Returns false when that has taken too long, or the
 * thread is to stop: then it ends. */
static bool park(void)
{
    uint32_t expected = TICKING;
    if (!atomic_compare_exchange_strong(&shared->state, &expected, PARKED))
        return expected != STOPPING;
    /* Bits that were set before the state changed woke nobody. */
    unsigned used = atomic_load(&words_used);
    bool awake = false;
    for (unsigned word = 0; word < used; word++)
        awake |= atomic_load(&watched[word]) != 0;
    if (!awake)
        futex_wait(&shared->state, PARKED, IDLE_NS);
    expected = PARKED;
    /* Whoever holds a byte from now on starts another one. */
    if (atomic_compare_exchange_strong(&shared->state, &expected, awake ? TICKING : NONE))
        return awake;
    return expected != STOPPING;
}

/* So many looks in a row at held bytes of which none found any late. */
enum { PUNCTUAL = 8, PROVEN = 24 };

/* Of the deadline thread. */
struct pace {
    unsigned punctual;   /* looks, at most PROVEN */
    unsigned long slack; /* how much later than asked it may wake up; 0: not known */
};

/* The default of 50 us is a quarter of the default deadline. */
static void set_slack(struct pace *pace, unsigned long slack)
{
    if (pace->slack == slack)
        return;
    pace->slack = slack;
    ns_bare_prctl(PR_SET_TIMERSLACK, slack);
}

/* When to look again, in nanoseconds from now. A look costs the process its processor for a moment,
 * 12 % of a busy conversation at one per 200 us, and 3 % at one a millisecond, most of that for the
 * interrupt of a timer. So unless one of the last PUNCTUAL looks found a burst late, that no wait
 * had ended, they come up to five times as rarely; and unless one of the last PROVEN did, with an
 * interrupt that comes anyway, as the kernel's own tick. The first burst that is late may then be
 * held for a millisecond, or for five. */
static uint64_t until_next_look(uint64_t now, const struct sight *sight, struct pace *pace)
{
    enum { RARELY = 5, RARELY_NS = 1000000, SLACK_NS = 4000000 };
    if (sight->late)
        pace->punctual = 0;
    else if (pace->punctual < PROVEN)
        pace->punctual++;
    bool rarely = pace->punctual >= PUNCTUAL && tick_ns < RARELY_NS;
    set_slack(pace, rarely && pace->punctual == PROVEN ? SLACK_NS : 1);
    if (rarely)
        return RARELY * tick_ns < RARELY_NS ? RARELY * tick_ns : RARELY_NS;
    /* What begins from now on is not due before a tick has passed. */
    uint64_t next = sight->next < now + tick_ns ? sight->next : now + tick_ns;
    return next > now ? next - now : 1;
}

/* Called by ns_bare_thread on the new stack; its end is the thread's. */
static void deadline_thread(void)
{
    struct pace pace = {.punctual = PUNCTUAL};
    struct suspects suspects = {.count = 0};
    ns_bare_prctl(PR_SET_NAME, (unsigned long)"nagleshim");
    while (atomic_load(&shared->state) == STARTING)
        futex_wait(&shared->state, STARTING, 0);
    for (;;) {
        if (atomic_load(&shared->state) == STOPPING)
            return;
        uint64_t now = ns_deadline_now();
        struct sight sight = look(now, &suspects);
        if (sight.any) {
            futex_wait(&shared->state, TICKING, until_next_look(now, &sight, &pace));
            continue;
        }
        set_slack(&pace, 1);
        if (!park())
            return;
    }
}

/* --- everybody else --- */

/* Is this process the one that the state speaks of? A child of vfork, or of clone() with its
 * parent's memory, would have the thread for itself, and its parent would believe in it. */
static bool is_owner(void)
{
    pid_t none = 0, self = (pid_t)ns_bare_getpid();
    return atomic_compare_exchange_strong(&shared->owner, &none, self) || none == self;
}

/* A signal handler must not jump out of what changes the state. */
static uint64_t signals_block(void)
{
    uint64_t all = UINT64_MAX, before = 0;
    ns_bare_sigprocmask(SIG_SETMASK, &all, &before);
    return before;
}

static void signals_restore(uint64_t before)
{
    ns_bare_sigprocmask(SIG_SETMASK, &before, NULL);
}

/* The kernel wakes one of those who wait for this. */
static void wait_until_gone(void)
{
    enum { MOMENT_NS = 1000000 };
    uint32_t last;
    while ((last = atomic_load(&shared->tid)) != 0)
        futex_wait(&shared->tid, last, MOMENT_NS);
}

/* The thread is made with every signal blocked: they are the application's. */
static bool start(void)
{
    const unsigned long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                                CLONE_SYSVSEM | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
    uint32_t state = NONE;
    long created = 0;
    if (!is_owner())
        return false;
    uint64_t signals = signals_block();
    if (atomic_compare_exchange_strong(&shared->state, &state, STARTING)) {
        wait_until_gone(); /* the last one may still stand on the stack */
        created = ns_bare_thread(flags, stack + STACK_SIZE - FRAME, &shared->tid, deadline_thread);
        if (created < 0)
            atomic_store(&failed, true);
        atomic_store(&shared->state, created < 0 ? NONE : TICKING);
        futex_wake(&shared->state);
    }
    signals_restore(signals);
    if (created < 0)
        ns_deadline_push_all(); /* also what others have held meanwhile */
    return created >= 0;
}

/* Make sure that somebody will look. */
static bool rouse(void)
{
    for (;;) {
        uint32_t state = atomic_load(&shared->state);
        switch ((enum state)state) {
        case TICKING:
        case STARTING: /* by another thread, which has seen nothing of the bit, but will look */
            return true;
        case PARKED:
            if (!is_owner())
                return false; /* our parent's, which is not ours to wake */
            if (!atomic_compare_exchange_strong(&shared->state, &state, TICKING))
                break;
            futex_wake(&shared->state);
            return true;
        case STOPPING:
            return false;
        case NONE:
            if (!start())
                return false;
            break;
        }
    }
}

bool ns_deadline_watch(int fd)
{
    unsigned word = (unsigned)fd / WORD_BITS;
    unsigned used = atomic_load_explicit(&words_used, memory_order_relaxed);
    uint64_t bit = UINT64_C(1) << (unsigned)fd % WORD_BITS;
    while (used <= word && !atomic_compare_exchange_strong(&words_used, &used, word + 1))
        ;
    /* The connection's mark was stored sequentially consistent, so this load comes after it. */
    if (!(atomic_load(&watched[word]) & bit))
        atomic_fetch_or(&watched[word], bit);
    return atomic_load(&shared->state) == TICKING || rouse();
}

void ns_deadline_push_all(void)
{
    unsigned used = atomic_load(&words_used);
    for (unsigned word = 0; word < used; word++)
        for (uint64_t bits = atomic_load(&watched[word]); bits; bits &= bits - 1) {
            int fd = (int)(word * WORD_BITS) + __builtin_ctzll(bits);
            struct ns_conn *conn = ns_fd_conn(fd);
            if (conn)
                push.now(fd, conn);
        }
}

void ns_deadline_forked(void)
{
    if (shared && !ns_process_is_aside())
        atomic_store(&shared->owner, (pid_t)ns_bare_getpid());
}

void ns_deadline_stop(void)
{
    if (!shared || atomic_load_explicit(&shared->state, memory_order_relaxed) == NONE ||
        !is_owner())
        return;
    uint64_t signals = signals_block();
    for (;;) {
        uint32_t state = atomic_load(&shared->state);
        if (state == NONE)
            break;
        if (state == STARTING || state == STOPPING) { /* another thread is about it */
            futex_wait(&shared->state, state, 0);
            continue;
        }
        if (!atomic_compare_exchange_strong(&shared->state, &state, STOPPING))
            continue;
        futex_wake(&shared->state);
        wait_until_gone();
        atomic_store(&shared->state, NONE);
        futex_wake(&shared->state);
        break;
    }
    wait_until_gone();
    signals_restore(signals);
    int saved = errno;
    ns_deadline_push_all(); /* what was held while it ended */
    errno = saved;
}
