/* SPDX-License-Identifier: MIT */
/* Which rule governs a socket. Pure functions: no I/O, no state, no allocation but in
 * ns_ruleset_build. That one, ns_match_process and ns_match_explain use fnmatch and are for
 * start-up and the command; everything else here may be called from a signal handler. */
#ifndef NS_MATCH_H
#define NS_MATCH_H

#include "policy/policy.h"

#include <sys/socket.h>

/* What is known of this process. A NULL string matches no pattern. */
struct ns_process {
    const char *exe; /* target of /proc/self/exe; a trailing " (deleted)" is dropped in matching */
    const char *execfn; /* AT_EXECFN: what execve was given */
    const char *argv0;
    char *const *args; /* argv[1] and on, NULL-terminated; NULL if not known */
};

/* One end of a connection, as the matcher wants it. */
struct ns_address {
    bool known;
    struct in6_addr addr; /* IPv4 as IPv4-mapped */
    uint16_t port;        /* host byte order */
};

struct ns_socket_facts {
    enum ns_role role;
    struct ns_address local, remote;
};

enum { NS_RULES_FEW = 16 };

/* The rules of a policy that this process can ever match, in their order. */
struct ns_ruleset {
    const struct ns_rule **rules;
    size_t n_rules;
    const struct ns_rule *few[NS_RULES_FEW]; /* where most lists have room */
    struct ns_arena memory;                  /* of a longer one */
    bool needs_local, needs_remote;          /* some rule asks for the address */
    bool holds;                              /* some rule holds bytes back (auto-cork) */
};

/* From a socket address; anything but AF_INET and AF_INET6, or a short len, gives known = false. */
struct ns_address ns_address_from(const struct sockaddr *address, socklen_t len);

bool ns_match_endpoint(const struct ns_endpoint *pattern, const struct ns_address *address);

/* Is every address and port of range one of the pattern's? */
bool ns_match_holds_all(const struct ns_endpoint *pattern, const struct ns_endpoint *range);

/* Do the rule's "process" and "args" hold for this process? */
bool ns_match_process(const struct ns_rule *rule, const struct ns_process *process);

/* 0 or -ENOMEM. policy must outlive set, which must not be copied. A policy that is not enabled
 * gives an empty set. */
int ns_ruleset_build(struct ns_ruleset *set, const struct ns_policy *policy,
                     const struct ns_process *process);
void ns_ruleset_release(struct ns_ruleset *set);

/* The first rule that holds, NULL if none does. An address that is not known matches no pattern. */
const struct ns_rule *ns_match_socket(const struct ns_ruleset *set,
                                      const struct ns_socket_facts *facts);

/* The rule of a listener on local: the first one that a server socket accepted there could match;
 * NULL if there is none, or if that rule or one before it that could match asks for "remote".
 * *settled is set when every socket accepted there has just this rule (or none), so that nobody
 * needs to ask again. A local address of 0.0.0.0 or :: could match any address of a pattern. */
const struct ns_rule *ns_match_listener(const struct ns_ruleset *set,
                                        const struct ns_address *local, bool *settled);

/* Why this rule does not hold, for `nagleshim explain`: the first key that fails whatever is not
 * known yet, else the first that fails because its fact is not known. */
enum ns_mismatch {
    NS_MATCHES,
    NS_MISMATCH_PROCESS,
    NS_MISMATCH_ARGS,
    NS_MISMATCH_ROLE,
    NS_MISMATCH_LOCAL,
    NS_MISMATCH_REMOTE,
};
enum ns_mismatch ns_match_explain(const struct ns_rule *rule, const struct ns_process *process,
                                  const struct ns_socket_facts *facts);

#endif
