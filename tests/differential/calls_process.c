/* SPDX-License-Identifier: MIT */
/* Processes, threads and signals. The child, the thread or the handler executes the block in
 * braces; its creator waits until that is done, so that the order is the script's. */
#include "program.h"

#include <linux/filter.h>
#include <linux/seccomp.h>

static void note_status(struct op *op, int status)
{
    if (WIFEXITED(status))
        note_number(op, " exit ", WEXITSTATUS(status));
    else
        note_number(op, " signal ", WTERMSIG(status));
}

static void wait_for(struct op *op, pid_t pid)
{
    int status = 0;
    long result;
    note(op, pid > 0 ? " child" : " no child");
    if (pid <= 0)
        return;
    do
        result = waitpid(pid, &status, 0);
    while (result < 0 && errno == EINTR);
    note(op, result == pid ? "" : " NOT WAITED FOR");
    note_status(op, status);
}

static __thread bool in_thread;
static char clone_stacks[2][256 * 1024] __attribute__((aligned(16)));

/* Where a clone's stack begins: below this function's caller, if that is a clone. A thread has a
 * stack for clones of its own, since a clone that waits for it may stand on the other one. */
static char *stack_for_clone(void)
{
    char *stack = clone_stacks[in_thread], *here = __builtin_frame_address(0);
    bool inside = here > stack && here <= stack + sizeof *clone_stacks;
    return inside ? here - ((uintptr_t)here % 16) - 4096 : stack + sizeof *clone_stacks;
}

static int cloned(void *block)
{
    run_block(*(struct block *)block);
    RAW(exit_group, 6, 0, 0, 0); /* a return would not end its threads */
    return 6;
}

/* fork WAY {: the child has a copy of the memory. */
CALLS(fork)
{
    struct block block = next_block();
    const char *way = op->words > 1 ? op->word[1] : "";
    bool with_exit = strcmp(way, "exit") == 0, clones = strcmp(way, "clone") == 0;
    bool plain = strcmp(way, "_Fork") == 0;
    CALL_ONLY(op, clones  ? clone(cloned, stack_for_clone(), SIGCHLD, &block)
                  : plain ? _Fork()
                          : fork());
    if (op->result == 0) {
        run_block(block);
        if (with_exit)
            exit(5);
        _exit(6);
    }
    wait_for(op, (pid_t)op->result);
}

static bool in_shared_memory;

/* The child of a vfork has this process's memory and its own descriptors. */
CALLS(vfork)
{
    static struct slot kept[SLOTS];
    static struct block block;
    block = next_block();
    memcpy(kept, slots, sizeof kept);
    in_shared_memory = true;
    pid_t pid = vfork();
    if (pid == 0) {
        run_block(block);
        _exit(6);
    }
    in_shared_memory = false;
    memcpy(slots, kept, sizeof kept);
    wait_for(op, pid);
}

CALLS(clone)
{
    struct slot kept[SLOTS];
    struct block block = next_block();
    memcpy(kept, slots, sizeof kept);
    in_shared_memory = true;
    CALL_ONLY(op, clone(cloned, stack_for_clone(), CLONE_VM | CLONE_VFORK | SIGCHLD, &block));
    in_shared_memory = false;
    memcpy(slots, kept, sizeof kept);
    wait_for(op, (pid_t)op->result);
}

/* threads */
static bool unshared; /* a call of the thread has given it its own descriptors */

static void *thread_begins(void *block)
{
    in_thread = true;
    run_block(*(struct block *)block);
    return NULL;
}

/* A stack with unmapped memory below and above it. */
static void *tight_stack(size_t size)
{
    char *room = mmap(NULL, size + 2 * 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED || mprotect(room + 65536, size, PROT_READ | PROT_WRITE) != 0)
        return NULL;
    return room + 65536;
}

CALLS(thread)
{
    enum { STACK = 256 * 1024 };
    struct block block = next_block();
    struct slot kept[SLOTS];
    pthread_attr_t attributes;
    pthread_t thread;
    memcpy(kept, slots, sizeof kept);
    unshared = false;
    pthread_attr_init(&attributes);
    if (op->words > 1 && strcmp(op->word[1], "tight") == 0)
        pthread_attr_setstack(&attributes, tight_stack(STACK), STACK);
    CALL(op, pthread_create(&thread, &attributes, thread_begins, &block));
    if (op->result == 0)
        CALL(op, pthread_join(thread, NULL));
    pthread_attr_destroy(&attributes);
    if (unshared)
        memcpy(slots, kept, sizeof kept);
}

static sem_t go, done;
static struct block work;
static pid_t worker_of;  /* the process in which the thread is */
static bool worker_ends; /* the thread ends at its next work */

static void *worker_begins(void *unused)
{
    (void)unused;
    in_thread = true;
    for (;;) {
        while (sem_wait(&go) != 0)
            ;
        if (worker_ends)
            return NULL;
        run_block(work);
        sem_post(&done);
    }
    return NULL;
}

/* Gives the block to a thread that stays. */
CALLS(worker)
{
    pid_t self = (pid_t)RAW(getpid, 0, 0, 0, 0);
    struct block block = next_block();
    if (in_thread) {
        run_block(block);
        return;
    }
    work = block;
    if (worker_of != self) {
        pthread_t thread;
        worker_of = self;
        sem_init(&go, 0, 0);
        sem_init(&done, 0, 0);
        CALL(op, pthread_create(&thread, NULL, worker_begins, NULL));
    }
    sem_post(&go);
    CALL(op, sem_wait(&done));
    while (op->result != 0)
        CALL(op, sem_wait(&done));
}

CALLS(unshare)
{
    int flags = word_flags(op, 1);
    if ((flags & CLONE_FILES) && in_thread)
        unshared = true;
    CALL(op, unshare(flags));
}

/* close_range SLOT, after the thread has got its own descriptors. */
SLOT_CALLS(unshare_range)
{
    if (!in_thread || slot->fd < 0)
        return note(op, " skipped");
    unshared = true;
    CALL(op, close_range((unsigned)slot->fd, (unsigned)slot->fd, CLOSE_RANGE_UNSHARE));
    slot->fd = -1;
}

/* signals */
int alarm_flags, handler_depth;
static struct block handlers[NSIG];
static volatile unsigned delivered[NSIG];

/* A handler whose writes raise its own signal would never end. */
enum { MOST_BLOCKS = 100 };

static void on_signal(int number)
{
    static unsigned blocks;
    int error = errno;
    handler_depth++;
    delivered[number]++;
    /* A handler does not run its block again inside itself. */
    if (handler_depth == 1 && blocks++ < MOST_BLOCKS)
        run_block(handlers[number]);
    handler_depth--;
    shared->handled++;
    errno = error;
}

void note_signals(struct op *op)
{
    for (int i = 1; i < 32; i++) {
        if (!delivered[i])
            continue;
        note(op, " got ");
        note(op, signal_text(i));
        if (delivered[i] > 1 && i != SIGALRM)
            note_number(op, " times ", delivered[i]);
        delivered[i] = 0;
    }
}

CALLS(handler)
{
    int number = (int)word_number(op, 1);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = word_flags(op, 2)};
    struct block block = next_block();
    if (number < 1 || number >= NSIG)
        return;
    handlers[number] = block;
    if (number == SIGALRM)
        alarm_flags = action.sa_flags;
    CALL(op, sigaction(number, &action, NULL));
}

CALLS(signal)
{
    int number = (int)word_number(op, 1);
    bool ignored = op->words > 2 && strcmp(op->word[2], "ignored") == 0;
    CALL_ONLY(op, signal(number, ignored ? SIG_IGN : on_signal) == SIG_ERR);
    note_result(op);
    if (number == SIGALRM)
        alarm_flags = SA_RESTART;
}

ONE_CALL(raise, CALL(op, raise((int)word_number(op, 1))))

/* The kernel chooses one of two threads. */
CALLS(kill)
{
    if (in_thread || worker_of == (pid_t)RAW(getpid, 0, 0, 0, 0))
        return note(op, " skipped");
    CALL(op, kill(getpid(), (int)word_number(op, 1)));
}

CALLS(block)
{
    bool blocks = op->word[0][0] == 'b';
    sigset_t room;
    word_mask(op, 1, &room);
    CALL(op, pthread_sigmask(blocks ? SIG_BLOCK : SIG_UNBLOCK, &room, NULL));
}
SAME_CALL(unblock, block)

CALLS(mask)
{
    sigset_t waiting, blocked;
    CALL(op, pthread_sigmask(SIG_BLOCK, NULL, &blocked));
    CALL(op, sigpending(&waiting));
    for (int i = 1; i < 32; i++)
        if (sigismember(&waiting, i) || sigismember(&blocked, i)) {
            note(op, " ");
            note(op, signal_text(i));
            note(op, sigismember(&waiting, i) ? ":pending" : "");
        }
}

CALLS(altstack)
{
    enum { STACK = 64 * 1024 };
    stack_t stack = {.ss_sp = tight_stack(STACK), .ss_size = STACK};
    CALL(op, sigaltstack(&stack, NULL));
}

/* other programs, and changes of this process */
extern char **environ;

static char *number_word(char *room, long value)
{
    snprintf(room, 16, "%ld", value);
    return room;
}

static char **started_with; /* the environment */

static int becomes(void *arguments)
{
    execve(*(char **)arguments, arguments, started_with);
    return 127;
}

static void spawn_by(struct op *op, const char *way, char **arguments)
{
    char command[512];
    int status = -1;
    pid_t pid = -1;
    snprintf(command, sizeof command, "exec %s %s %s %s", arguments[0], arguments[1], arguments[2],
             arguments[3]);
    if (strcmp(way, "system") == 0) {
        CALL_ONLY(op, system(command));
        note_status(op, (int)op->result);
    } else if (strcmp(way, "popen") == 0) {
        FILE *pipe = popen(command, "r");
        CALL_ONLY(op, pipe ? pclose(pipe) : -1);
        note_status(op, (int)op->result);
    } else if (strcmp(way, "posix_spawn") == 0) {
        CALL(op, posix_spawn(&pid, arguments[0], NULL, NULL, arguments, started_with));
        waitpid(pid, &status, 0);
        note_status(op, status);
    } else {
        pid = strcmp(way, "vfork") == 0   ? vfork()
              : strcmp(way, "clone") == 0 ? clone(becomes, stack_for_clone(), SIGCHLD, arguments)
                                          : fork();
        if (pid == 0)
            _exit(becomes(arguments));
        waitpid(pid, &status, 0);
        note_status(op, status);
    }
}

/* spawn SLOT BYTES WAY: another program writes on the slot's descriptor, or notes a listener's
 * options. start: a program without the library. */
SLOT_CALLS(spawn)
{
    static char *none[] = {NULL};
    struct connection *connection = connection_of(slot);
    bool listens = raw_option(slot->fd, SOL_SOCKET, SO_ACCEPTCONN) == 1;
    char words[3][16];
    char *arguments[] = {program_path, number_word(words[0], slot->fd),
                         number_word(words[1], slot->connection),
                         number_word(words[2], word_number(op, 2) % 4096), NULL};
    if (!listens && (!connection || connection->stopped || connection->over))
        return note(op, " skipped");
    if (!listens)
        settle_writes(slot, word_number(op, 2));
    started_with = strcmp(op->word[0], "start") == 0 ? none : environ;
    spawn_by(op, op->words > 3 ? op->word[3] : "", arguments);
    if (!listens)
        connection->held = connection->corked;
}
SAME_CALL(start, spawn)

CALLS(seccomp)
{
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {1, &allow};
    CALL(op, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    CALL(op, prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter));
}

/* Prints each descriptor with its flags. */
CALLS(descriptors)
{
    for (int fd = 0; fd < 128; fd++) {
        long flags = RAW(fcntl, fd, F_GETFD, 0, 0);
        if (flags < 0)
            continue;
        note_number(op, " ", fd);
        if (flags & FD_CLOEXEC)
            note(op, " cloexec");
        if (raw_nonblocking(fd))
            note(op, " nonblock");
    }
}

static int exit_thread(void *unused)
{
    (void)unused;
    nap(3000);
    return 0;
}

/* Reads all unread data, so that the last close is not a reset. */
static void finish(void)
{
    for (int i = 0; i < SLOTS; i++) {
        const struct slot *slot = &slots[i];
        const struct connection *connection = connection_of(slot);
        if (!connection || connection->over)
            continue;
        if (connection->stopped)
            ask(RESUME, slot->connection, 0, 0);
        settle(slot);
        for (long unread = available(slot); unread > 0; unread = available(slot)) {
            char waste[4096];
            long n = RAW(read, slot->fd, waste, sizeof waste, 0);
            if (n <= 0)
                break;
            shared->connections[slot->connection].stream[1].read += n;
        }
        if (raw_option(slot->fd, SOL_SOCKET, SO_LINGER) == 1 && !peer_has_all(slot))
            shared->connections[slot->connection].uncertain = true;
    }
}

/* end WAY: how the program ends; a script without it ends by main's return. */
CALLS(end)
{
    const char *way = op->words > 1 ? op->word[1] : "";
    char *arguments[] = {program_path, "exec", NULL};
    thrd_t thread;
    /* In a process or thread that shares memory, most ways are not possible. */
    if (in_shared_memory)
        return note(op, " skipped");
    finish();
    trace_line(op);
    if (strcmp(way, "exit") == 0)
        exit(3);
    if (strcmp(way, "_exit") == 0)
        _exit(4);
    if (strcmp(way, "quick_exit") == 0)
        quick_exit(5);
    if (strcmp(way, "abort") == 0)
        abort();
    if (strcmp(way, "signal") == 0) {
        signal(SIGTERM, SIG_DFL);
        raise(SIGTERM);
    }
    if (strcmp(way, "exec") == 0)
        execve(program_path, arguments, environ);
    if (strcmp(way, "return") == 0)
        exit(0);
    worker_ends = true;
    sem_post(&go);
    thrd_create(&thread, exit_thread, NULL);
    if (strcmp(way, "pthread_exit") == 0)
        pthread_exit(NULL);
    if (strcmp(way, "thrd_exit") == 0)
        thrd_exit(0);
    if (strcmp(way, "sys_exit") == 0)
        RAW(exit, 0, 0, 0, 0);
    exit(0);
}
