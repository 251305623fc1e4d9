/* SPDX-License-Identifier: MIT */
/* Owns the contents of a policy: each key of keys.def, its kind and its range. Turns a cJSON tree
 * into a struct ns_policy, completely or not at all. Never prints, exits or aborts, since it runs
 * in other programs' processes. Allocates; not async-signal-safe. */
#include "policy/policy.h"

#include "policy/endpoint.h"
#include "policy/reader.h"
#include "policy/text.h"
#include "policy/sockopt.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int read_comment(struct ns_reader *reader, const cJSON *item, void *into)
{
    (void)into;
    return cJSON_IsString(item) ? 0 : ns_reader_expected_string(reader, item, "a string");
}

static int read_name(struct ns_reader *reader, const cJSON *item, void *into)
{
    struct ns_rule *rule = into;
    return ns_reader_string(reader, item, NS_NAME_LENGTH_MOST, &rule->name);
}

/* A key of a rule whose value is a word of modes.def. */
#define READ_WORD(key, first)                                                                      \
    static const char *key##_word(unsigned value)                                                  \
    {                                                                                              \
        return ns_##key##_name((enum ns_##key)value);                                              \
    }                                                                                              \
    static int read_##key(struct ns_reader *reader, const cJSON *item, void *into)                 \
    {                                                                                              \
        struct ns_rule *rule = into;                                                               \
        unsigned value = rule->key;                                                                \
        int result = ns_reader_word(reader, item, key##_word, first, &value);                      \
        rule->key = (enum ns_##key)value;                                                          \
        return result;                                                                             \
    }
READ_WORD(send, 0)
READ_WORD(ack, 0)
READ_WORD(role, NS_ROLE_CLIENT)

static int read_max_delay(struct ns_reader *reader, const cJSON *item, void *into)
{
    struct ns_rule *rule = into;
    int value = 0;
    int result =
        ns_reader_integer(reader, item, NS_MAX_DELAY_US_LEAST, NS_MAX_DELAY_US_MOST, &value);
    rule->max_delay_us = (uint32_t)value;
    rule->has_max_delay = true;
    return result;
}

/* Reads entry i of a list into list[i]. */
typedef int entry_reader(struct ns_reader *reader, const cJSON *entry, void *list, size_t i);

static int read_pattern(struct ns_reader *reader, const cJSON *entry, void *list, size_t i)
{
    return ns_reader_string(reader, entry, NS_PATTERN_LENGTH_MOST, (char **)list + i);
}

static int read_endpoint(struct ns_reader *reader, const cJSON *entry, void *list, size_t i)
{
    char problem[240], quote[44];
    if (!cJSON_IsString(entry))
        return ns_reader_expected_string(reader, entry, "a string");
    if (ns_endpoint_parse(entry->valuestring, (struct ns_endpoint *)list + i, problem,
                          sizeof problem) == 0)
        return 0;
    return ns_reader_fail(reader, entry, NS_TEXT_VALUE, "\"%s\" is not an endpoint: %s",
                          ns_reader_quote(entry->valuestring, quote, sizeof quote), problem);
}

/* A string or a list of strings: *list gets *n entries of size bytes and a last one of zeros. */
static int read_list(struct ns_reader *reader, const cJSON *item, size_t size, entry_reader *read,
                     void **list, size_t *n)
{
    const cJSON *entry;
    int result = ns_reader_list(reader, item, &entry, n);
    if (result)
        return result;
    *list = ns_arena_alloc(reader->memory, (*n + 1) * size);
    if (!*list)
        return -ENOMEM;
    int worst = 0;
    for (size_t i = 0; i < *n && ns_reader_goes_on(reader, result); i++, entry = entry->next) {
        result = read(reader, entry, *list, i);
        worst = result ? result : worst;
    }
    return worst;
}

/* A key of "match" whose value is such a list; done uses its length, n. */
#define READ_LIST(key, read, done)                                                                 \
    static int read_##key(struct ns_reader *reader, const cJSON *item, void *into)                 \
    {                                                                                              \
        struct ns_rule *rule = into;                                                               \
        void *list = NULL;                                                                         \
        size_t n = 0;                                                                              \
        int result = read_list(reader, item, sizeof *rule->key, read, &list, &n);                  \
        rule->key = list;                                                                          \
        done;                                                                                      \
        return result;                                                                             \
    }
READ_LIST(process, read_pattern, (void)n)
READ_LIST(args, read_pattern, (void)n)
READ_LIST(local, read_endpoint, rule->n_local = n)
READ_LIST(remote, read_endpoint, rule->n_remote = n)

static const struct ns_reader_key match_keys[] = {
#define NS_MATCH_KEY(name, read) {name, read},
#include "policy/keys.def"
#undef NS_MATCH_KEY
};

static int read_match(struct ns_reader *reader, const cJSON *item, void *into)
{
    return ns_reader_object(reader, item, "\"match\"", match_keys,
                            sizeof match_keys / sizeof *match_keys, into);
}

static int read_action_value(struct ns_reader *reader, const cJSON *item, void *into)
{
    struct ns_sockopt_action *action = into;
    const struct ns_sockopt *option = &ns_sockopts[action->option];
    if (action->verb != NS_SOCKOPT_PASS)
        return ns_reader_fail(reader, item, NS_TEXT_KEY,
                              "\"%s\" is one too many; only one of set, min and max is allowed",
                              item->string);
    action->verb = item->string[0] == 's'   ? NS_SOCKOPT_SET
                   : item->string[1] == 'i' ? NS_SOCKOPT_MIN
                                            : NS_SOCKOPT_MAX;
    return ns_reader_integer(reader, item, option->least, option->most, &action->value);
}

static const struct ns_reader_key action_keys[] = {
    {"set", read_action_value},
    {"min", read_action_value},
    {"max", read_action_value},
};

static int read_action(struct ns_reader *reader, const cJSON *item,
                       struct ns_sockopt_action *action)
{
    const char *expected = "\"pass\", \"ignore\", {\"set\": N}, {\"min\": N} or {\"max\": N}";
    bool word = cJSON_IsString(item);
    if (word && strcmp(item->valuestring, "pass") == 0)
        return 0;
    if (word && strcmp(item->valuestring, "ignore") == 0) {
        action->verb = NS_SOCKOPT_IGNORE;
        return 0;
    }
    if (!cJSON_IsObject(item) || !item->child)
        return ns_reader_expected(reader, item, expected);
    return ns_reader_object(reader, item, "an action", action_keys,
                            sizeof action_keys / sizeof *action_keys, action);
}

static int unknown_option(struct ns_reader *reader, const cJSON *item)
{
    static const char *const owned[] = {"TCP_NODELAY", "TCP_CORK", "TCP_QUICKACK",
                                        "TCP_DELACK_MAX_US"};
    char quote[44], names[400] = "";
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        if (strcmp(item->string, owned[i]) == 0)
            return ns_reader_fail(reader, item, NS_TEXT_KEY,
                                  "%s is not for \"sockopt\"; \"send\" and \"ack\" own it, and "
                                  "\"app\" there leaves it to the application",
                                  owned[i]);
    for (size_t i = 0; i < NS_SOCKOPT_COUNT; i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", ns_sockopts[i].name);
    }
    return ns_reader_fail(reader, item, NS_TEXT_KEY, "unknown option \"%s\"; allowed are %s",
                          ns_reader_quote(item->string, quote, sizeof quote), names);
}

static int read_sockopt(struct ns_reader *reader, const cJSON *child, struct ns_rule *rule)
{
    int option = ns_sockopt_by_name(child->string);
    if (option < 0)
        return unknown_option(reader, child);
    if (ns_sockopt_action(rule, option))
        return ns_reader_fail(reader, child, NS_TEXT_KEY,
                              "duplicate key \"%s\"; an option may be given once", child->string);
    struct ns_sockopt_action *action = &rule->sockopts[rule->n_sockopts++];
    action->option = (unsigned)option;
    return read_action(reader, child, action);
}

static int read_sockopts(struct ns_reader *reader, const cJSON *item, void *into)
{
    struct ns_rule *rule = into;
    if (!cJSON_IsObject(item))
        return ns_reader_expected(reader, item, "an object");
    if (!item->child)
        return 0;
    rule->sockopts =
        ns_arena_alloc(reader->memory, (size_t)cJSON_GetArraySize(item) * sizeof *rule->sockopts);
    if (!rule->sockopts)
        return -ENOMEM;
    int worst = 0;
    for (const cJSON *child = item->child; child; child = child->next) {
        int result = read_sockopt(reader, child, rule);
        worst = result ? result : worst;
        if (!ns_reader_goes_on(reader, result))
            break;
    }
    return worst;
}

static const struct ns_reader_key rule_keys[] = {
#define NS_RULE_KEY(name, read) {name, read},
#include "policy/keys.def"
#undef NS_RULE_KEY
};

static int read_version(struct ns_reader *reader, const cJSON *item, void *into)
{
    int version;
    (void)into;
    return ns_reader_integer(reader, item, 1, 1, &version);
}

static int read_enabled(struct ns_reader *reader, const cJSON *item, void *into)
{
    struct ns_policy *policy = into;
    if (!cJSON_IsBool(item))
        return ns_reader_expected(reader, item, "true or false");
    policy->enabled = cJSON_IsTrue(item);
    return 0;
}

static int read_rules(struct ns_reader *reader, const cJSON *item, void *into)
{
    struct ns_policy *policy = into;
    if (!cJSON_IsArray(item))
        return ns_reader_expected(reader, item, "a list of rules");
    if (!item->child)
        return 0;
    policy->rules =
        ns_arena_alloc(reader->memory, (size_t)cJSON_GetArraySize(item) * sizeof *policy->rules);
    if (!policy->rules)
        return -ENOMEM;
    int worst = 0;
    for (const cJSON *child = item->child; child; child = child->next) {
        struct ns_rule *rule = &policy->rules[policy->n_rules];
        rule->index = (unsigned)policy->n_rules++;
        rule->send = NS_SEND_DEFAULT;
        rule->max_delay_us = NS_MAX_DELAY_US_DEFAULT;
        int result = ns_reader_object(reader, child, "a rule", rule_keys,
                                      sizeof rule_keys / sizeof *rule_keys, rule);
        worst = result ? result : worst;
        if (!ns_reader_goes_on(reader, result))
            break;
    }
    return worst;
}

static const struct ns_reader_key policy_keys[] = {
#define NS_POLICY_KEY(name, read) {name, read},
#include "policy/keys.def"
#undef NS_POLICY_KEY
};

static int read_policy(struct ns_reader *reader, struct ns_policy *policy)
{
    const cJSON *root = reader->root;
    int result = ns_reader_object(reader, root, "a policy", policy_keys,
                                  sizeof policy_keys / sizeof *policy_keys, policy);
    if (!ns_reader_goes_on(reader, result) || !cJSON_IsObject(root))
        return result;
    if (!cJSON_GetObjectItemCaseSensitive(root, "version"))
        result =
            ns_reader_fail(reader, root, NS_TEXT_VALUE, "\"version\" is missing; it must be 1");
    if (!cJSON_GetObjectItemCaseSensitive(root, "rules") && ns_reader_goes_on(reader, result))
        result = ns_reader_fail(reader, root, NS_TEXT_VALUE,
                                "\"rules\" is missing; it must be a list of rules");
    return result;
}

static int parse(struct ns_arena *scratch, const char *text, size_t len, struct ns_policy **policy,
                 struct ns_policy_error *error, const struct ns_policy_errors *all)
{
    struct ns_arena memory = {0};
    struct ns_reader reader = {.text = text, .error = error, .memory = &memory, .all = all};
    int result = ns_text_parse(text, len, scratch, &reader.root, error);
    if (result == -EINVAL && all)
        all->report(all->context, error);
    if (result)
        return result;
    struct ns_policy *draft = ns_arena_alloc(&memory, sizeof *draft);
    if (!draft)
        return -ENOMEM;
    draft->enabled = true;
    result = read_policy(&reader, draft);
    draft->memory = memory;
    if (result)
        ns_policy_free(draft);
    else
        *policy = draft;
    return result;
}

int ns_policy_parse_in(struct ns_arena *scratch, const char *text, size_t len,
                       struct ns_policy **policy, struct ns_policy_error *error,
                       const struct ns_policy_errors *all)
{
    *policy = NULL;
    *error = (struct ns_policy_error){0};
    if (len > NS_POLICY_SIZE_MOST) {
        ns_text_place(text, 0, error);
        snprintf(error->message, sizeof error->message, "too large; a policy has at most %d bytes",
                 NS_POLICY_SIZE_MOST);
        if (all)
            all->report(all->context, error);
        return -EINVAL;
    }
    int result = parse(scratch, text, len, policy, error, all);
    if (result == -ENOMEM)
        snprintf(error->message, sizeof error->message, "out of memory");
    return result;
}

int ns_policy_parse(const char *text, size_t len, struct ns_policy **policy,
                    struct ns_policy_error *error)
{
    struct ns_arena scratch = {0};
    int result = ns_policy_parse_in(&scratch, text, len, policy, error, NULL);
    ns_arena_free(&scratch);
    return result;
}
