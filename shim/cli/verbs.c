/* SPDX-License-Identifier: MIT */
/* Owns the rows of verbs.def, what getopt_long gets from them, and the values that several options
 * share. Must not know what a verb or an option does. */
#include "cli/verbs.h"

#include "cli/cli.h"
#include "policy/policy.h"
#include "process/scope.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Only PROGRAM and NOTHING have a meaning here; the others are for the shells' completions. */
enum operands { NOTHING, FILES, PROGRAM, TOPICS, HOST };

const struct ns_verb ns_verbs[] = {
#define NS_VERB(word, function, operands, usage, summary, about)                                   \
    {#word, function, usage, summary, about, operands == PROGRAM, operands != NOTHING},
#include "cli/verbs.def"
#undef NS_VERB
    {0},
};

const struct ns_verb_option ns_verb_options[] = {
#define NS_VERB_OPTION(verb, id, name, letter, value, kind, text)                                  \
    {#verb, NS_##id, name, letter, value, NS_TAKES_##kind, text},
#include "cli/verbs.def"
#undef NS_VERB_OPTION
#define NS_VERB(word, function, operands, usage, summary, about)                                   \
    {#word, NS_HELP, "help", 'h', "", NS_TAKES_NOTHING, "print this text"},
#include "cli/verbs.def"
#undef NS_VERB
    {0},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const struct ns_verb *ns_verbs_find(const char *word)
{
    for (const struct ns_verb *verb = ns_verbs; verb->word; verb++)
        if (strcmp(word, verb->word) == 0)
            return verb;
    return NULL;
}

/* getopt_long's description of a verb's options: ":" first, so that a missing value and a wrong
 * option have different results, and "+" before that if the first other word ends the options. */
static void describe(char *letters, struct option *known)
{
    if (ns_verbs_find(ns_cli_verb)->runs_a_program)
        *letters++ = '+';
    *letters++ = ':';
    for (const struct ns_verb_option *row = ns_verb_options; row->verb; row++) {
        if (strcmp(row->verb, ns_cli_verb) != 0)
            continue;
        int value = row->takes == NS_TAKES_NOTHING ? no_argument : required_argument;
        *known++ = (struct option){row->name, value, NULL, row->id};
        if (row->letter)
            *letters++ = row->letter;
        if (row->letter && value == required_argument)
            *letters++ = ':';
    }
    *letters = '\0';
    *known = (struct option){0};
}

/* getopt_long with the verb's options: the row of the next one, with its value in optarg. NULL:
 * *result is -1 at the end, or '?' or ':', which are for say_option. */
static const struct ns_verb_option *next_option(int argc, char **argv, int *result)
{
    char letters[2 * COUNT(ns_verb_options) + 3];
    struct option known[COUNT(ns_verb_options) + 1];
    describe(letters, known);
    opterr = 0;
    *result = getopt_long(argc, argv, letters, known, NULL);
    for (const struct ns_verb_option *row = ns_verb_options; row->verb; row++)
        if (strcmp(row->verb, ns_cli_verb) == 0 && (row->id == *result || row->letter == *result))
            return row;
    return NULL;
}

const char *ns_verbs_value(const char *name, int argc, char **argv)
{
    /* getopt_long reorders the words, so it gets a copy. */
    char **copy = ns_allocate((size_t)argc + 1, sizeof *copy);
    const char *value = NULL;
    int result = 0;

    memcpy(copy, argv, (size_t)argc * sizeof *copy);
    while (result != -1) {
        const struct ns_verb_option *row = next_option(argc, copy, &result);
        if (row && strcmp(row->name, name) == 0)
            value = row->takes == NS_TAKES_NOTHING ? "" : optarg;
    }
    free(copy);
    optind = 0; /* the next call of getopt_long starts from the first word again */
    return value;
}

bool ns_verbs_is_close(const char *one, const char *other)
{
    size_t a = strlen(one), b = strlen(other), begin = 0, end = 0;
    while (begin < a && begin < b && one[begin] == other[begin])
        begin++;
    while (end + begin < a && end + begin < b && one[a - 1 - end] == other[b - 1 - end])
        end++;
    return begin + end >= 2 && begin + end + 2 >= (a > b ? a : b);
}

const char *ns_verbs_close(const char *word)
{
    for (const struct ns_verb *verb = ns_verbs; verb->word; verb++)
        if (ns_verbs_is_close(word, verb->word))
            return verb->word;
    return NULL;
}

/* The option of the verb that was probably meant, or NULL. */
static const char *close_option(const char *word)
{
    for (const struct ns_verb_option *row = ns_verb_options; row->verb; row++)
        if (strcmp(row->verb, ns_cli_verb) == 0 && strncmp(word, "--", 2) == 0 &&
            ns_verbs_is_close(word + 2, row->name))
            return row->name;
    return NULL;
}

/* Says why getopt_long refused an option; result is what it returned. */
static void say_option(char *const *argv, int result)
{
    char letter[] = {'-', (char)optopt, '\0'};
    /* Long options have values past the letters; getopt has already stepped over their word. */
    bool is_letter = optopt > 0 && optopt < NS_OPTION_BASE;
    const char *option = is_letter ? letter : argv[optind - 1], *meant;
    if (result == ':')
        ns_say("%s needs a value; see 'nagleshim %s --help'", option, ns_cli_verb);
    else if (optopt >= NS_OPTION_BASE)
        ns_say("%s: this option takes no value", option);
    else if ((meant = close_option(option)))
        ns_say("unknown option '%s'; did you mean --%s?", option, meant);
    else
        ns_say("unknown option '%s'; see 'nagleshim %s --help'", option, ns_cli_verb);
}

void ns_list_add(struct ns_list *list, char *word)
{
    NS_GROW(list->words, list->n);
    list->words[list->n++] = word;
}

static bool take_number(const struct ns_verb_option *row, const struct ns_target *target,
                        double *number)
{
    static const char *const units[] = {[NS_TAKES_NUMBER] = "a number",
                                        [NS_TAKES_SECONDS] = "seconds",
                                        [NS_TAKES_MS] = "milliseconds"};
    bool is_pid = row->takes == NS_TAKES_PID, is_whole = is_pid || row->takes == NS_TAKES_NUMBER;
    double least = is_pid ? 1 : target->least, most = is_pid ? INT_MAX : target->most;
    char *end;
    *number = strtod(optarg, &end);
    /* No sign, no "inf", no hexadecimal number. */
    if (*optarg && *end == '\0' && *number >= least && *number <= most &&
        optarg[strspn(optarg, is_whole ? "0123456789" : "0123456789.")] == '\0')
        return true;
    if (is_pid)
        return NS_REFUSE("--%s must be a process id, not '%s'", row->name, optarg);
    return NS_REFUSE("--%s must be %s from %.10g to %.10g, not '%s'", row->name, units[row->takes],
                     least, most, optarg);
}

/* optarg is the value of the option that row describes. */
static bool take(const struct ns_verb_option *row, const struct ns_target *target)
{
    double number;
    /* LIST: an argument of a program may be empty. */
    if (row->takes >= NS_TAKES_TEXT && row->takes < NS_TAKES_LIST && *optarg == '\0')
        return NS_REFUSE("--%s must be %s, not ''", row->name, row->value);
    switch (row->takes) {
    case NS_TAKES_NOTHING:
        *(bool *)target->into = true;
        return true;
    case NS_TAKES_LIST:
        ns_list_add(target->into, optarg);
        return true;
    case NS_TAKES_PID:
        if (!take_number(row, target, &number))
            return false;
        *(pid_t *)target->into = (pid_t)number;
        return true;
    case NS_TAKES_NUMBER:
    case NS_TAKES_SECONDS:
    case NS_TAKES_MS:
        return take_number(row, target, target->into);
    case NS_TAKES_FILE:
        if (*optarg != '-' || optarg[1] == '\0')
            break;
        return NS_REFUSE("--%s must be a file, not '%s'; for a file of this name write ./%s",
                         row->name, optarg, optarg);
    case NS_TAKES_TEXT:
    case NS_TAKES_PROGRAM:
        break;
    default:
        if (ns_words_find(row->takes, optarg) >= 0)
            break;
        return NS_REFUSE("--%s must be %s, not '%s'", row->name, ns_words_join(row->takes, " or "),
                         optarg);
    }
    *(const char **)target->into = optarg;
    return true;
}

bool ns_verbs_read(int argc, char **argv, const struct ns_target *targets)
{
    const struct ns_verb_option *row;
    int result;
    while ((row = next_option(argc, argv, &result))) {
        const struct ns_target *target = targets;
        while (target->id && target->id != row->id)
            target++;
        if (target->id && !take(row, target))
            return false;
    }
    if (result != -1) {
        say_option(argv, result);
        return false;
    }
    if (optind == argc || ns_verbs_find(ns_cli_verb)->takes_words)
        return true;
    const char *word = argv[optind];
    const struct ns_verb_option *pid = ns_verb_options;
    while (pid->verb && !(strcmp(pid->verb, ns_cli_verb) == 0 && pid->takes == NS_TAKES_PID))
        pid++;
    if (pid->verb && word[strspn(word, "0123456789")] == '\0')
        return NS_REFUSE("unexpected word '%s'; did you mean --%s %s?", word, pid->name, word);
    return NS_REFUSE("unexpected word '%s'; see 'nagleshim %s --help'", word, ns_cli_verb);
}

/* The word at this position, NULL past the end. */
static const char *word_at(enum ns_takes list, unsigned position)
{
    static const char *const words[][5] = {
        [NS_TAKES_GRADE] = {"likely", "proven"},
        [NS_TAKES_EXPERIMENT] = {"push", "acknowledge"},
        [NS_TAKES_LOG] = {"off", "error", "info", "debug"},
    };
    switch (list) {
    case NS_TAKES_SEND:
        return ns_send_name((enum ns_send)position);
    case NS_TAKES_ACK:
        return ns_ack_name((enum ns_ack)position);
    case NS_TAKES_ROLE:
        return ns_role_name((enum ns_role)(NS_ROLE_CLIENT + position));
    default:
        return words[list][position];
    }
}

int ns_words_find(enum ns_takes list, const char *wanted)
{
    const char *word;
    for (unsigned i = 0; (word = word_at(list, i)); i++)
        if (strcmp(word, wanted) == 0)
            return (int)i;
    return -1;
}

const char *ns_words_join(enum ns_takes list, const char *last)
{
    static char text[128];
    const char *word;
    size_t used = 0;
    for (unsigned i = 0; (word = word_at(list, i)) && used < sizeof text; i++) {
        const char *before = i == 0 ? "" : word_at(list, i + 1) ? ", " : last;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", before, word);
    }
    return text;
}
