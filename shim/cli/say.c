/* SPDX-License-Identifier: MIT */
/* Owns how the command speaks on stderr: one line, which begins with the command's name. It must
 * never exit: the caller decides what a failure means. Not async-signal-safe. */
#include "cli/cli.h"

#include "cli/output.h"
#include "cli/process/proc.h"
#include "cli/verbs.h"

#include "policy/suggest.h"

#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void ns_say(const char *command, const char *format, ...)
{
    char text[2 * PATH_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    /* Of words and names that others have chosen, no part is to drive a terminal or to begin a
     * line. */
    ns_proc_tame(text);
    if (command)
        fprintf(stderr, "nagleshim %s: %s\n", command, text);
    else
        fprintf(stderr, "nagleshim: %s\n", text);
    ns_output_list("messages", text);
}

static void say_unknown(const char *command, const char *option)
{
    char name[64];
    const struct ns_verb_option *row;
    struct ns_suggest near = {0};

    /* "--sned=app" */
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(option, "="), option);
    near.word = name + strspn(name, "-");
    for (size_t i = 0; option[1] == '-' && (row = ns_verbs_option_at(i)); i++)
        if (strcmp(row->verb, command) == 0)
            ns_suggest_try(&near, row->name);
    if (near.known)
        ns_say(command, "unknown option '%s'; is '--%s' meant? see 'nagleshim %s --help'", option,
               near.known, command);
    else
        ns_say(command, "unknown option '%s'; see 'nagleshim %s --help'", option, command);
}

void ns_say_option(const char *command, char *const *argv, int result)
{
    char letter[] = {'-', (char)optopt, '\0'};
    /* Every long option's value is past the letters; getopt has stepped over its word by now. */
    bool is_letter = optopt > 0 && optopt < NS_OPTION_BASE;
    const char *option = is_letter ? letter : argv[optind - 1];

    if (result == ':')
        ns_say(command, "%s needs a value; see 'nagleshim %s --help'", option, command);
    else if (optopt >= NS_OPTION_BASE)
        ns_say(command, "%s: this option takes no value", option);
    else
        say_unknown(command, option);
}
