/* SPDX-License-Identifier: MIT */
/* The BPF programs of `nagleshim cure`, made from the rules of a policy. Pure functions. A control
 * group gets two programs. They share a map, which has a mark for each connection
 * (BPF_MAP_TYPE_SK_STORAGE).
 *
 * - The first runs at the end of each TCP handshake. It finds the connection's rule, and sets the
 *   options.
 * - The second runs at each setsockopt(TCP_NODELAY). It keeps the value that the program asked for,
 *   and if that is 0 on a connection whose rule sets TCP_NODELAY, the kernel leaves the call out.
 *   It also changes connections that exist: see struct ns_code_call. */
#ifndef NS_CODE_H
#define NS_CODE_H

#include "conn/kernel.h"
#include "policy/policy.h"

#include <linux/bpf.h>

enum ns_code_mark {
    NS_MARK_NODELAY = 1, /* TCP_NODELAY is on */
    NS_MARK_DELACK = 2,  /* the delay of ACKs is limited to the least that the kernel accepts */
    NS_MARK_CURED = NS_MARK_NODELAY | NS_MARK_DELACK,
    NS_MARK_OWN = 4,     /* with NS_MARK_NODELAY: the program itself asked for a TCP_NODELAY of 1 */
    NS_MARK_LIBRARY = 8, /* the library works on this socket, and nothing is changed */
    NS_MARK_RULED = 16,  /* the program of an inner group has chosen; outer ones come after it */
};

/* The value of a setsockopt(TCP_NODELAY) that changes a connection and its mark. If the second
 * program has done so, the call fails with EPERM. A kernel without the program uses the first word
 * only. The library's calls have the first two words. */
struct ns_code_call {
    int nodelay;    /* as it is now */
    uint32_t magic; /* NS_KERNEL_MAGIC */
    uint32_t mark;  /* some of NS_MARK_CURED; 0 restores the options */
};
enum {
    /* Rules and addresses of a policy, together. The verifier follows at most 8192 jumps at a time
     * (BPF_COMPLEXITY_LIMIT_JMP_SEQ, kernel/bpf/verifier.c), and an address takes six. */
    NS_CODE_ENTRIES_MOST = 1300,
    NS_CODE_MOST = 20000,
};

struct ns_code {
    struct bpf_insn at[NS_CODE_MOST];
    size_t n;
};

/* What a rule asks for: some of NS_MARK_CURED. */
unsigned ns_code_mark(const struct ns_rule *rule);

/* The first rule that asks for a process or its arguments, which these programs do not know. NULL:
 * there is none. */
const struct ns_rule *ns_code_unfit(const struct ns_policy *policy);

/* The first program, of type BPF_PROG_TYPE_SOCK_OPS. map: the descriptor of the map. 0; -E2BIG: the
 * policy has more than NS_CODE_ENTRIES_MOST rules and addresses. */
int ns_code_connections(struct ns_code *code, const struct ns_policy *policy, int map);

/* The second program, for BPF_CGROUP_SETSOCKOPT. changes: it may call bpf_setsockopt (since Linux
 * 5.15); without, it does not change connections that exist. */
void ns_code_options(struct ns_code *code, int map, bool changes);

#endif
