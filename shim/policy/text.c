/* SPDX-License-Identifier: MIT */
/* See text.h. cJSON parses the text after scan.c has checked it. cJSON keeps no positions, so the
 * place of an error is found by walking the text together with the tree. Does not depend on the
 * contents of a policy. */
#include "policy/text.h"

#include "policy/scan.h"

#include <errno.h>

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

int ns_text_parse(const char *text, size_t len, struct ns_arena *memory, const cJSON **root,
                  struct ns_policy_error *error)
{
    size_t at;
    *root = NULL;
    if (!ns_scan_text(text, len, &at, error->message, sizeof error->message)) {
        ns_text_place(text, at, error);
        return -EINVAL;
    }
    parsing = memory;
    cJSON_InitHooks(&(cJSON_Hooks){take, leave});
    int kept = errno;
    *root = cJSON_ParseWithLength(text, len);
    errno = kept;
    cJSON_InitHooks(NULL); /* the command makes its own trees, outside the arena */
    return *root ? 0 : -ENOMEM;
}
