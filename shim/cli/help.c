/* SPDX-License-Identifier: MIT */
/* Owns the form of the help texts. Their words are in verbs.def and in the lists of modes and
 * environment variables that the code itself uses. */
#include "cli/cli.h"

#include "cli/output.h"
#include "cli/verbs.h"

#include <stdio.h>
#include <string.h>

/* One line for each way to use the verb. */
static void print_usage(const struct ns_verb *verb)
{
    const char *before = "usage: ";
    for (const char *way = verb->usage, *end; way; way = *end ? end + 1 : NULL) {
        end = strchrnul(way, '\n');
        ns_print(stdout, "%snagleshim %s%s%.*s\n", before, verb->word, end > way ? " " : "",
                 (int)(end - way), way);
        before = "       ";
    }
}

static void print_main(void)
{
    ns_print(stdout,
             "usage: nagleshim COMMAND [OPTIONS]\n"
             "Ends the stalls of Nagle's algorithm and delayed ACKs in unmodified programs.\n"
             "\n"
             "commands:\n");
    for (const struct ns_verb *verb = ns_verbs; verb->word; verb++)
        ns_print(stdout, "  %-9s %s\n", verb->word, verb->summary);
    ns_print(stdout, "\nenvironment:\n");
#define NS_VARIABLE(name, text) ns_print(stdout, "  %-21s %s\n", #name, text);
#include "cli/variables.def"
#undef NS_VARIABLE
    ns_print(stdout, "\nexit status: see nagleshim(1)\n");
}

enum { COLUMNS = 80 };

static const char *name(const struct ns_verb_option *option)
{
    const char *letter = option->letter ? ns_words("-%c, ", option->letter) : "";
    if (option->takes == NS_TAKES_RESULT)
        return ns_words("%s--%s[=%s]", letter, option->name, option->value);
    return ns_words("%s--%s%s%s", letter, option->name, *option->value ? " " : "", option->value);
}

/* Older spellings have no text. */
static bool is_of(const struct ns_verb_option *option, const char *verb)
{
    return option->text && ns_verbs_has(verb, option);
}

static void print_options(const char *verb)
{
    int width = 0;
    for (const struct ns_verb_option *option = ns_verb_options; option->name; option++) {
        int length = (int)strlen(name(option));
        if (is_of(option, verb) && length > width)
            width = length;
    }
    ns_print(stdout, "\noptions:\n");
    for (const struct ns_verb_option *option = ns_verb_options; option->name; option++) {
        if (!is_of(option, verb))
            continue;
        ns_print(stdout, "  %-*s  %s\n", width, name(option), option->text);
        if (option->takes < NS_TAKES_SEND)
            continue;
        /* The words that it takes, below its text; further left if they are too long. */
        const char *words = ns_words_join(option->takes, ", ");
        int left = COLUMNS - (int)strlen(words);
        ns_print(stdout, "%*s%s\n", left < width + 4 ? left : width + 4, "", words);
    }
}

bool ns_help_print(const char *command)
{
    const struct ns_verb *verb = command ? ns_verbs_find(command) : NULL;
    if (!command)
        print_main();
    if (!verb)
        return !command;
    print_usage(verb);
    ns_print_lines(stdout, ns_words("\n%s", verb->about));
    print_options(verb->word);
    return true;
}

void ns_help_usage(void)
{
    ns_print(stderr, "usage: nagleshim COMMAND [OPTIONS]; all commands: nagleshim help\n"
                     "  nagleshim diagnose -- PROGRAM  does it stall?\n"
                     "  nagleshim run -- PROGRAM       run it without the stalls\n"
                     "  nagleshim cure --unit NAME     end those of a service that runs\n");
}
