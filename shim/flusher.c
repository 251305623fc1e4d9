/* SPDX-License-Identifier: MIT */
/* The deadline thread. Owns the set of descriptors that may hold bytes, and the thread's state.
 * Must never run where no rule holds bytes, never keep the process awake while none are held, and
 * never be believed in by a child: its state lies in memory that fork clears. */
#include "flusher.h"

#include "engine.h"
#include "fdtable.h"
#include "handler.h"
#include "real.h"
#include "settle.h"

#include <linux/futex.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

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
    /* The program's static TLS is taken from it, and so is a signal frame of libc's own. */
    STACK_SIZE = 256 * 1024,
    REFUSALS_MOST = 1000,
};

/* One bit a descriptor. Set by whoever holds bytes, cleared by the deadline thread when it looks:
 * so a bit that is set since the last look also says that the process is not quiet. */
static _Atomic uint64_t watched[WORDS];
/* The same for descriptors whose buffer in user memory has a rest that the kernel does not take:
 * tried again at the time in their slot, which keeps nobody awake between. */
static _Atomic uint64_t stuck[WORDS];
static _Atomic unsigned words_used; /* no bit of either is set at or beyond this word */

static struct shared {
    _Atomic uint32_t state; /* a futex word; enum state */
    _Atomic bool may_start; /* false after _Fork and clone */
} * shared;
static uint64_t tick_ns;
/* Looked up with pthread_create, since libpthread may have come after us. */
static int (*join_thread)(pthread_t, void **);
static pthread_t thread;   /* valid while the state is not NONE */
static _Atomic bool stays; /* it was started before anybody wanted it */
static _Atomic unsigned refusals;
static _Atomic bool wanted; /* somebody would hold bytes if there were a thread */
static _Atomic bool failed; /* no thread could be started: hold nothing */

uint64_t ns_flusher_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

void ns_flusher_open(uint32_t most_us)
{
    static struct shared fallback;
    tick_ns = (uint64_t)most_us * NS_PER_US;
    void *page = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* Linux 4.14. Without it a child could not tell that the thread is gone, since _Fork and clone
     * run no handler: then nothing is held. */
    if (page == MAP_FAILED || madvise(page, sizeof(struct shared), MADV_WIPEONFORK) != 0) {
        atomic_store(&failed, true);
        page = &fallback;
    }
    shared = page;
    atomic_store(&shared->may_start, true);
}

bool ns_flusher_running(void)
{
    return shared && atomic_load(&shared->state) != NONE;
}

bool ns_flusher_ready(void)
{
    uint32_t state = atomic_load_explicit(&shared->state, memory_order_relaxed);
    return (state == TICKING || state == PARKED) &&
           !atomic_load_explicit(&failed, memory_order_relaxed);
}

/* What the deadline thread saw when it looked. */
struct sight {
    bool any, late; /* bytes were held since the last look; some were due */
    uint64_t next;  /* the earliest deadline of those that are not */
    uint64_t retry; /* and of those that are stuck */
};

static uint64_t bit_of(int fd)
{
    return UINT64_C(1) << (unsigned)fd % WORD_BITS;
}

static void set_bit(_Atomic uint64_t *words, int fd)
{
    atomic_fetch_or(&words[(unsigned)fd / WORD_BITS], bit_of(fd));
}

static bool has_bit(const _Atomic uint64_t *words, int fd)
{
    return atomic_load(&words[(unsigned)fd / WORD_BITS]) & bit_of(fd);
}

static void push_if_due(int fd, uint64_t now, struct sight *sight)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    uint64_t until = slot ? atomic_load(&slot->held_until) : 0;
    if (!until)
        return;
    if (NS_MUTANT(push_at_deadline) && now != UINT64_MAX)
        return;
    if (until <= now) {
        /* Of a stream something is held at any time. */
        bool stream = ns_tempo_of(slot).burst >= NS_TEMPO_STREAM;
        ns_engine_push_late(fd, slot);
        sight->late |= until > NS_HELD_OVERDUE && !stream;
        return;
    }
    if (has_bit(stuck, fd)) /* which look sees to first */
        return;
    set_bit(watched, fd);
    if (until < sight->next)
        sight->next = until;
}

static void retry_if_due(int fd, uint64_t now, struct sight *sight)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    uint64_t until = slot ? atomic_load(&slot->held_until) : 0;
    if (until && until <= now) {
        ns_engine_push_late(fd, slot); /* sets the bit again, if that was not all */
        until = atomic_load(&slot->held_until);
    } else if (until) {
        set_bit(stuck, fd);
    }
    if (until && until < sight->retry)
        sight->retry = until;
}

/* The descriptor of the lowest bit. */
static int number_of(unsigned word, uint64_t bits)
{
    return (int)(word * WORD_BITS + (unsigned)__builtin_ctzll(bits));
}

/* Push what is due. */
static struct sight look(uint64_t now)
{
    struct sight sight = {.next = UINT64_MAX, .retry = UINT64_MAX};
    unsigned used = atomic_load(&words_used);
    for (unsigned word = 0; word < used; word++) {
        if (atomic_load_explicit(&stuck[word], memory_order_relaxed))
            for (uint64_t bits = atomic_exchange(&stuck[word], 0); bits; bits &= bits - 1)
                retry_if_due(number_of(word, bits), now, &sight);
        if (!atomic_load_explicit(&watched[word], memory_order_relaxed))
            continue;
        /* Cleared first and read after, both sequentially consistent: whoever marks a slot after we
         * have read it finds the bit gone, and sets it again. */
        uint64_t bits = atomic_exchange(&watched[word], 0);
        sight.any = true;
        for (; bits; bits &= bits - 1)
            push_if_due(number_of(word, bits), now, &sight);
    }
    return sight;
}

/* A relative time: a preloaded library may make up the clock that we read, but not the kernel's. */
static void futex_wait(uint32_t expected, const struct timespec *time)
{
    ns_real.syscall(SYS_futex, &shared->state, FUTEX_WAIT_PRIVATE, expected, time, NULL, 0);
}

static void futex_wake(void)
{
    ns_real.syscall(SYS_futex, &shared->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* From now on: a look at many sockets takes time. */
static struct timespec time_until(uint64_t then)
{
    uint64_t now = ns_flusher_now(), left = then > now ? then - now : 0;
    return (struct timespec){.tv_sec = (time_t)(left / NS_PER_S),
                             .tv_nsec = (long)(left % NS_PER_S)};
}

/* Sleep until somebody holds a byte again, or until retry. */
static void park(uint64_t retry)
{
    uint32_t expected = TICKING;
    if (!atomic_compare_exchange_strong(&shared->state, &expected, PARKED))
        return;
    /* Bits that were set before the state changed woke nobody. That a rest is stuck the last look
     * may have missed, while another thread's (ns_flusher_push_all) had taken its bit. */
    unsigned used = atomic_load(&words_used);
    for (unsigned word = 0; word < used; word++)
        if (atomic_load(&watched[word]) || (retry == UINT64_MAX && atomic_load(&stuck[word]))) {
            expected = PARKED;
            atomic_compare_exchange_strong(&shared->state, &expected, TICKING);
            return;
        }
    while (atomic_load(&shared->state) == PARKED) {
        struct timespec left = time_until(retry);
        futex_wait(PARKED, retry == UINT64_MAX ? NULL : &left);
        expected = PARKED;
        if (ns_flusher_now() >= retry &&
            atomic_compare_exchange_strong(&shared->state, &expected, TICKING))
            return;
    }
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
    ns_real.prctl(PR_SET_TIMERSLACK, slack, 0ul, 0ul, 0ul);
}

/* When to look again. A look costs the process its processor for a moment, 12 % of a busy
 * conversation at one per 200 us, and 3 % at one a millisecond, most of that for the interrupt of a
 * timer. So unless one of the last PUNCTUAL looks found a burst late, that no wait had ended, they
 * come up to five times as rarely; and unless one of the last PROVEN did, with an interrupt that
 * comes anyway, as the kernel's own tick. The first burst that is late may then be held for a
 * millisecond, or for five. */
static uint64_t next_look(uint64_t now, const struct sight *sight, struct pace *pace)
{
    enum { RARELY = 5, RARELY_NS = 1000000, SLACK_NS = 4000000 };
    if (sight->late)
        pace->punctual = 0;
    else if (sight->any && pace->punctual < PROVEN)
        pace->punctual++;
    uint64_t exactly = now + tick_ns; /* what begins from now on is not due before that */
    bool rarely = pace->punctual >= PUNCTUAL && tick_ns < RARELY_NS;
    bool proven = rarely && pace->punctual == PROVEN && sight->retry == UINT64_MAX;
    set_slack(pace, proven && !NS_MUTANT(thread_slack) ? SLACK_NS : 1);
    if (!rarely)
        return sight->next < exactly ? sight->next : exactly;
    return now + (RARELY * tick_ns < RARELY_NS ? RARELY * tick_ns : RARELY_NS);
}

static void *deadline_thread(void *unused)
{
    (void)unused;
    ns_real.prctl(PR_SET_NAME, "nagleshim", 0ul, 0ul, 0ul);
    struct pace pace = {.punctual = PUNCTUAL};
    /* Until it is started altogether: looking all the time, it would keep whoever starts it from
     * its processor for a time slice. */
    while (atomic_load(&shared->state) == STARTING)
        futex_wait(STARTING, NULL);
    for (;;) {
        uint32_t state = atomic_load(&shared->state);
        if (state == STOPPING)
            return NULL;
        uint64_t now = ns_flusher_now();
        struct sight sight = look(now);
        if (!sight.any && !NS_MUTANT(thread_parks)) {
            set_slack(&pace, 1);
            park(sight.retry);
            continue;
        }
        uint64_t next = next_look(now, &sight, &pace);
        struct timespec left = time_until(next < sight.retry ? next : sight.retry);
        futex_wait(TICKING, &left);
    }
}

/* libpthread's functions, looked up when needed: an old libc has them in a library of its own. */
static bool create_thread(void)
{
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = NULL;
    int (*set_size)(pthread_attr_t *, size_t) = NULL;
    int (*mask)(int, const sigset_t *, sigset_t *) = NULL;
    int (*init)(pthread_attr_t *) = NULL;
    *(void **)&create = ns_real_optional("pthread_create");
    *(void **)&init = ns_real_optional("pthread_attr_init");
    *(void **)&set_size = ns_real_optional("pthread_attr_setstacksize");
    *(void **)&mask = ns_real_optional("pthread_sigmask");
    if (!create || !init || !set_size || !mask)
        return false;
    pthread_attr_t attributes;
    sigset_t all, before;
    init(&attributes);
    set_size(&attributes, STACK_SIZE);
    sigfillset(&all); /* every signal is the application's */
    if (NS_MUTANT(thread_signals))
        sigemptyset(&all);
    mask(SIG_SETMASK, &all, &before);
    int error = create(&thread, &attributes, deadline_thread, NULL);
    /* The program's static TLS alone is larger than that. */
    if (error == EINVAL && !NS_MUTANT(thread_stack)) {
        init(&attributes);
        error = create(&thread, &attributes, deadline_thread, NULL);
    }
    mask(SIG_SETMASK, &before, NULL);
    return error == 0;
}

static void start(void)
{
    uint32_t expected = NONE;
    if (!atomic_load(&shared->may_start) || atomic_load(&failed) ||
        !atomic_compare_exchange_strong(&shared->state, &expected, STARTING))
        return;
    int saved = errno;
    bool created = create_thread();
    errno = saved;
    if (created) {
        *(void **)&join_thread = ns_real_optional("pthread_join");
        expected = STARTING;
        atomic_compare_exchange_strong(&shared->state, &expected, TICKING);
        futex_wake();
    } else {
        atomic_store(&failed, true);
        atomic_store(&shared->state, NONE);
    }
}

void ns_flusher_prepare(void)
{
    if (__builtin_expect(
            shared && atomic_load_explicit(&shared->state, memory_order_relaxed) == NONE, 0)) {
        atomic_store_explicit(&stays, true, memory_order_relaxed);
        start();
    }
}

static bool any_stuck(void)
{
    unsigned used = atomic_load(&words_used);
    for (unsigned word = 0; word < used; word++)
        if (atomic_load(&stuck[word]))
            return true;
    return false;
}

bool ns_flusher_before_fork(void)
{
    uint32_t state = shared ? atomic_load(&shared->state) : NONE;
    /* Not while it starts: that may be what we interrupt. Nor while it tries again to send what the
     * kernel had no room for: nobody else would. */
    if ((state == TICKING || state == PARKED) && !any_stuck() &&
        !atomic_load_explicit(&stays, memory_order_relaxed) && !NS_MUTANT(stop_before_fork))
        ns_flusher_stop(true);
    return ns_flusher_running();
}

bool ns_flusher_want(void)
{
    if (!shared || atomic_load(&shared->state) != NONE || atomic_load(&failed) ||
        !atomic_load(&shared->may_start))
        return false;
    if (NS_MUTANT(thread_wanted))
        return false;
    atomic_store_explicit(&wanted, true, memory_order_relaxed);
    return true;
}

void ns_flusher_start_if_wanted(void)
{
    if (__builtin_expect(atomic_load_explicit(&wanted, memory_order_relaxed), 0) &&
        !NS_MUTANT(thread_started)) {
        atomic_store_explicit(&wanted, false, memory_order_relaxed);
        /* The stack may also look so by chance: not for ever. */
        if (!ns_may_be_in_handler())
            start();
        else if (atomic_fetch_add(&refusals, 1) >= REFUSALS_MOST)
            atomic_store(&failed, true);
    }
}

void ns_flusher_resume(void)
{
    if (any_stuck() && ns_flusher_want() && !NS_MUTANT(gather_resume))
        ns_flusher_start_if_wanted();
}

void ns_flusher_forked(bool had_one)
{
    if (!shared)
        return;
    atomic_store(&shared->may_start, true);
    if (had_one && !NS_MUTANT(restart_after_fork))
        start();
}

static bool wake(void)
{
    uint32_t state = atomic_load(&shared->state);
    if (state == PARKED && atomic_compare_exchange_strong(&shared->state, &state, TICKING)) {
        int saved = errno;
        futex_wake();
        errno = saved;
        return true;
    }
    return state == PARKED || state == TICKING;
}

static void use_word(unsigned word)
{
    unsigned used = atomic_load_explicit(&words_used, memory_order_relaxed);
    while (used <= word && !atomic_compare_exchange_weak(&words_used, &used, word + 1))
        ;
}

void ns_flusher_stuck(int fd)
{
    use_word((unsigned)fd / WORD_BITS);
    set_bit(stuck, fd);
    wake(); /* it may be parked without a time */
}

bool ns_flusher_watch(int fd)
{
    unsigned word = (unsigned)fd / WORD_BITS;
    uint64_t bit = UINT64_C(1) << (unsigned)fd % WORD_BITS;
    use_word(word);
    /* The slot's mark was stored sequentially consistent, so this load comes after it. */
    if (!(atomic_load(&watched[word]) & bit))
        atomic_fetch_or(&watched[word], bit);
    if (__builtin_expect(atomic_load(&shared->state) == TICKING, 1))
        return true;
    return wake();
}

void ns_flusher_push_all(void)
{
    int saved = errno;
    look(UINT64_MAX);
    errno = saved;
}

/* pthread_join is a cancellation point; the calls that stop the thread are not. */
static void join(void)
{
    int (*set_state)(int, int *) = NULL;
    int before = PTHREAD_CANCEL_ENABLE;
    *(void **)&set_state = ns_real_optional("pthread_setcancelstate");
    if (set_state)
        set_state(PTHREAD_CANCEL_DISABLE, &before);
    if (join_thread && !NS_MUTANT(thread_joined))
        join_thread(thread, NULL);
    if (set_state)
        set_state(before, NULL);
}

/* Only one stops it: the state says who. */
static bool stop_thread(void)
{
    for (;;) {
        uint32_t state = atomic_load(&shared->state);
        if (state == NONE || state == STOPPING)
            return false;
        if (state != STARTING && atomic_compare_exchange_strong(&shared->state, &state, STOPPING))
            break;
    }
    futex_wake();
    join();
    return true;
}

void ns_flusher_stop(bool again)
{
    if (!shared)
        return;
    int saved = errno;
    if (!again)
        atomic_store(&failed, true);
    if (!NS_MUTANT(push_at_stop))
        ns_flusher_push_all();
    if (stop_thread()) {
        if (!NS_MUTANT(push_at_stop))
            ns_flusher_push_all(); /* what was held before the state changed */
        atomic_store(&shared->state, NONE);
    }
    errno = saved;
}
