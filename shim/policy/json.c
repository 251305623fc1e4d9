/* SPDX-License-Identifier: MIT */
/* Owns the contents of a policy: each key, its kind and its range. Turns a cJSON tree
 * into a struct ns_policy, completely or not at all. Reads on after an error, so that `nagleshim
 * check` sees all of them. Never prints, exits or aborts, since it runs in other programs'
 * processes. Allocates; not async-signal-safe. */
#include "policy/policy.h"

#include "policy/text.h"

#include <errno.h>
#include <float.h>
#include <limits.h>
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
    const struct key *option; /* whose action is read */
};

/* One key that an object may have. read reads its value to place, which is in what the object is
 * read into. */
struct key {
    const char *name;
    void (*read)(struct reader *reader, const cJSON *item, const struct key *key, void *place);
    size_t offset;
    int least, most;
    const char *(*word)(unsigned);
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

static void refuse(struct reader *reader, const cJSON *item, const struct key *key, void *place)
{
    (void)place;
    fail(
        reader, item, true,
        "%s is not allowed in \"sockopt\"; \"send\" and \"ack\" set it, and with \"app\" there the "
        "program does",
        key->name);
}

/* what: "a rule", for messages. */
static void unknown_key(struct reader *reader, const cJSON *item, const char *what,
                        const struct key *keys, size_t n_keys)
{
    char buffer[QUOTE_SIZE], allowed[400] = "";
    for (size_t i = 0; i < n_keys && keys[i].read != refuse; i++) {
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
            keys[i].read(reader, child, &keys[i], (char *)into + keys[i].offset);
        seen |= 1u << i;
    }
}

static void read_integer(struct reader *reader, const cJSON *item, const struct key *key,
                         void *place)
{
    double number = item->valuedouble;
    char expected[64];
    /* 1.0 and 1e2 are integers, as in JSON Schema. */
    if (cJSON_IsNumber(item) && number >= key->least && number <= key->most &&
        number == (int)number) {
        *(int *)place = (int)number;
        return;
    }
    snprintf(expected, sizeof expected, key->least == key->most ? "%d" : "an integer from %d to %d",
             key->least, key->most);
    wrong(reader, item, NULL, expected);
}

static void read_bool(struct reader *reader, const cJSON *item, const struct key *key, void *place)
{
    (void)key;
    *(bool *)place = cJSON_IsTrue(item);
    if (!cJSON_IsBool(item))
        wrong(reader, item, NULL, "true or false");
}

/* One of the words of key, from least on. */
static void read_word(struct reader *reader, const cJSON *item, const struct key *key, void *place)
{
    const unsigned first = (unsigned)key->least;
    char expected[96] = "one of";
    for (unsigned i = first; cJSON_IsString(item) && key->word(i); i++)
        if (strcmp(item->valuestring, key->word(i)) == 0) {
            *(unsigned *)place = i; /* an enumeration */
            return;
        }
    for (unsigned i = first; key->word(i); i++) {
        size_t used = strlen(expected);
        snprintf(expected + used, sizeof expected - used, "%s \"%s\"", i > first ? "," : "",
                 key->word(i));
    }
    wrong(reader, item, NULL, expected);
}

/* A string of 1 to most characters without control characters. 0: any string, which is not kept. */
static void read_string(struct reader *reader, const cJSON *item, const struct key *key,
                        void *place)
{
    char expected[80] = "a string";
    int length = 0;
    bool control = false;
    for (const char *p = cJSON_IsString(item) ? item->valuestring : ""; *p; p++) {
        control |= (unsigned char)*p < ' ' || *p == 0x7F;
        length += (*p & 0xC0) != 0x80;
    }
    if (cJSON_IsString(item) && !key->most)
        return;
    if (control && key->most)
        snprintf(expected, sizeof expected, "a string without control characters");
    else if (cJSON_IsString(item) && length > 0 && length <= key->most) {
        *(char **)place = item->valuestring;
        return;
    } else if (cJSON_IsString(item))
        snprintf(expected, sizeof expected, "a string of 1 to %d characters", key->most);
    wrong(reader, item, NULL, expected);
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

static void read_patterns(struct reader *reader, const cJSON *item, const struct key *key,
                          void *place)
{
    const cJSON *entry;
    size_t n;
    char **list = *(char ***)place = read_list(reader, item, sizeof *list, &entry, &n);
    for (size_t i = 0; list && i < n; i++, entry = entry->next)
        read_string(reader, entry, key, &list[i]);
}

static void read_endpoints(struct reader *reader, const cJSON *item, const struct key *key,
                           void *place)
{
    struct ns_endpoints *into = place;
    const cJSON *entry;
    char problem[240], buffer[QUOTE_SIZE];
    (void)key;
    into->list = read_list(reader, item, sizeof *into->list, &entry, &into->n);
    for (size_t i = 0; into->list && i < into->n; i++, entry = entry->next)
        if (!cJSON_IsString(entry))
            wrong(reader, entry, NULL, "a string");
        else if (ns_endpoint_parse(entry->valuestring, &into->list[i], problem, sizeof problem))
            fail(reader, entry, false, "\"%s\" is not an endpoint: %s",
                 quote(entry->valuestring, buffer), problem);
}

static const struct key match_keys[] = {
#define IN_RULE(member) offsetof(struct ns_rule, member)
    {"process", read_patterns, IN_RULE(process), 1, PATTERN_LENGTH_MOST, NULL},
    {"args", read_patterns, IN_RULE(args), 1, PATTERN_LENGTH_MOST, NULL},
    {"role", read_word, IN_RULE(role), NS_ROLE_CLIENT, 0, ns_role_name},
    {"local", read_endpoints, IN_RULE(local), 0, 0, NULL},
    {"remote", read_endpoints, IN_RULE(remote), 0, 0, NULL},
};

static void read_match(struct reader *reader, const cJSON *item, const struct key *key, void *rule)
{
    (void)key;
    read_object(reader, item, "\"match\"", match_keys, COUNT(match_keys), rule);
}

/* key->least is the verb. */
static void read_number(struct reader *reader, const cJSON *item, const struct key *key,
                        void *place)
{
    struct ns_sockopt_action *action = place;
    if (action->verb)
        fail(reader, item, true, "\"%s\" is one too many; only one of set, min and max is allowed",
             item->string);
    action->verb = (enum ns_sockopt_verb)key->least;
    read_integer(reader, item, reader->option, &action->value);
}

static const struct key action_keys[] = {
    {"set", read_number, 0, NS_SOCKOPT_SET, 0, NULL},
    {"min", read_number, 0, NS_SOCKOPT_MIN, 0, NULL},
    {"max", read_number, 0, NS_SOCKOPT_MAX, 0, NULL},
};

static void read_action(struct reader *reader, const cJSON *item, const struct key *key,
                        void *place)
{
    struct ns_sockopt_action *action = place;
    const char *word = cJSON_IsString(item) ? item->valuestring : "";
    reader->option = key;
    if (cJSON_IsObject(item) && item->child)
        read_object(reader, item, "an action", action_keys, COUNT(action_keys), action);
    else if (strcmp(word, "ignore") == 0 || strcmp(word, "pass") == 0)
        action->verb = *word == 'i' ? NS_SOCKOPT_IGNORE : NS_SOCKOPT_PASS;
    else
        wrong(reader, item, NULL,
              "\"pass\", \"ignore\", {\"set\": N}, {\"min\": N} or {\"max\": N}");
}

static const struct key option_keys[] = {
#define NS_SOCKOPT_ROW(name, level, number, least, most)                                           \
    {#name, read_action, IN_RULE(sockopts[NS_SOCKOPT_##name]), least, most, NULL},
#include "policy/sockopts.def"
#undef NS_SOCKOPT_ROW
    {"TCP_NODELAY", refuse, 0, 0, 0, NULL},
    {"TCP_CORK", refuse, 0, 0, 0, NULL},
    {"TCP_QUICKACK", refuse, 0, 0, 0, NULL},
    {"TCP_DELACK_MAX_US", refuse, 0, 0, 0, NULL},
};
_Static_assert(COUNT(option_keys) < 32,
               "read_object has a bit for each key, and one for unknown keys");

static void read_sockopts(struct reader *reader, const cJSON *item, const struct key *key,
                          void *rule)
{
    (void)key;
    read_object(reader, item, "\"sockopt\"", option_keys, COUNT(option_keys), rule);
}

static const struct key rule_keys[] = {
    {"name", read_string, IN_RULE(name), 1, NAME_LENGTH_MOST, NULL},
    {"comment", read_string, 0, 0, 0, NULL},
    {"match", read_match, 0, 0, 0, NULL},
    {"send", read_word, IN_RULE(send), 0, 0, ns_send_name},
    {"ack", read_word, IN_RULE(ack), 0, 0, ns_ack_name},
    {"max_delay_us", read_integer, IN_RULE(max_delay_us), NS_MAX_DELAY_US_LEAST,
     NS_MAX_DELAY_US_MOST, NULL},
    {"sockopt", read_sockopts, 0, 0, 0, NULL},
};

static void read_rules(struct reader *reader, const cJSON *item, const struct key *key, void *into)
{
    struct ns_policy *policy = into;
    (void)key;
    if (!cJSON_IsArray(item)) {
        wrong(reader, item, NULL, "a list of rules");
        return;
    }
    policy->rules = take(reader, (size_t)cJSON_GetArraySize(item) * sizeof *policy->rules);
    for (const cJSON *child = item->child; policy->rules && child; child = child->next) {
        struct ns_rule *rule = &policy->rules[policy->n_rules];
        rule->index = (unsigned)policy->n_rules++;
        rule->send = NS_SEND_DEFAULT;
        read_object(reader, child, "a rule", rule_keys, COUNT(rule_keys), rule);
        rule->has_max_delay = rule->max_delay_us != 0;
        if (!rule->has_max_delay)
            rule->max_delay_us = NS_MAX_DELAY_US_DEFAULT;
    }
}

static const struct key policy_keys[] = {
    {"$schema", read_string, 0, 0, 0, NULL},
    {"comment", read_string, 0, 0, 0, NULL},
    {"version", read_integer, offsetof(struct ns_policy, version), 1, 1, NULL},
    {"enabled", read_bool, offsetof(struct ns_policy, enabled), 0, 0, NULL},
    {"rules", read_rules, 0, 0, 0, NULL},
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
