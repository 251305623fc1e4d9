/* SPDX-License-Identifier: MIT */
/* Sockets that outlive an exec or go to another process: where the library is there too, it goes on
 * with them; where it is not, they are as the program has made them. See promise.h. */
#include "promise.h"

enum { HANDED = 10, PEER = 11 };

/* What a socket has before anybody has set anything. */
static int first_of(int option)
{
    int fd = (int)RAW(socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0, 0);
    int value = option_of(fd, option);
    RAW(close, fd, 0, 0, 0);
    return value;
}

static bool is_as_made(int fd)
{
    return option_of(fd, TCP_NODELAY) == 0 &&
           option_of(fd, DELACK_MAX_US) == first_of(DELACK_MAX_US);
}

/* A stream of small writes is joined by the kernel, and what a wait follows is not late. */
static void streams(int fd)
{
    never_asked(fd);
    for (int i = 0; i < 10; i++)
        EXPECT(write(fd, "a piece", 7) == 7);
    EXPECT(!has_nodelay(fd));
    never_asked(fd);
    is_governed(fd);
}

static int connect_unseen(const struct sockaddr_in *address)
{
    int fd = (int)RAW(socket, AF_INET, SOCK_STREAM, 0, 0);
    EXPECT(RAW(connect, fd, address, sizeof *address, 0) == 0);
    return fd;
}

/* The next connection of the listener that was handed over. */
static int accept_one(void)
{
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    EXPECT(RAW(getsockname, HANDED, &address, &len, 0) == 0);
    connect_unseen(&address);
    return accept(HANDED, NULL, NULL);
}

static void role_accepts(void)
{
    never_asked(HANDED);
    streams(accept_one());
}

static void role_writes(void)
{
    streams(HANDED);
}

/* Has no library. */
static void role_unshimmed(void)
{
    EXPECT(getenv("LD_PRELOAD") == NULL);
    EXPECT(is_as_made(HANDED));
    EXPECT(is_as_made(accept_one()));
}

/* One of our own, and as the library has it. */
static int listen_here(struct sockaddr_in *address)
{
    socklen_t len = sizeof *address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    *address = loopback(0);
    EXPECT(bind(fd, (struct sockaddr *)address, len) == 0 && listen(fd, 8) == 0);
    EXPECT(getsockname(fd, (struct sockaddr *)address, &len) == 0);
    EXPECT(has_nodelay(fd) == (getenv("LD_PRELOAD") != NULL));
    return fd;
}

/* The child's program goes on as another, which has the descriptor. */
static void goes_on_as(const char *role, bool listens)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct sockaddr_in address;
        struct conn conn = {.peer = -1};
        alarm(8);
        if (listens) {
            conn.fd = listen_here(&address);
        } else {
            conn = open_conversing();
            RAW(dup3, conn.peer, PEER, 0, 0); /* it stays, too */
        }
        dup2(conn.fd, HANDED);
        close(conn.fd);
        if (strcmp(role, "role-unshimmed") == 0)
            unsetenv("LD_PRELOAD");
        execl("/proc/self/exe", "promise_handed", role, (char *)NULL);
        _exit(9);
    }
    child_ended(pid, 0);
}

static void listener_stays(void)
{
    goes_on_as("role-accepts", true);
}

static void connection_stays(void)
{
    goes_on_as("role-writes", false);
}

static void listener_leaves(void)
{
    goes_on_as("role-unshimmed", true);
}

/* A child's program has a copy of the parent's listener, from which the parent goes on to accept.
 */
static void listener_is_shared(void)
{
    struct sockaddr_in address;
    int listener = listen_here(&address);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(9);
    }
    child_ended(pid, 0);
    EXPECT(has_nodelay(listener) == (getenv("LD_PRELOAD") != NULL));
    close(listener);
}

static void listener_is_sent(void)
{
    struct sockaddr_in address;
    int pair[2], listener = listen_here(&address);
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    send_right(pair[0], listener);
    EXPECT(is_as_made(listener));
    int client = connect_unseen(&address);
    int server = (int)RAW(accept4, listener, 0, 0, 0);
    EXPECT(is_as_made(server));
    RAW(close, client, 0, 0, 0);
    RAW(close, server, 0, 0, 0);
    close(listener);
    close(pair[0]);
    close(pair[1]);
}

static const struct scenario roles[] = {
    {"role-accepts", role_accepts},
    {"role-writes", role_writes},
    {"role-unshimmed", role_unshimmed},
};

static const struct scenario scenarios[] = {
    {"listener-stays", listener_stays},     {"connection-stays", connection_stays},
    {"listener-leaves", listener_leaves},   {"listener-is-shared", listener_is_shared},
    {"listener-is-sent", listener_is_sent},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < sizeof roles / sizeof *roles; i++) {
        if (strcmp(argv[1], roles[i].name) != 0)
            continue;
        results =
            mmap(NULL, sizeof *results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        roles[i].run();
        return results->wrong != 0;
    }
    return life_main(argc, argv, scenarios, sizeof scenarios / sizeof *scenarios);
}
