/* SPDX-License-Identifier: MIT */
/* Owns `nagleshim run`: it puts the library and the policy into the environment and executes the
 * program in its own place. It must not fork, leave a descriptor open, or touch signals: the
 * program starts as it would without this command. Not async-signal-safe. */
#include "cli/child.h"
#include "cli/cli.h"

#include "cli/process/environment.h"
#include "cli/process/forewarn.h"
#include "cli/process/injection.h"
#include "cli/process/preload.h"
#include "cli/process/reach.h"
#include "cli/verbs.h"

#include "policy/find.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAY(...) ns_say("run", __VA_ARGS__)

struct run_options {
    const char *policy, *send, *ack, *log;
    unsigned max_delay_us; /* 0: not given */
    bool help;
};

static bool take_word(enum ns_words list, const char *option, const char **word)
{
    char known[128];

    if (ns_words_find(list, optarg, NULL)) {
        *word = optarg;
        return true;
    }
    SAY("%s must be %s, not '%s'", option, ns_words_join(list, known, sizeof known), optarg);
    return false;
}

static bool take_delay(unsigned *delay)
{
    unsigned long value;

    if (!ns_parse_number(optarg, NS_MAX_DELAY_US_LEAST, NS_MAX_DELAY_US_MOST, &value)) {
        SAY("--max-delay-us must be a number from %d to %d, not '%s'", NS_MAX_DELAY_US_LEAST,
            NS_MAX_DELAY_US_MOST, optarg);
        return false;
    }
    *delay = (unsigned)value;
    return true;
}

static bool take_option(int option, char **argv, struct run_options *options)
{
    switch (option) {
    case NS_RUN_POLICY:
        options->policy = optarg;
        return true;
    case NS_RUN_SEND:
        return take_word(NS_WORDS_SEND, "--send", &options->send);
    case NS_RUN_ACK:
        return take_word(NS_WORDS_ACK, "--ack", &options->ack);
    case NS_RUN_MAX_DELAY_US:
        return take_delay(&options->max_delay_us);
    case NS_RUN_LOG:
        return take_word(NS_WORDS_LOG, "--log", &options->log);
    case NS_RUN_HELP:
        options->help = true;
        return true;
    default:
        ns_say_option("run", argv, option);
        return false;
    }
}

/* Can these options be used together? */
static bool is_clear(const struct run_options *options)
{
    int send = NS_SEND_DEFAULT;

    if (options->send)
        ns_words_find(NS_WORDS_SEND, options->send, &send);
    if (options->policy && (options->send || options->ack || options->max_delay_us))
        SAY("--policy cannot be used with --send, --ack or --max-delay-us; write these into the "
            "policy file");
    else if (options->max_delay_us && !ns_send_modes[send].holds)
        SAY("--max-delay-us can only be used with --send auto-cork: no other mode holds bytes");
    else
        return true;
    return false;
}

static bool take_options(int argc, char **argv, struct run_options *options)
{
    int option;

    while ((option = ns_verbs_next_option("run", argc, argv)) != -1) {
        if (!take_option(option, argv, options))
            return false;
        if (options->help)
            return true;
    }
    if (!is_clear(options))
        return false;
    if (optind >= argc) {
        SAY("the program is missing; see 'nagleshim run --help'");
        return false;
    }
    return true;
}

static bool put_environment(const char *name, const char *value)
{
    if (value && setenv(name, value, 1) == 0)
        return true;
    SAY("cannot set %s: %s", name, strerror(ENOMEM));
    return false;
}

/* The program must not start without the policy that was named: a broken one is an error. */
static bool put_policy_file(const char *file)
{
    char path[PATH_MAX];

    return ns_injection_policy("run", file, path) && put_environment("NAGLESHIM_POLICY", path);
}

/* The policy of --send, --ack and --max-delay-us as JSON; NULL if there is no memory. The words
 * have been checked against lists, and need no escapes. */
static char *write_policy(const struct run_options *options)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    if (!stream)
        return NULL;
    fprintf(stream, "{\"version\":1,\"rules\":[{\"name\":\"" NS_POLICY_OF_RUN "\"");
    if (options->send)
        fprintf(stream, ",\"send\":\"%s\"", options->send);
    if (options->ack)
        fprintf(stream, ",\"ack\":\"%s\"", options->ack);
    if (options->max_delay_us)
        fprintf(stream, ",\"max_delay_us\":%u", options->max_delay_us);
    fputs("}]}", stream);
    return fclose(stream) == 0 ? text : NULL;
}

/* Under `nagleshim diagnose`: the library that observes is replaced by the one that cures. */
static void leave_observation(void)
{
    const char *list = getenv("LD_PRELOAD");

    if (!getenv("NAGLESHIM_RECORD") || !list || !strstr(list, NS_OBSERVER_NAME))
        return;
    unsetenv("NAGLESHIM_RECORD");
    SAY("note: the program runs with the shim, so that 'nagleshim diagnose' only sees it from "
        "outside; use 'nagleshim compare -- PROGRAM' to measure the shim's effect");
}

static bool put_policy(const struct run_options *options)
{
    char *text;
    bool ok;

    leave_observation();
    if (options->policy)
        return put_policy_file(options->policy);
    if (!options->send && !options->ack && !options->max_delay_us)
        return true;
    text = write_policy(options);
    ok = put_environment("NAGLESHIM_POLICY", text);
    free(text);
    return ok;
}

static bool put_library(void)
{
    char *list = ns_injection_preload("run");
    bool ok = list && put_environment("LD_PRELOAD", list);

    free(list);
    return ok;
}

static int report_exec_failure(const char *word, const struct ns_reach *reach, int error)
{
    if (error == ENOENT && reach->program[0] == '\0' && !strchr(word, '/'))
        SAY("cannot find '%s' in PATH", word);
    else if (error == ENOENT && reach->program[0] != '\0')
        SAY("cannot run '%s': its interpreter is missing", word);
    else
        SAY("cannot run '%s': %s", word, strerror(error));
    return error == ENOENT ? NS_EXIT_NOT_FOUND : NS_EXIT_NOT_EXECUTABLE;
}

int ns_run_main(int argc, char **argv)
{
    struct run_options options = {0};
    static struct ns_subject subject;
    char off[128];

    if (!take_options(argc, argv, &options))
        return NS_EXIT_RUN_FAILED;
    if (options.help) {
        ns_help_print("run");
        return NS_EXIT_YES;
    }
    if (!put_policy(&options) || !put_library() ||
        (options.log && !put_environment("NAGLESHIM_LOG", options.log)))
        return NS_EXIT_RUN_FAILED;
    argc -= optind;
    argv += optind;
    ns_subject_describe(&subject, argv[0], argv + 1, (unsigned)argc - 1);
    ns_forewarn_of_environment();
    if (ns_environment_off(off, sizeof off))
        SAY("warning: %s", off);
    else if (subject.reach.program[0])
        ns_forewarn_of_policy(&subject);
    ns_forewarn_of_program(&subject.reach, argc, argv);
    ns_child_restore();
    execvp(argv[0], argv);
    return report_exec_failure(argv[0], &subject.reach, errno);
}
