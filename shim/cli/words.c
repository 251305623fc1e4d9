/* SPDX-License-Identifier: MIT */
/* Owns the lists of words that options take, with a summary of each for the help texts. The names
 * of modes are those of policy.h; this file must not spell them itself. Not async-signal-safe. */
#include "cli/cli.h"

#include "policy/policy.h"

#include <stdio.h>
#include <string.h>

static const char *const send_summaries[] = {
    [NS_SEND_NODELAY] = "every write leaves at once (TCP_NODELAY)",
    [NS_SEND_AUTO_CORK] =
        "a burst of writes leaves as one segment, before a wait or at the deadline",
    [NS_SEND_ADAPTIVE] =
        "as nodelay, and as auto-cork where bursts of small writes repeat; the default",
    [NS_SEND_FLUSH_BEFORE_READ] =
        "Nagle's algorithm stays on; what it holds is pushed before a wait",
    [NS_SEND_APP] = "as the application has it",
};

static const char *const ack_summaries[] = {
    [NS_ACK_BEFORE_WAIT] = "data read and not answered is acknowledged before a wait; the default",
    [NS_ACK_APP] = "as the application has it",
};

static const struct ns_word log_levels[] = {
    {"off", "nothing", 0},
    {"error", "what is wrong; the default", 1},
    {"info", "one line at exit: sockets, rules, pushes, acknowledgements", 2},
    {"debug", "every decision", 3},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct ns_word ns_words_at(enum ns_words list, unsigned position)
{
    struct ns_word word = {.value = (int)position};

    /* The name ends the list, not the summary, so that a new mode cannot be forgotten here. */
    if (list == NS_WORDS_SEND) {
        word.name = ns_send_name((enum ns_send)position);
        word.summary = position < COUNT(send_summaries) ? send_summaries[position] : "";
    } else if (list == NS_WORDS_ACK) {
        word.name = ns_ack_name((enum ns_ack)position);
        word.summary = position < COUNT(ack_summaries) ? ack_summaries[position] : "";
    } else if (list == NS_WORDS_ROLE && position < NS_ROLE_SERVER) {
        word.value = NS_ROLE_CLIENT + (int)position;
        word.name = ns_role_name((enum ns_role)word.value);
        word.summary = word.value == NS_ROLE_CLIENT ? "this process connected"
                                                    : "this process accepted, or listens";
    } else if (list == NS_WORDS_LOG && position < COUNT(log_levels)) {
        word = log_levels[position];
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
        const char *before = ns_words_at(list, i + 1).name ? ", " : " and ";
        int n = snprintf(buffer + used, size - used, "%s%s", i == 0 ? "" : before, word.name);
        used += n > 0 ? (size_t)n : 0;
    }
    return buffer;
}
