/* SPDX-License-Identifier: MIT */
/* Owns everything that the command writes: the messages on stderr, one line each, and the object of
 * --json, which is printed at the end, so that stdout is one valid JSON text whatever goes wrong.
 * It must not write a control character, or invalid UTF-8, that somebody else has chosen. It must
 * never exit: the caller decides what a failure means. */
#include "cli/output.h"

#include "cli/cli.h"
#include "process/scope.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Makes a text of the arguments of a variadic function, which follow its parameter `format`. It is
 * valid until ns_words_forget. */
#define NS_FORMAT(text)                                                                            \
    va_list arguments;                                                                             \
    va_start(arguments, format);                                                                   \
    char *text = formatted(format, arguments);                                                     \
    va_end(arguments)

const char *ns_cli_verb;
static cJSON *object;
static char **words;
static size_t n_words;

/* The length of the UTF-8 sequence at p; 0 if it is invalid (RFC 3629: no overlong forms, no
 * surrogates). Pure. */
static size_t utf8_length(const char *p, size_t left)
{
    unsigned char c[4] = {0};
    memcpy(c, p, left < 4 ? left : 4);
    if (c[0] < 0x80)
        return 1;
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

/* C0, DEL, C1 (U+0080 to U+009F), and what changes the direction of the text that follows (U+202A
 * to U+202E, U+2066 to U+2069). */
static bool is_control(const char *at)
{
    const unsigned char *c = (const unsigned char *)at;
    return c[0] < 0x20 || c[0] == 0x7f || (c[0] == 0xc2 && c[1] < 0xa0) ||
           (c[0] == 0xd8 && c[1] == 0x9c) ||
           (c[0] == 0xe2 &&
            ((c[1] == 0x80 && ((c[2] >= 0xa8 && c[2] <= 0xae) || (c[2] | 1) == 0x8f)) ||
             (c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9)));
}

/* Leaves the bytes that differ from those of like, unless that is NULL. */
static char *sanitize(char *text, const char *like)
{
    size_t left = strlen(text), n;
    for (char *at = text; left > 0; at += n, left -= n) {
        bool is_own = like && *at != like[at - text];
        n = utf8_length(at, left);
        if (!is_own && (n == 0 || is_control(at))) {
            n = n ? n : 1;
            memset(at, '?', n);
        }
    }
    return text;
}

char *ns_sanitize(char *text)
{
    return sanitize(text, NULL);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* a changed copy of a checked format */
/* The format's own control characters are found by formatting twice, the second time without any:
 * where the two texts differ. */
int ns_print(FILE *stream, const char *format, ...)
{
    NS_AUTO_FREE char *without = ns_allocated(strdup(format)), *text = NULL, *like = NULL;
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    for (char *at = without; *at; at++)
        *at = (unsigned char)*at < 0x20 ? ' ' : *at;
    if (vasprintf(&text, format, arguments) < 0 || vasprintf(&like, without, again) < 0)
        ns_allocated(NULL);
    va_end(arguments);
    va_end(again);
    const bool good = fputs(sanitize(text, like), stream) >= 0;
    if (!good && errno == EPIPE && stream == stderr)
        clearerr(stream); /* its reader has read enough */
    return good ? (int)strlen(text) : -1;
}
#pragma GCC diagnostic pop

int ns_output_places(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

int ns_output_columns(FILE *stream)
{
    enum { LEAST = 40, MOST = 110 };
    struct winsize size = {0};
    const int kept = errno;
    ioctl(fileno(stream), TIOCGWINSZ, &size);
    errno = kept;
    if (size.ws_col == 0)
        return 0;
    return size.ws_col < LEAST ? LEAST : size.ws_col < MOST ? size.ws_col : MOST;
}

void ns_print_words(FILE *stream, const char *text, int column, int indent, int width)
{
    bool first = true;
    if (width == 0) {
        ns_print(stream, "%s\n", text);
        return;
    }
    while (*text) {
        int length = (int)strcspn(text, " ");
        if (!first && column + 1 + length > width) {
            ns_print(stream, "\n%*s", indent, "");
            column = indent;
            first = true;
        }
        column += ns_print(stream, "%s%.*s", first ? "" : " ", length, text);
        first = false;
        text += length;
        text += strspn(text, " ");
    }
    ns_print(stream, "\n");
}

/* A line, which is broken between words on a terminal; what follows is two columns further right.
 */
static void print_line(FILE *stream, const char *text)
{
    const int indent = (int)strspn(text, " ");
    ns_print(stream, "%*s", indent, "");
    ns_print_words(stream, text + indent, indent, indent + 2, ns_output_columns(stream));
}

void ns_print_lines(FILE *stream, const char *text)
{
    NS_AUTO_FREE char *copy = ns_allocated(strdup(text)), *like = ns_allocated(strdup(text));
    for (char *at = like; (at = strpbrk(at, "\n\t"));)
        *at = ' ';
    fputs(sanitize(copy, like), stream);
}

/* cJSON escapes C0 and copies every other byte. The line ends and tabs are its own; tabs become
 * blanks. */
char *ns_output_json(const cJSON *json)
{
    NS_AUTO_FREE char *text = ns_allocated(cJSON_Print(json));
    size_t left = strlen(text), n;
    char *escaped = ns_allocate(left + 1, strlen("\\u0000")), *to = escaped;
    for (const char *at = text; left > 0; at += n, left -= n) {
        const unsigned char *c = (const unsigned char *)at;
        n = utf8_length(at, left);
        if (n == 0)
            to = stpcpy(to, "\\ufffd");
        else if (*at == '\t')
            to = stpcpy(to, at > text && at[-1] == ':' ? " " : "  ");
        else if (is_control(at) && *at != '\n')
            to += sprintf(to, "\\u%04x",
                          n == 1   ? c[0]
                          : n == 2 ? (c[0] & 0x1f) << 6 | (c[1] & 0x3f)
                                   : 0x2000 + (c[1] - 0x80) * 64 + c[2] - 0x80);
        else
            to = mempcpy(to, at, n);
        n = n ? n : 1;
    }
    return escaped;
}

cJSON *ns_output_object(void)
{
    return object;
}

__attribute__((format(printf, 1, 0))) static char *formatted(const char *format, va_list arguments)
{
    NS_GROW(words, n_words);
    if (vasprintf(&words[n_words], format, arguments) < 0)
        ns_allocated(NULL);
    return words[n_words++];
}

void ns_say(const char *format, ...)
{
    NS_FORMAT(text);
    print_line(stderr, ns_words("nagleshim%s%s: %s", ns_cli_verb ? " " : "",
                                ns_cli_verb ? ns_cli_verb : "", text));
    ns_output_list("messages", text);
}

char *ns_words(const char *format, ...)
{
    NS_FORMAT(text);
    return text;
}

void ns_words_forget(void)
{
    while (n_words > 0)
        free(words[--n_words]);
}

/* A word that ns_print would change. */
static const char *escaped(const char *word)
{
    NS_AUTO_FREE char *text = ns_allocate(strlen(word) + 1, strlen("\\000"));
    for (char *to = text; *word; word++) {
        const unsigned char byte = (unsigned char)*word;
        to +=
            sprintf(to, byte < 0x20 || byte > 0x7e || strchr("'\\", byte) ? "\\%03o" : "%c", byte);
    }
    return ns_words("$'%s'", text);
}

const char *ns_words_quoted(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "%+,-./:=@_";
    const char *text = "", *end;
    if (*word != '\0' && strspn(word, plain) == strlen(word))
        return word;
    if (strcmp(ns_sanitize(ns_words("%s", word)), word) != 0)
        return escaped(word);
    for (; (end = strchr(word, '\'')); word = end + 1)
        text = ns_words("%s%.*s'\\''", text, (int)(end - word), word);
    return ns_words("'%s%s'", text, word);
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

void ns_print_colour(FILE *stream, enum ns_colour colour)
{
    static const char *const codes[] = {"0", "1;31", "33", "32"};
    static enum ns_colour last;
    const char *without = getenv("NO_COLOR");
    if (colour != last && (!without || !*without) && ns_output_is_screen(stream))
        ns_print(stream, "\033[%sm", codes[colour]);
    last = colour;
}

void ns_output_text(cJSON *into, const char *name, const char *text)
{
    if (into)
        cJSON_AddItemToObject(into, name, text ? cJSON_CreateString(text) : cJSON_CreateNull());
}

void ns_output_number(cJSON *into, const char *name, double number)
{
    if (number != 0)
        cJSON_AddNumberToObject(into, name, number);
    else
        cJSON_AddNullToObject(into, name);
}

/* cJSON accepts that there is no object. */
cJSON *ns_output_expect_in(cJSON *into, const char *name)
{
    cJSON *list = cJSON_GetObjectItemCaseSensitive(into, name);
    return list ? list : cJSON_AddArrayToObject(into, name);
}

cJSON *ns_output_expect(const char *name)
{
    return ns_output_expect_in(object, name);
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
    if (object)
        cJSON_AddItemToArray(ns_output_expect(list), cJSON_CreateString(text));
}

void ns_output_fact(const char *name, const char *format, ...)
{
    NS_FORMAT(text);
    if (!object) {
        print_line(stdout, ns_words("%s: %s", name, text));
        return;
    }
    cJSON *entry = ns_output_entry("facts");
    ns_output_text(entry, "name", name);
    ns_output_text(entry, "text", text);
}

void ns_output_line(const char *format, ...)
{
    NS_FORMAT(text);
    if (!object)
        print_line(stdout, text);
}

void ns_output_start(void)
{
    object = cJSON_CreateObject();
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
    char *text = ns_output_json(object);
    cJSON_Delete(object);
    object = NULL;
    return text;
}
