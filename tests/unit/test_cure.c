/* SPDX-License-Identifier: MIT */
/* The BPF programs of `nagleshim cure`: they keep the value of TCP_NODELAY that the program asked
 * for. tests/fuzz/policy.c compares the rules that they choose with those that the library chooses.
 */
#include "base/memory.h"
#include "bpf.h"
#include "unit.h"

enum { LEAST = 8000 };

static struct ns_code code;

static struct ns_policy *parse(const char *text)
{
    struct ns_policy *policy = NULL;
    struct ns_policy_error error;
    if (ns_policy_parse(&(struct ns_arena){0}, text, strlen(text), &policy, &error, NULL) != 0)
        printf("# %u:%u: %s\n", error.line, error.column, error.message);
    return policy;
}

static const struct ns_address loopback = {
    .known = true, .addr.s6_addr = {[10] = 0xFF, 0xFF, 127, 0, 0, 1}, .port = 80};

#define EVERY "{\"version\": 1, \"rules\": [{\"match\": {}}]}"
#define ACKS "{\"version\": 1, \"rules\": [{\"match\": {}, \"send\": \"app\"}]}"
#define NONE "{\"version\": 1, \"rules\": []}"
#define PORT "{\"version\": 1, \"rules\": [{\"match\": {\"remote\": \"127.0.0.1:81\"}}]}"

/* Of the calls that follow: the socket's state, protocol and addresses, and its group's policy. */
static struct bpf_sock calls_on;
static const char *calls_by = EVERY;

static void calls_are_on(uint32_t state, uint32_t protocol, const char *policy)
{
    calls_on = (struct bpf_sock){.family = AF_INET,
                                 .state = state,
                                 .protocol = protocol,
                                 .src_ip4 = htonl(INADDR_LOOPBACK),
                                 .dst_ip4 = htonl(INADDR_LOOPBACK),
                                 .src_port = 80,
                                 .dst_port = htons(81)};
    calls_by = policy;
}

/* What the second program does at a setsockopt. Returns the size with which the kernel carries it
 * out; -1: it does not. */
static int call_with(struct bpf_run *run, int option, const void *value, int size)
{
    char room[64] = {0};
    const void *begin = room, *end = room + (size < 16 ? 16 : size), *sk = &calls_on;
    struct bpf_sockopt context = {.level = IPPROTO_TCP, .optname = option, .optlen = size};
    memcpy(room, value, (size_t)size);
    memcpy(&context.sk, &sk, sizeof sk);
    memcpy(&context.optval, &begin, sizeof begin);
    memcpy(&context.optval_end, &end, sizeof end);
    struct ns_policy *policy = parse(calls_by);
    ns_code_options(&code, policy);
    ns_policy_free(policy);
    return bpf_run(run, &code, &context) == 1 ? context.optlen : -2;
}

/* setsockopt(TCP_NODELAY) by the program. True: the kernel carries it out. */
static bool program_sets(struct bpf_run *run, int value)
{
    const int done = call_with(run, TCP_NODELAY, &value, sizeof value);
    run->nodelay = done == sizeof value ? value : run->nodelay;
    return done == sizeof value;
}

static bool by_listener;      /* the connections that follow were accepted */
static uint32_t others_reply; /* what programs of others write between the groups; 0: nothing */

static void opens(struct bpf_run *run, const char *const *policies)
{
    const struct ns_socket_facts facts = {NS_ROLE_CLIENT, loopback, loopback};
    struct bpf_sock_ops ops = bpf_connection(!by_listener, &facts.local, &facts.remote);
    calls_are_on(TCP_ESTABLISHED, IPPROTO_TCP, EVERY);
    for (; *policies; policies++) {
        struct ns_policy *policy = parse(*policies);
        if (!policy || ns_code_connections(&code, policy, LEAST) != 0)
            abort();
        bpf_run(run, &code, &ops);
        ops.reply = others_reply ? others_reply : ops.reply;
        ns_policy_free(policy);
    }
}

/* A connection that was opened in groups with these policies, the inner one first. */
#define OPENED(own, ...)                                                                           \
    ({                                                                                             \
        struct bpf_run opened = {.nodelay = (own), .delack = 200000};                              \
        opens(&opened, (const char *const[]){__VA_ARGS__, NULL});                                  \
        opened;                                                                                    \
    })

CHECK(test_what_the_program_asks_for)
{
    struct bpf_run run = OPENED(0, EVERY);
    OK(program_sets(&run, 1) && run.mark == NS_MARK_OWN_1, "a TCP_NODELAY of 1 is noted");
    OK(!program_sets(&run, 0) && run.mark == NS_MARK_OWN_0,
       "and so is a later 0, which is left out");
    run = OPENED(1, EVERY);
    OK(run.nodelay == 1 && run.mark == NS_MARK_OWN_1, "a 1 of the beginning is noted");
    run = (struct bpf_run){.delack = 200000, .is_old = true};
    opens(&run, (const char *const[]){EVERY, NULL});
    OK(run.mark == NS_MARK_NONE && run.delack == LEAST && program_sets(&run, 0),
       "a kernel that sets no TCP_NODELAY limits the ACKs only");
}

CHECK(test_a_group_inside_another_one)
{
    struct bpf_run run = OPENED(0, EVERY, EVERY);
    OK(run.mark == NS_MARK_OWN_0,
       "the outer one does not take the inner one's 1 for the program's");
}

CHECK(test_programs_of_others)
{
    for (others_reply = UINT32_MAX; others_reply != 0; others_reply = others_reply > 1) {
        struct bpf_run run = OPENED(0, ACKS, EVERY);
        OK(run.nodelay == 0 && run.delack == LEAST,
           "the inner group's policy decides if its reply was replaced by %x", others_reply);
        run = OPENED(0, NONE, EVERY);
        OK(run.nodelay == 1, "and the outer one's, if the inner one changes nothing");
    }
}

CHECK(test_programs_that_save_syns)
{
    by_listener = true;
    for (int own = 1; own <= 2; own++) {
        struct bpf_run run = {.mark = own, .delack = 200000};
        calls_are_on(TCP_LISTEN, IPPROTO_TCP, EVERY);
        OK(program_sets(&run, 1) && program_sets(&run, 0) && run.mark == own,
           "a listener keeps its TCP_SAVE_SYN of %d and its TCP_NODELAY", own);
        calls_are_on(TCP_CLOSE, IPPROTO_TCP, EVERY);
        OK(program_sets(&run, 0) && run.mark == own, "and so does a socket before it listens");
        opens(&run, (const char *const[]){ACKS, NULL});
        OK(program_sets(&run, 1) && program_sets(&run, 0),
           "what it accepts has its own TCP_NODELAY, where no rule asks for another one");
        run.mark = own;
        opens(&run, (const char *const[]){EVERY, NULL});
        OK(run.nodelay == 1 && run.mark == NS_MARK_OWN_0 && !program_sets(&run, 0),
           "and is cured by a rule");
    }
    by_listener = false;
}

CHECK(test_mptcp)
{
    struct bpf_run run = {.nodelay = 1};
    calls_are_on(TCP_ESTABLISHED, IPPROTO_MPTCP, EVERY);
    OK(!program_sets(&run, 0) && program_sets(&run, 1), "a 0 is left out, and a 1 is not");
    calls_are_on(TCP_ESTABLISHED, IPPROTO_MPTCP, PORT);
    OK(!program_sets(&run, 0), "the rules' addresses decide");
    calls_on.dst_port = htons(82);
    OK(program_sets(&run, 0), "with the port");
}

CHECK(test_calls_of_other_sizes)
{
    const int library[2] = {0, NS_KERNEL_MAGIC}, limit = 3000;
    struct bpf_run run = OPENED(0, EVERY), cured = run;
    OK(call_with(&run, TCP_NODELAY, library, sizeof library) == sizeof library &&
           run.mark == NS_MARK_OWN_0,
       "the library's calls are carried out");
    OK(call_with(&run, TCP_NODELAY, library, 3) == 3, "one that is too short is the kernel's");
    OK(call_with(&run, TCP_MAXSEG, &limit, sizeof limit) == sizeof limit, "other options pass");
    OK(memcmp(&run, &cured, sizeof run) == 0, "and nothing is changed");
    OK(call_with(&run, NS_CODE_OPTION, &limit, sizeof limit) == -1 && run.delack == limit,
       "the command's own call limits the delayed ACK");
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
    OK(policy && ns_code_connections(&code, policy, LEAST) == 0,
       "the largest policy takes %zu instructions of %d", code.n, NS_CODE_MOST);
    sprintf(text + n, ", {\"match\": {}}]}");
    ns_policy_free(policy);
    policy = parse(text);
    OK(policy && ns_code_connections(&code, policy, LEAST) == -E2BIG, "a larger one is refused");
    ns_policy_free(policy);
    policy = parse("{\"version\": 1, \"rules\": [{\"match\": {\"role\": \"client\"}},"
                   " {\"match\": {\"args\": \"-x\"}}]}");
    OK(policy && ns_code_unfit(policy) == &policy->rules[1],
       "a rule that asks for arguments is found");
    OK(policy && ns_code_connections(&code, policy, LEAST) == -ENOTSUP, "and refused");
    ns_policy_free(policy);
}
