/* SPDX-License-Identifier: MIT */
/* Owns the help texts, and nothing else. What the code has as a list (modes, environment variables)
 * is printed from that list. Tests hold the man pages against what this prints. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static void print_words(const char *title, enum ns_words list)
{
    struct ns_word word;

    printf("\n%s:\n", title);
    for (unsigned i = 0; (word = ns_words_at(list, i)).name; i++)
        printf("  %-18s %s\n", word.name, word.summary);
}

static void print_policy_keys(void)
{
    printf("\npolicy keys (nagleshim-policy(5)):\n  of the policy ");
#define NS_POLICY_KEY(name, read) printf(" %s", name);
#include "policy/keys.def"
#undef NS_POLICY_KEY
    printf("\n  of a rule     ");
#define NS_RULE_KEY(name, read) printf(" %s", name);
#include "policy/keys.def"
#undef NS_RULE_KEY
    printf("\n  of match      ");
#define NS_MATCH_KEY(name, read) printf(" %s", name);
#include "policy/keys.def"
#undef NS_MATCH_KEY
    putchar('\n');
}

static void print_main(void)
{
    printf("usage: nagleshim COMMAND [OPTIONS]\n"
           "\n"
           "Cures the stalls that Nagle's algorithm and delayed ACKs cause together, in programs\n"
           "that stay as they are.\n"
           "\n"
           "commands:\n"
           "  run       run a program with the shim\n"
           "  check     validate policy files\n"
           "  explain   say what a policy does to a socket, and why\n"
           "  doctor    say whether the shim reaches a program or a process, and if not, why\n"
           "  version   print the version\n"
           "  help      print this text, or a command's: nagleshim help run\n"
           "\n"
           "environment:\n");
#define NS_VARIABLE(name, text) printf("  %-22s %s\n", #name, text);
#include "cli/variables.def"
#undef NS_VARIABLE
    print_policy_keys();
    printf("\n"
           "exit status: 0 yes, 1 no, 2 wrong usage or something unreadable, 3 permission denied\n"
           "(doctor); see 'nagleshim run --help' for those of run.\n");
}

static void print_run(void)
{
    printf(
        "usage: nagleshim run [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"
        "\n"
        "Runs PROGRAM, in place, with the shim preloaded. Options end at the first word that is\n"
        "none, or at --.\n"
        "\n"
        "options:\n"
        "  -p FILE            the policy; not together with the next three\n"
        "  --send MODE        what becomes of what the program writes, on every TCP socket\n"
        "  --ack MODE         what becomes of what it reads\n"
        "  --max-delay-us N   how long auto-cork may hold bytes, 50 to 100000; default 200\n"
        "  --log LEVEL        what the shim says on stderr\n"
        "  --help             print this text\n");
    print_words("modes of --send", NS_WORDS_SEND);
    print_words("modes of --ack", NS_WORDS_ACK);
    print_words("levels of --log", NS_WORDS_LOG);
    printf("\n"
           "exit status:\n"
           "  125    nagleshim itself failed: wrong usage, a broken policy, no library\n"
           "  126    PROGRAM was found and cannot be executed\n"
           "  127    PROGRAM was not found\n"
           "  other  PROGRAM's own\n");
}

static void print_check(void)
{
    printf("usage: nagleshim check [FILE...]\n"
           "\n"
           "Validates policy files. FILE may be -, standard input. Without FILE: the policy that\n"
           "a program would get here that has no policy file of its own.\n"
           "\n"
           "options:\n"
           "  --help  print this text\n"
           "\n"
           "exit status (the highest, of several files):\n"
           "  0  valid, perhaps with warnings\n"
           "  1  invalid\n"
           "  2  wrong usage, or a file that cannot be read\n");
}

static void print_explain(void)
{
    printf("usage: nagleshim explain [-p FILE] --process EXE [--arg ARG]... [--role ROLE]\n"
           "                         [--local ADDR:PORT] [--remote ADDR:PORT]\n"
           "\n"
           "Says which policy and which rule a socket gets, why the rules before it do not match,\n"
           "and what will be done. An IPv6 address is written in brackets: [::1]:80.\n"
           "\n"
           "options:\n"
           "  -p FILE             the policy; otherwise searched for as the program would\n"
           "  --process EXE       the program: a path, or a name to look for in PATH\n"
           "  --arg ARG           an argument of the program; may be repeated\n"
           "  --role ROLE         the socket's role; if absent, only rules without a role match\n"
           "  --local ADDR:PORT   the socket's own address\n"
           "  --remote ADDR:PORT  its peer's address\n"
           "  --help              print this text\n");
    print_words("roles", NS_WORDS_ROLE);
    printf("\n"
           "exit status:\n"
           "  0  a rule applies\n"
           "  1  none does: the socket is left alone\n"
           "  2  wrong usage, or a policy that is broken or cannot be read\n");
}

static void print_doctor(void)
{
    printf("usage: nagleshim doctor [--] PROGRAM [ARGUMENTS]\n"
           "       nagleshim doctor --pid N\n"
           "\n"
           "Says whether the shim reaches PROGRAM, which is not run, or works in process N, which\n"
           "is not disturbed; and if not, why. The last line is the verdict.\n"
           "\n"
           "options:\n"
           "  --pid N  a process that runs; its own user and root may look into it\n"
           "  --help   print this text\n"
           "\n"
           "exit status:\n"
           "  0  the shim reaches the program, or works in the process\n"
           "  1  it does not, or it stands aside there: a line 'reason:' says why\n"
           "  2  wrong usage, no such program or process, or nothing that can be understood\n"
           "  3  permission denied\n");
}

static void print_version(void)
{
    printf("usage: nagleshim version\n"
           "\n"
           "Prints the version.\n"
           "\n"
           "options:\n"
           "  --help  print this text\n");
}

static void print_help(void)
{
    printf("usage: nagleshim help [COMMAND]\n"
           "\n"
           "Prints what nagleshim does, or what COMMAND does.\n"
           "\n"
           "options:\n"
           "  --help  print this text\n");
}

bool ns_help_print(const char *command)
{
    static const struct {
        const char *command;
        void (*print)(void);
    } texts[] = {
        {"run", print_run},       {"check", print_check},     {"explain", print_explain},
        {"doctor", print_doctor}, {"version", print_version}, {"help", print_help},
    };

    if (!command) {
        print_main();
        return true;
    }
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (strcmp(command, texts[i].command) == 0) {
            texts[i].print();
            return true;
        }
    }
    return false;
}

void ns_help_usage(void)
{
    fputs("usage: nagleshim run [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"
          "       nagleshim check [FILE...]\n"
          "       nagleshim explain [OPTIONS] --process EXE\n"
          "       nagleshim doctor PROGRAM [ARGUMENTS] | --pid N\n"
          "       nagleshim version | help [COMMAND]\n",
          stderr);
}
