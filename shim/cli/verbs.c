/* SPDX-License-Identifier: MIT */
/* Owns the rows of verbs.def, what getopt_long gets from them, the options that were given, and the
 * values that several options share. Must not know what a verb or an option does. */
#include "cli/verbs.h"

#include "cli/cli.h"
#include "cli/output.h"
#include "policy/policy.h"
#include "process/scope.h"

#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Only PROGRAM and NOTHING have a meaning here; the others are for the shells' completions. */
enum operands { NOTHING, FILES, PROGRAM, TOPICS, HOST };

const struct ns_verb ns_verbs[] = {
#define NS_VERB(word, function, operands, lists, usage, summary, about)                            \
    {#word, lists, usage, summary, about, operands == PROGRAM, operands != NOTHING},
#include "cli/verbs.def"
#undef NS_VERB
    {0},
};

const struct ns_verb_option ns_verb_options[] = {
#define NS_VERB_OPTION(words, id, name, letter, value, kind, text, ...)                            \
    {#words, NS_##id, name, letter, value, NS_TAKES_##kind, text, {__VA_ARGS__}},
#include "cli/verbs.def"
#undef NS_VERB_OPTION
    {"", NS_HELP, "help", 'h', "", NS_TAKES_NOTHING, "print this text", {0}},
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

bool ns_verbs_has(const char *verb, const struct ns_verb_option *option)
{
    const size_t length = strlen(verb);
    const char *at = option->words;
    while ((at = strstr(at, verb)) &&
           !((at == option->words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')))
        at++;
    return at || !*option->words;
}

/* getopt_long's description of a verb's options: ":" first, so that a missing value and a wrong
 * option have different results, and "+" before that if the first other word ends the options. */
static void describe(char *letters, struct option *known)
{
    if (ns_verbs_find(ns_cli_verb)->runs_a_program)
        *letters++ = '+';
    *letters++ = ':';
    for (const struct ns_verb_option *row = ns_verb_options; row->name; row++) {
        if (!ns_verbs_has(ns_cli_verb, row))
            continue;
        int value = row->takes == NS_TAKES_NOTHING  ? no_argument
                    : row->takes == NS_TAKES_RESULT ? optional_argument
                                                    : required_argument;
        *known++ = (struct option){row->name, value, NULL, row->id};
        if (row->letter)
            *letters++ = row->letter;
        if (row->letter && value == required_argument)
            *letters++ = ':';
    }
    *letters = '\0';
    *known = (struct option){0};
}

/* The row of what getopt_long returned; NULL: '?' or ':', which are for refuse_option. */
static const struct ns_verb_option *row_of(int result)
{
    for (const struct ns_verb_option *row = ns_verb_options; row->name; row++)
        if (ns_verbs_has(ns_cli_verb, row) && (row->id == result || row->letter == result))
            return row;
    return NULL;
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

/* Is word what follows "-" in name? */
static bool is_last_word(const char *word, const char *name)
{
    const char *last = strrchr(name, '-');
    return last && strcmp(word, last + 1) == 0;
}

/* The option of the verb that was probably meant, or NULL. */
static const char *close_option(const char *word)
{
    for (const struct ns_verb_option *row = ns_verb_options; row->name; row++)
        if (ns_verbs_has(ns_cli_verb, row) && strncmp(word, "--", 2) == 0 &&
            (ns_verbs_is_close(word + 2, row->name) || is_last_word(word + 2, row->name)))
            return row->name;
    return NULL;
}

/* What the options were given. */
static struct value {
    const char *text; /* NULL: it was not given; "": it takes no value */
    double number;
    struct ns_list list;
} values[NS_OPTION_END - NS_OPTION_BASE];

struct ns_list ns_operands;
static pid_t *pids; /* of --pid */
static size_t n_pids;

static const char *mistake; /* the message about the first one */

#define REFUSE(...) (mistake = mistake ? mistake : ns_words(__VA_ARGS__))

/* getopt_long refused an option; result is what it returned. */
static void refuse_option(char *const *argv, int result)
{
    char letter[] = {'-', (char)optopt, '\0'};
    /* Long options have values past the letters; getopt has already stepped over their word. */
    bool is_letter = optopt > 0 && optopt < NS_OPTION_BASE;
    const char *option = is_letter ? letter : argv[optind - 1], *meant;
    if (result == ':')
        REFUSE("%s needs a value; see 'nagleshim %s --help'", option, ns_cli_verb);
    else if (optopt >= NS_OPTION_BASE)
        REFUSE("%s: this option takes no value", option);
    else if ((meant = close_option(option)))
        REFUSE("unknown option '%s'; did you mean --%s?", option, meant);
    else
        REFUSE("unknown option '%s'; see 'nagleshim %s --help'", option, ns_cli_verb);
}

void ns_list_add(struct ns_list *list, char *word)
{
    NS_GROW(list->words, list->n);
    list->words[list->n++] = word;
}

static void take_number(const struct ns_verb_option *row, double *number)
{
    static const char *const units[] = {[NS_TAKES_NUMBER] = "a number",
                                        [NS_TAKES_SECONDS] = "seconds",
                                        [NS_TAKES_MS] = "milliseconds"};
    bool is_pid = row->takes == NS_TAKES_PID, is_whole = is_pid || row->takes == NS_TAKES_NUMBER;
    double least = is_pid ? 1 : row->range[0], most = is_pid ? INT_MAX : row->range[1];
    char *end;
    *number = strtod(optarg, &end);
    /* No sign, no "inf", no hexadecimal number. */
    if (*optarg && *end == '\0' && *number >= least && *number <= most &&
        optarg[strspn(optarg, is_whole ? "0123456789" : "0123456789.")] == '\0')
        return;
    if (is_pid)
        REFUSE("--%s must be a process id, not '%s'", row->name, optarg);
    else
        REFUSE("--%s must be %s from %.10g to %.10g, not '%s'", row->name, units[row->takes], least,
               most, optarg);
}

void ns_option_add_pid(pid_t pid)
{
    for (size_t i = 0; i < n_pids; i++)
        if (pids[i] == pid)
            return;
    NS_GROW(pids, n_pids);
    pids[n_pids++] = pid;
}

/* optarg is the value of the option that row describes. */
static void take(const struct ns_verb_option *row)
{
    struct value *value = &values[row->id - NS_OPTION_BASE];
    value->text = row->takes == NS_TAKES_NOTHING ? "" : optarg ? optarg : "-";
    if (!optarg)
        return;
    /* LIST: an argument of a program may be empty. */
    if (row->takes >= NS_TAKES_TEXT && row->takes < NS_TAKES_LIST && *optarg == '\0')
        REFUSE("--%s must be %s, not ''", row->name, row->value);
    else if (row->takes == NS_TAKES_LIST)
        ns_list_add(&value->list, optarg);
    else if (row->takes >= NS_TAKES_PID && row->takes <= NS_TAKES_MS)
        take_number(row, &value->number);
    else if ((row->takes == NS_TAKES_FILE || row->takes == NS_TAKES_RESULT) && *optarg == '-' &&
             optarg[1])
        REFUSE("--%s must be a file, not '%s'; for a file of this name write ./%s", row->name,
               optarg, optarg);
    else if (row->takes >= NS_TAKES_GRADE && ns_words_find(row->takes, optarg) < 0)
        REFUSE("--%s must be %s, not '%s'", row->name, ns_words_join(row->takes, " or "), optarg);
    if (row->takes == NS_TAKES_PID)
        ns_option_add_pid((pid_t)value->number);
}

/* The verb takes no words. */
static void refuse_word(const char *word)
{
    const struct ns_verb_option *pid = ns_verb_options;
    while (pid->name && !(ns_verbs_has(ns_cli_verb, pid) && pid->takes == NS_TAKES_PID))
        pid++;
    if (pid->name && word[strspn(word, "0123456789")] == '\0')
        REFUSE("unexpected word '%s'; did you mean --%s %s?", word, pid->name, word);
    else
        REFUSE("unexpected word '%s'; see 'nagleshim %s --help'", word, ns_cli_verb);
}

const char *ns_verbs_read(int argc, char **argv)
{
    char letters[2 * COUNT(ns_verb_options) + 3];
    struct option known[COUNT(ns_verb_options) + 1];
    int result;
    describe(letters, known);
    opterr = 0;
    while ((result = getopt_long(argc, argv, letters, known, NULL)) != -1)
        if (row_of(result))
            take(row_of(result));
        else
            refuse_option(argv, result);
    ns_operands = (struct ns_list){argv + optind, (unsigned)(argc - optind)};
    if (ns_operands.n > 0 && !ns_verbs_find(ns_cli_verb)->takes_words)
        refuse_word(argv[optind]);
    return mistake;
}

const char *ns_option_text(enum ns_option id)
{
    return values[id - NS_OPTION_BASE].text;
}

double ns_option_number(enum ns_option id, double otherwise)
{
    return ns_option_text(id) ? values[id - NS_OPTION_BASE].number : otherwise;
}

const pid_t *ns_option_pids(void)
{
    NS_GROW(pids, n_pids);
    pids[n_pids] = 0;
    return pids;
}

struct ns_list *ns_option_list(enum ns_option id)
{
    return &values[id - NS_OPTION_BASE].list;
}

const char *ns_option_named(const char *name)
{
    for (const struct ns_verb_option *row = ns_verb_options; row->name; row++)
        if (ns_verbs_has(ns_cli_verb, row) && strcmp(row->name, name) == 0)
            return ns_option_text((enum ns_option)row->id);
    return NULL;
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
    const char *text = "", *word;
    for (unsigned i = 0; (word = word_at(list, i)); i++)
        text = ns_words("%s%s%s", text, i == 0 ? "" : word_at(list, i + 1) ? ", " : last, word);
    return text;
}
