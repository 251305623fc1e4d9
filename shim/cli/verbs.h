/* SPDX-License-Identifier: MIT */
/* The verbs of the command and their options, from verbs.def. */
#ifndef NS_VERBS_H
#define NS_VERBS_H

#include <stdbool.h>
#include <sys/types.h>

/* compare: runs of each kind. With fewer than 5, no difference can be significant. */
enum { NS_RUNS_LEAST = 5, NS_RUNS_MOST = 1000 };

/* Values past every letter. */
enum ns_option {
    NS_OPTION_BASE = 256,
    NS_HELP,
#define NS_VERB_OPTION(words, id, name, letter, value, kind, text, ...) NS_##id,
#include "cli/verbs.def"
#undef NS_VERB_OPTION
    NS_OPTION_END
};

/* The kind of an option's value. */
enum ns_takes {
    NS_TAKES_NOTHING,
    NS_TAKES_TEXT,
    NS_TAKES_FILE,
    NS_TAKES_RESULT, /* a file after "=", or no value: standard output */
    NS_TAKES_LIST,   /* a text; the option may be repeated */
    NS_TAKES_PID,    /* the option may be repeated */
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
    const char *lists, *usage, *summary, *about;
    bool runs_a_program; /* the first word that is not an option ends the options */
    bool takes_words;    /* that are not options */
};

struct ns_verb_option {
    const char *words; /* of the verbs that have it, with blanks; "": every one */
    int id;            /* enum ns_option */
    const char *name;
    char letter;
    const char *value;
    enum ns_takes takes;
    const char *text;
    double range[2]; /* of a number */
};

/* Each ends with a row of zeros. */
extern const struct ns_verb ns_verbs[];
extern const struct ns_verb_option ns_verb_options[];

/* NULL if there is no such verb. */
const struct ns_verb *ns_verbs_find(const char *word);

/* Does this verb have the option? */
bool ns_verbs_has(const char *verb, const struct ns_verb_option *option);

/* Do the words begin and end alike, but for two letters? */
bool ns_verbs_is_close(const char *one, const char *other);

struct ns_list {
    char **words;
    unsigned n;
};
void ns_list_add(struct ns_list *list, char *word);

/* Reads the options and words of ns_cli_verb. Returns the message about the first mistake, or NULL.
 */
const char *ns_verbs_read(int argc, char **argv);

/* The words that are not options, a part of argv, which NULL ends. */
extern struct ns_list ns_operands;

/* The value of an option that was read; "" if it takes none, and "-" for a RESULT without one;
 * NULL: it was not given. */
const char *ns_option_text(enum ns_option id);
double ns_option_number(enum ns_option id, double otherwise);

/* The same of the verb's option with this long name. */
const char *ns_option_named(const char *name);

/* The process ids of --pid, each once, and a 0. Another one can be added. */
const pid_t *ns_option_pids(void);
void ns_option_add_pid(pid_t pid);

/* The values of an option that may be repeated. */
struct ns_list *ns_option_list(enum ns_option id);

/* The position of a word in a list of values, -1 if it is not there. For SEND and ACK it is the
 * value in policy.h; roles begin at NS_ROLE_CLIENT. */
int ns_words_find(enum ns_takes list, const char *word);

/* "a, b or c" with last " or ". */
const char *ns_words_join(enum ns_takes list, const char *last);

#endif
