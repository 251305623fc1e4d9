/* SPDX-License-Identifier: MIT */
/* Lines that write, read and wait. */
#include "maker.h"

static const char *send_flags(struct maker *maker)
{
    if (percent(maker, 60))
        return "0";
    return one_of(maker, "MSG_DONTWAIT MSG_NOSIGNAL MSG_DONTWAIT|MSG_NOSIGNAL MSG_MORE MSG_EOR "
                         "MSG_CONFIRM MSG_DONTROUTE MSG_OOB MSG_MORE|MSG_DONTWAIT 0x80000000");
}

static const char *read_flags(struct maker *maker)
{
    if (maker->place == IN_HANDLER)
        return "MSG_DONTWAIT";
    if (percent(maker, 45))
        return "0";
    return one_of(maker, "MSG_DONTWAIT MSG_PEEK MSG_WAITALL MSG_TRUNC MSG_PEEK|MSG_DONTWAIT "
                         "MSG_WAITALL|MSG_PEEK MSG_TRUNC|MSG_DONTWAIT MSG_OOB MSG_ERRQUEUE "
                         "MSG_WAITALL|MSG_TRUNC MSG_CMSG_CLOEXEC");
}

void make_write(struct maker *maker)
{
    char slot = pick(maker, percent(maker, 85) ? STREAMS : LOCAL);
    prefix(maker, false);
    switch (below(maker, 16)) {
    case 0 ... 3:
        say(maker, "write %c %s\n", slot, size(maker));
        break;
    case 4 ... 5:
        say(maker, "send %c %s %s\n", slot, size(maker), send_flags(maker));
        break;
    case 6:
        say(maker, "sendto %c %s %s\n", slot, size(maker), send_flags(maker));
        break;
    case 7:
        say(maker, "writev %c %s %d\n", slot, size(maker), below(maker, 6));
        break;
    case 8:
        say(maker, "pwritev2 %c %s %d %s\n", slot, size(maker), below(maker, 6),
            one_of(maker, "0 0 0 RWF_NOWAIT RWF_HIPRI"));
        break;
    case 9:
        say(maker, "sendmsg %c %s %d %s\n", slot, size(maker), below(maker, 6), send_flags(maker));
        break;
    case 10:
        say(maker, "sendmmsg %c %s %d %s\n", slot, size(maker), below(maker, 4), send_flags(maker));
        break;
    case 11:
        say(maker, "sendfile %c %s\n", slot, size(maker));
        break;
    case 12:
        say(maker, "splice %c %s %s\n", slot, size(maker),
            one_of(maker, "0 0 SPLICE_F_MORE SPLICE_F_MOVE SPLICE_F_NONBLOCK"));
        break;
    case 13:
        say(maker, "stdio %c %s\n", slot, size(maker));
        break;
    case 14:
        say(maker, "dprintf %c %s\n", slot, size(maker));
        break;
    default:
        if (percent(maker, 60))
            say(maker, "zerocopy %c %s %d\n", slot, one_of(maker, "1 100 2000 60000"),
                1 + below(maker, 6));
        else if (maker->place == IN_MAIN && maker->has_alarm && percent(maker, 60))
            say(maker, "interrupted %s %c %s\n", one_of(maker, "flood full"), slot,
                one_of(maker, "60000 60000 4000000"));
        else
            say(maker, "%s %c %s %s\n", one_of(maker, "flood full"), slot,
                one_of(maker, "60000 60000 4000000"), percent(maker, 30) ? "reset" : "");
    }
}

/* A burst, as chatty programs make them. */
void make_burst(struct maker *maker)
{
    char slot = pick(maker, STREAMS);
    for (int i = 2 + below(maker, 6); i > 0; i--)
        say(maker, "write %c %s\n", slot, one_of(maker, "1 2 10 100 700"));
}

void make_read(struct maker *maker)
{
    char slot = pick(maker, percent(maker, 85) ? STREAMS : LOCAL);
    if (percent(maker, 40))
        say(maker, "peer_send %c %s\n", slot, size(maker));
    prefix(maker, true);
    const char *bytes = size(maker), *flags = read_flags(maker);
    switch (maker->place == IN_HANDLER ? 4 : below(maker, 15)) {
    case 0 ... 3:
        say(maker, "read %c %s\n", slot, bytes);
        break;
    case 4 ... 5:
        say(maker, "recv %c %s %s\n", slot, bytes, flags);
        break;
    case 6:
        say(maker, "recvfrom %c %s %s\n", slot, bytes, flags);
        break;
    case 7:
        say(maker, "readv %c %s %d\n", slot, bytes, below(maker, 6));
        break;
    case 8:
        say(maker, "preadv2 %c %s %d %s\n", slot, bytes, 1 + below(maker, 5),
            one_of(maker, "0 0 RWF_NOWAIT RWF_HIPRI"));
        break;
    case 9 ... 10:
        say(maker, "recvmsg %c %s %d %s\n", slot, bytes, 1 + below(maker, 5), flags);
        break;
    case 11:
        say(maker, "recvmmsg %c %s %d %s %d\n", slot, bytes, below(maker, 4),
            percent(maker, 50) ? flags : one_of(maker, "MSG_WAITFORONE MSG_DONTWAIT"),
            below(maker, 2));
        break;
    case 12:
        say(maker, "splice_from %c %s %s\n", slot, bytes, one_of(maker, "0 SPLICE_F_NONBLOCK"));
        break;
    case 13:
        say(maker, "%s %c %s 0\n", one_of(maker, "read_chk recv_chk recvfrom_chk"), slot, bytes);
        break;
    default:
        say(maker, "fionread %c\n", slot);
    }
}

static const char *mask(struct maker *maker)
{
    return one_of(maker, "- - 0 SIGUSR1 SIGUSR1|SIGUSR2");
}

static const char *set(struct maker *maker)
{
    static char text[256];
    int length = 0;
    for (int i = 1 + below(maker, 3); i > 0; i--)
        length += snprintf(text + length, sizeof text - (size_t)length, "%s%c:%s",
                           length ? "," : "", pick(maker, ANY & ~EPOLL_SET),
                           one_of(maker, "POLLIN POLLIN POLLIN POLLOUT POLLIN|POLLOUT "
                                         "POLLIN|POLLPRI|POLLRDHUP 0 POLLRDHUP"));
    return text;
}

void make_wait(struct maker *maker)
{
    const char *timeout = maker->place == IN_HANDLER ? "0" : one_of(maker, "0 0 1 2 -1 -1 -1");
    prefix(maker, true);
    switch (maker->place == IN_HANDLER ? 0 : below(maker, 12)) {
    case 0 ... 2:
        say(maker, "%s %s %s\n", one_of(maker, "poll poll poll_chk"), set(maker), timeout);
        break;
    case 3 ... 4:
        say(maker, "%s %s %s %s\n", one_of(maker, "ppoll ppoll ppoll_chk"), set(maker), timeout,
            mask(maker));
        break;
    case 5:
        say(maker, "select %s %s\n", set(maker), timeout);
        break;
    case 6:
        say(maker, "pselect %s %s %s\n", set(maker), timeout, mask(maker));
        break;
    case 7 ... 9:
        say(maker, "%s %c %s %s %s\n", one_of(maker, "epoll_wait epoll_pwait epoll_pwait2"),
            pick(maker, EPOLL_SET), one_of(maker, "1 2 8 8 0"), timeout, mask(maker));
        break;
    case 10:
        say(maker, "%s 200\n",
            one_of(maker, "nanosleep clock_nanosleep usleep sem_timedwait "
                          "cond_timedwait"));
        break;
    default:
        say(maker, "waitpid\n");
    }
}
