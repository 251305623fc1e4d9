/* SPDX-License-Identifier: MIT */
/* A running process as doctor judges it: everything that was found out, as data, and nothing
 * printed. */
#ifndef NS_PATIENT_H
#define NS_PATIENT_H

#include "cli/elf.h"
#include "cli/findings.h"
#include "cli/loaded.h"
#include "cli/proc.h"

#include "base/stats.h"
#include "policy/policy.h"

enum ns_patient_state {
    NS_PATIENT_NONE,       /* there is no such process */
    NS_PATIENT_HIDDEN,     /* /proc does not show it to this user */
    NS_PATIENT_ENDED,      /* while it was looked at */
    NS_PATIENT_ZOMBIE,     /* it has ended, and waits for its parent */
    NS_PATIENT_KERNEL,     /* a thread of the kernel */
    NS_PATIENT_DENIED,     /* this user may not look into it */
    NS_PATIENT_FAILED,     /* error says why it could not be looked into */
    NS_PATIENT_STARTING,   /* it has not come to its main */
    NS_PATIENT_UNREADABLE, /* the shim is in it, and loaded says why no more can be told */
    NS_PATIENT_JUDGED,     /* the findings have a reason, or the shim works */
};

/* A rule that is for this process. */
struct ns_patient_rule {
    unsigned number; /* from 1 */
    char name[128];  /* tame; "" if it has none */
    enum ns_send send;
    enum ns_ack ack;
    uint32_t sockets; /* that it has taken */
};

/* A file that the process would try for its policy if it were started now. */
struct ns_patient_tried {
    char *path; /* tame */
    int error;
};

struct ns_patient {
    enum ns_patient_state state;
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
    struct ns_patient_tried *tried;
    unsigned n_tried;
    struct ns_patient_rule *rules;
    unsigned n_rules;
    bool has_stats;
    struct ns_stats stats;
};

/* Look at a process, by its number or that of one of its threads, and judge it. One that has just
 * been started is waited for, for so long at most. To be given to ns_patient_end whatever comes.
 */
void ns_patient_examine(struct ns_patient *patient, pid_t pid, int patience_ms,
                        struct ns_sockets *sockets);
void ns_patient_end(struct ns_patient *patient);

/* Does the LD_PRELOAD that it was started with name the shim? */
bool ns_patient_wants_shim(const struct ns_patient *patient);

/* Why the shim is not in its memory: adds at least one reason. */
void ns_patient_judge_absent(struct ns_patient *patient);

/* Which policy it would get if it were started now: every file tried, and warnings of what differs
 * from the policy that it took. */
void ns_patient_judge_policy(struct ns_patient *patient);

#endif
