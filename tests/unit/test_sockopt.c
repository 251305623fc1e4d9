/* SPDX-License-Identifier: MIT */
/* The option table and the arithmetic of its actions. */
#include "policy/policy.h"
#include "unit.h"

#include <netinet/tcp.h>

CHECK(test_table)
{
    for (int i = 0; i < NS_SOCKOPT_COUNT; i++) {
        const struct ns_sockopt *option = &ns_sockopts[i];
        OK(ns_sockopt_by_number(option->level, option->option) == i,
           "%s is found by level and number, and no other option is", option->name);
        OK(option->least < option->most, "%s has a range", option->name);
    }
    OK(ns_sockopt_by_number(SOL_SOCKET, TCP_NODELAY) == -1,
       "level 1 number 1 (SO_DEBUG) is not in the table");
    OK(ns_sockopt_by_number(IPPROTO_IP, 1) == NS_SOCKOPT_IP_TOS, "level 0 number 1 is IP_TOS");
    OK(ns_sockopt_by_number(IPPROTO_TCP, TCP_NODELAY) == -1, "level 6 number 1 is TCP_NODELAY");
    OK(ns_sockopts[NS_SOCKOPT_TCP_NOTSENT_LOWAT].option == 25, "TCP_NOTSENT_LOWAT is 25");
    OK(ns_sockopts[NS_SOCKOPT_TCP_USER_TIMEOUT].option == 18, "TCP_USER_TIMEOUT is 18");
}

/* The kernel accepts both ends of every range that needs no privilege. */
CHECK(test_kernel_takes_bounds)
{
    for (int i = 0; i < NS_SOCKOPT_COUNT; i++) {
        const struct ns_sockopt *option = &ns_sockopts[i];
        bool privileged =
            i == NS_SOCKOPT_SO_MARK || i == NS_SOCKOPT_SO_BUSY_POLL || i == NS_SOCKOPT_SO_PRIORITY;
        int ends[] = {option->least, option->most};
        if (privileged)
            continue;
        for (int j = 0; j < 2; j++) {
            int family = option->level == IPPROTO_IPV6 ? AF_INET6 : AF_INET;
            int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
            if (fd < 0 && family == AF_INET6)
                continue;
            OK(setsockopt(fd, option->level, option->option, &ends[j], sizeof ends[j]) == 0,
               "the kernel accepts %d for %s", ends[j], option->name);
            close(fd);
        }
    }
}

CHECK(test_rewrite)
{
    enum { IDLE = NS_SOCKOPT_TCP_KEEPIDLE, LOWAT = NS_SOCKOPT_TCP_NOTSENT_LOWAT };
    static const struct {
        int index;
        struct ns_sockopt_action action;
        int asked, result;
        const char *what;
    } rows[] = {
        {IDLE, {NS_SOCKOPT_PASS, 5}, 60, 60, "pass leaves the value"},
        {IDLE, {NS_SOCKOPT_SET, 5}, 60, 5, "set replaces the value"},
        {IDLE, {NS_SOCKOPT_MIN, 5}, 4, 5, "min raises a smaller value"},
        {IDLE, {NS_SOCKOPT_MIN, 5}, 5, 5, "min leaves an equal value"},
        {IDLE, {NS_SOCKOPT_MIN, 5}, 6, 6, "min leaves a larger value"},
        {IDLE, {NS_SOCKOPT_MAX, 5}, 4, 4, "max leaves a smaller value"},
        {IDLE, {NS_SOCKOPT_MAX, 5}, 6, 5, "max lowers a larger value"},
        {IDLE, {NS_SOCKOPT_MAX, 5}, -1, -1, "max leaves what the kernel will refuse"},
        {LOWAT, {NS_SOCKOPT_MAX, 16384}, -1, 16384, "max lowers -1 if it is the largest value"},
        {LOWAT, {NS_SOCKOPT_MIN, 16384}, -1, -1, "min leaves -1 if it is the largest value"},
        {NS_SOCKOPT_TCP_LINGER2, {NS_SOCKOPT_MIN, 10}, -1, 10, "min raises a true -1"},
        {NS_SOCKOPT_SO_SNDBUF, {NS_SOCKOPT_MAX, 65536}, INT_MAX, 65536, "max lowers INT_MAX"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        OK(ns_sockopt_rewrite(rows[i].index, &rows[i].action, rows[i].asked) == rows[i].result,
           "%s", rows[i].what);
}
