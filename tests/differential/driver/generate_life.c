/* SPDX-License-Identifier: MIT */
/* Lines that make, alter, copy and close descriptors, and what the peer does. */
#include "maker.h"

void make_epoll(struct maker *maker)
{
    char epoll = pick(maker, EPOLL_SET);
    if (thing_of(maker, epoll) != EPOLL_SET) {
        epoll = unused(maker);
        say(maker, "epoll %c %d\n", epoll, below(maker, 2));
        has(maker, epoll, EPOLL_SET);
    }
    say(maker, "epoll_ctl %c %s %c %s\n", epoll, one_of(maker, "add add add mod del"),
        pick(maker, ANY & ~EPOLL_SET),
        one_of(maker, "POLLIN POLLIN POLLIN|EPOLLET POLLIN|POLLOUT|EPOLLET POLLOUT "
                      "POLLIN|EPOLLONESHOT POLLIN|POLLRDHUP"));
}

void make_option(struct maker *maker)
{
    char slot = pick(maker, STREAMS | LISTENER | UNCONNECTED);
    switch (below(maker, 8)) {
    case 0 ... 2:
        prefix(maker, false);
        say(maker, "getsockopt %c %s %s\n", slot,
            one_of(maker,
                   "TCP_NODELAY TCP_NODELAY TCP_NODELAY TCP_CORK TCP_QUICKACK TCP_MAXSEG "
                   "TCP_DEFER_ACCEPT TCP_USER_TIMEOUT TCP_KEEPIDLE TCP_NOTSENT_LOWAT TCP_INFO "
                   "SO_RCVLOWAT SO_SNDBUF SO_RCVBUF SO_KEEPALIVE SO_LINGER SO_ERROR SO_RCVTIMEO "
                   "SO_TYPE SO_PROTOCOL SO_DOMAIN SO_ACCEPTCONN SO_ZEROCOPY IP_TOS "
                   "TCP_DELACK_MAX_US TCP_WINDOW_CLAMP SO_PRIORITY"),
            percent(maker, 15) ? one_of(maker, "3 1 0 -1 8") : "");
        break;
    case 3 ... 4:
        prefix(maker, false);
        say(maker, "setsockopt %c %s=%s %s\n", slot,
            /* What a forked child sets, its parent's shim cannot know of. */
            maker->children
                ? "TCP_QUICKACK"
                : one_of(maker, "TCP_NODELAY TCP_NODELAY TCP_NODELAY TCP_QUICKACK TCP_QUICKACK"),
            one_of(maker, "0 1 1 2"), percent(maker, 4) ? one_of(maker, "3 0 8") : "");
        break;
    case 5:
        say(maker, "setsockopt %c %s\n", slot,
            one_of(maker, "SO_KEEPALIVE=1 SO_RCVLOWAT=1 SO_RCVLOWAT=100 SO_RCVTIMEO=3000 "
                          "SO_RCVTIMEO=0 TCP_USER_TIMEOUT=9000 TCP_DELACK_MAX_US=20000 "
                          "TCP_KEEPIDLE=77 IP_TOS=16 SO_PRIORITY=3 TCP_NOTSENT_LOWAT=16384 "
                          "SO_SNDBUF=100000 SO_SNDBUF=0 SO_RCVBUF=200000 SO_LINGER=-1 SO_LINGER=0 "
                          "SO_LINGER=3 TCP_DEFER_ACCEPT=1 TCP_MAXSEG=1000 SO_OOBINLINE=1 "
                          "TCP_CORK=1 TCP_CORK=0 TCP_LINGER2=3 SO_BUSY_POLL=10"));
        break;
    case 6:
        say(maker, "%s\n", percent(maker, 50) ? "descriptors" : "mask");
        if (maker->features & THREADS)
            say(maker, "threads\n");
        break;
    default:
        if (percent(maker, 50))
            say(maker, "%s %c %s\n", one_of(maker, "getpeername getsockname"), slot,
                one_of(maker, "16 16 4 0 -1"));
        else if (percent(maker, 50))
            say(maker, "fionbio %c %s\n", slot, one_of(maker, "0 0 1"));
        else
            say(maker, "fcntl %c %s\n", slot,
                one_of(maker, "F_GETFL F_GETFD F_SETFL=O_NONBLOCK F_SETFL=0 F_SETFD=FD_CLOEXEC"));
    }
}

void make_new(struct maker *maker)
{
    char slot = unused(maker), listener;
    switch (below(maker, 11)) {
    case 0 ... 2:
        say(maker, "connect %c %s\n", slot,
            one_of(maker, "0 0 0 SOCK_NONBLOCK SOCK_CLOEXEC SOCK_NONBLOCK|SOCK_CLOEXEC"));
        has(maker, slot, TCP);
        break;
    case 3:
        has(maker, slot, OWN_PAIR);
        say(maker, "pair %c ", slot);
        slot = unused(maker);
        has(maker, slot, OWN_PAIR);
        say(maker, "%c\n", slot);
        break;
    case 4:
        has(maker, slot, LOCAL);
        say(maker, "%s %c ", one_of(maker, "socketpair pipe udp"), slot);
        slot = unused(maker);
        has(maker, slot, LOCAL);
        say(maker, "%c\n", slot);
        break;
    case 5:
        say(maker, "listen %c %s\n", slot, one_of(maker, "0 0 SOCK_NONBLOCK"));
        has(maker, slot, LISTENER);
        break;
    case 6 ... 8:
        listener = pick(maker, LISTENER);
        prefix(maker, true);
        say(maker, "accept %c %c %s%s\n", listener, slot,
            one_of(maker, "- - 0 SOCK_NONBLOCK SOCK_CLOEXEC SOCK_NONBLOCK|SOCK_CLOEXEC 0x1"),
            percent(maker, 30) ? " address" : "");
        has(maker, slot, TCP);
        break;
    case 9:
        say(maker, "socket %c 0\n", slot);
        has(maker, slot, UNCONNECTED);
        break;
    default:
        slot = pick(maker, UNCONNECTED | TCP);
        prefix(maker, false);
        say(maker, "%s %c\n", one_of(maker, "reconnect reconnect refused disconnect"), slot);
        if (thing_of(maker, slot) == UNCONNECTED)
            has(maker, slot, TCP);
    }
}

void make_copy(struct maker *maker)
{
    char from = pick(maker, ANY), to = percent(maker, 70) ? unused(maker) : pick(maker, ANY);
    switch (below(maker, 6)) {
    case 0 ... 1:
        say(maker, "dup %c %c\n", from, to);
        break;
    case 2:
        say(maker, "dupfd %c %c %s\n", from, to, percent(maker, 50) ? "cloexec" : "");
        break;
    case 3:
        say(maker, "dup2 %c %c\n", from, to);
        break;
    case 4:
        say(maker, "dup3 %c %c %s\n", from, to, one_of(maker, "0 O_CLOEXEC 1"));
        break;
    default:
        from = pick(maker, TCP);
        if (percent(maker, 50))
            say(maker, "pass %c %c\n", from, to);
        else
            say(maker, "lend %c %s\n", from, size(maker));
        return;
    }
    has(maker, to, thing_of(maker, from));
}

void make_close(struct maker *maker)
{
    char slot = pick(maker, ANY);
    switch (below(maker, 8)) {
    case 0 ... 2:
        say(maker, "close %c\n", slot);
        break;
    case 3:
        say(maker, "close_range %c %s\n", slot, one_of(maker, "0 0 CLOSE_RANGE_UNSHARE"));
        break;
    case 4:
        say(maker, "close_range %c CLOSE_RANGE_CLOEXEC\n", slot);
        return;
    case 5:
        say(maker, "syscall_close %c\n", slot);
        break;
    default:
        say(maker, "shutdown %c %s\n", pick(maker, STREAMS),
            one_of(maker, "SHUT_WR SHUT_WR SHUT_RD SHUT_RDWR"));
        return;
    }
    has(maker, slot, NO_THING);
}

void make_peer(struct maker *maker)
{
    char slot = pick(maker, TCP);
    if (percent(maker, 65))
        say(maker, "check %c\n", slot);
    else if (percent(maker, 50))
        say(maker, "peer_send %c %s\n", slot, size(maker));
    else if (percent(maker, 40))
        say(maker, "%s %c\n", one_of(maker, "peer_stop peer_resume"), slot);
    else if (percent(maker, 40))
        say(maker, "peer_half %c\n", slot);
    else if (maker->features & RESETS)
        say(maker, "%s %c\n", one_of(maker, "peer_close peer_reset"), slot);
}
