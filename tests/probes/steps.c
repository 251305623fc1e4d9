/* SPDX-License-Identifier: MIT */
/* Does what its arguments say on one or two connections, so that strace shows what the library does
 * between the program's own calls. The peers are below our feet (life.h). Words:
 *   connected, accepted, raw    first: how the connection comes about
 *   write, send, more, empty, big, other    a write: MSG_MORE, of no bytes, of 100 000, on a second
 * one hear, try, whole, peek, vector    the peer has written; a read, a non-blocking one,
 * MSG_WAITALL, ... wait, look, nap, pipe, count    a wait, a poll without time, nanosleep, a read
 * of a pipe, FIONREAD pause    20 ms that nobody sees nodelay, delay, cork, uncork, nonblock,
 * quickack    what a program asks for and ways to hand on and to end; each word may be repeated:
 * "write*5". */
#include "life.h"

#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/uio.h>

extern char **environ;

static struct conn near, far;
static char **words;
static int pair[2];

static void ask(int option, int value)
{
    EXPECT(setsockopt(near.fd, IPPROTO_TCP, option, &value, sizeof value) == 0);
}

/* --- how it comes about --- */

static void connected(void)
{
    near = open_conn();
}

static void accepted(void)
{
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(bind(listener, (struct sockaddr *)&address, len) == 0 && listen(listener, 8) == 0 &&
           getsockname(listener, (struct sockaddr *)&address, &len) == 0);
    near.peer = (int)RAW(socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0, 0);
    EXPECT(RAW(connect, near.peer, &address, len, 0) == 0);
    near.fd = accept(listener, NULL, NULL);
}

static void accepted_nonblock(void)
{
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(listen(listener, 8) == 0 &&
           getsockname(listener, (struct sockaddr *)&address, &len) == 0);
    near.peer = (int)RAW(socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0, 0);
    EXPECT(RAW(connect, near.peer, &address, len, 0) == 0);
    near.fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
}

static void made_raw(void)
{
    struct sockaddr_in address;
    int listener = raw_listener(0, &address);
    near.fd = (int)RAW(socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0, 0);
    EXPECT(RAW(connect, near.fd, &address, sizeof address, 0) == 0);
    near.peer = (int)RAW(accept4, listener, 0, 0, SOCK_CLOEXEC);
    RAW(close, listener, 0, 0, 0);
}

/* --- writes --- */

static void writes(void)
{
    EXPECT(write(near.fd, "piece", 5) == 5);
}

static void sends(void)
{
    EXPECT(send(near.fd, "piece", 5, 0) == 5);
}

static void sends_more(void)
{
    EXPECT(send(near.fd, "piece", 5, MSG_MORE) == 5);
}

static void writes_empty(void)
{
    EXPECT(write(near.fd, "", 0) == 0);
}

static void writes_big(void)
{
    static char data[100000];
    EXPECT(write(near.fd, data, sizeof data) == sizeof data);
}

static void writes_other(void)
{
    EXPECT(write(far.fd, "piece", 5) == 5);
}

static void write_fails(void)
{
    void *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(write(near.fd, nowhere, 5) == -1 && errno == EFAULT);
}

/* --- reads --- */

static void says(void)
{
    int none = 0, bytes = 0;
    double begin = now_ms();
    /* The kernel's quick ACKs of a young connection are over. */
    if (!getenv("STEPS_QUICK"))
        raw(SYS_setsockopt, near.fd, IPPROTO_TCP, TCP_QUICKACK, (long)&none, sizeof none, 0);
    answer(near.peer, "!");
    while (bytes == 0 && look_again(begin, 2000))
        RAW(ioctl, near.fd, FIONREAD, &bytes, 0);
}

static void reads(void)
{
    char byte;
    EXPECT(read(near.fd, &byte, 1) == 1);
}

static void hears(void)
{
    says();
    reads();
}

static void misses(void)
{
    char byte;
    EXPECT(read(near.fd, &byte, 1) == -1 && errno == EAGAIN);
}

/* There is something, and the kernel refuses such a time all the same. */
static void polls_with_bad_time(void)
{
    struct pollfd one = {.fd = near.fd, .events = POLLOUT};
    struct timespec time = {.tv_nsec = 2000000000};
    EXPECT(ppoll(&one, 1, &time, NULL) == -1 && errno == EINVAL);
}

static void tries(void)
{
    char byte;
    EXPECT(recv(near.fd, &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
}

static void hears_at_once(void)
{
    char byte;
    says();
    EXPECT(recv(near.fd, &byte, 1, MSG_DONTWAIT) == 1);
}

static void hears_whole(void)
{
    char byte;
    says();
    EXPECT(recv(near.fd, &byte, 1, MSG_WAITALL) == 1);
}

static void peeks(void)
{
    char byte;
    says();
    EXPECT(recv(near.fd, &byte, 1, MSG_PEEK) == 1);
}

static void hears_vector(void)
{
    char byte;
    struct iovec one = {&byte, 1};
    says();
    EXPECT(readv(near.fd, &one, 1) == 1);
}

/* The rest of four bytes comes later. */
static void hears_four(void)
{
    char data[8];
    says();
    pid_t pid = (pid_t)RAW(clone, SIGCHLD, 0, 0, 0);
    if (pid == 0) {
        struct timespec time = {.tv_nsec = 20000000};
        RAW(ppoll, 0, 0, &time, 0);
        answer(near.peer, "!!!");
        RAW(exit_group, 0, 0, 0, 0);
    }
    EXPECT(read(near.fd, data, sizeof data) == 4);
    RAW(wait4, pid, 0, 0, 0);
}

static void hears_late(void)
{
    pid_t pid = (pid_t)RAW(clone, SIGCHLD, 0, 0, 0);
    if (pid == 0) {
        struct timespec time = {.tv_nsec = 20000000};
        RAW(ppoll, 0, 0, &time, 0);
        answer(near.peer, "!");
        RAW(exit_group, 0, 0, 0, 0);
    }
    reads();
    RAW(wait4, pid, 0, 0, 0);
}

static void hears_end(void)
{
    char byte;
    RAW(shutdown, near.peer, SHUT_WR, 0, 0);
    EXPECT(read(near.fd, &byte, 1) == 0);
}

/* --- waits --- */

static void waits(void)
{
    poll(NULL, 0, 1);
}

static void looks(void)
{
    poll(NULL, 0, 0);
}

static void selects(void)
{
    select(0, NULL, NULL, NULL, &(struct timeval){.tv_usec = 1000});
}

/* It finds something. */
static void finds(void)
{
    struct pollfd one = {.fd = near.fd, .events = POLLIN};
    EXPECT(poll(&one, 1, 1000) == 1);
}

static void naps(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
}

static void pauses(void)
{
    compute_ms(20);
}

static void counts(void)
{
    int bytes;
    EXPECT(ioctl(near.fd, FIONREAD, &bytes) == 0 && bytes == 0);
}

static void reads_pipe(void)
{
    char byte;
    RAW(write, pair[1], "!", 1, 0);
    EXPECT(read(pair[0], &byte, 1) == 1);
}

static void reads_empty_pipe(void)
{
    char byte;
    EXPECT(read(pair[0], &byte, 1) == -1 && errno == EAGAIN);
}

static void waits_for_sem(void)
{
    struct timespec until = {0};
    sem_t sem;
    sem_init(&sem, 0, 0);
    EXPECT(sem_timedwait(&sem, &until) == -1 && errno == ETIMEDOUT);
}

static void takes_sem(void)
{
    sem_t sem;
    sem_init(&sem, 0, 1);
    EXPECT(sem_wait(&sem) == 0);
}

static void waits_for_child(void)
{
    pid_t pid = (pid_t)RAW(clone, SIGCHLD, 0, 0, 0);
    int status;
    if (pid == 0) {
        struct timespec time = {.tv_nsec = 20000000};
        RAW(ppoll, 0, 0, &time, 0);
        RAW(exit_group, 0, 0, 0, 0);
    }
    EXPECT(waitpid(pid, &status, 0) == pid);
}

static void accepts_nobody(void)
{
    struct sockaddr_in address;
    int listener = raw_listener(0, &address);
    RAW(fcntl, listener, F_SETFL, O_NONBLOCK, 0);
    EXPECT(accept(listener, NULL, NULL) == -1 && errno == EAGAIN);
    RAW(close, listener, 0, 0, 0);
}

static void connects_to_nobody(void)
{
    int fd = (int)RAW(socket, AF_UNIX, SOCK_STREAM, 0, 0);
    struct sockaddr none = {.sa_family = AF_UNIX};
    EXPECT(connect(fd, &none, sizeof none) == -1);
    RAW(close, fd, 0, 0, 0);
}

static void waits_for_futex(void)
{
    int word = 1;
    EXPECT(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0) == -1);
}

static void on_alarm(int number)
{
    (void)number;
}

static void waits_by_epoll(void)
{
    struct itimerval soon = {.it_value.tv_usec = 20000};
    struct sigaction action = {.sa_handler = on_alarm};
    struct epoll_event event;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    EXPECT(epoll_pwait2(epoll, &event, 1, NULL, NULL) == -1 && errno == EINTR);
    RAW(close, epoll, 0, 0, 0);
}

/* More connections than a thread's list of debts has room for. */
static void hears_a_crowd(void)
{
    enum { CROWD = 1100 };
    static struct conn crowd[CROWD];
    struct rlimit files = {2500, 4096};
    EXPECT(setrlimit(RLIMIT_NOFILE, &files) == 0);
    for (int i = 0; i < CROWD; i++)
        crowd[i] = open_conn();
    for (int i = 0; i < CROWD; i++) {
        near = crowd[i];
        hears();
        writes();
        hears_at_once();
    }
}

/* --- what a program asks for --- */

enum { DELACK_MAX_US = 46 }; /* TCP_DELACK_MAX_US, linux/tcp.h of recent kernels */

static void asks_bound(void)
{
    ask(DELACK_MAX_US, 20000);
}

static void is_told_of_bound(void)
{
    int told = 0;
    socklen_t len = sizeof told;
    EXPECT(getsockopt(near.fd, IPPROTO_TCP, DELACK_MAX_US, &told, &len) == 0 && told == 200000);
}

static void asks_nodelay(void)
{
    ask(TCP_NODELAY, 1);
}

static void asks_delay(void)
{
    ask(TCP_NODELAY, 0);
}

/* A socket that is neither connected nor listening. */
static void asks_idle(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), idle = 500;
    EXPECT(setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle) == 0);
}

static void has_nodelay_already(void)
{
    int on = 1;
    raw(SYS_setsockopt, near.fd, IPPROTO_TCP, TCP_NODELAY, (long)&on, sizeof on, 0);
}

static void has_bound_already(void)
{
    int bound = 8000;
    raw(SYS_setsockopt, near.fd, IPPROTO_TCP, DELACK_MAX_US, (long)&bound, sizeof bound, 0);
}

static void corks(void)
{
    ask(TCP_CORK, 1);
}

static void uncorks(void)
{
    ask(TCP_CORK, 0);
}

static void asks_quickack(void)
{
    ask(TCP_QUICKACK, 1);
}

static void asks_whole(void)
{
    int bytes = 4;
    EXPECT(setsockopt(near.fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes) == 0);
}

static void asks_nonblock(void)
{
    EXPECT(fcntl(near.fd, F_SETFL, O_NONBLOCK) == 0);
}

/* --- handing on and ending --- */

static void forks(void)
{
    pid_t pid = fork();
    if (pid == 0)
        RAW(exit_group, 0, 0, 0, 0);
    child_ended(pid, 0);
}

static void clones(void)
{
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        RAW(exit_group, 0, 0, 0, 0);
    child_ended(pid, 0);
}

static void vforks(void)
{
    pid_t pid = vfork();
    if (pid == 0)
        RAW(exit_group, 0, 0, 0, 0);
    child_ended(pid, 0);
}

static void vfork_writes(void)
{
    pid_t pid = vfork();
    if (pid == 0) {
        if (write(near.fd, "piece", 5) != 5 || write(near.fd, "piece", 5) != 5)
            RAW(exit_group, 1, 0, 0, 0);
        RAW(exit_group, 0, 0, 0, 0);
    }
    child_ended(pid, 0);
}

/* Everything but what is standard, in a table of its own. */
static void *closes_in_thread(void *unused)
{
    EXPECT(close_range(3, ~0U, CLOSE_RANGE_UNSHARE) == 0);
    return unused;
}

static void empties_own_table(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, closes_in_thread, NULL);
    pthread_join(thread, NULL);
}

static int closes_in_helper(void *unused)
{
    (void)unused;
    close_range(3, ~0U, 0);
    return 0;
}

/* A child in our memory. */
static void has_helper(void)
{
    enum { STACK = 256 * 1024 };
    char *stack =
        mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    pid_t pid = clone(closes_in_helper, stack + STACK, CLONE_VM | SIGCHLD, NULL);
    child_ended(pid, 0);
}

static void spawns(void)
{
    pid_t pid;
    char *const arguments[] = {"true", NULL};
    EXPECT(posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ) == 0);
    child_ended(pid, 0);
}

static void execs(void)
{
    execl("/nonexistent", "nobody", (char *)NULL);
}

static void execs_by_number(void)
{
    char *const arguments[] = {"nobody", NULL};
    syscall(SYS_execve, "/nonexistent", arguments, environ);
}

static void leaves(void)
{
    _exit(0);
}

static void returns(void)
{
    exit(0);
}

static void closes(void)
{
    close(near.fd);
}

static void closes_by_number(void)
{
    syscall(SYS_close, near.fd);
}

/* Behind our back. */
static void becomes_a_pipe(void)
{
    char byte;
    RAW(dup3, pair[0], near.fd, 0, 0);
    EXPECT(recv(near.fd, &byte, 1, 0) == -1 && errno == ENOTSOCK);
}

static void reads_pipe_there(void)
{
    char byte;
    RAW(write, pair[1], "!", 1, 0);
    EXPECT(read(near.fd, &byte, 1) == 1);
}

static void is_repaired(void)
{
    enum { OFF_WITHOUT_PROBE = -1 };
    ask(TCP_REPAIR, 1);
    ask(TCP_REPAIR, OFF_WITHOUT_PROBE);
}

static void duplicates(void)
{
    int copy = dup(near.fd);
    EXPECT(copy >= 0);
    RAW(close, near.fd, 0, 0, 0);
    near.fd = copy;
}

static int spare;

static void copies(void)
{
    spare = dup(near.fd);
}

static void corks_copy(void)
{
    int on = 1;
    EXPECT(setsockopt(spare, IPPROTO_TCP, TCP_CORK, &on, sizeof on) == 0);
}

static void swaps(void)
{
    int fd = near.fd;
    near.fd = spare;
    spare = fd;
}

static void unshares(void)
{
    EXPECT(unshare(CLONE_FS) == 0);
}

static void keeps_capabilities(void)
{
    EXPECT(prctl(PR_SET_KEEPCAPS, 0) == 0);
}

static void sets_group_by_number(void)
{
    EXPECT(syscall(SYS_setgid, getgid()) == 0);
}

static void becomes_stdout(void)
{
    EXPECT(dup2(near.fd, 1) == 1);
}

static void is_opened(void)
{
    EXPECT(fdopen(near.fd, "r+") != NULL);
}

static void is_passed(void)
{
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    send_right(pair[0], near.fd);
}

static void is_passed_back(void)
{
    is_passed();
    RAW(close, near.fd, 0, 0, 0);
    near.fd = receive_right(pair[1]);
}

static void uses_uring(void)
{
    EXPECT(syscall(SYS_io_uring_setup, 0, NULL) == -1);
}

static void writes_by_number(void)
{
    EXPECT(syscall(SYS_write, near.fd, "piece", 5) == 5);
}

static void filters(void)
{
    static struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    static struct sock_fprog allow = {.len = 1, .filter = all};
    if (geteuid() != 0) /* who may do without it stops nothing of the library's by it */
        EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &allow) == 0);
}

static void *go_on(void *unused);

/* The rest is done by a thread. */
static void in_thread(void)
{
    pthread_t thread;
    char **rest = words;
    pthread_create(&thread, NULL, go_on, NULL);
    while (*rest)
        rest++;
    RAW(sched_yield, 0, 0, 0, 0);
    pthread_join(thread, NULL);
    words = rest;
}

static _Atomic int staying;

static void *write_and_stay(void *unused)
{
    for (int i = 0; i < 5; i++)
        writes();
    staying = 1;
    RAW(ppoll, 0, 0, 0, 0);
    return unused;
}

/* A thread that writes five pieces and waits where nobody sees it. */
static void is_written_to(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, write_and_stay, NULL);
    while (!staying)
        RAW(sched_yield, 0, 0, 0, 0);
}

static const struct word {
    const char *name;
    void (*act)(void);
} known[] = {
    {"connected", connected},
    {"accepted", accepted},
    {"raw", made_raw},
    {"write", writes},
    {"send", sends},
    {"more", sends_more},
    {"empty", writes_empty},
    {"big", writes_big},
    {"other", writes_other},
    {"bad", write_fails},
    {"says", says},
    {"read", reads},
    {"hear", hears},
    {"try", tries},
    {"get", hears_at_once},
    {"whole", hears_whole},
    {"peek", peeks},
    {"vector", hears_vector},
    {"wait", waits},
    {"look", looks},
    {"select", selects},
    {"find", finds},
    {"nap", naps},
    {"pause", pauses},
    {"count", counts},
    {"pipe", reads_pipe},
    {"empty-pipe", reads_empty_pipe},
    {"nodelay", asks_nodelay},
    {"delay", asks_delay},
    {"cork", corks},
    {"uncork", uncorks},
    {"quickack", asks_quickack},
    {"lowat", asks_whole},
    {"nonblock", asks_nonblock},
    {"fork", forks},
    {"clone", clones},
    {"vfork", vforks},
    {"spawn", spawns},
    {"exec", execs},
    {"exec-by-number", execs_by_number},
    {"_exit", leaves},
    {"exit", returns},
    {"close", closes},
    {"dup", duplicates},
    {"copy", copies},
    {"cork-copy", corks_copy},
    {"stdout", becomes_stdout},
    {"fdopen", is_opened},
    {"pass", is_passed},
    {"pass-back", is_passed_back},
    {"uring", uses_uring},
    {"write-by-number", writes_by_number},
    {"filter", filters},
    {"thread", in_thread},
    {"another", is_written_to},
    {"end", hears_end},
    {"sem", waits_for_sem},
    {"free-sem", takes_sem},
    {"child", waits_for_child},
    {"accept", accepts_nobody},
    {"connect", connects_to_nobody},
    {"futex", waits_for_futex},
    {"epoll", waits_by_epoll},
    {"crowd", hears_a_crowd},
    {"bound", asks_bound},
    {"told", is_told_of_bound},
    {"close-by-number", closes_by_number},
    {"becomes-a-pipe", becomes_a_pipe},
    {"repair", is_repaired},
    {"has-bound", has_bound_already},
    {"vfork-writes", vfork_writes},
    {"range", empties_own_table},
    {"helper", has_helper},
    {"late", hears_late},
    {"four", hears_four},
    {"fed", reads_pipe_there},
    {"accepted-nonblock", accepted_nonblock},
    {"miss", misses},
    {"bad-time", polls_with_bad_time},
    {"idle", asks_idle},
    {"has-nodelay", has_nodelay_already},
    {"swap", swaps},
    {"unshare", unshares},
    {"prctl", keeps_capabilities},
    {"setgid", sets_group_by_number},
};

static void act(const char *word)
{
    size_t len = strcspn(word, "*");
    int times = word[len] ? atoi(word + len + 1) : 1;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].name) == len && strncmp(known[i].name, word, len) == 0) {
            while (times-- > 0)
                known[i].act();
            return;
        }
    wrong("%s: not known", word);
}

static void *go_on(void *unused)
{
    while (*words)
        act(*words++);
    return unused;
}

int main(int argc, char **argv)
{
    char line[64];
    results =
        mmap(NULL, sizeof *results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argc < 2)
        return 2;
    EXPECT(pipe2(pair, O_CLOEXEC | O_NONBLOCK) == 0);
    far = open_conn();
    words = argv + 2;
    bool accepts = strcmp(argv[1], "accepted") == 0; /* what its listener costs is shown, too */
    if (accepts)
        RAW(write, 2, "begin\n", 6, 0);
    act(argv[1]);
    if (!accepts)
        RAW(write, 2, "begin\n", 6, 0);
    int n = snprintf(line, sizeof line, "connections %d %d pipe %d", near.fd, far.fd, pair[0]);
    RAW(write, 2, line, n, 0);
    go_on(NULL);
    RAW(exit_group, results->wrong != 0, 0, 0, 0); /* unseen: an exit is a step, too */
}
