/* SPDX-License-Identifier: MIT */
/* See reader.h. Knows kinds of values, not the keys of a policy. Never prints. */
#include "policy/reader.h"

#include <errno.h>
#include <float.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { QUOTE_SIZE = 44 };

int ns_reader_fail(struct ns_reader *reader, const cJSON *item, enum ns_text_part part,
                   const char *format, ...)
{
    struct ns_policy_error error;
    size_t offset = ns_text_locate(reader->text, reader->root, item, part);
    va_list args;
    va_start(args, format);
    vsnprintf(error.message, sizeof error.message, format, args);
    va_end(args);
    ns_text_place(reader->text, offset, &error);
    if (reader->n_errors++ == 0)
        *reader->error = error;
    if (reader->all)
        reader->all->report(reader->all->context, &error);
    return -EINVAL;
}

bool ns_reader_goes_on(const struct ns_reader *reader, int result)
{
    return result == 0 ||
           (result == -EINVAL && reader->all && reader->n_errors < NS_POLICY_ERRORS_MOST);
}

const char *ns_reader_quote(const char *text, char *buffer, size_t size)
{
    size_t i = 0;
    for (; text[i] && i < size - 4; i++)
        buffer[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7F ? '?' : text[i];
    buffer[i] = '\0';
    if (!text[i])
        return buffer;
    while (i > 0 && (text[i] & 0xC0) == 0x80) /* not in the middle of a character */
        i--;
    memcpy(buffer + i, "...", 4);
    return buffer;
}

/* Describes item for the end of a message. */
static const char *describe(const cJSON *item, char *buffer, size_t size)
{
    char quote[QUOTE_SIZE];
    if (cJSON_IsString(item))
        snprintf(buffer, size, "\"%s\"", ns_reader_quote(item->valuestring, quote, sizeof quote));
    else if (cJSON_IsNumber(item) && item->valuedouble > DBL_MAX)
        snprintf(buffer, size, "a number beyond all bounds");
    else if (cJSON_IsNumber(item))
        snprintf(buffer, size, "%.15g", item->valuedouble);
    else if (cJSON_IsBool(item))
        snprintf(buffer, size, "%s", cJSON_IsTrue(item) ? "true" : "false");
    else if (cJSON_IsNull(item))
        snprintf(buffer, size, "null");
    else
        snprintf(buffer, size, "%s %s",
                 item->child ? (cJSON_IsObject(item) ? "an" : "a") : "an empty",
                 cJSON_IsObject(item) ? "object" : "list");
    return buffer;
}

/* what: "a rule"; NULL: use the key, or "this entry" in a list. advice ends the message. */
static int expected_of(struct ns_reader *reader, const cJSON *item, const char *what,
                       const char *expected, const char *advice)
{
    char found[QUOTE_SIZE + 2];
    const char *quote = !what && item->string ? "\"" : "";
    if (!what)
        what = item->string ? item->string : "this entry";
    describe(item, found, sizeof found);
    return ns_reader_fail(reader, item, NS_TEXT_VALUE, "%s%s%s must be %s, not %s%s", quote, what,
                          quote, expected, found, advice);
}

int ns_reader_expected(struct ns_reader *reader, const cJSON *item, const char *expected)
{
    return expected_of(reader, item, NULL, expected, "");
}

int ns_reader_expected_string(struct ns_reader *reader, const cJSON *item, const char *expected)
{
    char advice[32] = "";
    if (cJSON_IsNumber(item) && item->valuedouble == item->valueint)
        snprintf(advice, sizeof advice, "; write \"%d\"", item->valueint);
    return expected_of(reader, item, NULL, expected, advice);
}

static int unknown_key(struct ns_reader *reader, const cJSON *item, const char *what,
                       const struct ns_reader_key *keys, size_t n_keys)
{
    char quote[QUOTE_SIZE], allowed[120] = "";
    for (size_t i = 0; i < n_keys; i++) {
        size_t used = strlen(allowed);
        snprintf(allowed + used, sizeof allowed - used, "%s%s", i ? ", " : "", keys[i].name);
    }
    return ns_reader_fail(reader, item, NS_TEXT_KEY, "unknown key \"%s\"; %s may have %s",
                          ns_reader_quote(item->string, quote, sizeof quote), what, allowed);
}

/* Reads one member of an object. *seen has a bit for each key that was found. */
static int read_member(struct ns_reader *reader, const cJSON *child, const char *what,
                       const struct ns_reader_key *keys, size_t n_keys, uint32_t *seen, void *into)
{
    size_t i = 0;
    while (i < n_keys && strcmp(keys[i].name, child->string) != 0)
        i++;
    if (i == n_keys)
        return unknown_key(reader, child, what, keys, n_keys);
    if (*seen & 1u << i)
        return ns_reader_fail(reader, child, NS_TEXT_KEY,
                              "duplicate key \"%s\"; %s may have it once", child->string, what);
    *seen |= 1u << i;
    return keys[i].read(reader, child, into);
}

int ns_reader_object(struct ns_reader *reader, const cJSON *item, const char *what,
                     const struct ns_reader_key *keys, size_t n_keys, void *into)
{
    uint32_t seen = 0;
    int worst = 0;
    if (!cJSON_IsObject(item))
        return expected_of(reader, item, what, "an object", "");
    for (const cJSON *child = item->child; child; child = child->next) {
        int result = read_member(reader, child, what, keys, n_keys, &seen, into);
        worst = result ? result : worst;
        if (!ns_reader_goes_on(reader, result))
            break;
    }
    return worst;
}

int ns_reader_integer(struct ns_reader *reader, const cJSON *item, int least, int most, int *value)
{
    double number = item->valuedouble;
    /* 1.0 and 1e2 are integers, as in JSON Schema. */
    if (cJSON_IsNumber(item) && number >= least && number <= most && number == (int)number) {
        *value = (int)number;
        return 0;
    }
    char expected[64];
    if (least == most)
        snprintf(expected, sizeof expected, "%d", least);
    else
        snprintf(expected, sizeof expected, "an integer from %d to %d", least, most);
    return ns_reader_expected(reader, item, expected);
}

int ns_reader_word(struct ns_reader *reader, const cJSON *item, const char *(*name)(unsigned),
                   unsigned first, unsigned *value)
{
    for (unsigned i = first; cJSON_IsString(item) && name(i); i++) {
        if (strcmp(item->valuestring, name(i)) == 0) {
            *value = i;
            return 0;
        }
    }
    char expected[96] = "one of";
    for (unsigned i = first; name(i); i++) {
        size_t used = strlen(expected);
        snprintf(expected + used, sizeof expected - used, "%s \"%s\"", i > first ? "," : "",
                 name(i));
    }
    return ns_reader_expected(reader, item, expected);
}

int ns_reader_string(struct ns_reader *reader, const cJSON *item, size_t most, char **value)
{
    char expected[80];
    size_t length = 0;
    if (!cJSON_IsString(item))
        return ns_reader_expected_string(reader, item, "a string");
    for (const char *p = item->valuestring; *p; p++) {
        if ((unsigned char)*p < ' ' || *p == 0x7F)
            return ns_reader_expected(reader, item, "a string without control characters");
        length += (*p & 0xC0) != 0x80;
    }
    if (length == 0 || length > most) {
        snprintf(expected, sizeof expected, "a string of 1 to %zu characters", most);
        return ns_reader_expected(reader, item, expected);
    }
    size_t size = strlen(item->valuestring) + 1;
    *value = ns_arena_alloc(reader->memory, size);
    if (!*value)
        return -ENOMEM;
    memcpy(*value, item->valuestring, size);
    return 0;
}

int ns_reader_list(struct ns_reader *reader, const cJSON *item, const cJSON **first, size_t *n)
{
    *first = item;
    *n = 1;
    if (cJSON_IsString(item))
        return 0;
    if (!cJSON_IsArray(item) || !item->child)
        return ns_reader_expected_string(reader, item,
                                         item->child || !cJSON_IsArray(item)
                                             ? "a string or a list of strings"
                                             : "a string or a list of at least one string");
    *n = (size_t)cJSON_GetArraySize(item);
    *first = item->child;
    return 0;
}
