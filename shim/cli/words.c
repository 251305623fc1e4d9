/* SPDX-License-Identifier: MIT */
/* Owns the lists of words that options take. The words of modes are those of policy.h; this file
 * must not spell them itself. Not async-signal-safe. */
#include "cli/cli.h"

#include "policy/policy.h"

#include <stdio.h>
#include <string.h>

static const char *const log_levels[] = {
#define NS_LEVEL(word) word,
#include "cli/levels.def"
#undef NS_LEVEL
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct ns_word ns_words_at(enum ns_words list, unsigned position)
{
    struct ns_word word = {.value = (int)position};

    if (list == NS_WORDS_SEND) {
        word.name = ns_send_name((enum ns_send)position);
    } else if (list == NS_WORDS_ACK) {
        word.name = ns_ack_name((enum ns_ack)position);
    } else if (list == NS_WORDS_ROLE) {
        word.value = NS_ROLE_CLIENT + (int)position;
        word.name = ns_role_name((enum ns_role)word.value);
    } else if (list == NS_WORDS_LOG && position < COUNT(log_levels)) {
        word.name = log_levels[position];
    }
    return word;
}

bool ns_words_find(enum ns_words list, const char *wanted, int *value)
{
    struct ns_word word;

    for (unsigned i = 0; (word = ns_words_at(list, i)).name; i++) {
        if (strcmp(word.name, wanted) == 0) {
            if (value)
                *value = word.value;
            return true;
        }
    }
    return false;
}

char *ns_words_join(enum ns_words list, char *buffer, size_t size)
{
    size_t used = 0;
    struct ns_word word;

    buffer[0] = '\0';
    for (unsigned i = 0; (word = ns_words_at(list, i)).name && used < size; i++) {
        const char *before = ns_words_at(list, i + 1).name ? ", " : " or ";
        int n = snprintf(buffer + used, size - used, "%s%s", i == 0 ? "" : before, word.name);
        used += n > 0 ? (size_t)n : 0;
    }
    return buffer;
}
