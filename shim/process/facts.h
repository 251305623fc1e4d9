/* SPDX-License-Identifier: MIT */
/* What the command knows of a running process. A child of the command, the reader, opens and reads
 * what belongs to the process: it may be another user's, and what it shows may be hostile, or not
 * answer. */
#ifndef NS_FACTS_H
#define NS_FACTS_H

#include "process/elf.h"
#include "process/loaded.h"
#include "process/proc.h"

/* How much is read. Each depth includes those before it. */
enum ns_facts_depth {
    NS_FACTS_LIBRARY,
    NS_FACTS_WORDS,
    NS_FACTS_PROGRAM,
    NS_FACTS_ALL,
};

/* A file, found as the process would find it. */
struct ns_found {
    int error;      /* -errno; 0: it is there */
    double changed; /* in seconds of the clock that file times have */
    char unfit[80]; /* see ns_elf_path_unfit; "": a library that fits the program */
};

struct ns_examined_rule {
    unsigned index;
    char name[128];
    unsigned send, ack; /* enum ns_send, enum ns_ack, or any number */
    unsigned sockets;   /* that have got it */
};

/* What has started a process. */
struct ns_origin {
    char group[PATH_MAX]; /* its control group of cgroup2, below the root; "": unknown */
    char unit[128];       /* the systemd service that it belongs to; "": none */
    bool in_container;
    bool has_namespaces; /* or a root directory, that are not this command's */
    uid_t other_user;    /* its real user, if that is not this command's; 0: it is, or unknown */
    bool has_variables;  /* of its own, without which the process may not run */
    char variables[128]; /* names of some that the process has and this command lacks, as a list */
};

enum { NS_FACTS_RULES_MOST = 128 };

struct ns_facts {
    enum ns_facts_depth depth; /* as it was asked for */
    bool is_answered;          /* by the reader; otherwise only what any user may read is here */
    /* NS_FACTS_LIBRARY */
    struct ns_proc proc;
    char name[64]; /* see ns_proc_name */
    bool lives_elsewhere, has_other_number;
    int error;               /* the first one */
    struct ns_origin origin; /* with NS_FACTS_PROGRAM also its variables */
    struct ns_loaded loaded;
    /* NS_FACTS_WORDS: see ns_proc_words */
    size_t words_size;
    char words[64 << 10];
    /* NS_FACTS_PROGRAM */
    bool has_elf; /* the program's file could be read */
    struct ns_elf elf;
    unsigned sockets; /* descriptors of TCP sockets */
    bool has_ring;    /* an io_uring, through which it may use its sockets, too */
    bool own_calls;   /* nothing that it has loaded calls libc for a socket */
    /* NS_FACTS_ALL */
    bool has_policy;
    char policy[PATH_MAX]; /* the file; "NAGLESHIM_POLICY"; or "": built in */
    struct ns_found policy_file;
    char reason[1024]; /* why the library is disabled; "": unknown */
    struct ns_examined_rule rules[NS_FACTS_RULES_MOST]; /* those that apply to the process */
    unsigned n_rules;
    bool has_rules;         /* they could be read */
    bool has_lost_preload;  /* see ns_proc_preload */
    char preload[PATH_MAX]; /* LD_PRELOAD, cut; "": unset or unknown */
    char entry[PATH_MAX];   /* the library's in LD_PRELOAD, or else in ld.so.preload; "": none */
    bool is_of_file;        /* it is in ld.so.preload */
    struct ns_found entry_file, preload_file;
    char end; /* 0 */
};

/* Asks the reader about a process, by its number or that of one of its threads. Fills the members
 * of depth; what could not be read is zero or empty. 0, or -errno of the first part that could not
 * be read: -ESRCH: there is no such process, or it has ended; -EACCES or -EPERM: this user may not
 * read it. -ETIMEDOUT: the reader got no answer from the kernel within a second, or too many
 * earlier readers wait for one: only what any user may read is filled in. -EINTR: the same, as the
 * command is over. Takes a second at most, or three while the reader is at work. */
int ns_facts_ask(pid_t pid, enum ns_facts_depth depth, struct ns_facts *facts);

/* Was the file changed after this time? Not if the time is 0, for unknown. */
static inline bool ns_found_is_newer(const struct ns_found *found, double seconds)
{
    return seconds > 0 && found->error == 0 && found->changed > seconds;
}

#endif
