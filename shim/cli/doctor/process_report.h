/* SPDX-License-Identifier: MIT */
/* A running process as doctor judges it: all that was found, as data. Nothing is printed. */
#ifndef NS_PROCESS_REPORT_H
#define NS_PROCESS_REPORT_H

#include "cli/doctor/findings.h"
#include "cli/process/elf.h"
#include "cli/process/loaded.h"
#include "cli/process/proc.h"

#include "report/stats.h"
#include "policy/policy.h"

enum ns_process_report_state {
    NS_PROCESS_REPORT_NONE,       /* there is no such process */
    NS_PROCESS_REPORT_HIDDEN,     /* /proc does not show it to this user */
    NS_PROCESS_REPORT_ENDED,      /* it ended during the examination */
    NS_PROCESS_REPORT_ZOMBIE,     /* it has ended, and its parent has not waited for it */
    NS_PROCESS_REPORT_KERNEL,     /* a kernel thread */
    NS_PROCESS_REPORT_DENIED,     /* this user may not read it */
    NS_PROCESS_REPORT_FAILED,     /* it could not be read; see error */
    NS_PROCESS_REPORT_STARTING,   /* the library's start-up has not ended */
    NS_PROCESS_REPORT_UNREADABLE, /* the library is there; findings say why its status is unknown */
    NS_PROCESS_REPORT_JUDGED,     /* the shim works, or the findings have a reason */
};

/* A rule that applies to this process. */
struct ns_process_report_rule {
    unsigned number; /* from 1 */
    char name[128];  /* sanitized; "" if it has none */
    enum ns_send send;
    enum ns_ack ack;
    uint32_t sockets; /* that got this rule */
};

struct ns_process_report {
    enum ns_process_report_state state;
    int error;
    struct ns_proc proc;
    struct ns_loaded loaded;
    bool has_elf;      /* the program's file could be read */
    struct ns_elf elf; /* all 0 if not */
    struct ns_findings findings;
    bool has_sockets; /* sockets could be counted */
    unsigned sockets; /* TCP, connected or listening */
    /* if the shim is loaded and its status could be read */
    bool has_policy;
    char policy[PATH_MAX]; /* the policy's file, sanitized; other origins: see ns_policy_origin */
    struct ns_process_report_rule *rules;
    unsigned n_rules;
    bool has_stats;
    struct ns_stats stats;
};

/* Examine a process, by its number or that of one of its threads. With wait, a process that lacks
 * the library is examined again and again until it is a second old; without, this does not block.
 * Call ns_process_report_end whatever the state is. */
void ns_process_report_examine(struct ns_process_report *report, pid_t pid, bool wait,
                               struct ns_sockets *sockets);
void ns_process_report_end(struct ns_process_report *report);

/* Find out why the library is not in its memory: adds at least one reason. */
void ns_process_report_judge_absent(struct ns_process_report *report);

#endif
