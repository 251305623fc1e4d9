/* SPDX-License-Identifier: MIT */
/* See reader.h. Owns the child, which has only the rights that its work needs, and the list of
 * those that are stuck. */
#include "process/reader.h"

#include "base/clock.h"
#include "process/proc.h"
#include "process/scope.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    ANSWER_MS = 1000,
    BUSY_MS = 3000,
    SLICE_MS = 50,
    END_MS = 20,
    STUCK_MOST = 8,
    STUCK_MOST_OF_USER = 2,
    LATE_PLACES = 64,
    LATE_MOST = 4,
    LATE_HALVES_S = 60,
};

struct shared {
    void (*work)(void *data, int memory);
    _Alignas(max_align_t) char data[NS_READER_ROOM];
};

static struct reader {
    pid_t pid; /* 0: none */
    int socket;
    struct shared *shared; /* with this reader only: an earlier one may still write to its own */
} reader = {.socket = -1};
static uid_t asked;                    /* the user of the process in question */
static const uid_t NOBODY = (uid_t)-1; /* setuid(2) refuses it */

/* Those that have not ended yet, and the user of the process that each waits for. pid 0: none. */
static struct stuck {
    pid_t pid;
    uid_t user;
} stuck[STUCK_MOST];

/* How many questions about a user's processes had no answer in time. Each halves the time of the
 * next one: a user may have many such processes, and a reader that SIGKILL ends is not counted as
 * stuck. It is forgotten by and by. */
static struct late {
    uid_t user;
    unsigned n; /* 0: the place is free */
} late[LATE_PLACES];

static unsigned *late_of(uid_t user)
{
    static uint64_t halved;
    const uint64_t now = ns_clock_now(CLOCK_MONOTONIC) / 1000000000U;
    size_t place = 0;
    for (size_t i = 0; now - halved >= LATE_HALVES_S && i < LATE_PLACES; i++)
        late[i].n /= 2;
    halved = now - halved >= LATE_HALVES_S ? now : halved;
    for (size_t i = 0; i < LATE_PLACES; i++)
        if (late[i].n && late[i].user == user)
            return &late[i].n;
    while (place < LATE_PLACES - 1 && late[place].n) /* without a free place, the last is shared */
        place++;
    late[place].user = user;
    return &late[place].n;
}

/* The outermost namespace of this kind below that of this command in which a process is. Returns a
 * descriptor, or -1. */
static int open_outermost(pid_t pid, const char *kind)
{
    char path[32];
    int found = -1, above;
    snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, kind);
    int at = open(path, O_RDONLY | O_CLOEXEC);
    while (at >= 0 && (above = ioctl(at, NS_GET_PARENT)) >= 0) {
        if (found >= 0)
            close(found);
        found = at;
        at = above;
    }
    if (at >= 0)
        close(at);
    return found;
}

uid_t ns_reader_user(pid_t pid)
{
    char path[32];
    uid_t owner;
    struct stat here, st;
    struct ns_proc proc = {0};
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    ns_proc_read_status(AT_FDCWD, path, &proc);
    NS_AUTO_CLOSE int users = open_outermost(pid, "user"), pids = open_outermost(pid, "pid");
    NS_AUTO_CLOSE int maker = pids < 0 ? -1 : ioctl(pids, NS_GET_USERNS);
    if (maker >= 0 && fstat(maker, &st) == 0 && stat("/proc/self/ns/user", &here) == 0 &&
        st.st_ino == here.st_ino && fstat(pids, &st) == 0)
        return (uid_t)st.st_ino;
    if (users >= 0 && ioctl(users, NS_GET_OWNER_UID, &owner) == 0 && fstat(users, &st) == 0)
        return owner ? owner : (uid_t)st.st_ino;
    return proc.real_user;
}

bool ns_reader_is_full(uid_t user)
{
    unsigned all = 0, of_user = 0;
    for (size_t i = 0; i < STUCK_MOST; i++) {
        if (stuck[i].pid && waitpid(stuck[i].pid, NULL, WNOHANG) != 0)
            stuck[i].pid = 0;
        all += stuck[i].pid != 0;
        of_user += stuck[i].pid && stuck[i].user == user;
    }
    return all == STUCK_MOST || of_user >= STUCK_MOST_OF_USER;
}

/* Is it at work, or does it wait for a processor, and not for the kernel? */
static bool is_running(pid_t child)
{
    struct ns_state state;
    return ns_state_of(child, &state) == 0 && state.letter == 'R';
}

/* Is it a child that has not ended yet? */
static bool is_stuck(pid_t pid)
{
    size_t i = 0;
    while (i < STUCK_MOST && stuck[i].pid != pid)
        i++;
    return pid && i < STUCK_MOST;
}

void ns_reader_forgive(void)
{
    for (size_t i = 0; i < STUCK_MOST; i++)
        stuck[i].user = NOBODY;
    memset(late, 0, sizeof late);
}

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
        shared->work(shared->data, memory);
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

/* Ends the reader. If it is stuck, it gets a moment. */
static void end(void)
{
    bool is_there = true;
    size_t i = 0;
    kill(reader.pid, SIGKILL);
    for (int ms = 0; ms < END_MS && is_there; ms++)
        if ((is_there = waitpid(reader.pid, NULL, WNOHANG) == 0))
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    while (i < STUCK_MOST - 1 && stuck[i].pid)
        i++;
    if (is_there)
        stuck[i] = (struct stuck){reader.pid, asked};
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

void ns_reader_until(bool (*is_command_over)(void))
{
    is_over = is_command_over;
}

bool ns_reader_is_over(void)
{
    return is_over && is_over();
}

/* 0; -ETIMEDOUT; -EINTR: the command is to end; another error: the reader has ended. */
static int await_answer(void)
{
    const uint64_t ms = 1000000, begun = ns_clock_now(CLOCK_MONOTONIC);
    uint64_t last = begun + (ANSWER_MS * ms >> *late_of(asked));
    struct pollfd answer = {.fd = reader.socket, .events = POLLIN};
    char byte;
    for (;;) { /* also after a signal */
        uint64_t now = ns_clock_now(CLOCK_MONOTONIC), left = last > now ? last - now : 0;
        const uint64_t slice = left < SLICE_MS * ms ? left : SLICE_MS * ms;
        if (poll(&answer, 1, (int)((slice + ms - 1) / ms)) > 0)
            return recv(reader.socket, &byte, 1, 0) == 1 ? 0 : -EIO;
        if (ns_reader_is_over())
            return -EINTR;
        /* The command itself may have been stopped: it has asked once more. */
        if (left == 0 && (now - begun >= BUSY_MS * ms || !is_running(reader.pid)))
            return -ETIMEDOUT;
        if (left == 0)
            last = now + 100 * ms;
    }
}

/* memory: see ns_reader_ask. */
static int ask(int memory, void (*work)(void *data, int memory), void *data, size_t size)
{
    if (memory >= 0 && reader.pid) /* it has other memory, or none */
        end();
    int error = reader.pid ? 0 : start(memory);
    if (error)
        return error;
    reader.shared->work = work;
    memcpy(reader.shared->data, data, size);
    error = send(reader.socket, "", 1, MSG_NOSIGNAL) == 1 ? await_answer() : -EIO;
    if (!error)
        memcpy(data, reader.shared->data, size);
    if (error || memory >= 0)
        end();
    return error;
}

int ns_reader_ask(pid_t pid, uid_t user, bool with_memory, void (*work)(void *data, int memory),
                  void *data, size_t size)
{
    char path[32];
    if (pid == reader.pid || is_stuck(pid)) /* it is not there for the user */
        return -ESRCH;
    if (ns_reader_is_over())
        return -EINTR;
    if (ns_reader_is_full(user))
        return -ETIMEDOUT;
    asked = user;
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    /* A security module may let only ancestors read a process's memory, and the reader is none. */
    NS_AUTO_CLOSE int memory =
        with_memory && !may_read_all() ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    int error = ask(memory, work, data, size);
    if (error == -EIO) /* something has ended it */
        error = ask(memory, work, data, size);
    unsigned *questions = late_of(user);
    *questions += error == -ETIMEDOUT && *questions < LATE_MOST;
    return error;
}
