/* SPDX-License-Identifier: MIT */
/* The steps of steps.c that make connections, set options, pass connections on and end. */
#pragma once

#include "filter.h"
#include "steps_traffic.h"

#include <linux/close_range.h>

extern char **environ;

static void ask(int option, int value)
{
    EXPECT(setsockopt(near.fd, IPPROTO_TCP, option, &value, sizeof value) == 0);
}

/* --- ways to get the connection --- */

SCENE("connected", near = open_conn())

static struct sockaddr_in address;
static int listener;

static void accept_next(void)
{
    near.peer = raw_client(&address);
    near.fd = accept(listener, NULL, NULL);
}

SCENE("accepted", listener = seen_listener(&address); accept_next())
SCENE("accepted-next", accept_next())

SCENARIO("accepted-nonblock")
{
    socklen_t len = sizeof address;
    address = loopback(0);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(listen(listener, 8) == 0 &&
           getsockname(listener, (struct sockaddr *)&address, &len) == 0);
    near.peer = raw_client(&address);
    near.fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
}

SCENE("socket", near.fd = socket(AF_INET, SOCK_STREAM, 0))

SCENARIO_NAMED(connects, "connect-it")
{
    int unseen = raw_listener(0, &address);
    EXPECT(connect(near.fd, (struct sockaddr *)&address, sizeof address) == 0 ||
           errno == EINPROGRESS);
    near.peer = raw_accept(unseen);
}

SCENE("connected-nonblock", near.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0); connects())

/* Nobody listens at 127.0.0.2 and 127.0.0.3. The socket can be connected to another address. */
static void is_refused(uint32_t host)
{
    struct sockaddr_in nobody = loopback(1);
    nobody.sin_addr.s_addr = htonl(host);
    EXPECT(connect(near.fd, (struct sockaddr *)&nobody, sizeof nobody) == -1 &&
           errno == ECONNREFUSED);
}

SCENE("refused-by-2", is_refused(INADDR_LOOPBACK + 1))
SCENE("refused-by-3", is_refused(INADDR_LOOPBACK + 2))

SCENE("raw", near = raw_conn(-1))
SCENE("raw-corked", near = raw_conn(-1); set_kernel_option(near.fd, TCP_CORK, 1))

SCENARIO("raw-lowat")
{
    int bytes = 4;
    near = raw_conn(-1);
    raw(SYS_setsockopt, near.fd, SOL_SOCKET, SO_RCVLOWAT, (long)&bytes, sizeof bytes, 0);
    has_lowat = true;
}

/* A UNIX socket, not TCP. */
SCENARIO("raw-unix")
{
    int ends[2];
    EXPECT(RAW(socketpair, AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    near = (struct conn){.fd = ends[0], .peer = ends[1]};
}

/* At a number that only a program with thousands of connections uses. */
SCENARIO("raw-high")
{
    enum { HIGH = 2000 };
    struct rlimit files = {2500, 4096};
    EXPECT(setrlimit(RLIMIT_NOFILE, &files) == 0);
    EXPECT(RAW(dup3, (int)RAW(socket, AF_INET, SOCK_STREAM, 0, 0), HIGH, O_CLOEXEC, 0) == HIGH);
    near = raw_conn(HIGH);
}

/* --- options that a program sets --- */

SCENE("bound", ask(DELACK_MAX_US, 20000))

SCENARIO("told")
{
    int told = 0;
    socklen_t len = sizeof told;
    EXPECT(getsockopt(near.fd, IPPROTO_TCP, DELACK_MAX_US, &told, &len) == 0 && told == 200000);
}

SCENE("nodelay", ask(TCP_NODELAY, 1))
SCENE("nodelay-by-number", EXPECT(syscall(SYS_setsockopt, near.fd, IPPROTO_TCP, TCP_NODELAY,
                                          &(int){1}, sizeof(int)) == 0))
SCENE("says-nodelay", EXPECT(told(near.fd, IPPROTO_TCP, TCP_NODELAY) == 1))
SCENE("delay", ask(TCP_NODELAY, 0))

static int own_idle = 7200; /* the kernel's default, or what the program has asked for */

SCENE("idle", own_idle = 500; ask(TCP_KEEPIDLE, own_idle))

SCENE("listener-idle",
      EXPECT(setsockopt(listener, IPPROTO_TCP, TCP_KEEPIDLE, &(int){500}, sizeof(int)) == 0))
SCENE("listener-cork",
      EXPECT(setsockopt(listener, IPPROTO_TCP, TCP_CORK, &(int){1}, sizeof(int)) == 0))
SCENE("bad-idle",
      EXPECT(setsockopt(near.fd, IPPROTO_TCP, TCP_KEEPIDLE, &(int){-1}, sizeof(int)) == -1 &&
             errno == EINVAL))
SCENE("both-idle", EXPECT(told(listener, IPPROTO_TCP, TCP_KEEPIDLE) == 500 &&
                          told(near.fd, IPPROTO_TCP, TCP_KEEPIDLE) == 500))

/* getsockopt reports no value of a rule. */
SCENARIO("says-own")
{
    int buffer = 0;
    socklen_t len = sizeof buffer;
    raw(SYS_getsockopt, near.fd, SOL_SOCKET, SO_SNDBUF, (long)&buffer, (long)&len, 0);
    EXPECT(told(near.fd, SOL_SOCKET, SO_SNDBUF) == buffer);
    EXPECT(told(near.fd, SOL_SOCKET, SO_KEEPALIVE) == 0);
    EXPECT(told(near.fd, IPPROTO_TCP, TCP_KEEPIDLE) == own_idle);
    never_asked(near.fd);
}

SCENE("has-nodelay", set_kernel_option(near.fd, TCP_NODELAY, 1))
SCENE("cork", ask(TCP_CORK, 1))
SCENE("uncork", ask(TCP_CORK, 0))
SCENE("quickack", ask(TCP_QUICKACK, 1))
SCENE("nonblock", EXPECT(fcntl(near.fd, F_SETFL, O_NONBLOCK) == 0))
SCENE("nonblock-by-ioctl", int on = 1; EXPECT(ioctl(near.fd, FIONBIO, &on) == 0))
SCENE("block", EXPECT(fcntl(near.fd, F_SETFL, 0) == 0))

SCENARIO("lowat")
{
    int bytes = 4;
    EXPECT(setsockopt(near.fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes) == 0);
    has_lowat = true;
}

/* --- passing on and ending --- */

/* A child that does this and ends. */
#define CHILD(make, act)                                                                           \
    do {                                                                                           \
        pid_t pid = make;                                                                          \
        if (pid == 0)                                                                              \
            RAW(exit_group, !(act), 0, 0, 0);                                                      \
        child_ended(pid, 0);                                                                       \
    } while (0)

SCENE("fork", CHILD(fork(), true))
/* Unseen by the library. */
SCENE("unseen-child-program",
      CHILD((pid_t)RAW(clone, SIGCHLD, 0, 0, 0), execl("/bin/true", "true", (char *)NULL)))
SCENE("clone", CHILD((pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0), true))
SCENE("vfork", CHILD(vfork(), true))
SCENE("vfork-writes",
      CHILD(vfork(), write(near.fd, "piece", 5) == 5 && write(near.fd, "piece", 5) == 5))

/* In the child near's number is another socket's. */
static bool connects_another(void)
{
    bool same = close(near.fd) == 0 && socket(AF_INET, SOCK_STREAM, 0) == near.fd;
    is_refused(INADDR_LOOPBACK + 1);
    return same;
}
SCENE("vfork-connects", CHILD(vfork(), connects_another()))

/* Closes everything except the standard descriptors. */
static int closes_in_helper(void *unused)
{
    (void)unused;
    close_range(3, ~0U, 0);
    return 0;
}

static void *closes_in_own_table(void *unused)
{
    EXPECT(syscall(SYS_close_range, 3, ~0U, CLOSE_RANGE_UNSHARE) == 0);
    return unused;
}

SCENARIO("thread-closes")
{
    pthread_t thread;
    pthread_create(&thread, NULL, closes_in_own_table, NULL);
    pthread_join(thread, NULL);
}

static void *makes_in_own_table(void *unused)
{
    EXPECT(close_range(3, ~0U, CLOSE_RANGE_UNSHARE) == 0);
    for (int made = 0; made < near.fd || made < far.fd;)
        EXPECT((made = socket(AF_INET, SOCK_STREAM, 0)) >= 3);
    return unused;
}

SCENARIO("thread-sockets")
{
    pthread_t thread;
    pthread_create(&thread, NULL, makes_in_own_table, NULL);
    pthread_join(thread, NULL);
}

/* The child goes on, once its parent has ended. */
SCENARIO("daemon")
{
    long parent = RAW(getpid, 0, 0, 0, 0);
    EXPECT(daemon(1, 0) == 0);
    while (RAW(getppid, 0, 0, 0, 0) == parent)
        RAW(sched_yield, 0, 0, 0, 0);
}

/* A child that shares the memory. */
SCENE("helper", child_ended(clone_in_memory(closes_in_helper, NULL, 0), 0))

static int ends_at_once(void *unused)
{
    (void)unused;
    return 0;
}

SCENARIO("spawn")
{
    pid_t pid;
    char *const arguments[] = {"true", NULL};
    EXPECT(posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ) == 0);
    child_ended(pid, 0);
}

/* A child that starts a program only when its parent has connected the socket. */
SCENARIO("late-program")
{
    int way[2];
    EXPECT(RAW(pipe2, way, 0, 0, 0) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        RAW(read, way[0], &byte, 1, 0);
        execl("/bin/true", "true", (char *)NULL);
    }
    connects();
    RAW(write, way[1], "!", 1, 0);
    child_ended(pid, 0);
}

SCENE("child-program", CHILD(fork(), execl("/bin/true", "true", (char *)NULL)))

/* A child with its own memory, of which only clone() knows. */
static void clone_apart(int (*child)(void *))
{
    enum { STACK = 256 * 1024 };
    char *stack = malloc(STACK);
    child_ended(clone(child, stack + STACK, SIGCHLD, NULL), 0);
    free(stack);
}

static int becomes_true(void *unused)
{
    (void)unused;
    return execl("/bin/true", "true", (char *)NULL);
}

static int installs_filter(void *unused)
{
    (void)unused;
    return !FORBID_NOTHING(false);
}

static int writes_six(void *unused)
{
    (void)unused;
    for (int i = 0; i < 6; i++)
        writes();
    return 0;
}

SCENE("clone-writes", clone_apart(writes_six))
SCENE("clone-program", clone_apart(becomes_true))
SCENE("clone-filter", clone_apart(installs_filter))
SCENE("clone-vfork", child_ended(clone_in_memory(ends_at_once, NULL, CLONE_VFORK), 0))
SCENE("clone-all", child_ended(clone_in_memory(becomes_true, NULL, CLONE_FILES), 0))
SCENE("cloexec",
      EXPECT(fcntl(near.fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(far.fd, F_SETFD, FD_CLOEXEC) == 0))
SCENE("exec", execl("/nonexistent", "nobody", (char *)NULL))

SCENARIO("exec-by-number")
{
    char *const arguments[] = {"nobody", NULL};
    syscall(SYS_execve, "/nonexistent", arguments, environ);
}

SCENE("_exit", _exit(0))
SCENE("exit", exit(0))
SCENE("close", close(near.fd))
SCENE("close-range", EXPECT(close_range((unsigned)near.fd, (unsigned)near.fd, 0) == 0))
SCENE("close-no-range", EXPECT(close_range(9, 3, CLOSE_RANGE_UNSHARE) == -1 && errno == EINVAL))
SCENE("close-by-number", syscall(SYS_close, near.fd))

SCENE("replace", EXPECT(dup2(2, near.fd) == near.fd))
SCENE("replace-by-dup3", EXPECT(dup3(2, near.fd, O_CLOEXEC) == near.fd))
SCENE("onto-itself", EXPECT(dup2(near.fd, near.fd) == near.fd))

/* More, one after another, than the library has memory for at its start. */
SCENE("many-sockets", for (int i = 0; i < 1100; i++) close(socket(AF_INET, SOCK_STREAM, 0)))

/* Unseen by the library. */
SCENE("is-covered", RAW(dup3, pair[0], near.fd, 0, 0))
SCENE("becomes-a-pipe", RAW(dup3, pair[0], near.fd, 0, 0);
      EXPECT(recv(near.fd, &byte, 1, 0) == -1 && errno == ENOTSOCK))
SCENE("becomes-other", RAW(dup3, far.fd, near.fd, 0, 0))

/* With the number of a connection that was closed unseen. */
SCENE("is-gone", EXPECT(write(near.fd, "x", 1) == -1 && errno == EBADF);
      EXPECT(read(near.fd, &byte, 1) == -1 && errno == EBADF);
      EXPECT(close(near.fd) == -1 && errno == EBADF))

/* A pipe, in the end. */
SCENARIO("becomes-writable")
{
    RAW(dup3, pair[1], near.fd, 0, 0);
    EXPECT(write(near.fd, "!", 1) == 1 && RAW(read, pair[0], &byte, 1, 0) == 1);
    EXPECT(send(near.fd, "x", 1, 0) == -1 && errno == ENOTSOCK);
    EXPECT(lseek(near.fd, 0, SEEK_CUR) == -1 && errno == ESPIPE);
}

static int receiver;

SCENE("becomes-udp", RAW(dup3, raw_udp(&receiver), near.fd, 0, 0))
SCENE("becomes-udp-by-number", int udp = raw_udp(&receiver); syscall(SYS_close, near.fd);
      EXPECT(syscall(SYS_dup3, udp, near.fd, 0) == near.fd))

SCENARIO("datagrams")
{
    EXPECT(write(near.fd, "first", 5) == 5 && send(near.fd, "second", 6, 0) == 6);
    datagram(receiver, "first");
    datagram(receiver, "second");
}

SCENE("fed", RAW(write, pair[1], "!", 1, 0); EXPECT(read(near.fd, &byte, 1) == 1))

SCENARIO("repair")
{
    enum { OFF_WITHOUT_PROBE = -1 };
    ask(TCP_REPAIR, 1);
    ask(TCP_REPAIR, OFF_WITHOUT_PROBE);
}

static int spare;

SCENE("copy", spare = dup(near.fd))

SCENARIO("cork-copy")
{
    int on = 1;
    EXPECT(setsockopt(spare, IPPROTO_TCP, TCP_CORK, &on, sizeof on) == 0);
}

SCENARIO("swap")
{
    int fd = near.fd;
    near.fd = spare;
    spare = fd;
}

/* Unseen by the library, while there is a duplicate. */
SCENE("vanish", RAW(close, near.fd, 0, 0, 0))

static struct conn left;
static _Atomic bool has_read;

static void *reads_left(void *unused)
{
    EXPECT(read(left.fd, &byte, 1) == 1);
    has_read = true;
    return unused;
}

/* A thread waits for data of the connection, while another thread closes it and reuses its number.
 */
SCENARIO("reader")
{
    pthread_t reader;
    left = near;
    EXPECT(pthread_create(&reader, NULL, reads_left, NULL) == 0);
    compute_ms(20);
    close(left.fd);
    EXPECT(RAW(dup3, 2, left.fd, 0, 0) == left.fd);
}

SCENARIO("reader-hears")
{
    double begin = now_ms();
    answer(left.peer, "!");
    while (!has_read) /* unseen by the library */
        EXPECT(look_again(begin, 2000));
}

SCENE("stdout", EXPECT(dup2(near.fd, 1) == 1))
SCENE("note", EXPECT(write(1, "note\n", 5) == 5))

static FILE *stream;

SCENE("fdopen", EXPECT((stream = fdopen(near.fd, "r+")) != NULL))
SCENE("fread", says(); EXPECT(fread(&byte, 1, 1, stream) == 1))
SCENE("fclose", EXPECT(fclose(stream) == 0))

/* Reads a file that gets the descriptor of a stream that was closed. */
SCENARIO("file-there")
{
    static char data[40000];
    do
        EXPECT((stream = fopen("/proc/self/exe", "re")) != NULL);
    while (fileno(stream) < near.fd);
    EXPECT(fileno(stream) == near.fd);
    for (int i = 0; i < 8; i++)
        EXPECT(fread(data, 1, 5000, stream) == 5000);
}

SCENARIO_NAMED(is_passed, "pass")
{
    open_pair(pair);
    send_right(pair[0], near.fd);
}

SCENE("pass-listener-back", open_pair(pair); send_right(pair[0], listener);
      RAW(close, listener, 0, 0, 0); listener = receive_right(pair[1]))
SCENE("pass-listener", open_pair(pair); send_right(pair[0], listener))
SCENE("child-passes", CHILD(fork(), (is_passed(), true)))

static void passing_fails(int fd)
{
    open_pair(pair);
    RAW(close, pair[1], 0, 0, 0);
    EXPECT(try_to_send_right(pair[0], fd) == -1);
}

SCENE("pass-fails", passing_fails(near.fd))
SCENE("pass-listener-fails", passing_fails(listener))

SCENARIO("pass-back")
{
    is_passed();
    RAW(close, near.fd, 0, 0, 0);
    near.fd = receive_right(pair[1]);
}

SCENARIO("pass-back-by-number")
{
    struct right right;
    is_passed();
    RAW(close, near.fd, 0, 0, 0);
    EXPECT(syscall(SYS_recvmsg, pair[1], right_message(&right, &byte, 1, -1), 0) == 1);
    near.fd = right_of(&right);
}

static unsigned long requests;
SCENE("aio", EXPECT(syscall(SYS_io_setup, 1, &requests) == 0))
SCENE("no-aio", EXPECT(syscall(SYS_io_setup, 0, &requests) == -1))
SCENE("no-uring", EXPECT(syscall(SYS_io_uring_setup, 0, NULL) == -1))
SCENE("write-by-number", EXPECT(syscall(SYS_write, near.fd, "piece", 5) == 5))

SCENE("filter", EXPECT(FORBID_NOTHING(false)))
SCENE("filter-by-number", EXPECT(FORBID_NOTHING(true)))

SCENE("refused", EXPECT(is_refused_filter(false) && is_refused_filter(true)))

static void *is_refused_for_long(void *unused)
{
    for (int i = 0; i < 2000; i++)
        EXPECT(is_refused_filter(false));
    return unused;
}

/* Another thread's are refused before, at the same time, and afterwards. */
SCENARIO("filter-meanwhile")
{
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, is_refused_for_long, NULL) == 0);
    compute_ms(2);
    EXPECT(FORBID_NOTHING(false));
    pthread_join(thread, NULL);
}

static void *may_read_clock(void *unused)
{
    EXPECT(prctl(PR_SET_TSC, PR_TSC_ENABLE) == 0);
    return unused;
}

static void *allows_everything(void *unused)
{
    EXPECT(FORBID_NOTHING(false));
    return unused;
}

/* The other thread's begins first, and has a hundred connections to visit before the last one. */
SCENARIO("second-filter")
{
    pthread_t thread;
    struct conn last;
    for (int i = 0; i < 199; i++) {
        last = i % 2 ? last : open_conn();
        EXPECT(write(last.fd, "piece", 5) == 5);
    }
    EXPECT(pthread_create(&thread, NULL, allows_everything, NULL) == 0);
    compute_ms(2);
    EXPECT(filter_calls(false, (const int[]){SYS_setsockopt, -1}, SECCOMP_RET_KILL_PROCESS,
                        SECCOMP_RET_ALLOW));
    EXPECT(write(last.fd, "piece", 5) == 5);
    pthread_join(thread, NULL);
}

/* Neither a call that fails nor another thread's changes that. */
SCENARIO("tsc")
{
    pthread_t thread;
    EXPECT(prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0 && prctl(PR_SET_TSC, 77) == -1);
    pthread_create(&thread, NULL, may_read_clock, NULL);
    pthread_join(thread, NULL);
}
SCENE("child-filter", CHILD(fork(), FORBID_NOTHING(false)))

static _Atomic int staying;

static void *write_and_stay(void *unused)
{
    for (int i = 0; i < 5; i++)
        writes();
    staying = 1;
    RAW(ppoll, 0, 0, 0, 0);
    return unused;
}

static void writes_last(void *unused)
{
    (void)unused;
    for (int i = 0; i < 5; i++)
        writes();
}

/* This thread writes five pieces when it ends, after the library has seen that. */
SCENARIO("last-words")
{
    pthread_key_t later;
    EXPECT(pthread_key_create(&later, writes_last) == 0 && pthread_setspecific(later, "") == 0);
}

/* A thread that writes five pieces and then waits unseen. */
SCENARIO("another")
{
    pthread_t thread;
    pthread_create(&thread, NULL, write_and_stay, NULL);
    while (!staying)
        RAW(sched_yield, 0, 0, 0, 0);
}
