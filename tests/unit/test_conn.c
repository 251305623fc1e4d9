/* SPDX-License-Identifier: MIT */
/* The table of descriptors and the objects in it, and what the kernel says of a descriptor. */
#include "conn/fds.h"
#include "conn/kernel.h"
#include "conn/process.h"

#include "unit.h"

#include <netinet/tcp.h>

enum { HIGH = 3 * NS_FD_CHUNK + 5, NUMBERS = 4 * NS_FD_CHUNK };

static int visits, last;

static void visit(int fd, struct ns_conn *conn, void *context)
{
    visits += conn == context;
    last = fd;
}

CHECK(check_numbers)
{
    ns_fd_open(NUMBERS);
    OK(ns_fd_has_place(NUMBERS - 1) && !ns_fd_has_place(NUMBERS), "the table has its limit");
    struct ns_conn *low = ns_fd_make(5), *high = ns_fd_make(HIGH), *next = ns_fd_make(NS_FD_CHUNK);
    OK(low && high && low != high, "descriptors of any number get an object");
    OK(ns_fd_conn(5) == low && ns_fd_conn(HIGH) == high && ns_fd_conn(NS_FD_CHUNK) == next &&
           !ns_fd_conn(HIGH - 1),
       "and each number finds its own");
    OK(!ns_fd_conn(2 * NS_FD_CHUNK) && !ns_fd_conn(NUMBERS) && !ns_fd_conn(-1),
       "a number that was never used finds none, nor does one beyond the table");
    OK(ns_fd_other(high, 5) == HIGH && ns_fd_other(high, HIGH) == -1,
       "another number of an object is found");
    NS_PUT(high, kind, NS_CONN_MANAGED);
    ns_fd_each(visit, high);
    OK(visits == 1 && last == HIGH, "those with a rule are visited, and no others");
    ns_fd_set(5, NS_FD_UNKNOWN);
    ns_fd_set(HIGH, NS_FD_OTHER);
    OK(!ns_fd_conn(5) && !ns_fd_conn(HIGH), "they are forgotten again");
}

CHECK(check_references)
{
    struct ns_conn *first = ns_conn_make(), *conn = ns_conn_make(), *other;
    OK(first != conn && ns_conn_ref(conn), "an object can have several references");
    NS_PUT(conn, kind, NS_CONN_MANAGED);
    ns_conn_unref(conn);
    OK(NS_GET(conn, kind) == NS_CONN_MANAGED, "it stays until the last one is dropped");
    NS_PUT(conn, burst, 1);
    NS_PUT(conn, ack_state, 1);
    NS_PUT(conn, held, 1);
    ns_conn_unref(conn);
    OK(NS_GET(conn, kind) == NS_CONN_ALONE && !ns_conn_ref(conn),
       "then there is none to be had of it");
    OK((other = ns_conn_make()) == conn, "and it becomes the next one");
    OK(!NS_GET(other, burst) && !NS_GET(other, ack_state) && !NS_GET(other, held),
       "which knows nothing of the one before");
    for (int i = 0; i < 100000; i++)
        ns_conn_unref(other), other = ns_conn_make();
    OK(other == conn, "as often as it is released");
    ns_fd_set(7, conn);
    other = ns_fd_make(7);
    OK(other != conn && other != first && !ns_conn_ref(conn),
       "an object whose number gets another one is dropped");
    ns_fd_fill(7, conn = ns_conn_make());
    OK(ns_fd_conn(7) == other && !ns_conn_ref(conn), "one that comes too late is, too");
    ns_fd_set(7, NS_FD_FILE);
    ns_fd_fill(7, conn = ns_conn_make());
    OK(ns_fd_conn(7) == conn, "but it takes the place of a file, which may be closed");
    ns_fd_set(7, NS_FD_UNKNOWN);
}

static int bound(int domain, int type)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(domain, type, 0);
    if (domain == AF_INET ? bind(fd, (struct sockaddr *)&four, sizeof four)
                          : bind(fd, (struct sockaddr *)&six, sizeof six))
        perror("bind");
    return fd;
}

CHECK(check_kinds)
{
    int domains[] = {AF_INET, AF_INET6}, pair[2];
    for (int i = 0; i < 2; i++) {
        int listener = bound(domains[i], SOCK_STREAM), other = bound(domains[i], SOCK_DGRAM);
        int client = socket(domains[i], SOCK_STREAM | SOCK_NONBLOCK, 0);
        struct sockaddr_storage name;
        socklen_t len = sizeof name;
        listen(listener, 1);
        getsockname(listener, (struct sockaddr *)&name, &len);
        connect(client, (struct sockaddr *)&name, len);
        struct ns_kernel_kind server = ns_kernel_ask(listener), kind = ns_kernel_ask(client);
        OK(server.tcp && server.listens && !server.connected && !server.nonblock,
           "a listener is one, IPv%d", i ? 6 : 4);
        OK(kind.tcp && !kind.listens && kind.connected && kind.nonblock, "so is a connection");
        OK(!ns_kernel_ask(other).tcp && ns_kernel_ask(other).domain == domains[i], "UDP is no TCP");
        OK(ns_kernel_may_be_tcp(client) && ns_kernel_may_be_tcp(listener) &&
               !ns_kernel_may_be_tcp(other),
           "nor may it be, without a call of sockets");
        OK(!ns_kernel_is_file(client), "neither is it a file");
        OK(!ns_kernel_has_ulp(client), "a connection has no protocol above TCP");
        if (setsockopt(client, IPPROTO_TCP, TCP_ULP, "tls", sizeof "tls") == 0)
            OK(ns_kernel_has_ulp(client), "until it is given one");
        close(listener), close(other), close(client);
    }
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
        perror("socketpair");
    errno = ENOTTY;
    OK(!ns_kernel_ask(pair[0]).tcp && !ns_kernel_ask(-1).tcp && !ns_kernel_may_be_tcp(pair[0]) &&
           !ns_kernel_may_be_tcp(-1) && errno == ENOTTY,
       "a UNIX socket is no TCP socket, and errno stays");
    close(pair[0]), close(pair[1]);
}

CHECK(check_delack)
{
    struct ns_conn *conn = ns_conn_make();
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int fresh = ns_kernel_get(fd, IPPROTO_TCP, NS_DELACK_OPTION);
    if (fresh <= 0 || ns_kernel_set(fd, IPPROTO_TCP, NS_DELACK_OPTION, NS_DELACK_US)) {
        printf("# this kernel has no TCP_DELACK_MAX_US\n");
        ns_conn_unref(conn), close(fd);
        return;
    }
    ns_delack_bound(fd, conn);
    OK(!NS_GET(conn, delack), "without a rule about ACKs they are not limited");
    NS_PUT(conn, ack, NS_ACK_BEFORE_WAIT);
    ns_delack_bound(fd, conn);
    OK(NS_GET(conn, delack) == NS_DELACK_OURS, "the library's limit of another process is known");
    NS_PUT(conn, delack, NS_DELACK_UNASKED);
    ns_delack_found(fd, conn);
    OK(NS_GET(conn, delack) == NS_DELACK_OURS, "also if nothing has to be limited yet");
    enum { OTHER_US = 100000 };
    ns_kernel_set(fd, IPPROTO_TCP, NS_DELACK_OPTION, OTHER_US);
    NS_PUT(conn, delack, NS_DELACK_UNASKED);
    ns_delack_found(fd, conn);
    ns_delack_unbound(fd, conn);
    OK(NS_GET(conn, delack) == NS_DELACK_THEIRS &&
           ns_kernel_get(fd, IPPROTO_TCP, NS_DELACK_OPTION) == OTHER_US,
       "another one is the program's, and stays");
    close(fd);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    NS_PUT(conn, delack, NS_DELACK_UNASKED);
    ns_delack_bound(fd, conn);
    OK(NS_GET(conn, delack) == NS_DELACK_OURS &&
           ns_kernel_get(fd, IPPROTO_TCP, NS_DELACK_OPTION) == NS_DELACK_US,
       "a new socket gets the limit");
    ns_delack_unbound(fd, conn);
    OK(NS_GET(conn, delack) == NS_DELACK_UNASKED && ns_delack_of_fresh() == fresh &&
           ns_kernel_get(fd, IPPROTO_TCP, NS_DELACK_OPTION) == fresh,
       "and loses it again");
    ns_conn_unref(conn), close(fd);
}

CHECK(check_memory)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uintptr_t known = 0, none = 0;
    munmap(pages + page, page);
    errno = ENOTTY;
    OK(ns_kernel_can_read(pages + page - 8, 8, &known) && errno == ENOTTY,
       "what is mapped can be read");
    OK(!ns_kernel_can_read(pages + page - 8, 9, &none) && errno == ENOTTY,
       "what ends beyond it cannot, and errno stays");
    OK(!ns_kernel_can_read(NULL, 8, &none), "nor can a null pointer");
    munmap(pages, page);
}

#ifndef __SANITIZE_THREAD__ /* which has a thread of its own */
static void *sleeps(void *pipe_end)
{
    char byte;
    return read(*(int *)pipe_end, &byte, 1) < 0 ? pipe_end : NULL;
}

CHECK(check_threads)
{
    int ends[2];
    pthread_t thread;
    OK(!ns_process_has_threads(), "a process has one thread at first");
    if (pipe(ends) || pthread_create(&thread, NULL, sleeps, &ends[0]))
        abort();
    OK(ns_process_has_threads(), "others are seen");
    close(ends[1]);
    pthread_join(thread, NULL);
    close(ends[0]);
}
#endif
