/* SPDX-License-Identifier: MIT */
/* The matcher: patterns on processes and addresses, and, on random policies, the same answers as a
 * slow reference that looks at one bit after another and at one accepted socket after another. */
#include "policy/match.h"
#include "policy/endpoint.h"
#include "slow_match.h"
#include "unit.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

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

static void test_addresses(void)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    struct sockaddr other = {.sa_family = AF_UNIX};
    OK(ns_address_from((struct sockaddr *)&v4, sizeof v4).known, "an IPv4 address is known");
    OK(!ns_address_from((struct sockaddr *)&v4, sizeof v4 - 1).known, "a short one is not");
    OK(ns_address_from((struct sockaddr *)&v6, sizeof v6).known, "an IPv6 address is known");
    OK(ns_address_from((struct sockaddr *)&v6, sizeof v6 - 4).known,
       "also without its scope, as the kernel takes it");
    OK(!ns_address_from((struct sockaddr *)&v6, sizeof v6 - 5).known, "a short one is not");
    OK(!ns_address_from(&other, sizeof other).known, "another family is not");
    OK(!ns_address_from(NULL, 0).known && !ns_address_from(&other, 0).known, "nothing is not");
    struct ns_address unknown = {0};
    struct ns_endpoint any = endpoint("::/0");
    OK(!ns_match_endpoint(&any, &unknown), "an address that is not known matches no pattern");
}

static void test_endpoints(void)
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

static void test_processes(void)
{
    static char *args[] = {"-u", "/srv/app/report.py", NULL};
    static const struct ns_process python = {.exe = "/usr/bin/python3.11",
                                             .execfn = "/usr/bin/python3",
                                             .argv0 = "reporter",
                                             .args = args},
                                   upgraded = {.exe = "/opt/app (deleted)"}, unknown = {0};
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
        {&upgraded, "app", NULL, true, "\" (deleted)\" is dropped"},
        {&upgraded, "/opt/app", NULL, true, "\" (deleted)\" is dropped from a path"},
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
    struct ns_rule both = {.process = (char *[]){"python3", NULL}, .args = (char *[]){"-v", NULL}};
    struct ns_socket_facts facts = {.role = NS_ROLE_CLIENT};
    OK(ns_match_explain(&both, &python, &facts) == NS_MISMATCH_ARGS,
       "explain says that args failed");
    OK(ns_match_explain(&both, &upgraded, &facts) == NS_MISMATCH_PROCESS, "or process");
}

static uint64_t seed = 42;

static unsigned random_below(unsigned n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % n;
}

static const char *const world[] = {"10.0.0.1",  "10.0.0.2", "10.9.0.1", "192.168.0.1",
                                    "127.0.0.1", "fd00::1",  "fd00::2",  "::1"};
static const char *const patterns[] = {"10.0.0.0/8",
                                       "10.0.0.1",
                                       "10.0.0.0/30",
                                       "127.0.0.0/8",
                                       "0.0.0.0/0",
                                       "::/0",
                                       "fd00::/8",
                                       "fd00::1",
                                       "fd00::/126",
                                       "::1",
                                       "0.0.0.0/1",
                                       "80",
                                       "80-81",
                                       "82",
                                       "10.0.0.1:80",
                                       "[fd00::/8]:81",
                                       "10.0.0.0/8:81-82",
                                       "[::/0]:80",
                                       "81-65535",
                                       "::ffff:0.0.0.0/96"};
static const char *const listeners[] = {"0.0.0.0", "::", "10.0.0.1", "fd00::1", "127.0.0.1", "::1"};
enum { PORTS = 3, FIRST_PORT = 80, RULES_MOST = 5, WORLD = sizeof world / sizeof *world };

struct random_policy {
    struct ns_policy policy;
    struct ns_rule rules[RULES_MOST];
    struct ns_endpoint local[RULES_MOST][2], remote[RULES_MOST][2];
    struct ns_ruleset set;
};

static size_t random_endpoints(struct ns_endpoint list[2])
{
    size_t n = random_below(4);
    n = n == 3 ? 0 : n;
    for (size_t i = 0; i < n; i++)
        list[i] = endpoint(patterns[random_below(sizeof patterns / sizeof *patterns)]);
    return n;
}

static void make_policy(struct random_policy *p, const struct ns_process *process)
{
    memset(p, 0, sizeof *p);
    p->policy = (struct ns_policy){.enabled = true, .rules = p->rules};
    p->policy.n_rules = random_below(RULES_MOST + 1);
    for (unsigned i = 0; i < p->policy.n_rules; i++) {
        struct ns_rule *rule = &p->rules[i];
        rule->index = i;
        rule->role = (enum ns_role)random_below(3);
        rule->n_local = random_endpoints(p->local[i]);
        rule->local = rule->n_local ? p->local[i] : NULL;
        rule->n_remote = random_below(2) ? random_endpoints(p->remote[i]) : 0;
        rule->remote = rule->n_remote ? p->remote[i] : NULL;
        rule->send = (enum ns_send)random_below(4);
    }
    if (ns_ruleset_build(&p->set, &p->policy, process) != 0)
        abort();
}

static bool is_v4(const struct ns_address *a)
{
    static const unsigned char prefix[12] = {[10] = 0xFF, [11] = 0xFF};
    return memcmp(a->addr.s6_addr, prefix, sizeof prefix) == 0;
}

/* Does a listener on text take connections to this address of the world? */
static bool accepts(const char *text, const struct ns_address *a)
{
    if (strcmp(text, "::") == 0)
        return true;
    if (strcmp(text, "0.0.0.0") == 0)
        return is_v4(a);
    struct ns_address own = address(text, a->port);
    return memcmp(&own.addr, &a->addr, sizeof own.addr) == 0;
}

static bool check_socket(const struct random_policy *p, bool *explained)
{
    struct ns_socket_facts facts = {
        .role = (enum ns_role)random_below(3),
        .local = address(world[random_below(WORLD)], (uint16_t)(FIRST_PORT + random_below(PORTS))),
        .remote = address(world[random_below(WORLD)], (uint16_t)(FIRST_PORT + random_below(PORTS))),
    };
    struct ns_process process = {0};
    facts.local.known = random_below(8) != 0;
    facts.remote.known = random_below(8) != 0;
    for (size_t i = 0; i < p->policy.n_rules; i++) {
        enum ns_mismatch why = ns_match_explain(&p->rules[i], &process, &facts);
        *explained &= (why == NS_MATCHES) == slow_holds(&p->rules[i], &facts, true);
    }
    return ns_match_socket(&p->set, &facts) == slow_socket(&p->policy, &facts);
}

/* The first rule that some accepted socket could match, if neither it nor one before asks for
 * remote. */
static const struct ns_rule *slow_listener(const struct ns_policy *policy, const char *text,
                                           uint16_t port)
{
    for (size_t i = 0; i < policy->n_rules; i++) {
        for (size_t j = 0; j < WORLD; j++) {
            struct ns_socket_facts facts = {.role = NS_ROLE_SERVER,
                                            .local = address(world[j], port)};
            if (accepts(text, &facts.local) && slow_holds(&policy->rules[i], &facts, false))
                return policy->rules[i].n_remote ? NULL : &policy->rules[i];
        }
    }
    return NULL;
}

static bool check_listener(const struct random_policy *p, unsigned *n_settled)
{
    const char *text = listeners[random_below(sizeof listeners / sizeof *listeners)];
    uint16_t port = (uint16_t)(FIRST_PORT + random_below(PORTS));
    struct ns_address local = address(text, port);
    bool settled = false;
    const struct ns_rule *rule = ns_match_listener(&p->set, &local, &settled);
    if (rule != slow_listener(&p->policy, text, port))
        return false;
    *n_settled += settled;
    for (size_t i = 0; i < WORLD * WORLD && settled; i++) {
        struct ns_socket_facts facts = {.role = NS_ROLE_SERVER,
                                        .local = address(world[i % WORLD], port),
                                        .remote = address(world[i / WORLD], 50000)};
        if (accepts(text, &facts.local) && slow_socket(&p->policy, &facts) != rule)
            return false;
    }
    return true;
}

static void test_random(void)
{
    struct ns_process process = {.exe = "/bin/true"};
    unsigned wrong_sockets = 0, wrong_listeners = 0, wrong_needs = 0, n_settled = 0;
    bool explained = true;
    for (unsigned i = 0; i < 40000; i++) {
        static struct random_policy p;
        make_policy(&p, &process);
        for (unsigned j = 0; j < 8; j++)
            wrong_sockets += !check_socket(&p, &explained);
        for (unsigned j = 0; j < 2; j++)
            wrong_listeners += !check_listener(&p, &n_settled);
        for (size_t j = 0; j < p.set.n_rules; j++)
            wrong_needs += (p.set.rules[j]->local && !p.set.needs_local) ||
                           (p.set.rules[j]->remote && !p.set.needs_remote);
        ns_ruleset_release(&p.set);
    }
    OK(wrong_sockets == 0, "320000 sockets get the reference's rule (%u do not)", wrong_sockets);
    OK(explained, "explain agrees with the reference");
    OK(wrong_listeners == 0,
       "80000 listeners get the reference's rule, and every socket accepted on a "
       "settled one has it (%u do not)",
       wrong_listeners);
    OK(n_settled > 10000 && n_settled < 70000, "some listeners are settled, some are not (%u)",
       n_settled);
    OK(wrong_needs == 0, "a set knows which addresses it needs and whether it holds bytes");
}

static void test_listener(void)
{
    struct ns_endpoint lan = endpoint("10.0.0.0/8"), web = endpoint("80");
    struct ns_rule rules[] = {
        {.index = 0, .role = NS_ROLE_SERVER, .local = &lan, .n_local = 1},
        {.index = 1, .role = NS_ROLE_CLIENT, .remote = &web, .n_remote = 1},
        {.index = 2},
    };
    struct ns_policy policy = {.enabled = true, .rules = rules, .n_rules = 3};
    struct ns_process process = {0};
    struct ns_ruleset set;
    bool settled;
    if (ns_ruleset_build(&set, &policy, &process) != 0)
        abort();
    struct ns_address any = address("0.0.0.0", 80), in = address("10.1.1.1", 80);
    struct ns_address out = address("127.0.0.1", 80), unknown = {0};
    OK(ns_match_listener(&set, &in, &settled) == &rules[0] && settled, "a listener in the range");
    OK(ns_match_listener(&set, &out, &settled) == &rules[2] && settled,
       "a listener outside it; rules for clients do not count");
    OK(ns_match_listener(&set, &any, &settled) == &rules[0] && !settled,
       "0.0.0.0 could be in the range, but its sockets must be asked one by one");
    OK(ns_match_listener(&set, &unknown, &settled) == &rules[0] && !settled,
       "so could an address that is not known");
    ns_ruleset_release(&set);
    rules[1].role = NS_ROLE_UNKNOWN;
    if (ns_ruleset_build(&set, &policy, &process) != 0)
        abort();
    OK(!ns_match_listener(&set, &out, &settled) && !settled,
       "a rule that asks for remote comes before: left alone");
    OK(ns_match_listener(&set, &in, &settled) == &rules[0] && settled,
       "a rule that asks for remote comes after: no matter");
    ns_ruleset_release(&set);
    policy.enabled = false;
    if (ns_ruleset_build(&set, &policy, &process) != 0)
        abort();
    OK(set.n_rules == 0 && !ns_match_listener(&set, &in, &settled) && settled,
       "a policy that is not enabled has no rules");
    ns_ruleset_release(&set);
}

int main(void)
{
    test_addresses();
    test_endpoints();
    test_processes();
    test_listener();
    test_random();
    return ns_unit_done();
}
