/* SPDX-License-Identifier: MIT */
/* What the readers of json.c share: values of each kind out of a cJSON tree, and messages
 * for what is not as it must be. Allocates; not async-signal-safe. */
#ifndef NS_POLICY_READER_H
#define NS_POLICY_READER_H

#include "policy/suggest.h"
#include "policy/policy.h"
#include "policy/text.h"

enum {
    NS_NAME_LENGTH_MOST = 64,      /* characters of a rule's name */
    NS_PATTERN_LENGTH_MOST = 1024, /* characters of a "process" or "args" pattern */
};

struct ns_reader {
    const char *text;
    const cJSON *root;
    struct ns_policy_error *error;      /* the first */
    const struct ns_policy_errors *all; /* NULL: the first ends the reading */
    unsigned n_errors;
    const char *(*home)(const char *key); /* the object that has this key; NULL: none has */
    /* Of a text that was cut off inside an object or list that is still empty: the place where that
     * opens. That it is empty is no mistake. 0: none. */
    size_t unfinished;
    bool is_beginning;       /* of a text that is cut off: what is missing may have come later */
    struct ns_arena *memory; /* of the policy */
};

/* One key that an object may have. read returns 0 or -errno, into is the object being filled. */
struct ns_reader_key {
    const char *name;
    int (*read)(struct ns_reader *reader, const cJSON *item, void *into);
};

/* All below: 0, -EINVAL with reader->error filled, or -ENOMEM. */

/* Fail at item or its key. Always -EINVAL. */
__attribute__((format(printf, 4, 5))) int ns_reader_fail(struct ns_reader *reader,
                                                         const cJSON *item, enum ns_text_part part,
                                                         const char *format, ...);

/* After this result of one entry, are the next ones to be read? */
bool ns_reader_goes_on(const struct ns_reader *reader, int result);

/* item is not what it must be: `"key" must be <expected>, not <what it is>`. Always -EINVAL. */
int ns_reader_expected(struct ns_reader *reader, const cJSON *item, const char *expected);

/* item is no string, where a string must be; of a number it is told how to write it as one. */
int ns_reader_expected_string(struct ns_reader *reader, const cJSON *item, const char *expected);

/* Each member of an object with its key's reader; what: "a rule". */
int ns_reader_object(struct ns_reader *reader, const cJSON *item, const char *what,
                     const struct ns_reader_key *keys, size_t n_keys, void *into);

int ns_reader_integer(struct ns_reader *reader, const cJSON *item, int least, int most, int *value);

/* One of the words name(first), name(first + 1) ... up to NULL. */
int ns_reader_word(struct ns_reader *reader, const cJSON *item, const char *(*name)(unsigned),
                   unsigned first, unsigned *value);

/* A string of 1 to most characters, none of them a control character. The copy is in
 * reader->memory.
 */
int ns_reader_string(struct ns_reader *reader, const cJSON *item, size_t most, char **value);

/* A string or a list of strings: how many entries, and the first of them (->next has the others).
 */
int ns_reader_list(struct ns_reader *reader, const cJSON *item, const cJSON **first, size_t *n);

/* "; did you mean \"name\"?" in buffer if a key is similar to the unknown one, "" otherwise. */
const char *ns_reader_meant(const struct ns_suggest *near, char *buffer, size_t size);

/* A user's text for a message: short, on one line, in buffer. */
const char *ns_reader_quote(const char *text, char *buffer, size_t size);

#endif
