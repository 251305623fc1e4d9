/* SPDX-License-Identifier: MIT */
/* See text.h. cJSON is the only parser. It keeps no positions, so this file finds them: it counts
 * the tokens of the tree before an item, and then those of the text. Does not depend on the
 * contents of a policy. */
#include "policy/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void ns_text_place(const char *text, const char *at, struct ns_policy_error *error)
{
    error->line = 1;
    error->column = 1;
    for (; text < at; text++) {
        error->column++;
        if (*text == '\n') {
            error->line++;
            error->column = 1;
        }
    }
}

/* cJSON takes every control character for a blank. */
static bool is_blank(char c)
{
    return (unsigned char)c <= ' ';
}

/* From one token (a bracket that opens, a key or a scalar) to the next one. */
static const char *next_token(const char *p)
{
    if (*p == '"')
        for (p++; *p != '"'; p++)
            p += *p == '\\';
    else if (*p != '{' && *p != '[')
        while (!is_blank(p[1]) && !strchr(",]}", p[1]))
            p++;
    do
        p++;
    while (is_blank(*p) || strchr(",:]}", *p));
    return p;
}

/* Add the tokens before the value of item to *n. Returns whether item is node, a later node of the
 * list, or inside one of them. Recurses as deep as cJSON does. */
static bool count_tokens(const cJSON *node, const cJSON *item, size_t *n)
{
    for (; node; node = node->next) {
        *n += node->string != NULL;
        if (node == item)
            return true;
        ++*n;
        if (count_tokens(node->child, item, n))
            return true;
    }
    return false;
}

const char *ns_text_locate(const char *text, const cJSON *root, const cJSON *item, bool key)
{
    size_t n = 0;
    count_tokens(root, item, &n);
    text += strspn(text, " \t\r\n");
    for (n -= key; n > 0; n--)
        text = next_token(text);
    return text;
}

/* cJSON stops one byte after a character that should begin a key, and one byte after the quote that
 * begins a string without an end. Is at such a place? If this guess is wrong, the column of the
 * error is wrong by one. */
static bool is_one_after(const char *text, const char *at)
{
    if (at < text + 2 || *at == '\\' || is_blank(at[-1]) || strchr("0123456789[", at[-1]))
        return false;
    const char *before = at - 2;
    while (before > text && is_blank(*before))
        before--;
    return (at[-1] == '"' && *at) || *before == ',' || (*before == '{' && at[-1] != '}');
}

/* What is allowed, or what is probably wrong, if JSON does not allow c. */
static const char *advice(char c)
{
    switch (c) {
    case '\\':
        return "escapes are \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\u with 4 hex digits; "
               "surrogates come in pairs";
    case '/':
    case '#':
        return "JSON has no comments; use a \"comment\" key";
    case '\'':
        return "strings take double quotes";
    case '"':
        return "a comma, a colon or the closing quote is missing";
    case '{':
    case '[':
        return "a comma is missing, or over 8 objects and lists are inside each other";
    case '}':
    case ']':
        return "there is one comma too many before it, or a value or a bracket is missing";
    case '\0':
        return "a bracket or a value is missing";
    default:
        return "allowed are objects, lists, numbers, true, false, and keys and strings in double "
               "quotes, with one comma between them";
    }
}

/* Always -EINVAL. */
static int unexpected(const char *text, size_t len, const char *at, const char *allowed,
                      struct ns_policy_error *error)
{
    char c = *at, what[40] = "the text ends too early";
    if (at < text + len)
        snprintf(what, sizeof what,
                 c > ' ' && c < 0x7F ? "unexpected '%c'" : "unexpected byte 0x%02X",
                 (unsigned char)c);
    snprintf(error->message, sizeof error->message, "%s; %s", what, allowed);
    ns_text_place(text, at, error);
    return -EINVAL;
}

cJSON_Hooks *ns_text_hooks;

/* cJSON's memory while it parses: its hooks have no context. */
static struct ns_arena *parsing;

static void *take(size_t size)
{
    return ns_arena_alloc(parsing, size);
}

static void leave(void *piece)
{
    (void)piece; /* the arena is freed as a whole */
}

int ns_text_parse(struct ns_arena *memory, const char *text, size_t len, const cJSON **root,
                  struct ns_policy_error *error)
{
    const char *at = text + strspn(text, " \t\r\n");
    int kept = errno;
    *root = NULL;
    if (strncmp(at, "\xef\xbb\xbf", 3) == 0)
        return unexpected(text, len, at, "this is a byte order mark: save the file without it",
                          error);
    if (*at != '{')
        return unexpected(text, len, at, "a policy is a JSON object and starts with '{'", error);
    parsing = memory;
    cJSON_InitHooks(&(cJSON_Hooks){take, leave});
    errno = 0;
    *root = cJSON_ParseWithLengthOpts(text, len + 1, &at, false);
    bool no_memory = !*root && errno == ENOMEM;
    errno = kept;
    cJSON_InitHooks(ns_text_hooks);
    if (no_memory)
        return -ENOMEM;
    if (!*root) {
        at -= is_one_after(text, at);
        return unexpected(text, len, at, advice(*at), error);
    }
    while (at < text + len && is_blank(*at))
        at++;
    return at == text + len
               ? 0
               : unexpected(text, len, at, "nothing may follow the end of the policy", error);
}
