/* SPDX-License-Identifier: MIT */
/* A running process as doctor judges it: everything that was found out, as data, and nothing
 * printed. */
#ifndef NS_PROCESS_REPORT_H
#define NS_PROCESS_REPORT_H

#include "cli/process/elf.h"
#include "cli/doctor/findings.h"
#include "cli/process/loaded.h"
#include "cli/process/proc.h"

#include "report/stats.h"
#include "policy/policy.h"

enum ns_process_report_state {
    NS_PROCESS_REPORT_NONE,       /* there is no such process */
    NS_PROCESS_REPORT_HIDDEN,     /* /proc does not show it to this user */
    NS_PROCESS_REPORT_ENDED,      /* while it was looked at */
    NS_PROCESS_REPORT_ZOMBIE,     /* it has ended, and waits for its parent */
    NS_PROCESS_REPORT_KERNEL,     /* a thread of the kernel */
    NS_PROCESS_REPORT_DENIED,     /* this user may not look into it */
    NS_PROCESS_REPORT_FAILED,     /* error says why it could not be looked into */
    NS_PROCESS_REPORT_STARTING,   /* it has not come to its main */
    NS_PROCESS_REPORT_UNREADABLE, /* the shim is in it, and loaded says why no more can be told */
    NS_PROCESS_REPORT_JUDGED,     /* the findings have a reason, or the shim works */
};

/* A rule that is for this process. */
struct ns_process_report_rule {
    unsigned number; /* from 1 */
    char name[128];  /* tame; "" if it has none */
    enum ns_send send;
    enum ns_ack ack;
    uint32_t sockets; /* that it has taken */
};

/* A file that the process would try for its policy if it were started now. */
struct ns_process_report_tried {
    char *path; /* tame */
    int error;
};

struct ns_process_report {
    enum ns_process_report_state state;
    int error;
    struct ns_proc proc;
    struct ns_loaded loaded;
    bool has_elf;      /* its program's file could be read */
    struct ns_elf elf; /* all 0 if not */
    struct ns_findings findings;
    bool has_sockets; /* sockets could be counted */
    unsigned sockets; /* TCP, connected or listening */
    /* where the shim is in it and could be read */
    bool has_policy;
    char policy[PATH_MAX]; /* the file it took; see enum ns_policy_origin for the others */
    struct ns_process_report_tried *tried;
    unsigned n_tried;
    struct ns_process_report_rule *rules;
    unsigned n_rules;
    bool has_stats;
    struct ns_stats stats;
};

/* Look at a process, by its number or that of one of its threads, and judge it. One that has just
 * been started is waited for, for so long at most. To be given to ns_process_report_end whatever
 * comes.
 */
void ns_process_report_examine(struct ns_process_report *patient, pid_t pid, int patience_ms,
                               struct ns_sockets *sockets);
void ns_process_report_end(struct ns_process_report *patient);

/* Does the LD_PRELOAD that it was started with name the shim? */
bool ns_process_report_wants_shim(const struct ns_process_report *patient);

/* Why the shim is not in its memory: adds at least one reason. */
void ns_process_report_judge_absent(struct ns_process_report *patient);

/* Which policy it would get if it were started now: every file tried, and warnings of what differs
 * from the policy that it took. */
void ns_process_report_judge_policy(struct ns_process_report *patient);

#endif
