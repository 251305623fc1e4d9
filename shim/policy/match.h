/* SPDX-License-Identifier: MIT */
/* Which rule applies to a socket. Pure functions. ns_ruleset_build (which allocates) and
 * ns_match_process use fnmatch and are for start-up and the command. All others are
 * async-signal-safe. */
#ifndef NS_MATCH_H
#define NS_MATCH_H

#include "policy/policy.h"

#include <sys/socket.h>

/* The names of this process. A NULL string matches no pattern. */
struct ns_process {
    const char *exe;    /* target of /proc/self/exe, without " (deleted)" */
    const char *execfn; /* AT_EXECFN: the path that was given to execve */
    const char *argv0;
    char *const *args; /* from argv[1] on, NULL-terminated; NULL if not known */
};

/* One end of a connection. */
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

/* The rules of a policy whose "process" and "args" match this process, in their order. */
struct ns_ruleset {
    const struct ns_rule **rules;
    size_t n_rules;
    const struct ns_rule *few[NS_RULES_FEW]; /* used if there is room */
    struct ns_arena memory;                  /* otherwise */
    bool needs_local, needs_remote;          /* some rule asks for the address */
};

/* known is false if address is not a complete address of AF_INET or AF_INET6. */
struct ns_address ns_address_from(const struct sockaddr *address, socklen_t len);

bool ns_match_endpoint(const struct ns_endpoint *pattern, const struct ns_address *address);

/* Does pattern contain every address and port of range? */
bool ns_match_holds_all(const struct ns_endpoint *pattern, const struct ns_endpoint *range);

/* Do the rule's "process" and "args" match this process? */
bool ns_match_process(const struct ns_rule *rule, const struct ns_process *process);

/* The rules for a process. 0 or -ENOMEM. policy must outlive set, which must not be copied. The set
 * of a policy that is not enabled is empty. */
int ns_ruleset_build(struct ns_ruleset *set, const struct ns_policy *policy,
                     const struct ns_process *process);
void ns_ruleset_release(struct ns_ruleset *set);

/* The first rule that matches, or NULL. An unknown address matches no pattern. */
const struct ns_rule *ns_match_socket(const struct ns_ruleset *set,
                                      const struct ns_socket_facts *facts);

/* The first rule that a socket accepted by a listener on local could match. NULL if no rule could,
 * or if that rule depends on "remote". *settled becomes true if every accepted socket gets this
 * result without a match of its own. A listener on 0.0.0.0 or :: could match any "local". */
const struct ns_rule *ns_match_listener(const struct ns_ruleset *set,
                                        const struct ns_address *local, bool *settled);

#endif
