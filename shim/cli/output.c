/* SPDX-License-Identifier: MIT */
/* Owns the command's messages on stderr, one line each, and the object of --json. That is printed
 * at the end, so that stdout is one valid JSON text whatever goes wrong. It must never exit: the
 * caller decides what a failure means. */
#include "cli/output.h"

#include "cli/cli.h"
#include "process/sanitize.h"
#include "process/scope.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Format the arguments of a variadic function, which follow its parameter `format`, in an array. */
#define NS_FORMAT(text)                                                                            \
    do {                                                                                           \
        va_list arguments;                                                                         \
        va_start(arguments, format);                                                               \
        vsnprintf(text, sizeof(text), format, arguments);                                          \
        va_end(arguments);                                                                         \
    } while (0)

enum { TEXT_MOST = 8192 };

const char *ns_cli_verb;
static cJSON *object;
static bool is_printed; /* by ns_output_end */
static char **words;
static size_t n_words;

cJSON *ns_output_object(void)
{
    return object;
}

void ns_say(const char *format, ...)
{
    char text[TEXT_MOST];
    NS_FORMAT(text);
    ns_sanitize(text);
    fprintf(stderr, "nagleshim%s%s: %s\n", ns_cli_verb ? " " : "", ns_cli_verb ? ns_cli_verb : "",
            text);
    ns_output_list("messages", text);
}

char *ns_words(const char *format, ...)
{
    char *text;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        text = NULL;
    va_end(arguments);
    NS_GROW(words, n_words);
    words[n_words++] = ns_allocated(text);
    return text;
}

void ns_words_forget(void)
{
    while (n_words > 0)
        free(words[--n_words]);
}

const char *ns_count(uint64_t n, const char *noun)
{
    bool hisses = noun[strlen(noun) - 1] == 's';
    return ns_words("%" PRIu64 " %s%s", n, noun, n == 1 ? "" : hisses ? "es" : "s");
}

bool ns_output_is_screen(FILE *stream)
{
    const char *type = getenv("TERM");
    return type && *type && strcmp(type, "dumb") != 0 && isatty(fileno(stream));
}

bool ns_output_has_colour(FILE *stream)
{
    const char *without = getenv("NO_COLOR");
    return (!without || !*without) && ns_output_is_screen(stream);
}

/* The text with U+FFFD for each invalid byte; JSON must be UTF-8. Allocated. */
static char *clean(const char *text)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    size_t left = strlen(text);
    char *copy = ns_allocate(left * (sizeof replacement - 1) + 1, 1), *to = copy;
    while (left > 0) {
        size_t length = ns_utf8_length(text, left);
        size_t step = length ? length : 1;
        memcpy(to, length ? text : replacement, length ? length : sizeof replacement - 1);
        to += length ? length : sizeof replacement - 1;
        text += step;
        left -= step;
    }
    return copy;
}

void ns_output_text(cJSON *into, const char *name, const char *text)
{
    NS_AUTO_FREE char *copy = into && text ? clean(text) : NULL;
    if (into)
        cJSON_AddItemToObject(into, name, copy ? cJSON_CreateString(copy) : cJSON_CreateNull());
}

void ns_output_number(cJSON *into, const char *name, double number)
{
    if (number != 0)
        cJSON_AddNumberToObject(into, name, number);
    else
        cJSON_AddNullToObject(into, name);
}

/* cJSON accepts that there is no object. */
cJSON *ns_output_expect(const char *name)
{
    cJSON *list = cJSON_GetObjectItemCaseSensitive(object, name);
    return list ? list : cJSON_AddArrayToObject(object, name);
}

cJSON *ns_output_item(cJSON *list)
{
    cJSON *item = list ? cJSON_CreateObject() : NULL;
    cJSON_AddItemToArray(list, item);
    return item;
}

cJSON *ns_output_entry(const char *list)
{
    return ns_output_item(ns_output_expect(list));
}

void ns_output_list(const char *list, const char *text)
{
    NS_AUTO_FREE char *copy = object ? clean(text) : NULL;
    if (copy)
        cJSON_AddItemToArray(ns_output_expect(list), cJSON_CreateString(copy));
}

void ns_output_fact(const char *name, const char *format, ...)
{
    char text[TEXT_MOST];
    NS_FORMAT(text);
    if (!object) {
        printf("%s: %s\n", name, text);
        return;
    }
    cJSON *entry = ns_output_entry("facts");
    ns_output_text(entry, "name", name);
    ns_output_text(entry, "text", text);
}

void ns_output_warning(const char *format, ...)
{
    char text[TEXT_MOST];
    NS_FORMAT(text);
    ns_output_line("warning: %s", text);
    ns_output_list("warnings", text);
}

void ns_output_line(const char *format, ...)
{
    char text[TEXT_MOST];
    NS_FORMAT(text);
    if (!object)
        puts(text);
}

void ns_output_start(bool printed)
{
    object = cJSON_CreateObject();
    is_printed = printed;
    cJSON_AddStringToObject(object, "command", ns_cli_verb);
    cJSON_AddStringToObject(object, "nagleshim", NS_VERSION);
    /* ns_output_take replaces the number. */
    cJSON_AddNumberToObject(object, "status", NS_EXIT_ERROR);
    cJSON_AddArrayToObject(object, "messages");
}

char *ns_output_take(int status)
{
    if (!object)
        return NULL;
    cJSON_ReplaceItemInObjectCaseSensitive(
        object, "status", status < 0 ? cJSON_CreateNull() : cJSON_CreateNumber(status));
    char *text = cJSON_Print(object);
    cJSON_Delete(object);
    object = NULL;
    return text;
}

int ns_output_end(int status)
{
    if (!object)
        return status;
    NS_AUTO_FREE char *text = ns_output_take(status);
    if (is_printed)
        puts(text);
    return status;
}
