/* SPDX-License-Identifier: MIT */
/* What the files of the nagleshim command share: its subcommands, their exit statuses and messages.
 * Nothing of this folder is linked into the library, and nothing of it is async-signal-safe. */
#ifndef NS_CLI_H
#define NS_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    NS_EXIT_YES = 0,
    NS_EXIT_NO = 1,     /* check: invalid; explain: no rule applies; doctor: no effect */
    NS_EXIT_ERROR = 2,  /* wrong usage, or something that could not be read or written */
    NS_EXIT_DENIED = 3, /* permission denied */
    /* run, with the numbers of env(1): a status below 125 is the program's own */
    NS_EXIT_RUN_FAILED = 125,
    NS_EXIT_NOT_EXECUTABLE = 126,
    NS_EXIT_NOT_FOUND = 127,
    NS_EXIT_INTERRUPTED = 130, /* compare: by ^C, as a shell has it */
};

/* Each returns the exit status; ns_run_main only on failure. */
#define NS_VERB(word, function, ...) int function(void);
#include "cli/verbs.def"
#undef NS_VERB

/* Print the help of a subcommand, or of the whole command if command is NULL, on stdout. Returns
 * false if there is no such subcommand. */
bool ns_help_print(const char *command);
void ns_help_usage(void); /* the short form, on stderr */

/* The verb that runs; NULL before main has chosen it, and after it has ended. */
extern const char *ns_cli_verb;

/* One line on stderr: "nagleshim VERB: text", or "nagleshim: text" without a verb. With --json it
 * also becomes one of the object's "messages". */
__attribute__((format(printf, 1, 2))) void ns_say(const char *format, ...);

/* The same, as the result of a function that fails: false, or an exit status. */
#define NS_REFUSE(...) (ns_say(__VA_ARGS__), false)
#define NS_FAIL(...) (ns_say(__VA_ARGS__), NS_EXIT_ERROR)

/* The processes of --pid, --unit, --cgroup and --port, and a 0. Returns NS_EXIT_YES, or an exit
 * status after a message. */
int ns_select(const pid_t **pids);

/* Warn on stderr if the library will do nothing in this program: it cannot be loaded, or the
 * policy, NAGLESHIM_POLICY's if it is NULL, has no rule for the program. */
struct ns_subject;
void ns_run_forewarn(const struct ns_subject *subject, const char *policy);

/* Print why this process (0: every one) cannot be examined or watched. Returns the exit status. */
int ns_process_say_error(pid_t pid, int error);

/* How many processes could not be examined, which was the last of them, and what it needs. */
const char *ns_watch_refused(uint64_t n, pid_t last, int error);

/* What the caller needs to examine the processes of others, after this -errno. */
const char *ns_process_denied(int error);

struct ns_groups;
struct ns_unseen;

/* ns_groups_find with a word. Returns NS_EXIT_YES, or an exit status after a message. */
int ns_groups_choose(struct ns_groups *groups, const char *word, bool is_unit);

/* Print which processes of control groups could not be examined, and why. Was there one? */
bool ns_unseen_say(const struct ns_unseen *unseen);

/* Find and print the control groups that are cured. 0, or -errno after a message: some are not
 * known. */
int ns_cure_list_groups(struct ns_groups *groups);

#endif
