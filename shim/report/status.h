/* SPDX-License-Identifier: MIT */
/* What `nagleshim doctor` and others read of a running process from outside. It is in the library's
 * own memory and is found through an ELF note (status.c), so that it is found under any file name,
 * in any mount namespace, and after the file was replaced.
 *
 * Functions are for start-up unless they say otherwise. Nothing here blocks; errno is unchanged. */
#ifndef NS_STATUS_H
#define NS_STATUS_H

#include "base/relaxed.h"
#include "policy/match.h"
#include "policy/find.h"

#include <stdatomic.h>

/* The owner of the note; its descriptor is explained in status.c. */
#define NS_STATUS_NOTE "nagleshim"

enum { NS_STATUS_NOTE_TYPE = 1 };

/* Increases when a member changes its meaning or its place. Members may be appended without a new
 * version: size shows whether they exist. */
enum { NS_STATUS_VERSION = 1 };

#define NS_STATUS_MAGIC UINT64_C(0x4e53737461747573)

enum ns_status_state {
    NS_STATUS_OFF = 1,  /* NAGLESHIM_OFF */
    NS_STATUS_DISABLED, /* for the reason in reason */
    NS_STATUS_ACTIVE,
};

/* A rule of the policy. */
struct ns_status_rule {
    uint64_t name; /* address of its name; 0: it has none */
    uint32_t max_delay_us;
    _Atomic uint32_t sockets; /* that it was applied to; with a report, since the last fork */
    uint8_t send, ack;        /* enum ns_send, enum ns_ack */
    uint8_t applies;          /* its "process" and "args" hold for this process */
};

/* Addresses are those of the process, as numbers; texts end with a zero byte. */
struct ns_status {
    /* These four never change between versions. */
    _Atomic uint64_t magic; /* stored last; 0 until start-up has ended */
    uint32_t version, size;
    char library[16]; /* the library's version, cut */

    _Atomic uint32_t state;  /* enum ns_status_state */
    uint32_t origin;         /* enum ns_policy_origin */
    _Atomic uint64_t reason; /* text: why the library is disabled; 0: it is not */
    uint64_t policy;         /* text: the file; "NAGLESHIM_POLICY" for JSON in it; "": built in */
    uint64_t rules;          /* of struct ns_status_rule */
    uint64_t counters;       /* of uint64_t, in the order of NS_COUNTERS */
    uint32_t n_rules, n_counters;
    uint64_t looked; /* CLOCK_REALTIME nanoseconds: when it looked for its policy */
};

extern struct ns_status ns_status;

/* Before the search for the policy, whose time is stored. The age of a process does not show
 * whether a file has changed since the search, because a process may exec long after its fork. */
void ns_status_looking(void);

/* The policy's source. path must stay as it is. */
void ns_status_policy(enum ns_policy_origin origin, const char *path);

/* Its rules, and which of them are for this process. Allocates. */
void ns_status_rules(const struct ns_policy *policy, const struct ns_ruleset *set);

/* The end of start-up. */
void ns_status_begin(enum ns_status_state state);

/* The library is disabled, unless NAGLESHIM_OFF has done that. The text must stay valid.
 * Async-signal-safe. */
void ns_status_disabled(const char *reason);
/* It works again. */
void ns_status_enabled(void);

/* rule is applied to a socket. Two threads at once may lose a count. Async-signal-safe. */
void ns_status_took(const struct ns_rule *rule);

/* --- what the library has done in this process: relaxed counters, mostly for people to read, which
 * order nothing and guard nothing --- */

/* NS_COUNTER(name, text): the text is its name in the report and for the doctor. */
#define NS_COUNTERS(NS_COUNTER)                                                                    \
    NS_COUNTER(sockets, "sockets")         /* TCP sockets that got a rule */                       \
    NS_COUNTER(left_alone, "left alone")   /* TCP sockets that no rule matched */                  \
    NS_COUNTER(joined, "bursts joined")    /* adaptive: TCP_NODELAY was cleared */                 \
    NS_COUNTER(bursts, "bursts held")      /* auto-cork: before which the socket was corked */     \
    NS_COUNTER(pushes, "pushes")           /* before a wait */                                     \
    NS_COUNTER(late, "late pushes")        /* of bytes held for too long */                        \
    NS_COUNTER(acks, "ACKs")               /* before a wait */                                     \
    NS_COUNTER(nodelay, "TCP_NODELAY set") /* on a connection, for the first time */               \
    NS_COUNTER(unheld, "stopped holding")  /* connections, since bursts were late there */

/* After this many connections have stopped holding, new ones do not hold either. */
enum { NS_UNHELD_MOST = 3 };

struct ns_stats {
#define NS_COUNTER(name, text) _Atomic uint64_t name;
    NS_COUNTERS(NS_COUNTER)
#undef NS_COUNTER
};

extern struct ns_stats ns_stats;

#define NS_COUNT(name) NS_ADD(ns_stats.name, 1)

#endif
