/* SPDX-License-Identifier: MIT */
/* Owns the choice of the subcommand, and the check that stdout was written. It must not know the
 * subcommands' options. */
#include "cli/child.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int ns_version_main(int argc, char **argv)
{
    const struct ns_target none = {0};
    if (!ns_verbs_read(argc, argv, &none))
        return NS_EXIT_ERROR;
    puts("nagleshim " NS_VERSION);
    return NS_EXIT_YES;
}

static int say_unknown(const char *word)
{
    const char *meant = ns_verbs_close(word);
    if (meant)
        return NS_FAIL("unknown command '%s'; did you mean %s?", word, meant);
    return NS_FAIL("unknown %s '%s'; see 'nagleshim help'", *word == '-' ? "option" : "command",
                   word);
}

int ns_help_main(int argc, char **argv)
{
    if (argc > 2)
        return NS_FAIL("'%s': only one command may be named", argv[2]);
    return ns_help_print(argc > 1 ? argv[1] : NULL) ? NS_EXIT_YES : say_unknown(argv[1]);
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        ns_help_usage();
        return NS_EXIT_ERROR;
    }
    const char *word = argv[1];
    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0)
        word = "help";
    else if (strcmp(word, "--version") == 0)
        word = "version";
    const struct ns_verb *verb = ns_verbs_find(word);
    if (!verb)
        return say_unknown(argv[1]);
    ns_cli_verb = verb->word;
    if (word == argv[1] && ns_verbs_value("help", argc - 1, argv + 1)) {
        ns_help_print(word);
        return NS_EXIT_YES;
    }
    /* The file to write to; "" if the option takes no value. */
    const char *json = ns_verbs_value("json", argc - 1, argv + 1);
    if (json)
        ns_output_start(*json == '\0' || strcmp(json, "-") == 0);
    return ns_output_end(verb->main(argc - 1, argv + 1));
}

/* A file that is opened with the number of a closed standard descriptor would get its messages.
 * /dev/null takes the number instead, with the wrong access, so that a write still fails. */
static void keep_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

int main(int argc, char **argv)
{
    keep_standard();
    ns_child_await();
    /* By lines, so that stdout and stderr keep their order if both go to one file. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    int status = dispatch(argc, argv);
    bool is_run = ns_cli_verb && strcmp(ns_cli_verb, "run") == 0;
    ns_cli_verb = NULL;
    errno = 0;
    if ((fflush(stdout) != 0 || ferror(stdout)) && status <= NS_EXIT_DENIED) {
        ns_say("cannot write to standard output%s%s", errno ? ": " : "",
               errno ? strerror(errno) : "");
        return is_run ? NS_EXIT_RUN_FAILED : NS_EXIT_ERROR;
    }
    return status;
}
