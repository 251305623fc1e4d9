/* SPDX-License-Identifier: MIT */
/* The set of pending work of a thread. A signal handler interrupts each function of the set after
 * each of its instructions, changes the set itself, and returns or jumps away. Afterwards every
 * connection with pending work must be in the set; after a jump, its next write or read must put it
 * there. */
#include "socket/socket.h"
#include "traffic/pending.h"

#include "unit.h"

#if defined(__x86_64__) || defined(__i386__)

/* A sanitizer multiplies the instructions, and a fork takes longer. */
#ifdef __SANITIZE_ADDRESS__
enum { STRIDE = 101 };
#else
enum { STRIDE = 1 };
#endif
enum { CONNECTIONS = 4, TRAP_FLAG = 0x100 };
static int fds[CONNECTIONS];
static struct ns_conn *conns[CONNECTIONS];

static void open_connections(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, len) || listen(listener, CONNECTIONS) ||
        getsockname(listener, (struct sockaddr *)&address, &len))
        perror("listen");
    ns_fd_open(4 * NS_PENDING_BITS);
    for (int i = 0; i < CONNECTIONS; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fds[i], (struct sockaddr *)&address, len))
            perror("connect");
        conns[i] = ns_fd_make(fds[i]);
        NS_PUT(conns[i], kind, NS_CONN_MANAGED);
        NS_PUT(conns[i], send, NS_SEND_ADAPTIVE);
    }
}

/* Something is pending on connection i, as after a write that the kernel holds. */
static void write_to(int i)
{
    NS_PUT(conns[i], held, 1);
    ns_pending_add(fds[i]);
}

/* Its work was done by another call. */
static void read_from(int i)
{
    NS_PUT(conns[i], held, 0);
}

/* --- what is interrupted, and what the handler does --- */

static void adds(void)
{
    write_to(1);
    write_to(2);
}

static void flushes(void)
{
    ns_flush_pending();
}

static void drops(void)
{
    read_from(0);
    read_from(1);
    ns_pending_beside(NULL);
}

static void nothing(void)
{
}

static void adds_others(void)
{
    write_to(3);
    write_to(0);
}

static void flushes_and_adds(void)
{
    ns_flush_pending();
    write_to(2);
    write_to(0);
}

/* Each is in its slot again. */
static void flushes_and_adds_again(void)
{
    ns_flush_pending();
    write_to(0);
    write_to(1);
}

static void a_whole_turn(void)
{
    write_to(0);
    write_to(1);
    ns_flush_pending();
    write_to(1);
    write_to(0);
    read_from(1);
    ns_pending_beside(NULL);
}

static void (*const interrupted[])(void) = {adds, flushes, drops};
/* Another connection gets the number of connection 0. */
static void reuses_a_number(void)
{
    ns_flush_pending();
    ns_fd_set(fds[0], NS_FD_UNKNOWN);
    conns[0] = ns_fd_make(fds[0]);
    NS_PUT(conns[0], kind, NS_CONN_MANAGED);
    NS_PUT(conns[0], send, NS_SEND_ADAPTIVE);
    write_to(0);
}

static const struct {
    void (*handler)(void);
    bool jumps;
} ways[] = {{adds_others, false},  {flushes_and_adds, false}, {flushes_and_adds_again, false},
            {a_whole_turn, false}, {reuses_a_number, false},  {nothing, true},
            {a_whole_turn, true}};

/* --- a trap after each instruction --- */

static long steps, unsound;
static void (*intrudes)(void);
static bool jumps, is_child;
static sigjmp_buf away;

/* A child is interrupted here, and checks the rest. The parent goes on as if nothing had come. */
static void trapped(int signal, siginfo_t *info, void *context)
{
    int status = -1;
    (void)signal, (void)info;
    if (++steps % STRIDE)
        return;
    pid_t pid = fork();
    is_child = pid == 0;
    if (!is_child) {
        waitpid(pid, &status, 0);
        unsound += status != 0;
        return;
    }
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    intrudes();
    if (jumps)
        siglongjmp(away, 1);
}

static inline void set_trap(bool on)
{
#ifdef __x86_64__
#define ON_FLAGS(with) __asm__ volatile("pushfq; " with ", (%%rsp); popfq" ::: "memory", "cc")
#else
#define ON_FLAGS(with) __asm__ volatile("pushf; " with ", (%%esp); popf" ::: "memory", "cc")
#endif
    if (on)
        ON_FLAGS("orl $0x100");
    else
        ON_FLAGS("andl $~0x100");
}

static void begin(void)
{
    for (int i = 0; i < CONNECTIONS; i++)
        read_from(i);
    ns_flush_pending();
    write_to(0);
    write_to(1);
}

/* Is everything that is pending found again? */
static bool is_sound(bool jumped)
{
    for (int i = 0; i < CONNECTIONS; i++)
        if (ns_pending_is(conns[i]) && !ns_pending_has(fds[i]) && !jumped)
            return false;
    for (int i = 0; i < CONNECTIONS; i++)
        write_to(i);
    ns_flush_pending();
    for (int i = 0; i < CONNECTIONS; i++)
        if (ns_pending_is(conns[i]) || ns_pending_has(fds[i]))
            return false;
    return !ns_pending_any() && !NS_GET(&ns_thread, groups);
}

/* Runs the function, with a trap after each of its instructions. The first time is without, since
 * the loader looks for the functions that it calls. */
static void step_through(void (*function)(void))
{
    begin();
    function();
    begin();
    if (!sigsetjmp(away, 1)) {
        set_trap(true);
        function();
        set_trap(false);
    }
    if (is_child)
        _exit(!is_sound(jumps));
}

CHECK(check_every_instruction)
{
#ifdef __SANITIZE_THREAD__ /* its runtime delays signals */
    open_connections();
    return;
#endif
    struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO | SA_NODEFER};
    open_connections();
    sigaction(SIGTRAP, &action, NULL);
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        intrudes = ways[way].handler;
        jumps = ways[way].jumps;
        for (size_t what = 0; what < sizeof interrupted / sizeof *interrupted; what++)
            step_through(interrupted[what]);
    }
    OK(steps > 3000, "a handler has interrupted the functions after each of %ld instructions",
       steps);
    OK(unsound == 0, "nothing is lost, and nothing stays: %ld times", unsound);
}

/* Two descriptors that have the same bit. */
CHECK(check_far_descriptors)
{
    const int bit = fds[3] % NS_PENDING_BITS,
              far[] = {bit + NS_PENDING_BITS, bit + 2 * NS_PENDING_BITS};
    ns_flush_pending();
    for (int i = 0; i < 2; i++) {
        OK(ns_conn_ref(conns[i]) && ns_fd_set(far[i], conns[i]), "descriptor %d", far[i]);
        NS_PUT(conns[i], held, 1);
    }
    ns_pending_add(far[0]);
    OK(ns_pending_has(far[0]) && !ns_pending_has(far[1]), "one of the two is in the set");
    OK(ns_pending_only(far[0]) && !ns_pending_only(bit) && !ns_pending_only(far[1]),
       "it is the only one");
    ns_flush_pushes();
    OK(!NS_GET(conns[0], held) && NS_GET(conns[1], held), "the other one's bytes are not sent");
    ns_pending_add(far[1]);
    write_to(0);
    OK(ns_pending_beside(conns[0]) && ns_pending_beside(conns[1]), "each sees the other");
    ns_flush_pending();
    OK(!NS_GET(conns[0], held) && !NS_GET(conns[1], held) && !ns_pending_any(), "all are sent");
    for (int i = 0; i < 2; i++)
        ns_fd_set(far[i], NS_FD_UNKNOWN);
}

CHECK(check_polls)
{
    write_to(0);
    write_to(1);
    read_from(0);
    read_from(1);
    ns_flush_old();
    OK(!ns_pending_any(), "a poll drops what is done, so that the next one finds nothing");
    write_to(2);
    ns_thread.waits += NS_PENDING_WAITS;
    ns_flush_old();
    OK(!NS_GET(conns[2], held) && !ns_pending_any(), "what has been pending for long is sent");
}

#endif
