/* SPDX-License-Identifier: MIT */
/* Owns the choice of the subcommand and the last look at stdout. The subcommands do the work; this
 * file must not know their options. */
#include "cli/cli.h"

#include "cli/output.h"
#include "cli/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int ns_version_main(int argc, char **argv)
{
    if (argc > 1) {
        ns_say("version", "'%s': nothing may follow; see 'nagleshim help'", argv[1]);
        return NS_EXIT_ERROR;
    }
    puts("nagleshim " NS_VERSION);
    return NS_EXIT_YES;
}

int ns_help_main(int argc, char **argv)
{
    if (argc > 2) {
        ns_say("help", "'%s': only one command may be named", argv[2]);
        return NS_EXIT_ERROR;
    }
    if (!ns_help_print(argc > 1 ? argv[1] : NULL)) {
        ns_say("help", "unknown command '%s'; see 'nagleshim help'", argv[1]);
        return NS_EXIT_ERROR;
    }
    return NS_EXIT_YES;
}

static int dispatch(int argc, char **argv)
{
    /* --version and --help are the words without the dashes. */
    bool is_option =
        argc > 1 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "--help") == 0);
    const struct ns_verb *verb = argc > 1 ? ns_verbs_find(argv[1] + (is_option ? 2 : 0)) : NULL;

    if (argc < 2) {
        ns_help_usage();
        return NS_EXIT_ERROR;
    }
    if (!verb) {
        ns_say(NULL, "unknown %s '%s'; see 'nagleshim help'",
               *argv[1] == '-' ? "option" : "command", argv[1]);
        return NS_EXIT_ERROR;
    }
    /* One place for it: --help first must work before the subcommand asks for anything else. */
    if (argc == 3 && !is_option && strcmp(argv[2], "--help") == 0 && ns_help_print(argv[1]))
        return NS_EXIT_YES;
    if (ns_verbs_have(verb->word, "json", argc - 1, argv + 1) &&
        !ns_verbs_have(verb->word, "help", argc - 1, argv + 1))
        ns_output_start(verb->word);
    return ns_output_end(verb->main(argc - 1, argv + 1));
}

int main(int argc, char **argv)
{
    int status;

    /* By lines, so that stdout and stderr keep their order where both go to one file. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    status = dispatch(argc, argv);

    errno = 0;
    if ((fflush(stdout) != 0 || ferror(stdout)) && status <= NS_EXIT_DENIED) {
        bool is_run = argc > 1 && strcmp(argv[1], "run") == 0;

        ns_say(NULL, "cannot write to standard output%s%s", errno ? ": " : "",
               errno ? strerror(errno) : "");
        return is_run ? NS_EXIT_RUN_FAILED : NS_EXIT_ERROR;
    }
    return status;
}
