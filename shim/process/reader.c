/* SPDX-License-Identifier: MIT */
/* Owns the reader, a child of this command that is started at the first question and answers all of
 * them. It has only the rights that reading needs. If something keeps it waiting for more than a
 * second, it is killed, and the next question starts another one. One that even SIGKILL does not
 * end is not waited for. */
#include "process/facts.h"

#include "base/clock.h"
#include "process/waiting.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    ANSWER_MS = 1000,
    BUSY_MS = 3000,
    SLICE_MS = 50,
};

/* A question, and the answer. */
struct shared {
    pid_t pid;
    enum ns_facts_depth depth;
    struct ns_facts facts;
};

static struct reader {
    pid_t pid; /* 0: none */
    int socket;
    struct shared *shared; /* with this reader only: an earlier one may still write to its own */
} reader = {.socket = -1};
static uid_t asked; /* the user of the process in question */

static struct __user_cap_header_struct version = {.version = _LINUX_CAPABILITY_VERSION_3};

/* May this process read those of other users? */
static bool may_read_all(void)
{
    struct __user_cap_data_struct sets[2] = {0};
    return syscall(SYS_capget, &version, sets) == 0 && sets[0].effective & 1U << CAP_SYS_PTRACE;
}

/* As a user that no process has, so that none may signal it, with the capabilities to read. Without
 * CAP_SYS_PTRACE, the reader must have at least the capabilities of what it reads, and keeps all.
 * There is no filter of system calls: one that lists what is permitted would differ for each libc
 * and machine, and would need to be right on all of them. */
static void give_up_rights(void)
{
    const uid_t user = 0x7f000000 + (uid_t)getpid();
    struct __user_cap_data_struct sets[2] = {0}; /* the capabilities kept are in the first one */
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (!may_read_all())
        return;
    syscall(SYS_capget, &version, sets);
    /* Many containers have only the latter of the two that let it read any file. */
    uint32_t reads = 1U << CAP_DAC_READ_SEARCH, overrides = 1U << CAP_DAC_OVERRIDE;
    uint32_t kept = 1U << CAP_SYS_PTRACE | (sets[0].effective & reads ? reads : overrides);
    sets[0].permitted = sets[0].effective = sets[0].effective & kept;
    sets[0].inheritable = 0;
    sets[1] = (struct __user_cap_data_struct){0};
    prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
    /* A user namespace lacks that user. */
    if (sets[0].effective & reads && setgroups(0, NULL) == 0 && setresgid(user, user, user) == 0 &&
        setresuid(user, user, user) != 0)
        setresgid(0, 0, 0);
    syscall(SYS_capset, &version, sets);
}

/* If it exits for lack of memory, it runs none of the command's functions, which undo and remove.
 */
static void leave(void)
{
    _exit(1);
}

/* The reader. */
static _Noreturn void serve(int socket, int memory, struct shared *shared, pid_t parent)
{
    sigset_t all;
    char byte;
    /* The terminal's ^C is for the command, which may still ask. */
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    if (memory >= 0)
        memory = dup2(memory, STDERR_FILENO);
    dup2(socket, STDIN_FILENO);
    /* If it is stuck, it must not keep open what somebody waits for, as locks and pipes. */
    close(STDOUT_FILENO);
    syscall(SYS_close_range, STDERR_FILENO + (memory >= 0), ~0U, 0); /* Linux 5.9 */
    give_up_rights();
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* a change of the user resets it */
    atexit(leave);
    while (getppid() == parent && read(STDIN_FILENO, &byte, 1) == 1) {
        memset(&shared->facts, 0, sizeof shared->facts);
        shared->facts.error = ns_facts_read(shared->pid, memory, shared->depth, &shared->facts);
        if (send(STDIN_FILENO, &byte, 1, MSG_NOSIGNAL) != 1)
            break;
    }
    _exit(0);
}

static void forget(void)
{
    close(reader.socket);
    munmap(reader.shared, sizeof *reader.shared);
    reader = (struct reader){.socket = -1};
}

static void end(void)
{
    ns_waiting_end(reader.pid, asked);
    forget();
}

/* The command leaves no reader behind: systemd would wait for its end, which it may not see. */
static void end_last(void)
{
    if (reader.pid > 0)
        end();
}

static int start(int memory)
{
    static bool begun;
    int ends[2];
    if (!begun)
        begun = atexit(end_last) == 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return -errno;
    reader.socket = ends[0];
    reader.shared = mmap(NULL, sizeof *reader.shared, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const pid_t parent = getpid();
    reader.pid = reader.shared == MAP_FAILED ? -1 : fork();
    if (reader.pid == 0)
        serve(ends[1], memory, reader.shared, parent);
    int error = reader.pid < 0 ? -errno : 0;
    close(ends[1]);
    if (error)
        forget();
    return error;
}

static bool (*is_over)(void); /* or NULL */

void ns_facts_until(bool (*is_command_over)(void))
{
    is_over = is_command_over;
}

/* 0; -ETIMEDOUT; -EINTR: the command is to end; another error: the reader has ended. */
static int await_answer(void)
{
    const uint64_t ms = 1000000, begun = ns_clock_now(CLOCK_MONOTONIC);
    uint64_t last = begun + ANSWER_MS * ms;
    struct pollfd answer = {.fd = reader.socket, .events = POLLIN};
    char byte;
    for (;;) { /* also after a signal */
        uint64_t now = ns_clock_now(CLOCK_MONOTONIC), left = last > now ? last - now : 0;
        const uint64_t slice = left < SLICE_MS * ms ? left : SLICE_MS * ms;
        if (poll(&answer, 1, (int)((slice + ms - 1) / ms)) > 0)
            return recv(reader.socket, &byte, 1, 0) == 1 ? 0 : -EIO;
        if (is_over && is_over())
            return -EINTR;
        /* The command itself may have been stopped: it has asked once more. */
        if (left == 0 && (now - begun >= BUSY_MS * ms || !ns_waiting_is_running(reader.pid)))
            return -ETIMEDOUT;
        if (left == 0)
            last = now + 100 * ms;
    }
}

/* Asks, and copies the answer. memory: see ns_facts_read. */
static int ask(pid_t pid, int memory, enum ns_facts_depth depth, struct ns_facts *facts)
{
    int error = reader.pid ? 0 : start(memory);
    if (error)
        return error;
    reader.shared->pid = pid;
    reader.shared->depth = depth;
    error = send(reader.socket, "", 1, MSG_NOSIGNAL) == 1 ? await_answer() : -EIO;
    if (!error)
        *facts = reader.shared->facts;
    /* The next one may need other memory. */
    if (error || memory >= 0)
        end();
    return error;
}

/* What the kernel says without waiting for the process. */
static void read_state(struct ns_facts *facts)
{
    ns_state_of(facts->proc.pid, &facts->proc.state);
    snprintf(facts->name, sizeof facts->name, "%s", facts->proc.state.name);
}

int ns_facts_ask(pid_t pid, enum ns_facts_depth depth, struct ns_facts *facts)
{
    char path[32];
    asked = ns_waiting_user(pid);
    int error = is_over && is_over() ? -EINTR : ns_waiting_is_full(asked) ? -ETIMEDOUT : 0;
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    memset(facts, 0, sizeof *facts);
    facts->proc = (struct ns_proc){.pid = pid, .process = pid};
    if (pid == reader.pid || ns_waiting_has(pid)) /* it is not there for the user */
        return facts->error = -ESRCH;
    /* A security module may let only ancestors read a process's memory, and the reader is none. */
    int memory = may_read_all() ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (!error)
        error = ask(pid, memory, depth, facts);
    if (error == -EIO) /* something has ended the reader */
        error = ask(pid, memory, depth, facts);
    if (memory >= 0)
        close(memory);
    if (error)
        read_state(facts);
    else
        error = facts->error;
    /* Whatever the reader was made to write, texts end in the facts, and numbers have their range.
     */
    facts->end = '\0';
    if (facts->words_size > sizeof facts->words || facts->n_rules > NS_FACTS_RULES_MOST ||
        facts->loaded.shim > NS_SHIM_WORKS || error > 0)
        error = -EIO;
    return facts->error = error;
}
