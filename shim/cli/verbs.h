/* SPDX-License-Identifier: MIT */
/* The verbs of the command and their options, from verbs.def. */
#ifndef NS_VERBS_H
#define NS_VERBS_H

#include <stdbool.h>

/* Values past every letter. */
enum ns_option {
    NS_OPTION_BASE = 256,
    NS_HELP,
#define NS_VERB_OPTION(verb, id, name, letter, value, kind, text) NS_##id,
#include "cli/verbs.def"
#undef NS_VERB_OPTION
};

/* The kind of an option's value. */
enum ns_takes {
    NS_TAKES_NOTHING,
    NS_TAKES_TEXT,
    NS_TAKES_FILE,
    NS_TAKES_PROGRAM,
    NS_TAKES_LIST, /* a text; the option may be repeated */
    NS_TAKES_PID,
    NS_TAKES_NUMBER,
    NS_TAKES_SECONDS,
    NS_TAKES_MS,
    /* one word of a list, which the option's text has already */
    NS_TAKES_GRADE,
    NS_TAKES_EXPERIMENT,
    /* one word of a list */
    NS_TAKES_SEND,
    NS_TAKES_ACK,
    NS_TAKES_ROLE,
    NS_TAKES_LOG,
};

struct ns_verb {
    const char *word;
    int (*main)(int argc, char **argv);
    const char *usage, *summary, *about;
    bool runs_a_program; /* the first word that is not an option ends the options */
    bool takes_words;    /* that are not options */
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

/* Each ends with a row of zeros. */
extern const struct ns_verb ns_verbs[];
extern const struct ns_verb_option ns_verb_options[];

/* NULL if there is no such verb. */
const struct ns_verb *ns_verbs_find(const char *word);

/* Do the words begin and end alike, but for two letters? */
bool ns_verbs_is_close(const char *one, const char *other);

/* The verb that was probably meant by an unknown word, or NULL. */
const char *ns_verbs_close(const char *word);

/* The values of an option that may be repeated. */
struct ns_list {
    char **words;
    unsigned n;
};
void ns_list_add(struct ns_list *list, char *word);

/* Where the value of an option goes. into: a bool for an option that takes NOTHING, a pid_t for
 * PID, a struct ns_list for LIST, a double for NUMBER, a const char * for all others. */
struct ns_target {
    int id; /* enum ns_option */
    void *into;
    double least, most; /* of a number */
};

/* Reads the verb's options, except for those that have no row in targets, which ends with a row of
 * zeros. Then optind is the first other word. Returns false after a message about a wrong option,
 * value or word. */
bool ns_verbs_read(int argc, char **argv, const struct ns_target *targets);

/* The value of the verb's option with this long name on the command line, whatever is wrong with
 * other options: "" if it takes none; NULL if it is not given. argv is unchanged. */
const char *ns_verbs_value(const char *name, int argc, char **argv);

/* The position of a word in a list of values, -1 if it is not there. For SEND and ACK it is the
 * value in policy.h; roles begin at NS_ROLE_CLIENT. */
int ns_words_find(enum ns_takes list, const char *word);

/* "a, b or c" with last " or "; valid until the next call. */
const char *ns_words_join(enum ns_takes list, const char *last);

#endif
