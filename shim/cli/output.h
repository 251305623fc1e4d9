/* SPDX-License-Identifier: MIT */
/* The two forms of what check, explain and doctor find out: lines of text as they go, or with
 * --json one object at the end. What reads it may rely on the members that nagleshim.1 lists. */
#ifndef NS_OUTPUT_H
#define NS_OUTPUT_H

#include <cJSON.h>
#include <stdbool.h>

/* From here on nothing goes to stdout but the object. printed: by ns_output_end; else whoever
 * writes it takes it before. */
void ns_output_start(const char *verb, bool printed);
bool ns_output_is_json(void);

/* The text of the object, with this status in it, to be freed; the object is gone. -1: no status is
 * known yet. NULL: there is no object, or no memory. */
char *ns_output_take(int status);

/* Prints the object, if there is one to be printed. Returns the status to exit with. */
int ns_output_end(int status);

/* A line "name: text" of the text form, and an entry of this list in the object. Each entry has the
 * members "name" and "text". */
__attribute__((format(printf, 3, 4))) void ns_output_fact(const char *list, const char *name,
                                                          const char *format, ...);

/* A line of the text form alone; the object has it in other members. */
__attribute__((format(printf, 1, 2))) void ns_output_line(const char *format, ...);

/* A text for a list of the object; none in the text form. */
void ns_output_list(const char *list, const char *text);

/* Members of the object; nothing in the text form. The list is made if it is not there. */
cJSON *ns_output_object(void); /* NULL in the text form */
cJSON *ns_output_entry(const char *list);

/* An empty list, so that it is there whatever comes. */
void ns_output_expect(const char *list);

/* Any bytes as a member: what is not UTF-8 becomes U+FFFD. object NULL: nothing; text NULL: null.
 */
void ns_output_text(cJSON *object, const char *name, const char *text);

/* The same as an item of a list. */
void ns_output_add_text(cJSON *list, const char *text);

#endif
