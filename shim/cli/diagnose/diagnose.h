/* SPDX-License-Identifier: MIT */
/* What the files of `nagleshim diagnose` share: the rows of a diagnosis, how they are filled, and
 * the forms in which they are printed. `nagleshim top` has such rows of each interval. */
#ifndef NS_DIAGNOSE_H
#define NS_DIAGNOSE_H

#include "cli/output.h"
#include "judge/judge.h"
#include "policy/match.h"
#include "process/facts.h"
#include "watch/watched.h"

#include <cJSON.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

/* --- rows.c: a row is all connections of a process with the same role and service, so that a
 * client that opens a connection for each request is one row. */

enum ns_source { NS_SOURCE_OUTSIDE, NS_SOURCE_INSIDE };

enum { NS_DONE_SOCKETS, NS_DONE_PUSHES, NS_DONE_ACKS, NS_DONE };

/* A counter that only grows: its value when the process was first seen, and the growth since. */
struct ns_counted {
    uint64_t before, since;
};

struct ns_row_process {
    pid_t pid;
    uint64_t started; /* see struct ns_watched; 0: unknown */
    char name[64];    /* see ns_proc_name */
    char exe[PATH_MAX];
    char words[2048]; /* its arguments, each with a zero byte; "": unknown, or too long */
    size_t words_size;
    struct ns_origin origin;
    enum ns_shim shim;        /* of STUCK nothing else is known, and of UNKNOWN nothing is said */
    bool is_reachable;        /* by a preload */
    const char *unreachable;  /* why not, as doctor says it; NULL if it is, or unknown */
    bool has_ring;            /* an io_uring, by which it may read */
    struct ns_trial trial;    /* of --experiment */
    struct ns_counted queued; /* for a CPU, in ns */
    struct ns_counted stolen; /* by a hypervisor, in ns, of each CPU of the machine */
    bool has_other_number;    /* it is in another pid namespace, with a pid of its own there */
    struct { /* its other connections to servers: the longest waits on one of them */
        struct ns_address at; /* unknown: it has none */
        uint64_t n, ns;
    } behind;
    /* Of top: */
    uint64_t looked;        /* when it was examined; CLOCK_MONOTONIC ns; 0: not yet */
    uint64_t done[NS_DONE]; /* by the library until then, if has_done */
    bool has_done, has_row;
};

/* What one end can do, and how long a stalled request takes without and with it. */
struct ns_cure {
    const struct ns_row *at; /* the row of that end; NULL: it was not watched */
    const char *does;        /* "send adaptive", "ack before-wait", or both */
    double from_ms, to_ms;
    bool measured; /* by an experiment; otherwise estimated */
};

/* The connections of a row, or one of them, which is to be added to its row. */
struct ns_row {
    struct ns_row_process *process; /* of this diagnosis */
    enum ns_source source;
    enum ns_role role;
    bool is_peer;                    /* it is the other end of a connection of a watched process */
    bool is_mptcp;                   /* seen from outside */
    struct ns_address local, remote; /* of the connection that lost most */
    unsigned connections;            /* in one that is to be added, 0 counts as 1 */
    struct ns_verdict verdict;
    const char *pattern; /* "write 281, write 480, wait"; NULL: unknown */
    /* Set when it is made: */
    unsigned id;               /* its index in the diagnosis; ns_diagnosis_finish sorts them */
    struct ns_address service; /* a server's local end; otherwise the remote end; port 0: several
                                * ports */
    uint64_t worst_ns;         /* what the connection that lost most has lost */
    bool is_needless, waits_behind; /* waits_behind: it was asked */
    /* Set by ns_diagnosis_finish: */
    const struct ns_trial *trial; /* the experiment with these connections, or NULL */
    bool is_cured;                /* it proves the cure */
    struct ns_conclusion conclusion;
    struct ns_row *other;              /* the row of the other end, or NULL */
    const struct ns_row_process *peer; /* the process there, even if it needs no row; or NULL */
    bool is_repeated;                  /* it stalls, and so does its other end, an earlier row */
    bool misses;                       /* some requests may not have been seen */
    bool counts;                       /* its loss is not that of an earlier row */
    bool is_held;                      /* the other end stalls and holds what this one waits for */
    bool both_hold;          /* both ends stall: each holds what the other one waits for */
    double own_ms;           /* the part of the loss that this end's holds, or its ACKs, cost */
    struct ns_cure cures[2]; /* of this end, that of a watched process, first */
    unsigned n_cures;
    /* Of top, in the current interval: */
    unsigned ended;        /* of the connections */
    unsigned busy;         /* those with recent traffic */
    uint64_t behind_ns;    /* behind holds of the other end */
    struct ns_row *holder; /* the row of that end, on this host; NULL: none */
    /* In the last one; then other is the holder. lost_rate counts its holds, too. */
    double holds_rate; /* holds per second */
    double lost_rate;  /* lost ms per second, at either end */
    double share;      /* lost time as a part of the time of busy connections */
};

struct ns_row_hold {
    struct ns_row *row;
    struct ns_hold hold;
};

enum {
    NS_DIAGNOSIS_ROWS_MOST = 4096,
    NS_DIAGNOSIS_HOLDS_MOST = 4096,
    NS_DIAGNOSIS_PROCESSES_MOST = 4096,
};

struct ns_diagnosis {
    uint64_t begin, end; /* CLOCK_MONOTONIC ns */
    double began;        /* CLOCK_REALTIME, seconds */
    uint64_t looks, missed, forgotten, denied;
    uint64_t idle; /* connections without traffic, which have no row */
    struct ns_row **rows;
    size_t n_rows;
    struct ns_row_process **processes;
    size_t n_processes;
    struct ns_row_hold *holds; /* the first NS_DIAGNOSIS_HOLDS_MOST */
    size_t n_holds;
    uint64_t holds_untold; /* further ones */
    unsigned n_stuck;      /* processes that kept this command waiting; stuck: the last of them */
    pid_t stuck;
    const char *notes[12]; /* other facts, a sentence each; others must not choose how many */
    unsigned n_notes;
    bool interrupted; /* a signal has ended the watching */
    /* Set by ns_diagnosis_finish: */
    enum ns_grade grade; /* the worst of the rows */
    double lost_ms;      /* by all rows; counted once if both ends were watched */
};

/* The process with this pid and start; added with all other fields zero if it is not there. A user
 * may start ever more of them: further ones than NS_DIAGNOSIS_PROCESSES_MOST are one, with pid 0.
 */
struct ns_row_process *ns_diagnosis_process(struct ns_diagnosis *diagnosis, pid_t pid,
                                            uint64_t started);

/* Always adds one: after execve, a process is another program. */
struct ns_row_process *ns_diagnosis_new_process(struct ns_diagnosis *diagnosis, pid_t pid);

/* The process of a connection, with the name that the connection knows until it is examined. */
struct ns_row_process *ns_diagnosis_process_of(struct ns_diagnosis *diagnosis,
                                               const struct ns_watched *watched);

/* Ask for the facts of a process, and take its name and the state of the library from them. -errno
 * as ns_facts_ask; -ESRCH: also if its pid is another process's. What was known of a process that
 * has ended stays. */
int ns_row_process_look(struct ns_row_process *process, enum ns_facts_depth depth,
                        struct ns_facts *facts);

/* A connection that was seen from outside, without a verdict. */
struct ns_row ns_row_of(struct ns_row_process *process, const struct ns_watched *watched);

/* The row of such a connection, which is made without counts if necessary. NULL: there are too many
 * rows, which are compared with each other. */
struct ns_row *ns_diagnosis_row(struct ns_diagnosis *diagnosis, const struct ns_row *connection);

/* Add a connection with its final verdict: to its row, if there is one, or to this one. */
void ns_row_add(struct ns_row *row, const struct ns_row *connection);
void ns_diagnosis_add(struct ns_diagnosis *diagnosis, const struct ns_row *connection);

/* Read the records of observed processes (judge/record.h) in an open directory, and add them. The
 * processes may still be writing. Another process wrote the records, so that everything in them is
 * checked. Returns how many files are not a record of this version. */
size_t ns_recorded_read(int directory, struct ns_diagnosis *diagnosis);

/* Note a connection of a process to a server, behind which the peers of the process may wait. */
void ns_diagnosis_behind(struct ns_row_process *process, const struct ns_verdict *verdict,
                         const struct ns_address *at);

/* Add a hold to the row. If there are too many, it is only counted. */
void ns_diagnosis_add_hold(struct ns_diagnosis *diagnosis, struct ns_row *row,
                           const struct ns_hold *hold);

/* Remove the rows that are needless, with their holds. Call it before ns_diagnosis_finish. */
void ns_diagnosis_drop_needless(struct ns_diagnosis *diagnosis);

/* Add a text that stays. Further ones than fit are left out. */
void ns_diagnosis_note(struct ns_diagnosis *diagnosis, const char *text);
#define NS_NOTE(diagnosis, ...) ns_diagnosis_note(diagnosis, ns_words(__VA_ARGS__))

/* The grade of a row in words: that of its verdict, or "held by the peer". */
const char *ns_row_grade(const struct ns_row *row);

/* Apply the experiments, sort rows (worst first) and holds (by time), and draw the conclusions. */
void ns_diagnosis_finish(struct ns_diagnosis *diagnosis);

void ns_diagnosis_release(struct ns_diagnosis *diagnosis);

/* --- watch.c and observe.c: the views from outside and from inside --- */

struct ns_child;

/* Watch until the program ends or the time of --for is over, and fill diagnosis. child: the program
 * of ns_operands; NULL: watch the processes of ns_option_pids, or every one. If nothing could be
 * watched, returns an exit status after a message; otherwise 0. */
int ns_diagnose_watch(struct ns_child *child, struct ns_diagnosis *diagnosis);

/* Prepare to observe the program from inside, by this environment, for struct ns_child_options.
 * NULL: only watching from outside is possible, and the diagnosis has a note why. */
char *const *ns_observe_begin(struct ns_diagnosis *diagnosis);

/* Add what the records say, and remove them. They replace rows from outside about the same
 * connections. */
void ns_observe_collect(struct ns_diagnosis *diagnosis);

/* --- sentences.c: the sentences that the text and the JSON share; the page shows those of the
 * JSON. Call them after ns_diagnosis_finish. The results are those of ns_words (cli/output.h). */

/* "127.0.0.1:80", "[::1]:80", or "?" if it is unknown. */
const char *ns_words_address(const struct ns_address *address);

/* "python3[17]"; apart_from, which may be NULL: "python3", unless that has the same name. */
const char *ns_words_process(const struct ns_row_process *process);
const char *ns_words_process_apart(const struct ns_row_process *process,
                                   const struct ns_row_process *apart_from);

/* The verdict on everything that was watched. */
const char *ns_diagnosis_headline(const struct ns_diagnosis *diagnosis);

/* The reason for the grade. */
const char *ns_diagnosis_proof(const struct ns_row *row);

/* "61 requests, 59 stalled for 40.1 to 44.9 ms; 2 665 ms lost", of a row that stalls. */
const char *ns_diagnosis_cost(const struct ns_row *row);

/* What the experiment in a process has shown. */
const char *ns_diagnosis_experiment(const struct ns_row_process *process);

/* Before a loss: "", "at least ", "at most " ... */
const char *ns_words_bound(const struct ns_row *row);

/* Beside certain stalls, requests that were held and then took longer than the release explains:
 * "20 requests took 145 ms each: up to 45 ms held, the rest the peer". NULL: there are none. */
const char *ns_diagnosis_mixed(const struct ns_row *row);

/* "the peer took long to answer, 3 times, 20.1 ms each" */
const char *ns_diagnosis_delay(const struct ns_row *row, enum ns_delay delay);

/* Does the peer seem to have waited for something behind it? */
bool ns_row_waits_behind(const struct ns_row *row);

/* "; " and the longest delay of n rows, or "" if that took less than 1 ms. of_all: said of all. */
const char *ns_words_longest_delay(struct ns_row *const *rows, size_t n, bool of_all);

/* Of a row that is held by the peer: "; this end may have held bytes, too: 3 times, 40.1 ms each",
 * or "". */
const char *ns_words_own_holds(const struct ns_row *row);

/* "peer", for machines. */
const char *ns_delay_name(enum ns_delay delay);

/* --- text.c, json.c and policy.c ------------------------------------------------------------- */

struct ns_report {
    const struct ns_diagnosis *diagnosis;
    const char *command;     /* this command, as it was typed */
    char *const *program;    /* the program that was started, or NULL */
    bool outside;            /* it was only watched from outside, as the user asked */
    pid_t pid;               /* the process that was watched; 0: every one; -1: several */
    const char *subject;     /* a command line, "process 17", or "every process" */
    cJSON *policy;           /* NULL: none is needed */
    const char *policy_file; /* where it was written; NULL: nowhere */
    const char *next;        /* what to do next; NULL: nothing */
    const char *now;         /* the same without a restart */
};

/* The text, on standard error and wrapped at width columns; 0: not a terminal, and the headline
 * stays on one line. */
void ns_report_print(const struct ns_report *report, int width);

/* Add what all JSON has of a row to an object. Returns the object of its process. */
cJSON *ns_row_fill_json(const struct ns_row *row, cJSON *object);

/* Add the members that config/output.schema.json describes to the object of --json. */
void ns_report_fill_json(const struct ns_report *report);

/* config/diagnosis.html with this JSON text inserted, allocated. '<' becomes an escape sequence of
 * JSON, since a process may be named "</script>". */
char *ns_report_page(const char *json);

/* A policy with a rule for each stalling row: its process, role and port. If no preload can reach
 * that process, the rule is for the other end of its connections. NULL if there is nothing to
 * cure. */
cJSON *ns_diagnosis_policy(const struct ns_diagnosis *diagnosis);

/* A cure: what it does, what it gains, and whether it is possible. */
const char *ns_diagnosis_cure(const struct ns_row *row, unsigned number);

/* The command that applies a cure of a row at its end; NULL: no preload reaches that. */
const char *ns_report_command(const struct ns_report *report, const struct ns_row *row,
                              unsigned number);

/* Set subject, next, which is a command if there is one, and now. */
void ns_report_advise(struct ns_report *report);

#endif
