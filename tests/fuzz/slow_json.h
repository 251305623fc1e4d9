/* SPDX-License-Identifier: MIT */
/* Is a text a JSON object (RFC 8259), and within the limits of a policy's text? Follows the grammar
 * with one function for each production, and shares no code with the parser. */
#ifndef FUZZ_SLOW_JSON_H
#define FUZZ_SLOW_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct slow_json {
    const uint8_t *at, *end;
    int depth;
    int depth_most; /* 8; another number is a deliberate mistake */
};

static bool slow_value(struct slow_json *json);

static bool slow_is(const struct slow_json *json, char c)
{
    return json->at < json->end && *json->at == (uint8_t)c;
}

static bool slow_take(struct slow_json *json, char c)
{
    bool is = slow_is(json, c);
    json->at += is;
    return is;
}

static void slow_blanks(struct slow_json *json)
{
    while (slow_take(json, ' ') || slow_take(json, '\t') || slow_take(json, '\n') ||
           slow_take(json, '\r'))
        ;
}

static bool slow_word(struct slow_json *json, const char *word)
{
    while (*word)
        if (!slow_take(json, *word++))
            return false;
    return true;
}

static int slow_digits(struct slow_json *json)
{
    int count = 0;
    for (; json->at < json->end && *json->at >= '0' && *json->at <= '9'; json->at++)
        count++;
    return count;
}

static bool slow_number(struct slow_json *json)
{
    slow_take(json, '-');
    if (!slow_take(json, '0') && !slow_digits(json))
        return false;
    if (slow_take(json, '.') && !slow_digits(json))
        return false;
    if (slow_take(json, 'e') || slow_take(json, 'E')) {
        if (!slow_take(json, '+'))
            slow_take(json, '-');
        if (!slow_digits(json))
            return false;
    }
    return true;
}

/* The four digits of \uXXXX; -1 if they are not digits. */
static int slow_hex(struct slow_json *json)
{
    char digits[5] = "";
    if (json->end - json->at < 4)
        return -1;
    memcpy(digits, json->at, 4);
    if (strspn(digits, "0123456789abcdefABCDEF") != 4)
        return -1;
    json->at += 4;
    return (int)strtol(digits, NULL, 16);
}

static bool slow_escape(struct slow_json *json)
{
    if (!slow_take(json, 'u')) {
        if (json->at == json->end || *json->at == 0 || !strchr("\"\\/bfnrt", *json->at))
            return false;
        json->at++;
        return true;
    }
    int code = slow_hex(json);
    if (code >= 0xD800 && code <= 0xDBFF) {
        if (!slow_word(json, "\\u"))
            return false;
        code = slow_hex(json);
        return code >= 0xDC00 && code <= 0xDFFF;
    }
    return code > 0 && !(code >= 0xDC00 && code <= 0xDFFF);
}

/* A character of several bytes, checked by decoding it (RFC 3629). */
static bool slow_utf8(struct slow_json *json)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint8_t first = *json->at;
    int length = first >= 0xF0 && first < 0xF8   ? 4
                 : first >= 0xE0 && first < 0xF0 ? 3
                 : first >= 0xC0 && first < 0xE0 ? 2
                                                 : 0;
    if (!length || json->end - json->at < length)
        return false;
    uint32_t code = first & (0xFFu >> (length + 1));
    for (int i = 1; i < length; i++) {
        if ((json->at[i] & 0xC0) != 0x80)
            return false;
        code = code << 6 | (json->at[i] & 0x3F);
    }
    json->at += length;
    return code >= least[length] && code <= 0x10FFFF && !(code >= 0xD800 && code <= 0xDFFF);
}

static bool slow_string(struct slow_json *json)
{
    if (!slow_take(json, '"'))
        return false;
    while (json->at < json->end) {
        if (slow_take(json, '"'))
            return true;
        bool good = slow_take(json, '\\') ? slow_escape(json)
                    : *json->at >= 0x80   ? slow_utf8(json)
                                          : *json->at++ >= ' ';
        if (!good)
            return false;
    }
    return false;
}

static bool slow_members(struct slow_json *json, char close)
{
    slow_blanks(json);
    if (slow_take(json, close))
        return true;
    do {
        slow_blanks(json);
        if (close == '}') {
            if (!slow_string(json))
                return false;
            slow_blanks(json);
            if (!slow_take(json, ':'))
                return false;
        }
        if (!slow_value(json))
            return false;
    } while (slow_take(json, ','));
    return slow_take(json, close);
}

/* A value, with the blanks around it. */
static bool slow_value(struct slow_json *json)
{
    bool good = false;
    slow_blanks(json);
    if (slow_is(json, '"')) {
        good = slow_string(json);
    } else if (slow_is(json, '{') || slow_is(json, '[')) {
        char close = *json->at++ == '{' ? '}' : ']';
        good = ++json->depth <= json->depth_most && slow_members(json, close);
        json->depth--;
    } else if (slow_is(json, 't')) {
        good = slow_word(json, "true");
    } else if (slow_is(json, 'f')) {
        good = slow_word(json, "false");
    } else if (slow_is(json, 'n')) {
        good = slow_word(json, "null");
    } else {
        good = slow_number(json);
    }
    slow_blanks(json);
    return good;
}

static bool slow_json(const uint8_t *text, size_t size, int depth_most)
{
    struct slow_json json = {.at = text, .end = text + size, .depth_most = depth_most};
    slow_blanks(&json);
    return slow_is(&json, '{') && slow_value(&json) && json.at == json.end;
}

#endif
