/* SPDX-License-Identifier: MIT */
/* Owns the form of the help texts. Their words are in verbs.def and in the lists of modes and
 * environment variables that the code itself uses. */
#include "cli/cli.h"

#include "cli/output.h"
#include "cli/verbs.h"

#include <stdio.h>
#include <string.h>

enum { COLUMNS = 80 }; /* of the lines that are not written to a terminal */

/* A text behind its name. A terminal gets lines that are broken between words. */
static void print_item(const char *name, int width, const char *text)
{
    const int column = ns_print(stdout, *text ? "%-*s " : "%-*s", width, name);
    ns_print_words(stdout, text, column, column, ns_output_columns(stdout));
}

static void print_prose(const char *text)
{
    const int columns = ns_output_columns(stdout);
    char *line = ns_words("%s", text);
    if (columns == 0) {
        ns_print_lines(stdout, text);
        return;
    }
    for (char *end = line; (end = strchr(end, '\n'));)
        *end = ' ';
    ns_print_words(stdout, line, 0, 0, columns);
}

/* One line for each way to use the verb. */
static void print_usage(const struct ns_verb *verb)
{
    const char *before = "usage: ";
    for (const char *way = verb->usage, *end; way; way = *end ? end + 1 : NULL) {
        end = strchrnul(way, '\n');
        print_item(ns_words("%snagleshim %s", before, verb->word), 0,
                   ns_words("%.*s", (int)(end - way), way));
        before = "       ";
    }
}

static void print_main(void)
{
    ns_print(stdout, "usage: nagleshim COMMAND [OPTIONS]\n");
    print_prose("Ends the stalls of Nagle's algorithm and delayed ACKs in unmodified programs.\n");
    ns_print(stdout, "\ncommands:\n");
    for (const struct ns_verb *verb = ns_verbs; verb->word; verb++)
        print_item(ns_words("  %s", verb->word), 11, verb->summary);
    ns_print(stdout, "\nenvironment:\n");
#define NS_VARIABLE(name, text) print_item("  " #name, 23, text);
#include "cli/variables.def"
#undef NS_VARIABLE
    ns_print(stdout, "\nexit status: see nagleshim(1)\n");
}

static const char *name(const struct ns_verb_option *option)
{
    const char *letter = option->letter ? ns_words("-%c, ", option->letter) : "";
    if (option->takes == NS_TAKES_RESULT)
        return ns_words("%s--%s[=%s]", letter, option->name, option->value);
    return ns_words("%s--%s%s%s", letter, option->name, *option->value ? " " : "", option->value);
}

static void print_options(const char *verb)
{
    int width = 0;
    for (const struct ns_verb_option *option = ns_verb_options; option->name; option++) {
        int length = (int)strlen(name(option));
        if (ns_verbs_has(verb, option) && length > width)
            width = length;
    }
    ns_print(stdout, "\noptions:\n");
    for (const struct ns_verb_option *option = ns_verb_options; option->name; option++) {
        if (!ns_verbs_has(verb, option))
            continue;
        print_item(ns_words("  %s", name(option)), width + 3, option->text);
        if (option->takes < NS_TAKES_SEND)
            continue;
        /* The words that it takes, below its text; further left if they are too long. */
        const char *words = ns_words_join(option->takes, ", ");
        int left = COLUMNS - (int)strlen(words);
        print_item("", (left < width + 4 ? left : width + 4) - 1, words);
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
    ns_print(stdout, "\n");
    print_prose(verb->about);
    print_options(verb->word);
    return true;
}

void ns_help_usage(void)
{
    ns_print(stderr, "usage: nagleshim COMMAND [OPTIONS]; all commands: nagleshim help\n"
                     "  nagleshim diagnose -- PROGRAM  does it stall?\n"
                     "  nagleshim run -- PROGRAM       run it without the stalls\n"
                     "  nagleshim cure --unit NAME     end the stalls of a running service\n");
}
