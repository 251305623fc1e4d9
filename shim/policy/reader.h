/* SPDX-License-Identifier: MIT */
/* Reads values of each kind from a cJSON tree, and reports wrong ones. For json.c. Allocates; not
 * async-signal-safe. */
#ifndef NS_POLICY_READER_H
#define NS_POLICY_READER_H

#include "policy/policy.h"
#include "policy/text.h"

enum {
    NS_NAME_LENGTH_MOST = 64,      /* characters of a rule's name */
    NS_PATTERN_LENGTH_MOST = 1024, /* characters of a "process" or "args" pattern */
};

struct ns_reader {
    const char *text;
    const cJSON *root;
    struct ns_policy_error *error;      /* the first error */
    const struct ns_policy_errors *all; /* NULL: the first error ends the reading */
    unsigned n_errors;
    struct ns_arena *memory; /* of the policy */
};

/* One key that an object may have. read returns 0 or -errno, into is the object being filled. */
struct ns_reader_key {
    const char *name;
    int (*read)(struct ns_reader *reader, const cJSON *item, void *into);
};

/* All functions that return int: 0, -EINVAL with reader->error set, or -ENOMEM. */

/* Report an error at item or its key. Always -EINVAL. */
__attribute__((format(printf, 4, 5))) int ns_reader_fail(struct ns_reader *reader,
                                                         const cJSON *item, enum ns_text_part part,
                                                         const char *format, ...);

/* After this result of one entry, should the next ones be read? */
bool ns_reader_goes_on(const struct ns_reader *reader, int result);

/* Report `"key" must be <expected>, not <what item is>`. Always -EINVAL. */
int ns_reader_expected(struct ns_reader *reader, const cJSON *item, const char *expected);

/* The same where a string is expected: for a number the message says how to write it as one. */
int ns_reader_expected_string(struct ns_reader *reader, const cJSON *item, const char *expected);

/* Read each member of an object with the reader of its key. what: "a rule", for messages. */
int ns_reader_object(struct ns_reader *reader, const cJSON *item, const char *what,
                     const struct ns_reader_key *keys, size_t n_keys, void *into);

int ns_reader_integer(struct ns_reader *reader, const cJSON *item, int least, int most, int *value);

/* One of the words name(first), name(first + 1), ... up to NULL. */
int ns_reader_word(struct ns_reader *reader, const cJSON *item, const char *(*name)(unsigned),
                   unsigned first, unsigned *value);

/* A string of 1 to most characters without control characters. The copy lies in reader->memory. */
int ns_reader_string(struct ns_reader *reader, const cJSON *item, size_t most, char **value);

/* A string or a list of strings: sets the first entry (the others follow by ->next) and the number
 * of entries. */
int ns_reader_list(struct ns_reader *reader, const cJSON *item, const cJSON **first, size_t *n);

/* A user's text for a message, shortened and on one line, in buffer. */
const char *ns_reader_quote(const char *text, char *buffer, size_t size);

#endif
