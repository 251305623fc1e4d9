/* SPDX-License-Identifier: MIT */
/* Fuzzes the compilation of a policy's text to rules for a process. The library and `nagleshim
 * check` must report the same first error. An accepted policy has only values that a text can
 * express. An error has a place inside the text, and one line. NS_FUZZ_BROKEN in the environment:
 * every text is expected to be refused. */
#include "base/memory.h"
#include "cli/output.h"
#include "cli/policy/check.h"
#include "../unit/bpf.h"
#include "policy/match.h"
#include "must.h"
#include "policy/policy.h"
#include "policy/text.h"

struct mistakes {
    struct ns_policy_error first;
    unsigned n;
};

static void count(void *context, const struct ns_policy_error *error)
{
    struct mistakes *mistakes = context;
    if (mistakes->n++ == 0)
        mistakes->first = *error;
    MUST(error->line >= 1 && error->column >= 1 && error->message[0]);
}

static bool same_error(const struct ns_policy_error *a, const struct ns_policy_error *b)
{
    return a->line == b->line && a->column == b->column && strcmp(a->message, b->message) == 0;
}

/* As `nagleshim check` does it: its first error is the one that the library returns. */
static void check_all(const char *text, size_t size, int result,
                      const struct ns_policy_error *error)
{
    struct mistakes mistakes = {0};
    const struct ns_policy_errors all = {count, &mistakes};
    struct ns_policy_error again;
    struct ns_policy *policy;
    MUST(ns_policy_parse(&(struct ns_arena){0}, text, size, &policy, &again, &all) == result);
    MUST((mistakes.n == 0) == (result == 0) && mistakes.n <= NS_POLICY_ERRORS_MOST + 1);
    MUST(result == 0 || (same_error(&mistakes.first, &again) && same_error(&again, error)));
    ns_policy_free(policy);
}

static void check_error(const struct ns_policy_error *error, const char *text, size_t size)
{
    unsigned lines = 1;
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    MUST(error->line >= 1 && error->line <= lines);
    MUST(error->column >= 1 && error->column <= size + 1);
    size_t length = strnlen(error->message, sizeof error->message);
    MUST(length > 0 && length < sizeof error->message);
    for (size_t i = 0; i < length; i++)
        MUST((unsigned char)error->message[i] >= ' ');
}

/* Each value is one that a text can express. */
static void check_values(const struct ns_rule *rule)
{
    MUST(rule->max_delay_us >= NS_MAX_DELAY_US_LEAST && rule->max_delay_us <= NS_MAX_DELAY_US_MOST);
    MUST(ns_send_name(rule->send) && ns_ack_name(rule->ack) && ns_role_name(rule->role));
    for (size_t i = 0; i < rule->local.n + rule->remote.n; i++) {
        const struct ns_endpoint *e =
            i < rule->local.n ? &rule->local.list[i] : &rule->remote.list[i - rule->local.n];
        MUST(e->prefix <= 128 && e->port_low <= e->port_high);
        for (unsigned bit = e->prefix; bit < 128; bit++)
            MUST(!(e->addr.s6_addr[bit / 8] & 0x80 >> bit % 8));
    }
    for (size_t i = 0; i < NS_SOCKOPT_COUNT; i++) {
        const struct ns_sockopt_action *action = &rule->sockopts[i];
        MUST(action->verb <= NS_SOCKOPT_MAX);
        if (action->verb >= NS_SOCKOPT_SET)
            MUST(action->value >= ns_sockopts[i].least && action->value <= ns_sockopts[i].most);
    }
}

static void ignore(void *context, const struct ns_rule *rule, const char *text)
{
    MUST(!context && text[0]);
    (void)rule;
}

/* The kernel's program chooses the rule that the library chooses. */
static void check_socket(const struct ns_code *code, const struct ns_ruleset *set,
                         const struct ns_socket_facts *facts)
{
    const struct ns_rule *rule = ns_match_socket(set, facts);
    const unsigned options = rule ? ns_code_options_of(rule) : 0;
    struct bpf_sock_ops ops =
        bpf_connection(facts->role == NS_ROLE_CLIENT, &facts->local, &facts->remote);
    struct bpf_run run = {.delack = 200000};
    MUST(bpf_run(&run, code, &ops) == 1);
    MUST(run.nodelay == !!(options & NS_CODE_NODELAY));
    MUST(run.mark == (options & NS_CODE_NODELAY ? NS_MARK_OWN_0 : NS_MARK_NONE));
    MUST(run.delack == (options & NS_CODE_DELACK ? 8000 : 200000));
}

/* An address just inside of an endpoint's bits and ports, or just outside. */
static struct ns_address beside(const struct ns_endpoint *endpoint, unsigned how)
{
    struct ns_address address = {.known = true, .addr = endpoint->addr};
    unsigned bit = endpoint->prefix - (how >> 2 & 1), outside = how >> 1 & 1;
    address.port =
        (uint16_t)(how & 1 ? endpoint->port_high + outside : endpoint->port_low - outside);
    if (endpoint->prefix && bit < 128)
        address.addr.s6_addr[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
    return address;
}

/* Sockets at the bounds of the endpoints, whose other end is at the bounds of the next one. */
static void check_kernel(const struct ns_policy *policy, const struct ns_ruleset *set)
{
    enum { MOST = 32 };
    static struct ns_code code;
    struct ns_endpoint some[MOST] = {
        {.addr.s6_addr = {[10] = 0xFF, 0xFF, 127, 0, 0, 1}, .prefix = 128}};
    unsigned n = 1;
    if (ns_code_connections(&code, policy, 8000) != 0)
        return;
    for (const struct ns_rule *rule = policy->rules; rule < policy->rules + policy->n_rules;
         rule++) {
        for (size_t i = 0; i < rule->local.n && n < MOST; i++)
            some[n++] = rule->local.list[i];
        for (size_t i = 0; i < rule->remote.n && n < MOST; i++)
            some[n++] = rule->remote.list[i];
    }
    for (unsigned i = 0; i < 8 * 8 * n; i++) {
        struct ns_address local = beside(&some[i / 64], i), remote = local;
        struct ns_address other = beside(&some[(i / 64 + 1) % n], i / 8);
        if (IN6_IS_ADDR_V4MAPPED(&other.addr) == IN6_IS_ADDR_V4MAPPED(&local.addr))
            remote = other;
        check_socket(&code, set, &(struct ns_socket_facts){NS_ROLE_CLIENT, local, remote});
        check_socket(&code, set, &(struct ns_socket_facts){NS_ROLE_SERVER, remote, local});
    }
}

static void check_use(const struct ns_policy *policy)
{
    char *args[] = {(char[]){"-u"}, (char[]){"report.py"}, NULL};
    struct ns_process process = {.exe = "/usr/bin/app", .argv0 = "app", .args = args};
    struct ns_address local = {.known = true, .port = 80};
    struct ns_socket_facts facts = {.role = NS_ROLE_SERVER, .local = local, .remote = local};
    struct ns_ruleset set;
    bool settled;
    ns_check_warn(policy, &(struct ns_check_listener){ignore, NULL});
    ns_words_forget();
    MUST(ns_ruleset_build(&set, policy, &process) == 0);
    MUST(set.n_rules <= policy->n_rules);
    ns_match_socket(&set, &facts);
    if (!ns_code_unfit(policy))
        check_kernel(policy, &set);
    ns_match_listener(&set, &local, &settled);
    ns_ruleset_release(&set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ns_policy_error error = {0};
    struct ns_policy *policy;
    struct ns_arena memory = {0};
    const cJSON *root = NULL;
    /* The text has its own block of memory, so that an access beyond its NUL is detected. */
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    bool is_accepted = ns_text_parse(&memory, text, size, &root, &error) == 0;
    MUST(!is_accepted || !getenv("NS_FUZZ_BROKEN"));
    ns_arena_free(&memory);
    errno = 123;
    int result = ns_policy_parse(&memory, text, size, &policy, &error, NULL);
    MUST(errno == 123);
    MUST(result == 0 || result == -EINVAL);
    MUST((result == 0) == (policy != NULL));
    check_all(text, size, result, &error);
    if (policy) {
        MUST(is_accepted);
        for (size_t i = 0; i < policy->n_rules; i++)
            check_values(&policy->rules[i]);
        check_use(policy);
        ns_policy_free(policy);
    } else {
        check_error(&error, text, size);
    }
    free(text);
    return 0;
}
