/* SPDX-License-Identifier: MIT */
/* The compiled policy. Nothing writes to it after ns_policy_parse has returned it, so every thread
 * reads it without a lock. */
#ifndef NS_POLICY_H
#define NS_POLICY_H

#include "base/memory.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ns_send {
#define NS_SEND_MODE(id, ...) NS_SEND_##id,
#include "policy/modes.def"
#undef NS_SEND_MODE
    NS_SEND_COUNT,
    NS_SEND_DEFAULT = NS_SEND_ADAPTIVE
};
enum ns_ack {
#define NS_ACK_MODE(id, word, effect) NS_ACK_##id,
#include "policy/modes.def"
#undef NS_ACK_MODE
};
enum ns_role {
    NS_ROLE_UNKNOWN,
#define NS_ROLE(id, word) NS_ROLE_##id,
#include "policy/modes.def"
#undef NS_ROLE
};

enum {
    NS_MAX_DELAY_US_LEAST = 50,
    NS_MAX_DELAY_US_MOST = 100000,
    NS_MAX_DELAY_US_DEFAULT = 200,
    NS_POLICY_SIZE_MOST = 256 * 1024, /* bytes of JSON text */
    NS_POLICY_ERRORS_MOST = 100,      /* reported for one text: finding each place walks the text */
};

/* An address range and a port range. IPv4 addresses are IPv4-mapped IPv6 addresses (RFC 4291,
 * 2.5.5.2), so that a mapped peer matches an IPv4 pattern. */
struct ns_endpoint {
    struct in6_addr addr;
    uint8_t prefix;               /* leading bits to compare, 0 to 128; 0: any address */
    uint16_t port_low, port_high; /* host byte order, both ends included; 0 to 65535: any port */
};

struct ns_endpoints {
    struct ns_endpoint *list; /* NULL: the key was absent */
    size_t n;
};

/* A socket option that a policy may name: a row of sockopts.def. */
struct ns_sockopt {
    const char *name; /* as the policy file and the headers spell it */
    int level, option;
    int least, most; /* the kernel's bounds; sockopts.def names their source */
};

enum {
#define NS_SOCKOPT_ROW(name, level, number, least, most) NS_SOCKOPT_##name,
#include "policy/sockopts.def"
#undef NS_SOCKOPT_ROW
    NS_SOCKOPT_COUNT
};

extern const struct ns_sockopt ns_sockopts[NS_SOCKOPT_COUNT];

/* What a rule's "sockopt" says of an option. */
struct ns_sockopt_action {
    enum ns_sockopt_verb {
        NS_SOCKOPT_NONE,   /* nothing */
        NS_SOCKOPT_PASS,   /* the same, said */
        NS_SOCKOPT_IGNORE, /* setsockopt does nothing and succeeds */
        NS_SOCKOPT_SET,    /* set to value, also if the application does not set it */
        NS_SOCKOPT_MIN,    /* setsockopt sets at least value */
        NS_SOCKOPT_MAX,    /* setsockopt sets at most value */
    } verb;
    int value;
};

struct ns_rule {
    char *name;     /* NULL if it has none */
    unsigned index; /* position in the file, from 0 */
    /* "match"; NULL: the key was absent */
    char **process;    /* NULL-terminated */
    char **args;       /* NULL-terminated */
    enum ns_role role; /* NS_ROLE_UNKNOWN: the key was absent */
    struct ns_endpoints local, remote;
    /* what the rule does */
    enum ns_send send;
    enum ns_ack ack;
    uint32_t max_delay_us;
    bool has_max_delay;                                  /* the key was present */
    struct ns_sockopt_action sockopts[NS_SOCKOPT_COUNT]; /* by index into ns_sockopts */
};

/* A way of sending: see modes.def. */
struct ns_send_mode {
    const char *word;
    bool nodelay;
    uint8_t option, hold, push, from;
};
extern const struct ns_send_mode ns_send_modes[NS_SEND_COUNT];

/* Does the mode hold bursts with TCP_CORK? Only then max_delay_us matters. */
static inline bool ns_send_corks(enum ns_send send)
{
    return ns_send_modes[send].option == TCP_CORK;
}

struct ns_policy {
    bool enabled;
    int version;
    struct ns_rule *rules;
    size_t n_rules;
    struct ns_arena memory; /* holds the policy and its text; empty for the built-in one */
};

/* Where a text is wrong. line and column count from 1; a column counts bytes. */
struct ns_policy_error {
    unsigned line, column;
    char message[512]; /* the mistake, and what is allowed, without a newline */
};

/* What `nagleshim check` asks for. */
struct ns_policy_errors {
    /* Receives every error, at most NS_POLICY_ERRORS_MOST. Missing keys come last. A text that is
     * not JSON has one error. */
    void (*report)(void *context, const struct ns_policy_error *error);
    void *context;
};

/* Compile len bytes of JSON, which a NUL must follow; memory may hold them already. On success
 * *policy is the new policy, which owns memory; the caller frees it with ns_policy_free. Returns 0,
 * -EINVAL or -ENOMEM; then error is set, and memory is freed. The error is the place where the text
 * is not JSON, otherwise the first error in the order of the text, otherwise a missing key. all may
 * be NULL. One thread at a time; not async-signal-safe. */
int ns_policy_parse(struct ns_arena *memory, const char *text, size_t len,
                    struct ns_policy **policy, struct ns_policy_error *error,
                    const struct ns_policy_errors *all);

/* NULL and the built-in policy are allowed. */
void ns_policy_free(struct ns_policy *policy);

/* The policy that applies if none is found: one rule for every TCP socket, send adaptive, ack
 * before-wait. Static; ns_policy_free ignores it. */
const struct ns_policy *ns_policy_builtin(void);

/* The word of a policy file for a value of enum ns_send, ns_ack or ns_role ("auto-cork",
 * "before-wait", "client"; "unknown" is no such word). NULL beyond the last value, so that a loop
 * can list them. Async-signal-safe. */
const char *ns_send_name(unsigned send);
const char *ns_ack_name(unsigned ack);
const char *ns_role_name(unsigned role);

/* Index into ns_sockopts, or -1. Async-signal-safe. */
int ns_sockopt_by_number(int level, int option);

/* The value to set if the application asks for value. Not for NS_SOCKOPT_IGNORE. Async-signal-safe.
 */
int ns_sockopt_rewrite(int index, const struct ns_sockopt_action *action, int value);

#endif
