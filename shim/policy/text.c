/* SPDX-License-Identifier: MIT */
/* See text.h. cJSON is the parser; scan.c refuses what cJSON would accept. cJSON keeps no
 * positions, so for an error they are found by walking the text together with the tree. Knows
 * nothing of the content of a policy. */
#include "policy/text.h"

#include "policy/scan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void ns_text_place(const char *text, size_t offset, struct ns_policy_error *error)
{
    error->line = 1;
    error->column = 1;
    for (size_t i = 0; i < offset; i++) {
        error->column++;
        if (text[i] == '\n') {
            error->line++;
            error->column = 1;
        }
    }
}

static const char *skip_blanks(const char *p)
{
    while (ns_scan_is_blank(*p))
        p++;
    return p;
}

static const char *skip_string(const char *p)
{
    for (p++; *p != '"'; p++)
        if (*p == '\\')
            p++;
    return p + 1;
}

static const char *skip_scalar(const char *p)
{
    if (*p == '"')
        return skip_string(p);
    while (!ns_scan_is_blank(*p) && *p != ',' && *p != ']' && *p != '}')
        p++;
    return p;
}

struct search {
    const cJSON *item;
    enum ns_text_part part;
    const char *found;
};

/* Walk the text of node, which starts at p, until search->item is found. Returns the end of node.
 * Recurses as deep as the text is nested, which ns_scan_text limits. */
static const char *walk(const char *p, const cJSON *node, struct search *search)
{
    if (node == search->item && search->part == NS_TEXT_VALUE)
        search->found = p;
    if (search->found || !(cJSON_IsObject(node) || cJSON_IsArray(node)))
        return search->found ? p : skip_scalar(p);
    p = skip_blanks(p + 1);
    for (const cJSON *child = node->child; child; child = child->next) {
        if (cJSON_IsObject(node)) {
            if (child == search->item && search->part == NS_TEXT_KEY)
                search->found = p;
            p = skip_blanks(skip_blanks(skip_string(p)) + 1);
        }
        if (!search->found)
            p = walk(p, child, search);
        if (search->found)
            return p;
        p = skip_blanks(p);
        if (*p == ',')
            p = skip_blanks(p + 1);
    }
    return p + 1;
}

size_t ns_text_locate(const char *text, const cJSON *root, const cJSON *item,
                      enum ns_text_part part)
{
    struct search search = {.item = item, .part = part};
    walk(skip_blanks(text), root, &search);
    return search.found ? (size_t)(search.found - text) : 0;
}

/* The last byte before at that is not blank; 0 if there is none. */
static char before(const char *text, size_t at)
{
    while (at > 0)
        if (!ns_scan_is_blank(text[--at]))
            return text[at];
    return 0;
}

/* cJSON stops at the wrong byte, or one byte later if it expected a key. Returns the wrong byte. */
static size_t wrong_byte(const char *text, size_t at)
{
    if (at < 2 || ns_scan_is_blank(text[at - 1]) || text[at - 1] == '"')
        return at;
    struct ns_scan scan;
    ns_scan_text(text, at - 1, &scan);
    char last = before(text, at - 1);
    bool key_wanted = last == ',' || (last == '{' && text[at - 1] != '}');
    return key_wanted && ns_scan_in_object(&scan) ? at - 1 : at;
}

/* What JSON allows at at, where the text is wrong. */
static const char *allowed(const char *text, size_t len, size_t at)
{
    struct ns_scan scan;
    ns_scan_text(text, at, &scan);
    char last = before(text, at), c = at < len ? text[at] : 0;
    bool object = ns_scan_in_object(&scan);
    if (c == '/' || c == '#')
        return "JSON has no comments; use a \"comment\" key";
    if (c == '\'')
        return "strings take double quotes";
    if (!last)
        return "a policy is a JSON object and starts with '{'";
    if (scan.depth == 0)
        return "nothing may follow the end of the policy";
    if (last == ',' && (c == '}' || c == ']'))
        return "there is one comma too many before it";
    if (object && (last == '{' || last == ','))
        return last == '{' ? "a key in double quotes or '}' must come here"
                           : "a key in double quotes must come here";
    if (last == ':' || last == ',' || last == '[')
        return "a value must come here: a string, number, true, false, object or list";
    return object ? "':' must follow a key, and ',' or '}' a value" : "',' or ']' must come here";
}

static void explain_syntax(const char *text, size_t len, size_t at, struct ns_policy_error *error)
{
    char what[32];
    unsigned char c = at < len ? (unsigned char)text[at] : 0;
    if (at >= len)
        snprintf(what, sizeof what, "the text ends too early");
    else if (c > ' ' && c < 0x7F)
        snprintf(what, sizeof what, "unexpected '%c'", c);
    else
        snprintf(what, sizeof what, "unexpected byte 0x%02X", c);
    ns_text_place(text, at < len ? at : len, error);
    snprintf(error->message, sizeof error->message, "%s; %s", what, allowed(text, len, at));
}

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

/* Runs cJSON over len bytes. *at is where it stopped. */
static cJSON *parse_with(struct ns_arena *memory, const char *text, size_t len, bool to_its_nul,
                         size_t *at, bool *no_memory)
{
    const char *end = text;
    int kept = errno;
    parsing = memory;
    cJSON_InitHooks(&(cJSON_Hooks){take, leave});
    errno = 0; /* only the arena reports a failed allocation */
    cJSON *root = cJSON_ParseWithLengthOpts(text, len, &end, to_its_nul);
    *no_memory = !root && errno == ENOMEM;
    errno = kept;
    *at = (size_t)(end - text);
    cJSON_InitHooks(NULL); /* the command makes trees of its own, outside the arena */
    return root;
}

/* Finds the error of a text. problem is what ns_scan_text has found, or NULL. Needs a copy: cJSON
 * reports the right place of an early end only if a NUL is there. */
static int parse_copy(const char *text, size_t len, const struct ns_scan *scan, const char *problem,
                      struct ns_arena *memory, const cJSON **root, struct ns_policy_error *error)
{
    /* The grammar is checked up to the lexical problem: the first error is reported. */
    size_t good = problem ? scan->token : len, at;
    bool no_memory;
    char *copy = ns_arena_alloc(memory, good + 1);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, text, good);
    *root = parse_with(memory, copy, good + 1, true, &at, &no_memory);
    if (no_memory)
        return -ENOMEM;
    if (!*root) {
        at = wrong_byte(text, at);
        while (at < good && ns_scan_is_blank(text[at]))
            at++;
        if (!problem || at < good) {
            explain_syntax(text, len, at, error);
            return -EINVAL;
        }
    }
    if (!problem)
        return 0;
    ns_text_place(text, scan->at, error);
    snprintf(error->message, sizeof error->message, "%s", problem);
    return -EINVAL;
}

int ns_text_parse(const char *text, size_t len, struct ns_arena *memory, const cJSON **root,
                  struct ns_policy_error *error)
{
    struct ns_scan scan;
    size_t at;
    bool no_memory = false;
    const char *problem = ns_scan_text(text, len, &scan);
    *root = problem ? NULL : parse_with(memory, text, len, false, &at, &no_memory);
    if (no_memory)
        return -ENOMEM;
    while (*root && at < len && ns_scan_is_blank(text[at]))
        at++;
    return *root && at == len ? 0 : parse_copy(text, len, &scan, problem, memory, root, error);
}
