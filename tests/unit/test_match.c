/* SPDX-License-Identifier: MIT */
/* The matcher: patterns on processes, addresses and listeners. */
#include "policy/match.h"
#include "policy/endpoint.h"
#include "unit.h"

static struct ns_address address(const char *text, uint16_t port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return ns_address_from((struct sockaddr *)&v4, sizeof v4);
    inet_pton(AF_INET6, text, &v6.sin6_addr);
    return ns_address_from((struct sockaddr *)&v6, sizeof v6);
}

static struct ns_endpoint endpoint(const char *text)
{
    struct ns_endpoint result;
    char problem[200];
    if (ns_endpoint_parse(text, &result, problem, sizeof problem) != 0)
        abort();
    return result;
}

static bool holds(const char *pattern, const char *text, uint16_t port)
{
    struct ns_endpoint p = endpoint(pattern);
    struct ns_address a = address(text, port);
    return ns_match_endpoint(&p, &a);
}

CHECK(test_addresses)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    struct sockaddr other = {.sa_family = AF_UNIX};
    OK(ns_address_from((struct sockaddr *)&v4, sizeof v4).known, "an IPv4 address is known");
    OK(!ns_address_from((struct sockaddr *)&v4, sizeof v4 - 1).known, "a short one is not");
    OK(ns_address_from((struct sockaddr *)&v6, sizeof v6).known, "an IPv6 address is known");
    OK(ns_address_from((struct sockaddr *)&v6, sizeof v6 - 4).known,
       "an IPv6 address is known without its scope, as for the kernel");
    OK(!ns_address_from((struct sockaddr *)&v6, sizeof v6 - 5).known, "a short one is not");
    OK(!ns_address_from(&other, sizeof other).known, "another family is not");
    OK(!ns_address_from(NULL, 0).known && !ns_address_from(&other, 0).known, "nothing is not");
    struct ns_address unknown = {0};
    struct ns_endpoint any = endpoint("::/0");
    OK(!ns_match_endpoint(&any, &unknown), "an unknown address matches no pattern");
}

CHECK(test_endpoints)
{
    static const struct {
        const char *pattern, *address;
        uint16_t port;
        bool holds;
    } rows[] = {
        {"10.0.0.0/8", "10.1.2.3", 80, true},
        {"10.0.0.0/8", "11.1.2.3", 80, false},
        {"10.0.0.0/8", "::ffff:10.1.2.3", 80, true}, /* IPv4-mapped */
        {"::ffff:10.0.0.0/104", "10.1.2.3", 80, true},
        {"10.0.0.0/8", "a01::", 80, false},
        {"0.0.0.0/0", "1.2.3.4", 1, true},
        {"0.0.0.0/0", "fd00::1", 1, false},
        {"::/0", "1.2.3.4", 1, true},
        {"::/0", "fd00::1", 1, true},
        {"7000-7010", "1.2.3.4", 7000, true},
        {"7000-7010", "::1", 7010, true},
        {"7000-7010", "1.2.3.4", 6999, false},
        {"7000-7010", "::1", 7011, false},
        {"[fc00::/7]:443", "fd12::1", 443, true}, /* a prefix that ends inside a byte */
        {"[fd00::/8]:443", "fc12::1", 443, false},
        {"10.0.0.1:80", "10.0.0.1", 80, true},
        {"10.0.0.1:80", "10.0.0.1", 81, false},
        {"10.0.0.1:80", "10.0.0.2", 80, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        OK(holds(rows[i].pattern, rows[i].address, rows[i].port) == rows[i].holds,
           "%s %s %s port %u", rows[i].pattern, rows[i].holds ? "matches" : "does not match",
           rows[i].address, rows[i].port);
}

CHECK(test_processes)
{
    static char *args[] = {"-u", "/srv/app/report.py", NULL};
    static const struct ns_process python = {.exe = "/usr/bin/python3.11",
                                             .execfn = "/usr/bin/python3",
                                             .argv0 = "reporter",
                                             .args = args},
                                   unknown = {0};
    static const struct {
        const struct ns_process *process;
        char *pattern, *args;
        bool matches;
        const char *what;
    } rows[] = {
        {&python, "python3.11", NULL, true, "the executable's base name"},
        {&python, "python3", NULL, true, "the base name it was started by"},
        {&python, "reporter", NULL, true, "argv[0]"},
        {&python, "rep*er", NULL, true, "a glob"},
        {&python, "[p-r]ython3.1?", NULL, true, "a glob with brackets"},
        {&python, "ython3", NULL, false, "the whole name counts"},
        {&python, "Python3", NULL, false, "case counts"},
        {&python, "/usr/bin/python3*", NULL, true, "a full path"},
        {&python, "/usr/*/python3", NULL, true, "* for a directory"},
        {&python, "/usr/*", NULL, false, "* does not cross a slash in a path"},
        {&python, "bin/python3", NULL, false, "a path is not matched from its middle"},
        {&unknown, "*", NULL, false, "an unknown process matches no pattern"},
        {&python, NULL, "*/report.py", true, "* crosses a slash in args"},
        {&python, NULL, "*report*", true, "* on both sides"},
        {&python, NULL, "-u", true, "one whole argument"},
        {&python, NULL, "report.py", false, "part of an argument"},
        {&unknown, NULL, "*", false, "unknown arguments match nothing"},
        {&python, "python3", "-v", false, "process and args must both match"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ns_rule rule = {0};
        char *pattern[] = {rows[i].pattern, NULL}, *arguments[] = {rows[i].args, NULL};
        rule.process = rows[i].pattern ? pattern : NULL;
        rule.args = rows[i].args ? arguments : NULL;
        OK(ns_match_process(&rule, rows[i].process) == rows[i].matches, "%s", rows[i].what);
    }
}
