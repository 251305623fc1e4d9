/* SPDX-License-Identifier: MIT */
/* Options of sockets and descriptors: what a program sets, and what it is told afterwards. */
#ifndef PROBES_CALLS_OPTION_H
#define PROBES_CALLS_OPTION_H

#include "record.h"

#include <netinet/tcp.h>
#include <sys/ioctl.h>

static const struct option_row {
    const char *name;
    int level, option;
} option_rows[] = {
    {"TCP_NODELAY", IPPROTO_TCP, TCP_NODELAY},
    {"TCP_CORK", IPPROTO_TCP, TCP_CORK},
    {"TCP_MAXSEG", IPPROTO_TCP, TCP_MAXSEG},
    {"TCP_KEEPIDLE", IPPROTO_TCP, TCP_KEEPIDLE},
    {"TCP_USER_TIMEOUT", IPPROTO_TCP, TCP_USER_TIMEOUT},
    {"TCP_NOTSENT_LOWAT", IPPROTO_TCP, 25},
    {"TCP_DELACK_MAX_US", IPPROTO_TCP, 46},
    {"SO_DEBUG", SOL_SOCKET, SO_DEBUG},
    {"SO_TYPE", SOL_SOCKET, SO_TYPE},
    {"SO_ERROR", SOL_SOCKET, SO_ERROR},
    {"SO_SNDBUF", SOL_SOCKET, SO_SNDBUF},
    {"SO_RCVBUF", SOL_SOCKET, SO_RCVBUF},
    {"SO_KEEPALIVE", SOL_SOCKET, SO_KEEPALIVE},
    {"SO_RCVLOWAT", SOL_SOCKET, SO_RCVLOWAT},
    {"SO_PRIORITY", SOL_SOCKET, SO_PRIORITY},
    {"SO_ACCEPTCONN", SOL_SOCKET, SO_ACCEPTCONN},
    {"IP_TOS", IPPROTO_IP, IP_TOS},
    {"IP 1", IPPROTO_IP, 1},
    {"IPV6_TCLASS", IPPROTO_IPV6, 67},
    {"UDP 1", IPPROTO_UDP, 1},
    {"unknown level", 12345, TCP_NODELAY},
    {"unknown option", IPPROTO_TCP, 9999},
    {"negative", -1, -1},
};

static void option_get(int fd, const struct option_row *row, socklen_t len)
{
    unsigned char value[16];
    char line[64];
    memset(value, 0x77, sizeof value);
    snprintf(line, sizeof line, "getsockopt(%s, %d)", row->name, (int)len);
    errno = UNTOUCHED;
    int result = getsockopt(fd, row->level, row->option, value, &len);
    record_result(line, result, errno);
    record_value("length", (int)len);
    record_bytes("value", value, 8);
}

static void option_set(int fd, const struct option_row *row, int value, socklen_t len)
{
    char line[64];
    snprintf(line, sizeof line, "setsockopt(%s, %d, %d)", row->name, value, (int)len);
    errno = UNTOUCHED;
    int result = setsockopt(fd, row->level, row->option, &value, len);
    record_result(line, result, errno);
}

static void option_each(int fd)
{
    static const socklen_t lengths[] = {0, 1, 3, 4, 5, 8, (socklen_t)-1};
    static const int values[] = {1, 0, 2, -1, 70000};
    for (size_t i = 0; i < sizeof option_rows / sizeof *option_rows; i++) {
        const struct option_row *row = &option_rows[i];
        for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++)
            option_get(fd, row, lengths[n]);
        for (size_t n = 0; n < sizeof values / sizeof *values; n++) {
            option_set(fd, row, values[n], 4);
            option_get(fd, row, 4);
        }
        option_set(fd, row, 1, 1);
        option_set(fd, row, 1, 0);
        option_set(fd, row, 1, 2);
        option_set(fd, row, 1, (socklen_t)-1);
        option_get(fd, row, 4);
        option_set(fd, row, 1, 4);
        option_set(fd, row, 0, 4);
    }
}

static void option_bad(int fd)
{
    int value = 1;
    socklen_t len = sizeof value;
    struct tcp_info info;
    CALL(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, none, 4));
    CALL(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, nowhere, 4));
    CALL(setsockopt(fd, IPPROTO_TCP, TCP_CORK, nowhere, 4));
    CALL(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, nowhere, 4));
    CALL(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, none, &len));
    CALL(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, nowhere, &len));
    CALL(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, none));
    CALL(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, nowhere));
    len = 0;
    CALL(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, none, &len));
    len = sizeof info;
    CALL(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len));
    record_value("length", (int)len);
}

static void option_descriptor(int fd)
{
    int value = 1, pending = -1;
    struct flock lock = {.l_type = F_RDLCK};
    CALL(ioctl(fd, FIONREAD, &pending));
    record_value("pending", pending);
    CALL(ioctl(fd, FIONBIO, &value));
    CALL(fcntl(fd, F_GETFL));
    value = 0;
    CALL(ioctl(fd, FIONBIO, &value));
    CALL(ioctl(fd, FIONBIO, none));
    CALL(ioctl(fd, FIONBIO, nowhere));
    CALL(ioctl(fd, 0x12345678UL, &value));
    CALL(fcntl(fd, F_GETFL));
    CALL(fcntl(fd, F_SETFL, O_NONBLOCK));
    CALL(fcntl64(fd, F_GETFL));
    CALL(fcntl64(fd, F_SETFL, 0));
    CALL(fcntl(fd, F_SETFD, FD_CLOEXEC));
    CALL(fcntl(fd, F_GETFD));
    CALL(fcntl(fd, F_SETLK, &lock));
    CALL(fcntl(fd, F_GETLK, nowhere));
    CALL(fcntl(fd, F_GETPIPE_SZ));
    CALL(fcntl(fd, 12345, 1));
    CALL(fcntl(fd, F_DUPFD, -1));
    int copy = fcntl(fd, F_DUPFD, 100);
    record_value("F_DUPFD", copy);
    close(copy);
    copy = fcntl64(fd, F_DUPFD_CLOEXEC, 101);
    record_value("F_DUPFD_CLOEXEC", copy);
    close(copy);
}

static void calls_option_main(void)
{
    struct pair pair = open_pair();
    option_each(pair.a);
    option_bad(pair.a);
    option_descriptor(pair.a);
    option_bad(NO_FD);
    option_descriptor(NO_FD);
    close_pair(pair);
}

static void calls_option(void)
{
    calls_option_main();
    struct sockaddr_in address;
    int others[] = {socket(AF_INET, SOCK_STREAM, 0),   socket(AF_INET6, SOCK_STREAM, 0),
                    open_listener(&address),           socket(AF_INET, SOCK_DGRAM, 0),
                    socket(AF_UNIX, SOCK_STREAM, 0),   open("/dev/null", O_RDWR),
                    socket(AF_INET, SOCK_STREAM, 262), socket(AF_INET, SOCK_STREAM, 132)};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        record_add("%s: # descriptor %zu\n", record_context, i);
        option_each(others[i]);
        option_bad(others[i]);
        option_descriptor(others[i]);
        close(others[i]);
    }
    /* What a listener was told, its connections are asked. */
    int listener = open_listener(&address), one = 1, value = 0;
    socklen_t len = sizeof value;
    setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    must(connect(client, (struct sockaddr *)&address, sizeof address) == 0, "connect");
    int server = accept(listener, NULL, NULL);
    CALL(getsockopt(server, IPPROTO_TCP, TCP_NODELAY, &value, &len));
    record_value("inherited", value);
    close(listener);
    close(client);
    close(server);
}

#endif
