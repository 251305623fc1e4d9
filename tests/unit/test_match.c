/* SPDX-License-Identifier: MIT */
/* The matcher: addresses, and patterns on processes. tests/fuzz/policy.c compares the patterns on
 * addresses with the program of `nagleshim cure`. */
#include "policy/match.h"
#include "unit.h"

CHECK(test_addresses)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(80), .sin_addr = {htonl(7)}};
    struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(443), .sin6_addr = {{{[0] = 0xfd, [15] = 1}}}};
    struct in6_addr mapped = {{{[10] = 0xff, 0xff, [15] = 7}}};
    struct ns_address a = ns_address_from((struct sockaddr *)&v4, sizeof v4),
                      b = ns_address_from((struct sockaddr *)&v6, sizeof v6);
    struct sockaddr other = {.sa_family = AF_UNIX};
    OK(a.known && IN6_ARE_ADDR_EQUAL(&a.addr, &mapped) && a.port == 80, "an IPv4 address is known");
    OK(!ns_address_from((struct sockaddr *)&v4, sizeof v4 - 1).known, "a short one is not");
    OK(b.known && IN6_ARE_ADDR_EQUAL(&b.addr, &v6.sin6_addr) && b.port == 443,
       "an IPv6 address is known");
    OK(ns_address_from((struct sockaddr *)&v6, sizeof v6 - 4).known,
       "an IPv6 address is known without its scope, as for the kernel");
    OK(!ns_address_from((struct sockaddr *)&v6, sizeof v6 - 5).known, "a short one is not");
    OK(!ns_address_from(&other, sizeof other).known, "another family is not");
    OK(!ns_address_from(NULL, 0).known && !ns_address_from(&other, 0).known, "nothing is not");
    struct ns_address unknown = {0};
    struct ns_endpoint any = {.port_high = 65535};
    OK(!ns_match_endpoint(&any, &unknown), "an unknown address matches no pattern");
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

CHECK(test_rules)
{
    enum { MANY = NS_RULES_FEW + 4 };
    struct ns_endpoint ports[MANY][2] = {{{.port_low = 0}}};
    struct ns_rule rules[MANY] = {{0}};
    struct ns_policy policy = {.enabled = true, .rules = rules, .n_rules = MANY};
    struct ns_ruleset set;
    struct ns_socket_facts facts = {.remote = {.known = true, .port = MANY}};
    struct ns_address here = {.known = true, .port = 80};
    bool settled = true;
    for (uint16_t i = 0; i < MANY; i++) { /* for peers at the ports 1001 and 1, 1002 and 2, ... */
        ports[i][0].port_low = ports[i][0].port_high = (uint16_t)(1001 + i);
        ports[i][1].port_low = ports[i][1].port_high = (uint16_t)(1 + i);
        rules[i].remote = (struct ns_endpoints){ports[i], 2};
    }
    OK(ns_ruleset_build(&set, &policy, &(struct ns_process){0}) == 0 && set.n_rules == MANY &&
           set.needs_remote && !set.needs_local,
       "all of many rules are for a process");
    OK(ns_match_socket(&set, &facts) == &rules[MANY - 1], "the last one matches by its last port");
    OK(!ns_match_listener(&set, &here, &settled) && !settled, "a listener's rule may be unknown");
    rules[0].local = rules[0].remote;
    rules[0].remote = (struct ns_endpoints){0};
    OK(!ns_match_listener(&set, &here, &settled) && !settled, "also behind one of another port");
    here.port = 1;
    OK(ns_match_listener(&set, &here, &settled) == &rules[0] && settled, "that of its port");
    here.port = 0;
    OK(ns_match_listener(&set, &here, &settled) == &rules[0] && !settled,
       "without a port, perhaps");
    for (unsigned i = 0; i < MANY; i++)
        rules[i].role = NS_ROLE_CLIENT;
    OK(!ns_match_listener(&set, &here, &settled) && settled, "and none of a client");
    ns_ruleset_release(&set);
}
