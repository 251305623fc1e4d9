/* SPDX-License-Identifier: MIT */
/* Owns the list of the system calls that a service's SystemCallFilter= must allow for the library.
 * The filter is there before the library, which cannot ask about it: a forbidden call may kill. */
#include "cli/host/host.h"

#include "cli/cli.h"
#include "cli/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* When the library makes a call. Calls without which no program starts are not listed. */
enum { START = 1, TCP = 2, READ = 4, SOCKET = 8 };
static const struct {
    const char *name;
    unsigned when;
} calls[] = {
    /* In every program. */
    {"clock_gettime", START},
    {"ioctl", START},
    {"lseek", START},
    {"readlinkat", START},
    {"statx", START},
    /* In a program with TCP sockets. */
    {"fcntl", TCP},
    {"getpeername", TCP},
    {"getpid", TCP},
    {"getsockname", TCP},
    {"getsockopt", TCP},
    {"ppoll", TCP},
    {"recvfrom", TCP | READ}, /* for the program's read: the program gets the error */
    {"rt_sigprocmask", TCP},
    {"setsockopt", TCP},
    /* Not the library's: a program that may make none of these has no TCP socket. */
    {"accept", SOCKET},
    {"accept4", SOCKET},
    {"socket", SOCKET},
};
enum { CALLS = sizeof calls / sizeof *calls, ALL = (1 << CALLS) - 1 };

/* The bits of the calls that are made then. */
static unsigned made(unsigned when)
{
    unsigned set = 0;
    for (unsigned i = 0; i < CALLS; i++)
        set |= calls[i].when & when ? 1u << i : 0;
    return set;
}

static const char *names(unsigned set)
{
    const char *text = "";
    for (unsigned i = 0; i < CALLS; i++)
        if (set & 1u << i)
            text = ns_words("%s%s%s", text, *text ? " " : "", calls[i].name);
    return text;
}

void ns_filter_take(struct ns_filter *filter, const char *list)
{
    bool denies = *list == '~';
    filter->forbidden = denies || !*list ? 0 : ALL;
    for (list += denies; *list; list += strcspn(list, " "), list += strspn(list, " ")) {
        size_t length = strcspn(list, " :");
        for (unsigned i = 0, bit = 1; i < CALLS; i++, bit <<= 1)
            if (strncmp(list, calls[i].name, length) == 0 && !calls[i].name[length]) {
                filter->forbidden = denies ? filter->forbidden | bit : filter->forbidden & ~bit;
                if (list[length] == ':')
                    *(strncmp(list + length, ":kill", 5) ? &filter->fail : &filter->kill) |= bit;
            }
    }
}

void ns_filter_take_error(struct ns_filter *filter, const char *number)
{
    enum { MOST = 4095 };
    long error = atol(number); /* for "kill" systemd has a larger number, or 0 */
    filter->fails = error > 0 && error <= MOST;
}

bool ns_filter_permits(const struct ns_filter *filter, const char *unit)
{
    bool has_tcp = made(SOCKET) & ~filter->forbidden;
    unsigned forbidden = filter->forbidden & made(has_tcp ? START | TCP : START);
    unsigned fail = forbidden & (filter->fail | (filter->fails ? ~filter->kill : 0));
    unsigned harm = forbidden & (~fail | made(READ));
    if (harm)
        ns_say(
            "%s: with the library its SystemCallFilter= would %s; first add 'SystemCallFilter=%s' "
            "to the unit",
            unit, harm & ~fail ? "kill it" : "make its reads fail", names(harm));
    else if (!has_tcp)
        ns_say("note: %s: its SystemCallFilter= forbids sockets: the library does nothing there",
               unit);
    else if (fail)
        ns_say("note: %s: its SystemCallFilter= makes calls of the library fail, which does "
               "less there: %s",
               unit, names(fail));
    return harm == 0;
}
