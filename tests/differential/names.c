/* SPDX-License-Identifier: MIT */
/* The words of a script: numbers, slots, and the constants of the calls by their names. */
#include "program.h"

#define N(name)                                                                                    \
    {                                                                                              \
#name, name                                                                                \
    }
/* clang-format off */
static const struct {
    const char *name;
    long value;
} names[] = {
    N(MSG_DONTWAIT), N(MSG_MORE), N(MSG_NOSIGNAL), N(MSG_OOB), N(MSG_PEEK), N(MSG_WAITALL),
    N(MSG_TRUNC), N(MSG_CMSG_CLOEXEC), N(MSG_WAITFORONE), N(MSG_ERRQUEUE), N(MSG_EOR),
    N(MSG_DONTROUTE), N(MSG_CONFIRM), N(RWF_NOWAIT), N(RWF_HIPRI), N(POLLIN), N(POLLOUT),
    N(POLLPRI), N(POLLRDHUP), N(EPOLLET), N(EPOLLONESHOT), N(SPLICE_F_NONBLOCK), N(SPLICE_F_MORE),
    N(SPLICE_F_MOVE), N(SOCK_NONBLOCK), N(SOCK_CLOEXEC), N(SHUT_RD), N(SHUT_WR), N(SHUT_RDWR),
    N(SA_RESTART), N(SA_NODEFER), N(SA_SIGINFO), N(SA_ONSTACK), N(TCP_NODELAY), N(TCP_CORK),
    N(TCP_QUICKACK), N(TCP_MAXSEG), N(TCP_DEFER_ACCEPT), N(TCP_USER_TIMEOUT), N(TCP_KEEPIDLE),
    N(TCP_NOTSENT_LOWAT), N(TCP_LINGER2), N(TCP_WINDOW_CLAMP), N(TCP_INFO), N(SO_RCVLOWAT),
    N(SO_SNDBUF), N(SO_RCVBUF), N(SO_KEEPALIVE), N(SO_LINGER), N(SO_ERROR), N(SO_RCVTIMEO),
    N(SO_TYPE), N(SO_PROTOCOL), N(SO_DOMAIN), N(SO_ACCEPTCONN), N(SO_OOBINLINE), N(SO_PRIORITY),
    N(SO_BUSY_POLL), N(SO_ZEROCOPY), N(IP_TOS), N(F_GETFL), N(F_SETFL), N(F_GETFD), N(F_SETFD),
    N(O_NONBLOCK), N(O_CLOEXEC), N(FD_CLOEXEC), N(CLOSE_RANGE_CLOEXEC), N(CLOSE_RANGE_UNSHARE),
    N(CLONE_FILES), N(CLONE_FS), N(CLONE_SYSVSEM), N(SIGUSR1), N(SIGUSR2), N(SIGALRM), N(SIGPIPE),
    N(SIGTERM), N(SIGCHLD), N(SIGWINCH),
    {"TCP_DELACK_MAX_US", 46}};
/* clang-format on */

long name_value(const char *name, long otherwise)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, name) == 0)
            return names[i].value;
    return otherwise;
}

const char *signal_text(int number)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].value == number && strncmp(names[i].name, "SIG", 3) == 0)
            return names[i].name;
    return "signal";
}

long word_number(const struct op *op, int i)
{
    return i < op->words ? name_value(op->word[i], strtol(op->word[i], NULL, 0)) : 0;
}

int word_flags(const struct op *op, int i)
{
    long flags = 0;
    if (i >= op->words)
        return 0;
    for (const char *at = op->word[i]; *at;) {
        char name[32];
        size_t n = strcspn(at, "|");
        if (n < sizeof name) {
            memcpy(name, at, n);
            name[n] = '\0';
            flags |= name_value(name, strtol(name, NULL, 0));
        }
        at += n + (at[n] == '|');
    }
    return (int)flags;
}

const sigset_t *word_mask(const struct op *op, int i, sigset_t *mask)
{
    sigemptyset(mask);
    if (i >= op->words || strcmp(op->word[i], "-") == 0)
        return NULL;
    for (int number = 1; number < NSIG; number++) {
        const char *name = signal_text(number);
        if (name[0] == 'S' && strstr(op->word[i], name))
            sigaddset(mask, number);
    }
    return mask;
}

struct slot *word_slot(const struct op *op, int i)
{
    static struct slot none;
    none = (struct slot){.fd = -1, .connection = -1};
    if (i >= op->words || op->word[i][0] < 'a' || op->word[i][0] > 'z' || op->word[i][1])
        return &none;
    return &slots[op->word[i][0] - 'a'];
}

char slot_letter(const struct slot *slot)
{
    return slot >= slots && slot < slots + SLOTS ? (char)('a' + (slot - slots)) : '-';
}
