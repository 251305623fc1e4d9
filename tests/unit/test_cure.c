/* SPDX-License-Identifier: MIT */
/* The BPF programs of `nagleshim cure`: they choose the rules that the library would choose, and
 * keep the value of TCP_NODELAY that the program asked for. */
#include "base/arena.h"
#include "bpf.h"
#include "unit.h"

static struct ns_code code;

static struct ns_policy *parse(const char *text)
{
    struct ns_policy *policy = NULL;
    struct ns_policy_error error;
    if (ns_policy_parse(&(struct ns_arena){0}, text, strlen(text), &policy, &error, NULL) != 0)
        printf("# %u:%u: %s\n", error.line, error.column, error.message);
    return policy;
}

static const char *const patterns[] = {
    "10.0.0.0/8", "10.2.0.0/15", "10.1.2.3", "fd00::/8", "fd00:0:80::/41", "::/0",
    "0.0.0.0/0",  "fd00::1",     "80",       "80-443",   "10.1.2.3:443",   "[fd00::1]:81-90"};
static const char *const addresses[] = {"::ffff:10.1.2.3",
                                        "::ffff:10.2.2.3",
                                        "::ffff:11.1.2.3",
                                        "fd00::1",
                                        "fd00:0:7f::1",
                                        "fd00:0:81::1",
                                        "fe00::1",
                                        "::1",
                                        "::"};
static const uint16_t ports[] = {79, 80, 81, 90, 91, 442, 443, 444, 65535, 1};
#define ANY(array) (array)[(unsigned)rand() % (sizeof(array) / sizeof *(array))]

static size_t add_list(char *text, const char *key)
{
    size_t n = (size_t)sprintf(text, "%s\"%s\": [", text[-1] == '{' ? "" : ", ", key);
    for (unsigned i = 0, most = 1 + (unsigned)rand() % 3; i < most; i++)
        n += (size_t)sprintf(text + n, "%s\"%s\"", i ? ", " : "", ANY(patterns));
    return n + (size_t)sprintf(text + n, "]");
}

static struct ns_policy *random_policy(void)
{
    static const char *const sends[] = {"adaptive", "nodelay", "app", "auto-cork"},
                             *const roles[] = {"\"role\": \"client\"", "\"role\": \"server\"", ""},
                             *const acks[] = {"app", "before-wait"};
    char text[8192];
    size_t n = (size_t)sprintf(text, "{\"version\": 1, \"rules\": [");
    for (unsigned i = 0, rules = (unsigned)rand() % 6; i < rules; i++) {
        n += (size_t)sprintf(text + n, "%s{\"match\": {%s", i ? ", " : "", ANY(roles));
        if (rand() % 2)
            n += add_list(text + n, "local");
        if (rand() % 2)
            n += add_list(text + n, "remote");
        n += (size_t)sprintf(text + n, "}, \"send\": \"%s\", \"ack\": \"%s\"}", ANY(sends),
                             ANY(acks));
    }
    sprintf(text + n, "]}");
    return parse(text);
}

static struct ns_address random_address(bool v4)
{
    struct ns_address address = {.known = true, .port = ANY(ports)};
    do
        inet_pton(AF_INET6, ANY(addresses), &address.addr);
    while (IN6_IS_ADDR_V4MAPPED(&address.addr) != v4);
    return address;
}

/* The mark that the first program gives to a new connection. */
static unsigned mark_of(const struct ns_socket_facts *facts, struct bpf_run *run)
{
    struct bpf_sock_ops ops =
        bpf_connection(facts->role == NS_ROLE_CLIENT, &facts->local, &facts->remote);
    bool good = bpf_run(run, &code, &ops) == 1;
    return good ? run->mark & NS_MARK_CURED : ~0U;
}

CHECK(test_the_rules_are_those_of_the_library)
{
    enum { POLICIES = 3000, SOCKETS = 20 };
    unsigned wrong = 0, cured = 0;
    srand(1);
    for (int i = 0; i < POLICIES; i++) {
        struct ns_policy *policy = random_policy();
        struct ns_ruleset rules;
        if (!policy || ns_ruleset_build(&rules, policy, &(struct ns_process){0}) != 0 ||
            ns_code_connections(&code, policy, 0) != 0)
            abort();
        for (int s = 0; s < SOCKETS; s++) {
            const bool v4 = rand() % 2;
            const struct ns_socket_facts facts = {rand() % 2 ? NS_ROLE_CLIENT : NS_ROLE_SERVER,
                                                  random_address(v4), random_address(v4)};
            const struct ns_rule *rule = ns_match_socket(&rules, &facts);
            const unsigned expected = rule ? ns_code_mark(rule) : 0;
            struct bpf_run run = {.least_delack = 8000, .delack = 200000};
            wrong += mark_of(&facts, &run) != expected;
            wrong += run.nodelay != !!(expected & NS_MARK_NODELAY);
            wrong += run.delack != (expected & NS_MARK_DELACK ? 8000 : 200000);
            cured += expected != 0;
        }
        ns_ruleset_release(&rules);
        ns_policy_free(policy);
    }
    OK(wrong == 0, "%u random connections get the options of their rules", POLICIES * SOCKETS);
    OK(cured > POLICIES, "and %u of them get some", cured);
}

static const struct ns_address loopback = {
    .known = true, .addr.s6_addr = {[10] = 0xFF, 0xFF, 127, 0, 0, 1}, .port = 80};

/* What the second program does at a setsockopt. Returns its result; size becomes optlen. */
static uint64_t call_with(struct bpf_run *run, const void *value, int *size)
{
    char room[64] = {0};
    const void *begin = room, *end = room + sizeof room;
    struct bpf_sock sock = {.protocol = IPPROTO_TCP};
    const void *sk = &sock;
    struct bpf_sockopt context = {.level = IPPROTO_TCP, .optname = TCP_NODELAY, .optlen = *size};
    memcpy(room, value, (size_t)*size);
    memcpy(&context.sk, &sk, sizeof sk);
    memcpy(&context.optval, &begin, sizeof begin);
    memcpy(&context.optval_end, &end, sizeof end);
    ns_code_options(&code, 0, true);
    uint64_t result = bpf_run(run, &code, &context);
    *size = context.optlen;
    return result;
}

/* setsockopt(TCP_NODELAY) by the program. True: the kernel carries it out. */
static bool program_sets(struct bpf_run *run, int value)
{
    int size = sizeof value;
    bool is_done = call_with(run, &value, &size) == 1 && size == sizeof value;
    run->nodelay = is_done ? value : run->nodelay;
    return is_done;
}

/* The command's call. True: the program has acted. */
static bool cure_sets(struct bpf_run *run, unsigned mark)
{
    const struct ns_code_call call = {run->nodelay, NS_KERNEL_MAGIC, mark};
    int size = sizeof call;
    return call_with(run, &call, &size) == 0;
}

static void opens(struct bpf_run *run, const char *policy_text)
{
    const struct ns_socket_facts facts = {NS_ROLE_CLIENT, loopback, loopback};
    struct ns_policy *policy = parse(policy_text);
    if (!policy || ns_code_connections(&code, policy, 0) != 0)
        abort();
    mark_of(&facts, run);
    ns_policy_free(policy);
}

static struct bpf_run connection(const char *policy_text, int nodelay)
{
    struct bpf_run run = {.nodelay = nodelay, .least_delack = 8000, .delack = 200000};
    opens(&run, policy_text);
    return run;
}

#define EVERY "{\"version\": 1, \"rules\": [{\"match\": {}}]}"
#define ACKS "{\"version\": 1, \"rules\": [{\"match\": {}, \"send\": \"app\"}]}"

CHECK(test_what_the_program_asks_for)
{
    struct bpf_run run = connection(EVERY, 0);
    OK(run.nodelay == 1 && run.delack == 8000, "a new connection is cured");
    OK(!program_sets(&run, 0) && run.nodelay == 1, "a TCP_NODELAY of 0 is left out");
    OK(program_sets(&run, 1), "a TCP_NODELAY of 1 is not");
    OK(cure_sets(&run, 0) && run.nodelay == 1 && run.delack == 200000,
       "the undo leaves the 1 that the program has set");
    OK(program_sets(&run, 0) && run.nodelay == 0, "after the undo, a 0 is carried out");
    OK(!cure_sets(&run, 0), "a second undo does nothing");

    run = connection(EVERY, 0);
    program_sets(&run, 1);
    program_sets(&run, 0);
    OK(cure_sets(&run, 0) && run.nodelay == 0, "the undo carries out the 0 that was left out");
    run = connection(EVERY, 0);
    OK(cure_sets(&run, 0) && run.nodelay == 0, "the undo restores the 0 of the beginning");
    run = connection(EVERY, 1);
    OK(cure_sets(&run, 0) && run.nodelay == 1, "the undo leaves a 1 of the beginning");
    run = connection(ACKS, 0);
    OK(run.nodelay == 0 && run.delack == 8000, "a rule with send app limits the ACKs only");
    OK(program_sets(&run, 1) && program_sets(&run, 0),
       "there, the program's calls are carried out");
}

CHECK(test_a_group_inside_another_one)
{
    struct bpf_run run = connection(ACKS, 0);
    opens(&run, EVERY);
    OK(run.nodelay == 0 && run.delack == 8000, "the inner group's policy decides");
    run = connection(EVERY, 0);
    opens(&run, ACKS);
    OK(run.nodelay == 1 && cure_sets(&run, 0) && run.nodelay == 0,
       "and the undo restores what the program asked for");
}

CHECK(test_connections_that_exist)
{
    for (int own = 0; own < 2; own++) {
        struct bpf_run run = {.nodelay = own, .least_delack = 2000, .delack = 200000};
        OK(cure_sets(&run, NS_MARK_CURED) && run.nodelay == 1 && run.delack == 2000,
           "one with TCP_NODELAY %d is cured", own);
        OK(!cure_sets(&run, NS_MARK_CURED), "and not twice");
        OK(cure_sets(&run, NS_MARK_DELACK) && run.nodelay == own && run.delack == 2000,
           "another policy restores TCP_NODELAY %d", own);
        OK(cure_sets(&run, 0) && run.nodelay == own && run.delack == 200000, "the undo the rest");
    }
    struct bpf_run run = {.delack = 200000};
    const uint32_t words[2] = {0, NS_KERNEL_MAGIC}, other[3] = {1, 2, 3};
    const uint64_t wide = 1;
    int size = sizeof other;
    OK(call_with(&run, other, &size) == 1 && size == sizeof other && run.changes == 0,
       "a program's value of three words is carried out");
    size = sizeof wide;
    OK(call_with(&run, &wide, &size) == 1 && cure_sets(&run, NS_MARK_CURED),
       "one of eight bytes does not look like the library's");
    run = (struct bpf_run){.delack = 200000};
    size = sizeof words;
    OK(call_with(&run, words, &size) == 1 && size == sizeof words, "so are the library's calls");
    OK(!cure_sets(&run, NS_MARK_CURED) && run.changes == 0,
       "a connection on which the library works is not changed");
}

CHECK(test_limits)
{
    static char text[256 * 1024];
    size_t n = (size_t)sprintf(text, "{\"version\": 1, \"rules\": [");
    for (int i = 0; i < NS_CODE_ENTRIES_MOST / 2; i++)
        n += (size_t)sprintf(text + n, "%s{\"match\": {\"remote\": \"[fd00::%x]:80-90\"}}",
                             i ? "," : "", i);
    sprintf(text + n, "]}");
    struct ns_policy *policy = parse(text);
    OK(policy && ns_code_connections(&code, policy, 0) == 0,
       "the largest policy takes %zu instructions of %d", code.n, NS_CODE_MOST);
    sprintf(text + n, ", {\"match\": {}}]}");
    ns_policy_free(policy);
    policy = parse(text);
    OK(policy && ns_code_connections(&code, policy, 0) == -E2BIG, "a larger one is refused");
    ns_policy_free(policy);
    policy = parse("{\"version\": 1, \"rules\": [{\"match\": {\"role\": \"client\"}},"
                   " {\"match\": {\"args\": \"-x\"}}]}");
    OK(policy && ns_code_unfit(policy) == &policy->rules[1],
       "a rule that asks for arguments is found");
    ns_policy_free(policy);
}
