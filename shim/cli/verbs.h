/* SPDX-License-Identifier: MIT */
/* The verbs of the command and their options, from verbs.def. */
#ifndef NS_VERBS_H
#define NS_VERBS_H

#include <stdbool.h>
#include <stddef.h>

/* Past every letter, so that a wrong option can be told from its value. */
enum ns_option {
    NS_OPTION_BASE = 256,
#define NS_VERB_OPTION(verb, id, name, letter, value, kind, text) NS_##id,
#include "cli/verbs.def"
#undef NS_VERB_OPTION
};

/* What the value of an option is. */
enum ns_takes {
    NS_TAKES_NOTHING,
    NS_TAKES_TEXT,
    NS_TAKES_FILE,
    NS_TAKES_PROGRAM,
    NS_TAKES_PID,
    /* one word of a few, which the option's text tells */
    NS_TAKES_GRADE,
    NS_TAKES_EXPERIMENT,
    /* one word of a list; see enum ns_words */
    NS_TAKES_SEND,
    NS_TAKES_ACK,
    NS_TAKES_ROLE,
    NS_TAKES_LOG,
};

struct ns_verb {
    const char *word;
    int (*main)(int argc, char **argv);
    const char *usage, *summary, *about;
    bool runs_a_program; /* the first word that is no option ends the options */
};

struct ns_verb_option {
    const char *verb;
    int id; /* enum ns_option */
    const char *name;
    char letter;
    const char *value;
    enum ns_takes takes;
    const char *text;
};

struct ns_verb_exit {
    const char *verb, *status, *text;
};

/* Row by row; NULL past the last. */
const struct ns_verb *ns_verbs_at(size_t position);
const struct ns_verb_option *ns_verbs_option_at(size_t position);
const struct ns_verb_exit *ns_verbs_exit_at(size_t position);

/* NULL if there is no such verb. */
const struct ns_verb *ns_verbs_find(const char *word);

/* getopt_long with the verb's options: the next one's enum ns_option, optarg its value; -1 at the
 * end; '?' or ':' for what ns_say_option explains. */
int ns_verbs_next_option(const char *verb, int argc, char **argv);

/* Is this option (the name of its long form), which takes no value, among the verb's on this
 * command line, whatever is wrong with the others? Nothing has been taken from argv afterwards. */
bool ns_verbs_have(const char *verb, const char *name, int argc, char **argv);

#endif
