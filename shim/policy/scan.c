/* SPDX-License-Identifier: MIT */
/* See scan.h. Owns the rules of JSON, because cJSON accepts numbers such as 007 and 1., raw control
 * characters and half surrogates, and does not report the place of an error. Also rejects NUL, and
 * nesting over 8, because this code and cJSON recurse. Never allocates. */
#include "policy/scan.h"

#include "policy/policy.h"

#include <stdio.h>
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

/* A text that is being scanned. */
struct scan {
    const char *text;
    size_t len, at;
    unsigned depth; /* objects and lists that are open */
    char *message;
    size_t size;
};

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

/* The next byte; 0 at the end. */
static char peek(const struct scan *scan)
{
    return scan->at < scan->len ? scan->text[scan->at] : '\0';
}

/* The next byte that is not blank. */
static char next(struct scan *scan)
{
    while (ns_scan_is_blank(peek(scan)))
        scan->at++;
    return peek(scan);
}

/* Always false. */
static bool refuse(struct scan *scan, const char *message)
{
    snprintf(scan->message, scan->size, "%s", message);
    return false;
}

/* The next byte is not what JSON allows there. Always false. */
static bool unexpected(struct scan *scan, const char *allowed)
{
    char c = peek(scan);
    if (scan->at == scan->len) {
        snprintf(scan->message, scan->size, "the text ends too early; %s", allowed);
        return false;
    }
    if (c == 0)
        return refuse(scan, "a NUL byte; a policy is text");
    if (ns_scan_utf8(scan->text + scan->at, scan->len - scan->at) == 0)
        return refuse(scan, "not UTF-8; a policy is UTF-8 text");
    if ((unsigned char)c < ' ')
        return refuse(scan,
                      "a control character; between tokens JSON has space, tab, CR and LF only");
    if (c == '/' || c == '#')
        allowed = "JSON has no comments; use a \"comment\" key";
    else if (c == '\'')
        allowed = "strings take double quotes";
    if ((signed char)c > ' ' && c != 0x7F)
        snprintf(scan->message, scan->size, "unexpected '%c'; %s", c, allowed);
    else
        snprintf(scan->message, scan->size, "unexpected byte 0x%02X; %s", (unsigned char)c,
                 allowed);
    return false;
}

/* At a backslash. */
static bool scan_escape(struct scan *scan)
{
    const char *p = scan->text + scan->at;
    size_t left = scan->len - scan->at;
    int code = hex_escape(p, left);
    if (left >= 2 && p[1] && strchr("\"\\/bfnrt", p[1])) {
        scan->at += 2;
        return true;
    }
    if (code < 0)
        return refuse(scan, "not an escape; allowed are \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\u "
                            "with 4 hex digits");
    if (code == 0)
        return refuse(scan, "\\u0000 is not allowed in a policy");
    if ((code & 0xF800) != 0xD800) {
        scan->at += 6;
        return true;
    }
    int low = hex_escape(p + 6, left - 6);
    if ((code & 0xFC00) == 0xDC00 || (low & 0xFC00) != 0xDC00)
        return refuse(
            scan, "half of a surrogate pair; \\uD800-\\uDBFF and \\uDC00-\\uDFFF come together");
    scan->at += 12;
    return true;
}

/* At the opening quote. */
static bool scan_string(struct scan *scan)
{
    size_t open = scan->at++;
    while (scan->at < scan->len) {
        char c = peek(scan);
        size_t length = ns_scan_utf8(scan->text + scan->at, scan->len - scan->at);
        if (c == 0 || length == 0)
            return unexpected(scan, "");
        if ((unsigned char)c < ' ')
            return refuse(scan, "a raw control character in a string (no closing quote?); write "
                                "\\n, \\t, \\u001b ...");
        if (c == '\\' && !scan_escape(scan))
            return false;
        if (c != '\\')
            scan->at += length;
        if (c == '"')
            return true;
    }
    scan->at = open;
    return refuse(scan, "a string without its closing quote");
}

/* At least one digit. */
static bool scan_digits(struct scan *scan)
{
    size_t start = scan->at;
    while (is_digit(peek(scan)))
        scan->at++;
    return scan->at > start;
}

/* At a digit, sign or point. */
static bool scan_number(struct scan *scan)
{
    size_t start = scan->at;
    scan->at += peek(scan) == '-';
    scan->at += peek(scan) == '0';
    bool good = (scan->at > start && scan->text[scan->at - 1] == '0') || scan_digits(scan);
    if (good && peek(scan) == '.')
        good = (scan->at++, scan_digits(scan));
    if (good && (peek(scan) == 'e' || peek(scan) == 'E')) {
        scan->at++;
        scan->at += peek(scan) == '+' || peek(scan) == '-';
        good = scan_digits(scan);
    }
    good = good && !is_word(peek(scan)) && peek(scan) != '.';
    if (good && scan->at - start <= NUMBER_LENGTH_MOST)
        return true;
    scan->at = start;
    return refuse(scan, good ? "a number of more than 60 characters"
                             : "not a JSON number; no leading 0 or +, and digits on both sides of "
                               "a point");
}

static bool scan_word(struct scan *scan, const char *allowed)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t length = strlen(words[i]), end = scan->at + length;
        if (end <= scan->len && memcmp(scan->text + scan->at, words[i], length) == 0 &&
            (end == scan->len || !is_word(scan->text[end]))) {
            scan->at = end;
            return true;
        }
    }
    return unexpected(scan, allowed);
}

static bool scan_value(struct scan *scan, const char *allowed);

static bool scan_entry(struct scan *scan, bool is_object, bool is_first)
{
    char c = next(scan);
    if (!is_first && (c == '}' || c == ']'))
        return unexpected(scan, "there is one comma too many before it");
    if (is_object) {
        if (c != '"')
            return unexpected(scan, is_first ? "a key in double quotes or '}' must come here"
                                             : "a key in double quotes must come here");
        if (!scan_string(scan))
            return false;
        if (next(scan) != ':')
            return unexpected(scan, "':' must follow a key");
        scan->at++;
    }
    return scan_value(scan,
                      "a value must come here: a string, number, true, false, object or list");
}

/* At the bracket or brace that opens an object or list. */
static bool scan_container(struct scan *scan)
{
    bool is_object = peek(scan) == '{', is_first = true;
    char close = is_object ? '}' : ']';
    if (scan->depth++ == NS_POLICY_NESTING_MOST)
        return refuse(scan, "nested too deep; at most 8 objects and lists may be inside each "
                            "other");
    scan->at++;
    for (; !is_first || next(scan) != close; scan->at++, is_first = false) {
        if (!scan_entry(scan, is_object, is_first))
            return false;
        if (next(scan) == close)
            break;
        if (peek(scan) != ',')
            return unexpected(scan, is_object ? "',' or '}' must come here"
                                              : "',' or ']' must come here");
    }
    scan->at++;
    scan->depth--;
    return true;
}

static bool scan_value(struct scan *scan, const char *allowed)
{
    char c = next(scan);
    if (c == '"')
        return scan_string(scan);
    if (c == '{' || c == '[')
        return scan_container(scan);
    if (is_digit(c) || (c && strchr("+-.", c)))
        return scan_number(scan);
    return scan_word(scan, allowed);
}

bool ns_scan_text(const char *text, size_t len, size_t *at, char *message, size_t size)
{
    struct scan scan = {.text = text, .len = len, .message = message, .size = size};
    bool good;
    if (len >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        good = refuse(&scan, "a byte order mark; the first character must be '{'");
    else
        good = scan_value(&scan, "a policy is a JSON object and starts with '{'") &&
               ((next(&scan), scan.at == len) ||
                unexpected(&scan, "nothing may follow the end of the policy"));
    *at = scan.at;
    return good;
}
