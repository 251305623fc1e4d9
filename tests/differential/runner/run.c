/* SPDX-License-Identifier: MIT */
/* Runs the program repeatedly. A request on standard input is a line with the library or nothing, a
 * line with the policy or nothing, a line "PATIENCE SIZE", and a script of that size. The reply is
 * a line "CALLS SIZE" and the trace. A program that does not call the runner for PATIENCE
 * milliseconds hangs, and is killed. Usage: runner PROGRAM */
#include "runner.h"

enum { RUNS_OF_A_LISTENER = 500 };

static const char *program;
static long patience;
static struct shared *shared;
static int nothing_fd, errors_fd, listener_fd = -1, refused_fd = -1;

_Noreturn static void fail(const char *what)
{
    fprintf(stderr, "differential runner: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void fill_pattern(void)
{
    uint32_t state = 2463534242U;
    for (size_t i = 0; i < PATTERN_PERIOD; i++) {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        shared->pattern[i] = (char)('a' + state % 26);
    }
    for (size_t i = PATTERN_PERIOD; i < sizeof shared->pattern; i++)
        shared->pattern[i] = shared->pattern[i - PATTERN_PERIOD];
}

static int bound(uint32_t address, uint16_t *port)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = address};
    socklen_t length = sizeof name;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&name, length) != 0 ||
        getsockname(fd, (struct sockaddr *)&name, &length) != 0)
        fail("bind");
    *port = name.sin_port;
    return fd;
}

/* Uses another address from time to time, because ports in TIME_WAIT cannot be used again. */
static void new_listener(void)
{
    static uint32_t count;
    uint32_t address = htonl(0x7f010001U + ((uint32_t)getpid() * 64 + count++) % 0x300000);
    int size = 64 * 1024;
    if (listener_fd >= 0)
        close(listener_fd);
    if (refused_fd >= 0)
        close(refused_fd);
    shared->listener = address;
    listener_fd = bound(address, &shared->listener_port);
    refused_fd = bound(address, &shared->refused_port);
    setsockopt(listener_fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    if (listen(listener_fd, 16) != 0)
        fail("listen");
}

static void set_up(const char *path)
{
    struct rlimit files = {4096, 4096};
    program = path;
    /* The program must always have the same free descriptors. */
    close_range(3, ~0U, 0);
    if (setrlimit(RLIMIT_NOFILE, &files) != 0)
        files = (struct rlimit){CONTROL_FD + 10, CONTROL_FD + 10};
    int fd = memfd_create("shared", 0);
    if (fd < 0 || dup2(fd, SHARED_FD) < 0 || ftruncate(fd, sizeof *shared) != 0)
        fail("memory");
    close(fd);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, SHARED_FD, 0);
    if (shared == MAP_FAILED)
        fail("memory");
    nothing_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    errors_fd = memfd_create("errors", MFD_CLOEXEC);
    signal(SIGPIPE, SIG_IGN);
    fill_pattern();
}

static void make_environment(const char *library, const char *policy, char *environment[8],
                             char *room, size_t size)
{
    int n = 0;
    size_t used = 0;
    const char *values[][2] = {{"LD_PRELOAD", library},
                               {"NAGLESHIM_POLICY", policy},
                               {"NAGLESHIM_POLICY_DIR", "/nonexistent"},
                               {"NAGLESHIM_RECORD", library ? getenv("NAGLESHIM_RECORD") : NULL},
                               {"MISTAKE", library ? getenv("MISTAKE") : NULL},
                               {"PATH", "/usr/bin:/bin"},
                               {"LC_ALL", "C"}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        if (!values[i][1])
            continue;
        environment[n++] = room + used;
        used += (size_t)snprintf(room + used, size - used, "%s=%s", values[i][0], values[i][1]) + 1;
    }
    environment[n] = NULL;
}

static pid_t start(const char *library, const char *policy, int control)
{
    char room[8192], *environment[8];
    char *arguments[] = {(char *)(uintptr_t)program, NULL};
    make_environment(library, policy, environment, room, sizeof room);
    pid_t pid = vfork();
    if (pid == 0) {
        setpgid(0, 0);
        dup2(nothing_fd, 0);
        dup2(nothing_fd, 1);
        dup2(errors_fd, 2);
        dup2(control, CONTROL_FD);
        /* Ignored signals stay ignored across exec. */
        signal(SIGPIPE, SIG_DFL);
        execve(program, arguments, environment);
        _exit(127);
    }
    if (pid < 0)
        fail("vfork");
    return pid;
}

static void append(const char *text, const char *more)
{
    size_t room = TRACE_MOST - shared->trace_length;
    int n = snprintf(shared->trace + shared->trace_length, room, "%s%s\n", text, more);
    shared->trace_length += (uint32_t)(n < (int)room ? n : (int)room - 1);
}

static long milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Serves the program until it has ended. False: it made no request for too long. */
static bool serve(int control, int process)
{
    long last = milliseconds();
    for (;;) {
        struct pollfd items[CONNECTIONS + 2] = {{.fd = control, .events = POLLIN},
                                                {.fd = process, .events = POLLIN}};
        int count = peer_descriptors(items, 2);
        struct timespec wait = {peer_has_orders() ? 0 : 1, peer_has_orders() ? 30000 : 0};
        if (ppoll(items, (nfds_t)count, &wait, NULL) < 0)
            fail("poll");
        if (items[0].revents & POLLIN) {
            last = milliseconds();
            peer_message();
        }
        for (int i = 2; i < count; i++)
            if (items[i].revents)
                peer_readable(items[i].fd);
        if (items[1].revents)
            return true;
        if (items[0].revents & POLLIN)
            continue;
        if (milliseconds() - last > patience)
            return false;
        peer_turn();
    }
}

static bool note_end(pid_t pid, bool ended)
{
    int status = 0;
    char text[64];
    if (!ended) {
        append("HANGS in ", shared->current);
        kill(-pid, SIGKILL);
    }
    waitpid(pid, &status, 0);
    kill(-pid, SIGKILL);
    if (WIFEXITED(status))
        snprintf(text, sizeof text, "%d", WEXITSTATUS(status));
    else
        snprintf(text, sizeof text, "signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    append("ended: ", text);
    return !ended || WIFSIGNALED(status);
}

static void note_errors(void)
{
    char text[2048];
    ssize_t n = pread(errors_fd, text, sizeof text - 1, 0);
    if (n <= 0)
        return;
    text[n] = '\0';
    append("on stderr: ", text);
    if (ftruncate(errors_fd, 0) != 0 || lseek(errors_fd, 0, SEEK_SET) != 0)
        fail("stderr of the program");
}

static void run(const char *library, const char *policy)
{
    static unsigned runs;
    int control[2];
    if (runs++ % RUNS_OF_A_LISTENER == 0)
        new_listener();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) != 0)
        fail("socketpair");
    shared->trace_length = shared->calls = shared->handled = 0;
    memset(shared->connections, 0, sizeof shared->connections);
    peer_begin(shared, control[0], listener_fd);
    pid_t pid = start(library, policy, control[1]);
    close(control[1]);
    int process = (int)syscall(SYS_pidfd_open, pid, 0);
    bool killed = note_end(pid, serve(control[0], process));
    close(process);
    close(control[0]);
    peer_finish(killed);
    note_errors();
}

/* Reads a line without its newline; NULL if it is empty. */
static const char *read_line(char *room, int size)
{
    if (!fgets(room, size, stdin))
        exit(0);
    room[strcspn(room, "\n")] = '\0';
    return *room ? room : NULL;
}

int main(int argc, char **argv)
{
    char library_room[4096], policy_room[1024], numbers[64];
    if (argc != 2)
        return 2;
    set_up(argv[1]);
    for (;;) {
        const char *library = read_line(library_room, sizeof library_room);
        const char *policy = read_line(policy_room, sizeof policy_room);
        size_t size;
        read_line(numbers, sizeof numbers);
        if (sscanf(numbers, "%ld %zu", &patience, &size) != 2 || size >= sizeof shared->script ||
            fread(shared->script, 1, size, stdin) != size)
            return 2;
        shared->script[size] = '\0';
        run(library, policy);
        printf("%u %u\n", shared->calls, shared->trace_length);
        fwrite(shared->trace, 1, shared->trace_length, stdout);
        fflush(stdout);
    }
}
