/* SPDX-License-Identifier: MIT */
/* Fuzzes the way from a policy's text to rules for a process. Whether it is JSON is asked of an
 * obvious reader of JSON, too; what is taken is written out and must be taken again as the same
 * policy; what is refused says where, inside the text, and on one line. NS_FUZZ_BROKEN in the
 * environment: the obvious reader is wrong on purpose. */
#include "base/arena.h"
#include "policy/match.h"
#include "must.h"
#include "policy/policy.h"
#include "policy/text.h"
#include "slow_json.h"
#include "policy/sockopt.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>

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

/* The callback receives the error that the library returns first, and no other if the text is not
 * JSON. */
static void check_all(const char *text, size_t size, bool is_json, int result,
                      const struct ns_policy_error *error)
{
    struct mistakes mistakes = {0};
    const struct ns_policy_errors all = {count, &mistakes};
    struct ns_policy_error again;
    struct ns_policy *policy;
    struct ns_arena scratch = {0};
    MUST(ns_policy_parse_in(&scratch, text, size, &policy, &again, &all) == result);
    MUST((mistakes.n == 0) == (result == 0) && mistakes.n <= NS_POLICY_ERRORS_MOST + 1);
    if (result != 0)
        MUST(same_error(&again, error) && same_error(&mistakes.first, error) &&
             (is_json || mistakes.n == 1));
    ns_policy_free(policy);
    ns_arena_free(&scratch);
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

/* Room for what max_len bytes can say. */
struct page {
    char text[2 << 20];
    size_t used;
};

__attribute__((format(printf, 2, 3))) static void print(struct page *page, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(page->text + page->used, sizeof page->text - page->used, format, arguments);
    va_end(arguments);
    page->used += (size_t)n;
    MUST(page->used < sizeof page->text);
}

static void print_string(struct page *page, const char *text)
{
    print(page, "\"");
    for (; *text; text++)
        if (*text == '"' || *text == '\\' || (unsigned char)*text < ' ')
            print(page, "\\u%04x", (unsigned)*text);
        else
            print(page, "%c", *text);
    print(page, "\"");
}

static void print_strings(struct page *page, const char *key, char *const *list)
{
    if (!list)
        return;
    print(page, "\"%s\":[", key);
    for (size_t i = 0; list[i]; i++) {
        print(page, i ? "," : "");
        print_string(page, list[i]);
    }
    print(page, "],");
}

static void print_endpoint(struct page *page, const struct ns_endpoint *e)
{
    static const uint8_t v4_mapped[12] = {[10] = 0xFF, [11] = 0xFF};
    char addr[INET6_ADDRSTRLEN];
    bool v4 = e->prefix >= 96 && memcmp(&e->addr, v4_mapped, 12) == 0;
    MUST(e->prefix <= 128 && e->port_low <= e->port_high);
    for (unsigned bit = e->prefix; bit < 128; bit++)
        MUST(!(e->addr.s6_addr[bit / 8] & 0x80 >> bit % 8));
    if (v4)
        snprintf(addr, sizeof addr, "%u.%u.%u.%u", e->addr.s6_addr[12], e->addr.s6_addr[13],
                 e->addr.s6_addr[14], e->addr.s6_addr[15]);
    else
        inet_ntop(AF_INET6, &e->addr, addr, sizeof addr);
    print(page, v4 ? "\"%s/%u" : "\"[%s/%u]", addr, v4 ? e->prefix - 96u : e->prefix);
    if (e->port_low != 0 || e->port_high != 65535)
        print(page, ":%u-%u", e->port_low, e->port_high);
    print(page, "\"");
}

static void print_endpoints(struct page *page, const char *key, const struct ns_endpoint *list,
                            size_t count)
{
    MUST((list != NULL) == (count > 0));
    if (!list)
        return;
    print(page, "\"%s\":[", key);
    for (size_t i = 0; i < count; i++) {
        print(page, i ? "," : "");
        print_endpoint(page, &list[i]);
    }
    print(page, "],");
}

static void print_sockopts(struct page *page, const struct ns_rule *rule)
{
    static const char *const words[] = {"\"pass\"", "\"ignore\"", "set", "min", "max"};
    for (size_t i = 0; i < rule->n_sockopts; i++) {
        const struct ns_sockopt_action *action = &rule->sockopts[i];
        MUST(action->option < NS_SOCKOPT_COUNT && action->verb <= NS_SOCKOPT_MAX);
        const struct ns_sockopt *row = &ns_sockopts[action->option];
        print(page, "%s\"%s\":", i ? "," : "", row->name);
        if (action->verb < NS_SOCKOPT_SET) {
            print(page, "%s", words[action->verb]);
            continue;
        }
        MUST(action->value >= row->least && action->value <= row->most);
        print(page, "{\"%s\":%d}", words[action->verb], action->value);
    }
}

static void print_rule(struct page *page, const struct ns_rule *rule)
{
    MUST(rule->max_delay_us >= NS_MAX_DELAY_US_LEAST && rule->max_delay_us <= NS_MAX_DELAY_US_MOST);
    MUST(ns_send_name(rule->send) && ns_ack_name(rule->ack) && ns_role_name(rule->role));
    print(page, "{");
    if (rule->name) {
        print(page, "\"name\":");
        print_string(page, rule->name);
        print(page, ",");
    }
    print(page, "\"match\":{");
    print_strings(page, "process", rule->process);
    print_strings(page, "args", rule->args);
    print_endpoints(page, "local", rule->local, rule->n_local);
    print_endpoints(page, "remote", rule->remote, rule->n_remote);
    if (rule->role != NS_ROLE_UNKNOWN)
        print(page, "\"role\":\"%s\",", ns_role_name(rule->role));
    page->used -= page->text[page->used - 1] == ',';
    print(page, "},\"send\":\"%s\",\"ack\":\"%s\",\"max_delay_us\":%u", ns_send_name(rule->send),
          ns_ack_name(rule->ack), rule->max_delay_us);
    print(page, ",\"sockopt\":{");
    print_sockopts(page, rule);
    print(page, "}}");
}

static void print_policy(struct page *page, const struct ns_policy *policy)
{
    page->used = 0;
    print(page, "{\"version\":1,\"enabled\":%s,\"rules\":[", policy->enabled ? "true" : "false");
    for (size_t i = 0; i < policy->n_rules; i++) {
        MUST(policy->rules[i].index == i);
        print(page, i ? "," : "");
        print_rule(page, &policy->rules[i]);
    }
    print(page, "]}");
}

/* Written out and read again it is the same. */
static void check_round_trip(const struct ns_policy *policy)
{
    static struct page page, again;
    struct ns_policy_error error;
    struct ns_policy *copy;
    print_policy(&page, policy);
    MUST(ns_policy_parse(page.text, page.used, &copy, &error) == 0);
    print_policy(&again, copy);
    MUST(page.used == again.used && memcmp(page.text, again.text, page.used) == 0);
    ns_policy_free(copy);
}

static void ignore(void *context, const struct ns_rule *rule, const char *text)
{
    MUST(!context && text[0]);
    (void)rule;
}

static void check_use(const struct ns_policy *policy)
{
    char *args[] = {(char[]){"-u"}, (char[]){"report.py"}, NULL};
    struct ns_process process = {.exe = "/usr/bin/app", .argv0 = "app", .args = args};
    struct ns_address local = {.known = true, .port = 80};
    struct ns_socket_facts facts = {.role = NS_ROLE_SERVER, .local = local, .remote = local};
    struct ns_ruleset set;
    bool settled;
    ns_policy_warnings(policy, ignore, NULL);
    MUST(ns_ruleset_build(&set, policy, &process) == 0);
    MUST(set.n_rules <= policy->n_rules);
    ns_match_socket(&set, &facts);
    ns_match_listener(&set, &local, &settled);
    ns_ruleset_release(&set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ns_policy_error error = {0};
    struct ns_policy *policy;
    struct ns_arena memory = {0};
    const cJSON *root = NULL;
    /* A block of its own, so that one byte too far is seen. */
    char *text = malloc(size ? size : 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    bool is_json = slow_json(data, size, getenv("NS_FUZZ_BROKEN") ? 3 : NS_POLICY_NESTING_MOST);
    MUST((ns_text_parse(text, size, &memory, &root, &error) == 0) == is_json);
    ns_arena_free(&memory);
    errno = 123;
    int result = ns_policy_parse(text, size, &policy, &error);
    MUST(errno == 123);
    MUST(result == 0 || result == -EINVAL);
    MUST((result == 0) == (policy != NULL));
    check_all(text, size, is_json, result, &error);
    if (policy) {
        MUST(is_json);
        check_round_trip(policy);
        check_use(policy);
        ns_policy_free(policy);
    } else {
        check_error(&error, text, size);
    }
    free(text);
    return 0;
}
