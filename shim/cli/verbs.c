/* SPDX-License-Identifier: MIT */
/* Owns the rows of verbs.def, and what getopt_long is told of them. Must not know what a verb or an
 * option does. Not async-signal-safe. */
#include "cli/verbs.h"

#include "cli/cli.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

/* Of these only PROGRAM means anything here; the others are for completions. */
enum operands { NOTHING, FILES, PROGRAM, TOPICS, HOST };

static const struct ns_verb verbs[] = {
#define NS_VERB(word, function, operands, usage, summary, about)                                   \
    {#word, function, usage, summary, about, operands == PROGRAM},
#include "cli/verbs.def"
#undef NS_VERB
};

static const struct ns_verb_option options[] = {
#define NS_VERB_OPTION(verb, id, name, letter, value, kind, text)                                  \
    {#verb, NS_##id, name, letter, value, NS_TAKES_##kind, text},
#include "cli/verbs.def"
#undef NS_VERB_OPTION
};

static const struct ns_verb_exit exits[] = {
#define NS_VERB_EXIT(verb, status, text) {#verb, status, text},
#include "cli/verbs.def"
#undef NS_VERB_EXIT
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const struct ns_verb *ns_verbs_at(size_t position)
{
    return position < COUNT(verbs) ? &verbs[position] : NULL;
}

const struct ns_verb_option *ns_verbs_option_at(size_t position)
{
    return position < COUNT(options) ? &options[position] : NULL;
}

const struct ns_verb_exit *ns_verbs_exit_at(size_t position)
{
    return position < COUNT(exits) ? &exits[position] : NULL;
}

const struct ns_verb *ns_verbs_find(const char *word)
{
    for (size_t i = 0; i < COUNT(verbs); i++)
        if (strcmp(word, verbs[i].word) == 0)
            return &verbs[i];
    return NULL;
}

/* What getopt_long wants for a verb: ":" first, so that it tells a missing value from a wrong
 * option, and "+" before that where the options end at the first other word. */
static void describe(const char *verb, char *letters, struct option *known)
{
    if (ns_verbs_find(verb)->runs_a_program)
        *letters++ = '+';
    *letters++ = ':';
    for (size_t i = 0; i < COUNT(options); i++) {
        int value = options[i].takes == NS_TAKES_NOTHING ? no_argument : required_argument;

        if (strcmp(options[i].verb, verb) != 0)
            continue;
        *known++ = (struct option){options[i].name, value, NULL, options[i].id};
        if (options[i].letter)
            *letters++ = options[i].letter;
        if (options[i].letter && value == required_argument)
            *letters++ = ':';
    }
    *letters = '\0';
    *known = (struct option){0};
}

int ns_verbs_next_option(const char *verb, int argc, char **argv)
{
    char letters[2 * COUNT(options) + 3];
    struct option known[COUNT(options) + 1];
    int result;

    describe(verb, letters, known);
    opterr = 0;
    result = getopt_long(argc, argv, letters, known, NULL);
    for (size_t i = 0; i < COUNT(options); i++)
        if (options[i].letter && options[i].letter == result && strcmp(options[i].verb, verb) == 0)
            return options[i].id;
    return result;
}

bool ns_verbs_have(const char *verb, const char *name, int argc, char **argv)
{
    /* getopt_long puts the options first; a second look would find a word behind an option that
     * lacks its value. */
    char **copy = calloc((size_t)argc + 1, sizeof(*copy));
    bool found = false;
    int option;

    for (int i = 0; copy && i < argc; i++)
        copy[i] = argv[i];
    while (copy && !found && (option = ns_verbs_next_option(verb, argc, copy)) != -1)
        for (size_t i = 0; i < COUNT(options); i++)
            found = found || (options[i].id == option && options[i].takes == NS_TAKES_NOTHING &&
                              strcmp(options[i].name, name) == 0);
    free(copy);
    optind = 0; /* the next call of getopt_long begins anew */
    return found;
}
