/* SPDX-License-Identifier: MIT */
/* See scan.h. Owns the lexical rules that cJSON does not enforce: numbers such as 007 and 1., raw
 * control characters, escapes, surrogates, NUL, UTF-8, whitespace, and the limit of nesting, since
 * cJSON recurses. Knows tokens and brackets; cJSON checks the grammar. Never allocates or recurses.
 */
#include "policy/scan.h"

#include "policy/policy.h"

#include <string.h>

/* Older cJSON cuts numbers after 63 bytes. */
enum { NUMBER_LENGTH_MOST = 60 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A character of a word or a number: adjacent ones are one token. */
static bool is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool ns_scan_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t skip_blanks(const char *text, size_t len, size_t at)
{
    while (at < len && ns_scan_is_blank(text[at]))
        at++;
    return at;
}

bool ns_scan_in_object(const struct ns_scan *scan)
{
    return scan->depth > 0 && !(scan->arrays & 1u << (scan->depth - 1));
}

size_t ns_scan_utf8(const char *p, size_t left)
{
    unsigned char c[4] = {0};
    if ((unsigned char)*p < 0x80)
        return 1;
    memcpy(c, p, left < 4 ? left : 4);
    if (c[0] >= 0xC2 && c[0] <= 0xDF)
        return (c[1] & 0xC0) == 0x80 ? 2 : 0;
    if ((c[1] & 0xC0) != 0x80 || (c[2] & 0xC0) != 0x80)
        return 0;
    if (c[0] >= 0xE0 && c[0] <= 0xEF) {
        bool overlong = c[0] == 0xE0 && c[1] < 0xA0;
        bool surrogate = c[0] == 0xED && c[1] > 0x9F;
        return overlong || surrogate ? 0 : 3;
    }
    if (c[0] < 0xF0 || c[0] > 0xF4 || (c[3] & 0xC0) != 0x80)
        return 0;
    return (c[0] == 0xF0 && c[1] < 0x90) || (c[0] == 0xF4 && c[1] > 0x8F) ? 0 : 4;
}

/* The code unit of \uXXXX at p, or -1. */
static int hex_escape(const char *p, size_t left)
{
    if (left < 6 || p[0] != '\\' || p[1] != 'u')
        return -1;
    int code = 0;
    for (int i = 2; i < 6; i++) {
        const char *digits = "0123456789abcdef0123456789ABCDEF";
        const char *digit = p[i] ? strchr(digits, p[i]) : NULL;
        if (!digit)
            return -1;
        code = code * 16 + (int)((digit - digits) % 16);
    }
    return code;
}

/* *at is at a backslash; on success it is moved behind the escape. */
static const char *scan_escape(const char *text, size_t len, size_t *at)
{
    const char *p = text + *at;
    size_t left = len - *at;
    if (left >= 2 && p[1] && strchr("\"\\/bfnrt", p[1])) {
        *at += 2;
        return NULL;
    }
    int code = hex_escape(p, left);
    if (code < 0)
        return "not an escape; allowed are \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\u with 4 hex "
               "digits";
    if (code == 0)
        return "\\u0000 is not allowed in a policy";
    if ((code & 0xF800) != 0xD800) {
        *at += 6;
        return NULL;
    }
    int low = hex_escape(p + 6, left - 6);
    if ((code & 0xFC00) == 0xDC00 || (low & 0xFC00) != 0xDC00)
        return "half of a surrogate pair; \\uD800-\\uDBFF and \\uDC00-\\uDFFF come together";
    *at += 12;
    return NULL;
}

/* Skips the plain characters of a string. */
static size_t skip_plain(const char *text, size_t len, size_t at)
{
    /* signed: bytes beyond ASCII are negative */
    while (at < len && (signed char)text[at] >= ' ' && text[at] != '"' && text[at] != '\\')
        at++;
    return at;
}

/* *at is at the opening quote; on success it is moved behind the closing one. */
static const char *scan_string(const char *text, size_t len, size_t *at)
{
    size_t open = *at;
    for (++*at; (*at = skip_plain(text, len, *at)) < len;) {
        char c = text[*at];
        const char *problem = NULL;
        if (c == '"') {
            ++*at;
            return NULL;
        }
        if ((unsigned char)c < ' ')
            return c ? "a raw control character in a string (no closing quote?); write \\n, \\t, "
                       "\\u001b ..."
                     : "a NUL byte; a policy is text";
        size_t length = ns_scan_utf8(text + *at, len - *at);
        if (!length)
            return "not UTF-8; a policy is UTF-8 text";
        if (c == '\\')
            problem = scan_escape(text, len, at);
        else
            *at += length;
        if (problem)
            return problem;
    }
    *at = open;
    return "a string without its closing quote";
}

static size_t skip_digits(const char *text, size_t end, size_t at)
{
    while (at < end && is_digit(text[at]))
        at++;
    return at;
}

/* *at is at a digit, sign or dot; on success it is moved behind the number. */
static const char *scan_number(const char *text, size_t len, size_t *at)
{
    size_t start = *at, end = start, part;
    while (end < len && (is_word(text[end]) || (text[end] && strchr("+-.", text[end]))))
        end++;
    size_t p = start + (text[start] == '-');
    part = p;
    p = skip_digits(text, end, p);
    bool good = p > part && (text[part] != '0' || p == part + 1);
    if (good && p < end && text[p] == '.') {
        part = ++p;
        p = skip_digits(text, end, p);
        good = p > part;
    }
    if (good && p < end && (text[p] == 'e' || text[p] == 'E')) {
        p++;
        p += p < end && (text[p] == '+' || text[p] == '-');
        part = p;
        p = skip_digits(text, end, p);
        good = p > part;
    }
    if (!good || p != end)
        return "not a JSON number; no leading 0 or +, and digits on both sides of a point";
    if (end - start > NUMBER_LENGTH_MOST)
        return "a number of more than 60 characters";
    *at = end;
    return NULL;
}

static const char *scan_open(struct ns_scan *scan, bool array)
{
    _Static_assert(NS_POLICY_NESTING_MOST <= 31, "one bit per level");
    if (scan->depth >= NS_POLICY_NESTING_MOST)
        return "nested too deep; at most 8 objects and lists may be inside each other";
    unsigned bit = 1u << scan->depth++;
    scan->arrays = array ? scan->arrays | bit : scan->arrays & ~bit;
    scan->at++;
    return NULL;
}

static const char *scan_token(const char *text, size_t len, struct ns_scan *scan)
{
    char c = text[scan->at];
    if (c == '"')
        return scan_string(text, len, &scan->at);
    if (c == '{' || c == '[')
        return scan_open(scan, c == '[');
    if (is_digit(c) || c == '-' || c == '+' || c == '.')
        return scan_number(text, len, &scan->at);
    if (c == 0)
        return "a NUL byte; a policy is text";
    if ((unsigned char)c < ' ')
        return "a control character; between tokens JSON has space, tab, CR and LF only";
    size_t length = ns_scan_utf8(text + scan->at, len - scan->at);
    if (!length)
        return "not UTF-8; a policy is UTF-8 text";
    if ((c == '}' || c == ']') && scan->depth > 0)
        scan->depth--;
    scan->at += length;
    if (is_word(c))
        while (scan->at < len && is_word(text[scan->at]))
            scan->at++;
    return NULL;
}

const char *ns_scan_text(const char *text, size_t len, struct ns_scan *scan)
{
    *scan = (struct ns_scan){0};
    if (len >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        return "a byte order mark; the first character must be '{'";
    while ((scan->at = skip_blanks(text, len, scan->at)) < len) {
        scan->token = scan->at;
        const char *problem = scan_token(text, len, scan);
        if (problem)
            return problem;
    }
    return NULL;
}
