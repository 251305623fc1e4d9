/* SPDX-License-Identifier: MIT */
/* Owns the choice of the subcommand, and the check that its output was written. It must not know
 * the subcommands' options. */
#include "cli/child.h"
#include "cli/cli.h"
#include "cli/file.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "policy/find.h"
#include "policy/text.h"
#include "process/open.h"
#include "process/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int ns_version_main(void)
{
    ns_print(stdout, "nagleshim " NS_VERSION "\n");
    return NS_EXIT_YES;
}

static int say_unknown(const char *word)
{
    if (strcmp(word, "cdi") == 0) /* a command until version 0.2 */
        return NS_FAIL("no command 'cdi': its specification is the file " NS_DATADIR
                       "/container/cdi.json");
    for (const struct ns_verb *verb = ns_verbs; verb->word; verb++)
        if (ns_verbs_is_close(word, verb->word))
            return NS_FAIL("unknown command '%s'; did you mean %s?", word, verb->word);
    return NS_FAIL("unknown %s '%s'; see 'nagleshim help'", *word == '-' ? "option" : "command",
                   word);
}

int ns_help_main(void)
{
    const char *word = ns_operands.words[0];
    if (ns_operands.n > 1)
        return NS_FAIL("'%s': only one command may be named", ns_operands.words[1]);
    return ns_help_print(word) ? NS_EXIT_YES : say_unknown(word);
}

/* The object of --json. */
static void start_output(const char *lists)
{
    char list[32];
    ns_output_start();
    for (; sscanf(lists, "%31s", list) == 1; lists = strstr(lists, list) + strlen(list))
        ns_output_expect(list);
}

static int start(const struct ns_verb *verb)
{
    static int (*const functions[])(void) = {
#define NS_VERB(word, function, ...) function,
#include "cli/verbs.def"
#undef NS_VERB
    };
    return functions[verb - ns_verbs]();
}

static bool is_run(void)
{
    return ns_cli_verb && strcmp(ns_cli_verb, "run") == 0;
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
    else if (strcmp(word, "-V") == 0 || strcmp(word, "--version") == 0)
        word = "version";
    const struct ns_verb *verb = ns_verbs_find(word);
    if (!verb)
        return say_unknown(argv[1]);
    ns_cli_verb = verb->word;
    const char *mistake = ns_verbs_read(argc - 1, argv + 1);
    if (word == argv[1] && ns_option_text(NS_HELP)) {
        ns_help_print(word);
        return NS_EXIT_YES;
    }
    const char *json = ns_option_text(NS_JSON);
    const bool is_printed = json && strcmp(json, "-") == 0;
    /* diagnose and compare, which have no lists, write a file themselves, if they have a result. */
    const bool is_written = json && !is_printed && *verb->lists && !mistake;
    struct ns_outfile file = {.name = is_written ? json : NULL};
    int status = is_run() ? NS_EXIT_RUN_FAILED : NS_EXIT_ERROR;
    if (json)
        start_output(verb->lists);
    if (is_written)
        signal(SIGPIPE, SIG_IGN); /* a closed pipe must not end it before the file is written */
    if (mistake)
        ns_say("%s", mistake);
    else if (!ns_outfile_open(&file))
        return status;
    else
        status = start(verb);
    NS_AUTO_FREE char *text = ns_output_take(status);
    const bool is_lost = !ns_outfile_write(&file, text);
    if ((is_printed || is_lost) && text)
        ns_print_lines(stdout, ns_words("%s\n", text));
    return is_lost ? NS_EXIT_ERROR : status;
}

/* A file that is opened with the number of a closed standard descriptor would get its messages.
 * /dev/null takes the number instead, with the wrong access, so that a write still fails. */
static void keep_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

/* A name in a directory of another user may lead to a device. */
static int open_policy(const char *path)
{
    const int fd = ns_open_regular(AT_FDCWD, path);
    return fd == -EINVAL ? -ESPIPE : fd;
}

int main(int argc, char **argv)
{
    ns_text_hooks = &(cJSON_Hooks){.malloc_fn = ns_allocate_bytes, .free_fn = free};
    cJSON_InitHooks(ns_text_hooks);
    ns_policy_open = open_policy;
    keep_standard();
    ns_child_await();
    /* By lines, so that stdout and stderr keep their order if both go to one file. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    int status = dispatch(argc, argv);
    const bool was_run = is_run();
    ns_cli_verb = NULL;
    errno = 0;
    const bool is_lost = fflush(stdout) != 0 || ferror(stdout);
    if ((is_lost || ferror(stderr)) && status <= NS_EXIT_DENIED) {
        if (is_lost)
            ns_say("cannot write to standard output%s%s", errno ? ": " : "",
                   errno ? strerror(errno) : "");
        return was_run ? NS_EXIT_RUN_FAILED : NS_EXIT_ERROR;
    }
    return status;
}
