/* SPDX-License-Identifier: MIT */
/* Owns the contents of a policy: each key of keys.def, its kind and its range. Turns a cJSON tree
 * into a struct ns_policy, completely or not at all. Reads on after an error, so that `nagleshim
 * check` sees all of them. Never prints, exits or aborts, since it runs in other programs'
 * processes. Allocates; not async-signal-safe. */
#include "policy/policy.h"

#include "policy/endpoint.h"
#include "policy/sockopt.h"
#include "policy/text.h"

#include <errno.h>
#include <float.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    NAME_LENGTH_MOST = 64,      /* characters of a rule's name */
    PATTERN_LENGTH_MOST = 1024, /* characters of a "process" or "args" pattern */
    QUOTE_SIZE = 44,
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

struct reader {
    const char *text;
    const cJSON *root;
    struct ns_arena *memory;            /* of the tree and the policy */
    struct ns_policy_error *error;      /* the first error */
    const struct ns_policy_errors *all; /* NULL: later errors do not matter */
    unsigned n_errors;
    bool no_memory;
};

/* One key that an object may have; into is what the object is read into. */
struct key {
    const char *name;
    void (*read)(struct reader *reader, const cJSON *item, void *into);
};

/* An error at the value of item, or at its key. */
__attribute__((format(printf, 4, 5))) static void fail(struct reader *reader, const cJSON *item,
                                                       bool key, const char *format, ...)
{
    struct ns_policy_error error;
    va_list args;
    if (reader->n_errors++ >= (reader->all ? NS_POLICY_ERRORS_MOST : 1))
        return;
    va_start(args, format);
    vsnprintf(error.message, sizeof error.message, format, args);
    va_end(args);
    ns_text_place(reader->text, ns_text_locate(reader->text, reader->root, item, key), &error);
    if (reader->n_errors == 1)
        *reader->error = error;
    if (reader->all)
        reader->all->report(reader->all->context, &error);
}

/* A user's text for a message, shortened and on one line, in buffer. */
static const char *quote(const char *text, char buffer[QUOTE_SIZE])
{
    size_t i = 0;
    for (; text[i] && i < QUOTE_SIZE - 4; i++)
        buffer[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7F ? '?' : text[i];
    buffer[i] = '\0';
    if (!text[i])
        return buffer;
    while (i > 0 && (text[i] & 0xC0) == 0x80) /* not in the middle of a character */
        i--;
    memcpy(buffer + i, "...", 4);
    return buffer;
}

/* Item is not as expected. what: "a rule"; NULL: use the key, or "this entry" in a list. */
static void wrong(struct reader *reader, const cJSON *item, const char *what, const char *expected)
{
    char buffer[QUOTE_SIZE], name[QUOTE_SIZE], found[QUOTE_SIZE + 2], advice[32] = "";
    bool object = cJSON_IsObject(item);
    snprintf(name, sizeof name, item->string ? "\"%s\"" : "this entry", item->string);
    if (cJSON_IsString(item))
        snprintf(found, sizeof found, "\"%s\"", quote(item->valuestring, buffer));
    else if (cJSON_IsNumber(item) && item->valuedouble > DBL_MAX)
        snprintf(found, sizeof found, "a number beyond all bounds");
    else if (cJSON_IsNumber(item))
        snprintf(found, sizeof found, "%.15g", item->valuedouble);
    else if (cJSON_IsBool(item))
        snprintf(found, sizeof found, cJSON_IsTrue(item) ? "true" : "false");
    else if (cJSON_IsNull(item))
        snprintf(found, sizeof found, "null");
    else
        snprintf(found, sizeof found, "%s %s", item->child ? (object ? "an" : "a") : "an empty",
                 object ? "object" : "list");
    if (cJSON_IsNumber(item) && item->valuedouble == item->valueint &&
        strncmp(expected, "a string", 8) == 0)
        snprintf(advice, sizeof advice, "; write \"%d\"", item->valueint);
    fail(reader, item, false, "%s must be %s, not %s%s", what ? what : name, expected, found,
         advice);
}

static void *take(struct reader *reader, size_t size)
{
    void *piece = ns_arena_alloc(reader->memory, size);
    reader->no_memory |= !piece;
    return piece;
}

static void refuse_option(struct reader *reader, const cJSON *item, void *into)
{
    (void)into;
    fail(reader, item, true,
         "%s is not for \"sockopt\"; \"send\" and \"ack\" own it, and \"app\" there leaves it to "
         "the application",
         item->string);
}

/* what: "a rule", for messages. */
static void unknown_key(struct reader *reader, const cJSON *item, const char *what,
                        const struct key *keys, size_t n_keys)
{
    char buffer[QUOTE_SIZE], allowed[400] = "";
    for (size_t i = 0; i < n_keys && keys[i].read != refuse_option; i++) {
        size_t used = strlen(allowed);
        snprintf(allowed + used, sizeof allowed - used, "%s%s", i ? ", " : "", keys[i].name);
    }
    fail(reader, item, true, "unknown key \"%s\"; %s may have %s", quote(item->string, buffer),
         what, allowed);
}

static void read_object(struct reader *reader, const cJSON *item, const char *what,
                        const struct key *keys, size_t n_keys, void *into)
{
    uint32_t seen = 0;
    if (!cJSON_IsObject(item))
        wrong(reader, item, what, "an object");
    for (const cJSON *child = cJSON_IsObject(item) ? item->child : NULL; child;
         child = child->next) {
        size_t i = 0;
        while (i < n_keys && strcmp(keys[i].name, child->string) != 0)
            i++;
        if (i == n_keys)
            unknown_key(reader, child, what, keys, n_keys);
        else if (seen & 1u << i)
            fail(reader, child, true, "duplicate key \"%s\"; %s may have it once", child->string,
                 what);
        else
            keys[i].read(reader, child, into);
        seen |= 1u << i;
    }
}

static int read_integer(struct reader *reader, const cJSON *item, int least, int most)
{
    double number = item->valuedouble;
    char expected[64];
    /* 1.0 and 1e2 are integers, as in JSON Schema. */
    if (cJSON_IsNumber(item) && number >= least && number <= most && number == (int)number)
        return (int)number;
    snprintf(expected, sizeof expected, least == most ? "%d" : "an integer from %d to %d", least,
             most);
    wrong(reader, item, NULL, expected);
    return 0;
}

/* One of the words name(first), name(first + 1), ... up to NULL. */
static unsigned read_word(struct reader *reader, const cJSON *item, const char *(*name)(unsigned),
                          unsigned first)
{
    char expected[96] = "one of";
    for (unsigned i = first; cJSON_IsString(item) && name(i); i++)
        if (strcmp(item->valuestring, name(i)) == 0)
            return i;
    for (unsigned i = first; name(i); i++) {
        size_t used = strlen(expected);
        snprintf(expected + used, sizeof expected - used, "%s \"%s\"", i > first ? "," : "",
                 name(i));
    }
    wrong(reader, item, NULL, expected);
    return first;
}

/* A string of 1 to most characters without control characters. */
static char *read_string(struct reader *reader, const cJSON *item, size_t most)
{
    char expected[80] = "a string";
    size_t length = 0;
    bool control = false;
    for (const char *p = cJSON_IsString(item) ? item->valuestring : ""; *p; p++) {
        control |= (unsigned char)*p < ' ' || *p == 0x7F;
        length += (*p & 0xC0) != 0x80;
    }
    if (control)
        snprintf(expected, sizeof expected, "a string without control characters");
    else if (cJSON_IsString(item) && length > 0 && length <= most)
        return item->valuestring;
    else if (cJSON_IsString(item))
        snprintf(expected, sizeof expected, "a string of 1 to %zu characters", most);
    wrong(reader, item, NULL, expected);
    return NULL;
}

/* A string or a list of strings. Returns memory for *n entries of size bytes and one of zeros;
 * *first is the first entry, and the others follow it. NULL after an error. */
static void *read_list(struct reader *reader, const cJSON *item, size_t size, const cJSON **first,
                       size_t *n)
{
    bool list = cJSON_IsArray(item);
    *first = list ? item->child : item;
    *n = list ? (size_t)cJSON_GetArraySize(item) : 1;
    if (cJSON_IsString(item) || (list && item->child))
        return take(reader, (*n + 1) * size);
    *n = 0;
    wrong(reader, item, NULL,
          list ? "a string or a list of at least one string" : "a string or a list of strings");
    return NULL;
}

static char **read_patterns(struct reader *reader, const cJSON *item)
{
    const cJSON *entry;
    size_t n;
    char **list = read_list(reader, item, sizeof *list, &entry, &n);
    for (size_t i = 0; list && i < n; i++, entry = entry->next)
        list[i] = read_string(reader, entry, PATTERN_LENGTH_MOST);
    return list;
}

static struct ns_endpoint *read_endpoints(struct reader *reader, const cJSON *item, size_t *n)
{
    const cJSON *entry;
    char problem[240], buffer[QUOTE_SIZE];
    struct ns_endpoint *list = read_list(reader, item, sizeof *list, &entry, n);
    for (size_t i = 0; list && i < *n; i++, entry = entry->next)
        if (!cJSON_IsString(entry))
            wrong(reader, entry, NULL, "a string");
        else if (ns_endpoint_parse(entry->valuestring, &list[i], problem, sizeof problem) != 0)
            fail(reader, entry, false, "\"%s\" is not an endpoint: %s",
                 quote(entry->valuestring, buffer), problem);
    return list;
}

/* Reads a key of a rule. */
#define READER(key, read)                                                                          \
    static void read_##key(struct reader *reader, const cJSON *item, void *into)                   \
    {                                                                                              \
        struct ns_rule *rule = into;                                                               \
        rule->key = read;                                                                          \
    }
READER(process, read_patterns(reader, item))
READER(args, read_patterns(reader, item))
READER(role, read_word(reader, item, ns_role_name, NS_ROLE_CLIENT))
READER(local, read_endpoints(reader, item, &rule->n_local))
READER(remote, read_endpoints(reader, item, &rule->n_remote))
READER(name, read_string(reader, item, NAME_LENGTH_MOST))
READER(send, read_word(reader, item, ns_send_name, 0))
READER(ack, read_word(reader, item, ns_ack_name, 0))

static const struct key match_keys[] = {
#define NS_MATCH_KEY(name, read) {name, read},
#include "policy/keys.def"
#undef NS_MATCH_KEY
};

static void read_action_value(struct reader *reader, const cJSON *item, void *into)
{
    struct ns_sockopt_action *action = into;
    const struct ns_sockopt *option = &ns_sockopts[action->option];
    if (action->verb != NS_SOCKOPT_PASS)
        fail(reader, item, true, "\"%s\" is one too many; only one of set, min and max is allowed",
             item->string);
    action->verb = item->string[0] == 's'   ? NS_SOCKOPT_SET
                   : item->string[1] == 'i' ? NS_SOCKOPT_MIN
                                            : NS_SOCKOPT_MAX;
    action->value = read_integer(reader, item, option->least, option->most);
}

static const struct key action_keys[] = {
    {"set", read_action_value},
    {"min", read_action_value},
    {"max", read_action_value},
};

static void read_action(struct reader *reader, const cJSON *item, void *into)
{
    struct ns_rule *rule = into;
    struct ns_sockopt_action *action = &rule->sockopts[rule->n_sockopts++];
    const char *word = cJSON_IsString(item) ? item->valuestring : "";
    action->option = (unsigned)ns_sockopt_by_name(item->string);
    if (cJSON_IsObject(item) && item->child)
        read_object(reader, item, "an action", action_keys, COUNT(action_keys), action);
    else if (strcmp(word, "ignore") == 0)
        action->verb = NS_SOCKOPT_IGNORE;
    else if (strcmp(word, "pass") != 0)
        wrong(reader, item, NULL,
              "\"pass\", \"ignore\", {\"set\": N}, {\"min\": N} or {\"max\": N}");
}

static const struct key option_keys[] = {
#define NS_SOCKOPT_ROW(name, level, number, least, most) {#name, read_action},
#include "policy/sockopts.def"
#undef NS_SOCKOPT_ROW
    {"TCP_NODELAY", refuse_option},
    {"TCP_CORK", refuse_option},
    {"TCP_QUICKACK", refuse_option},
    {"TCP_DELACK_MAX_US", refuse_option},
};
_Static_assert(COUNT(option_keys) < 32,
               "read_object has a bit for each key, and one for unknown keys");

static void read_comment(struct reader *reader, const cJSON *item, void *into)
{
    (void)into;
    if (!cJSON_IsString(item))
        wrong(reader, item, NULL, "a string");
}

static void read_match(struct reader *reader, const cJSON *item, void *into)
{
    read_object(reader, item, "\"match\"", match_keys, COUNT(match_keys), into);
}

static void read_max_delay(struct reader *reader, const cJSON *item, void *into)
{
    struct ns_rule *rule = into;
    rule->has_max_delay = true;
    rule->max_delay_us =
        (uint32_t)read_integer(reader, item, NS_MAX_DELAY_US_LEAST, NS_MAX_DELAY_US_MOST);
}

static void read_sockopts(struct reader *reader, const cJSON *item, void *into)
{
    struct ns_rule *rule = into;
    rule->sockopts = take(reader, NS_SOCKOPT_COUNT * sizeof *rule->sockopts);
    if (rule->sockopts)
        read_object(reader, item, "\"sockopt\"", option_keys, COUNT(option_keys), rule);
}

static const struct key rule_keys[] = {
#define NS_RULE_KEY(name, read) {name, read},
#include "policy/keys.def"
#undef NS_RULE_KEY
};

static void read_version(struct reader *reader, const cJSON *item, void *into)
{
    (void)into;
    read_integer(reader, item, 1, 1);
}

static void read_enabled(struct reader *reader, const cJSON *item, void *into)
{
    ((struct ns_policy *)into)->enabled = cJSON_IsTrue(item);
    if (!cJSON_IsBool(item))
        wrong(reader, item, NULL, "true or false");
}

static void read_rules(struct reader *reader, const cJSON *item, void *into)
{
    struct ns_policy *policy = into;
    if (!cJSON_IsArray(item)) {
        wrong(reader, item, NULL, "a list of rules");
        return;
    }
    policy->rules = take(reader, (size_t)cJSON_GetArraySize(item) * sizeof *policy->rules);
    for (const cJSON *child = item->child; policy->rules && child; child = child->next) {
        struct ns_rule *rule = &policy->rules[policy->n_rules];
        rule->index = (unsigned)policy->n_rules++;
        rule->send = NS_SEND_DEFAULT;
        rule->max_delay_us = NS_MAX_DELAY_US_DEFAULT;
        read_object(reader, child, "a rule", rule_keys, COUNT(rule_keys), rule);
    }
}

static const struct key policy_keys[] = {
#define NS_POLICY_KEY(name, read) {name, read},
#include "policy/keys.def"
#undef NS_POLICY_KEY
};

static int read_policy(struct reader *reader, struct ns_policy **policy)
{
    const cJSON *root = reader->root;
    struct ns_policy *draft = take(reader, sizeof *draft);
    if (!draft)
        return -ENOMEM;
    draft->enabled = true;
    read_object(reader, root, "a policy", policy_keys, COUNT(policy_keys), draft);
    if (!cJSON_GetObjectItemCaseSensitive(root, "version"))
        fail(reader, root, false, "\"version\" is missing; it must be 1");
    if (!cJSON_GetObjectItemCaseSensitive(root, "rules"))
        fail(reader, root, false, "\"rules\" is missing; it must be a list of rules");
    if (reader->no_memory || reader->n_errors)
        return reader->no_memory ? -ENOMEM : -EINVAL;
    draft->memory = *reader->memory;
    *policy = draft;
    return 0;
}

int ns_policy_parse(struct ns_arena *memory, const char *text, size_t len,
                    struct ns_policy **policy, struct ns_policy_error *error,
                    const struct ns_policy_errors *all)
{
    struct reader reader = {.text = text, .memory = memory, .error = error, .all = all};
    int result = -EINVAL;
    *policy = NULL;
    if (len > NS_POLICY_SIZE_MOST) {
        ns_text_place(text, text, error);
        snprintf(error->message, sizeof error->message, "too large; a policy has at most %d bytes",
                 NS_POLICY_SIZE_MOST);
    } else {
        result = ns_text_parse(memory, text, len, &reader.root, error);
    }
    if (result == -EINVAL && all)
        all->report(all->context, error);
    if (result == 0)
        result = read_policy(&reader, policy);
    if (result == -ENOMEM)
        *error = (struct ns_policy_error){.message = "out of memory"};
    if (result)
        ns_arena_free(memory);
    return result;
}
