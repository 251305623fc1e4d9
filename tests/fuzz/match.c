/* SPDX-License-Identifier: MIT */
/* Fuzzes the matcher: rules and facts made of the input's bytes, and each answer is that of the
 * slow and obvious matcher. NS_FUZZ_BROKEN in the environment: the slow matcher is wrong on
 * purpose. */
#include "must.h"
#include "slow_match.h"

#include <string.h>

enum { RULES_MOST = 6, LIST_MOST = 3, TEXT_MOST = 12, SOCKETS = 6 };

/* Names and patterns of a small alphabet, so that they match now and then. */
struct texts {
    char text[LIST_MOST][TEXT_MOST];
    char *list[LIST_MOST + 1];
};

static char *take_text(struct input *in, char text[TEXT_MOST], const char *alphabet)
{
    size_t length = take(in, TEXT_MOST);
    for (size_t i = 0; i < length; i++)
        text[i] = alphabet[take(in, (unsigned)strlen(alphabet))];
    text[length] = 0;
    return text;
}

static char **take_texts(struct input *in, struct texts *texts, const char *alphabet)
{
    unsigned count = take(in, LIST_MOST + 1);
    memset(texts->list, 0, sizeof texts->list);
    for (unsigned i = 0; i < count; i++)
        texts->list[i] = take_text(in, texts->text[i], alphabet);
    return count ? texts->list : NULL;
}

/* Few values a byte, so that prefixes agree now and then, and IPv4 as IPv4-mapped. */
static struct in6_addr take_addr(struct input *in)
{
    static const uint8_t values[] = {0, 1, 10, 0x7F, 0x80, 0xFD, 0xFF};
    struct in6_addr addr = {0};
    bool v4 = take(in, 2);
    if (v4)
        addr.s6_addr[10] = addr.s6_addr[11] = 0xFF;
    for (unsigned n = take(in, 5); n > 0; n--) {
        unsigned at = v4 ? 12 + take(in, 4) : take(in, 16);
        addr.s6_addr[at] = values[take(in, sizeof values)];
    }
    return addr;
}

static struct ns_endpoint take_endpoint(struct input *in)
{
    struct ns_endpoint e = {.addr = take_addr(in), .port_low = 0, .port_high = 65535};
    e.prefix = (uint8_t)take(in, 129);
    for (unsigned bit = e.prefix; bit < 128; bit++) /* as the parser has them */
        e.addr.s6_addr[bit / 8] &= (uint8_t) ~(0x80u >> bit % 8);
    if (take(in, 2)) {
        e.port_low = (uint16_t)(1 + take(in, 8));
        e.port_high = (uint16_t)(e.port_low + take(in, 8));
    }
    return e;
}

struct endpoints {
    struct ns_endpoint list[LIST_MOST];
};

static size_t take_endpoints(struct input *in, struct endpoints *endpoints)
{
    size_t count = take(in, LIST_MOST + 1);
    for (size_t i = 0; i < count; i++)
        endpoints->list[i] = take_endpoint(in);
    return count;
}

struct world {
    struct ns_policy policy;
    struct ns_rule rules[RULES_MOST];
    struct texts process[RULES_MOST], args[RULES_MOST];
    struct endpoints local[RULES_MOST], remote[RULES_MOST];
};

static void take_world(struct input *in, struct world *w)
{
    memset(w, 0, sizeof *w);
    w->policy = (struct ns_policy){.enabled = take(in, 16) != 15, .rules = w->rules};
    w->policy.n_rules = take(in, RULES_MOST + 1);
    for (unsigned i = 0; i < w->policy.n_rules; i++) {
        struct ns_rule *rule = &w->rules[i];
        rule->index = i;
        rule->process = take_texts(in, &w->process[i], "ab/*?");
        rule->args = take_texts(in, &w->args[i], "ab/*?");
        rule->role = (enum ns_role)take(in, 3);
        rule->send = (enum ns_send)take(in, 4);
        rule->n_local = take_endpoints(in, &w->local[i]);
        rule->local = rule->n_local ? w->local[i].list : NULL;
        rule->n_remote = take_endpoints(in, &w->remote[i]);
        rule->remote = rule->n_remote ? w->remote[i].list : NULL;
    }
}

/* An address: any, or one that some pattern of the policy starts with. */
static struct ns_address take_address(struct input *in, const struct world *w)
{
    struct ns_address a = {.known = take(in, 8) != 7, .port = (uint16_t)take(in, 16)};
    const struct endpoints *of = take(in, 2) ? w->local : w->remote;
    if (take(in, 2))
        a.addr = of[take(in, RULES_MOST)].list[take(in, LIST_MOST)].addr;
    else
        a.addr = take_addr(in);
    return a;
}

static void check_socket(struct input *in, const struct world *w, const struct ns_ruleset *set,
                         const struct ns_process *process)
{
    struct ns_socket_facts facts = {.role = (enum ns_role)take(in, 3),
                                    .local = take_address(in, w),
                                    .remote = take_address(in, w)};
    const struct ns_rule *expected = NULL;
    for (size_t i = 0; i < w->policy.n_rules; i++) {
        const struct ns_rule *rule = &w->rules[i];
        bool holds = slow_process(rule, process) && slow_holds(rule, &facts, true);
        MUST((ns_match_explain(rule, process, &facts) == NS_MATCHES) == holds);
        MUST(ns_match_process(rule, process) == slow_process(rule, process));
        if (holds && !expected)
            expected = rule;
    }
    if (getenv("NS_FUZZ_BROKEN") && facts.remote.port == 7)
        expected = NULL;
    MUST(ns_match_socket(set, &facts) == (w->policy.enabled ? expected : NULL));
}

/* An address that a connection accepted on local can have. */
static struct ns_address accepted_on(const struct ns_address *local, struct ns_address other)
{
    static const struct in6_addr any_v4 = {{{[10] = 0xFF, [11] = 0xFF}}};
    static const struct in6_addr any = {{{0}}};
    struct ns_address a = *local;
    a.known = true;
    if (!local->known || local->port == 0)
        a.port = other.port ? other.port : 1;
    if (!local->known || memcmp(&local->addr, &any, sizeof any) == 0) {
        a.addr = other.addr;
    } else if (memcmp(&local->addr, &any_v4, sizeof any_v4) == 0) {
        a.addr = any_v4;
        memcpy(&a.addr.s6_addr[12], &other.addr.s6_addr[12], 4);
    }
    return a;
}

/* What the listener has been given fits whatever it accepts: a settled rule is every socket's own,
 * and no socket could match, but for "remote", a rule that comes before. */
static void check_listener(struct input *in, const struct world *w, const struct ns_ruleset *set,
                           const struct ns_process *process)
{
    struct ns_address local = take_address(in, w);
    bool settled = false;
    const struct ns_rule *rule = ns_match_listener(set, &local, &settled);
    MUST(!rule || !rule->remote);
    MUST(!rule || slow_process(rule, process));
    for (int i = 0; i < SOCKETS; i++) {
        struct ns_socket_facts facts = {.role = NS_ROLE_SERVER,
                                        .local = accepted_on(&local, take_address(in, w)),
                                        .remote = take_address(in, w)};
        if (settled)
            MUST(ns_match_socket(set, &facts) == rule);
        for (size_t j = 0; rule && j < rule->index; j++)
            MUST(!slow_process(&w->rules[j], process) || !slow_holds(&w->rules[j], &facts, false));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world world;
    struct input in = {data, data + size};
    char exe[TEXT_MOST], execfn[TEXT_MOST], argv0[TEXT_MOST];
    struct texts args;
    struct ns_ruleset set;
    take_world(&in, &world);
    struct ns_process process = {.exe = take_text(&in, exe, "ab/"),
                                 .execfn = take(&in, 4) ? take_text(&in, execfn, "ab/") : NULL,
                                 .argv0 = take(&in, 4) ? take_text(&in, argv0, "ab/") : NULL,
                                 .args = take_texts(&in, &args, "ab/")};
    MUST(ns_ruleset_build(&set, &world.policy, &process) == 0);
    MUST(set.n_rules <= (world.policy.enabled ? world.policy.n_rules : 0));
    for (size_t i = 0; i < set.n_rules; i++)
        MUST((!set.rules[i]->local || set.needs_local) &&
             (!set.rules[i]->remote || set.needs_remote));
    for (int i = 0; i < SOCKETS; i++)
        check_socket(&in, &world, &set, &process);
    check_listener(&in, &world, &set, &process);
    ns_ruleset_release(&set);
    return 0;
}
