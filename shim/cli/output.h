/* SPDX-License-Identifier: MIT */
/* The two forms of what a command finds: lines of text as they come, or one JSON object at the end.
 * config/output.schema.json has the members that callers may rely on. Functions that add to the
 * object do nothing in the text form. */
#ifndef NS_OUTPUT_H
#define NS_OUTPUT_H

#include <cJSON.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Switch to JSON: stdout gets nothing but the object. */
void ns_output_start(void);

/* The text of the object, with this status (-1: null) in it, to be freed. The object is gone then.
 * NULL if there is no object. */
char *ns_output_take(int status);

/* Writes a formatted text; what another user chose must not drive the terminal or begin
 * a line. Control characters of the arguments, and invalid UTF-8, become '?'. Those of the format
 * are this command's own. */
__attribute__((format(printf, 2, 3))) int ns_print(FILE *stream, const char *format, ...);

/* A text whose lines and tabs are this command's own. */
void ns_print_lines(FILE *stream, const char *text);

/* The number of characters in a UTF-8 text. */
int ns_output_places(const char *text);

/* The columns of a terminal, 40 to 110; 0: the stream is none. errno is unchanged. */
int ns_output_columns(FILE *stream);

/* A text and a line end. It begins at this column; a line that would be wider goes on in the next
 * one, behind this indent. A longer word stays whole, so that it can be copied. width 0: one line.
 */
void ns_print_words(FILE *stream, const char *text, int column, int indent, int width);

/* The same for a text, in place, which may be compared with others then. Returns text. */
char *ns_sanitize(char *text);

/* A line "name: text", or an entry with the members "name" and "text" in the list "facts". */
__attribute__((format(printf, 2, 3))) void ns_output_fact(const char *name, const char *format,
                                                          ...);

/* A line of the text form only. */
__attribute__((format(printf, 1, 2))) void ns_output_line(const char *format, ...);

/* A text in a list of the object. */
void ns_output_list(const char *list, const char *text);

/* A text of any length, valid until ns_words_forget. */
__attribute__((format(printf, 1, 2))) char *ns_words(const char *format, ...);
void ns_words_forget(void);

/* The same for a word, quoted for the shell, in characters that ns_print does not change. */
const char *ns_words_quoted(const char *word);

/* "1 process", "2 processes" */
const char *ns_count(uint64_t n, const char *noun);

/* Is stream a terminal that can place its cursor? */
bool ns_output_is_screen(FILE *stream);

/* What follows has this colour, if stream is a terminal; NO_COLOR (no-color.org) says no. */
enum ns_colour { NS_PLAIN, NS_RED, NS_YELLOW, NS_GREEN };
void ns_print_colour(FILE *stream, enum ns_colour colour);

/* The object, a new object at the end of a list (NULL without one), and one in a list of the
 * object; NULL in the text form. */
cJSON *ns_output_object(void);
cJSON *ns_output_item(cJSON *list);
cJSON *ns_output_entry(const char *list);

/* The list, which is made, so that it is there even if it stays empty. */
cJSON *ns_output_expect(const char *list);
cJSON *ns_output_expect_in(cJSON *object, const char *list);

/* The text of an object, to be freed: control characters are escaped, invalid UTF-8 is U+FFFD. */
char *ns_output_json(const cJSON *object);

/* Any bytes as a member; text NULL is null. Does nothing if object is NULL. */
void ns_output_text(cJSON *object, const char *name, const char *text);

/* A number as a member; 0 is null. */
void ns_output_number(cJSON *object, const char *name, double number);

#endif
