/* SPDX-License-Identifier: MIT */
/* The BPF programs of `nagleshim cure`, made from the rules of a policy. Pure functions. A control
 * group gets two programs.
 *
 * - The first runs at the end of each TCP handshake. It finds the connection's rule, and sets the
 *   options.
 * - The second runs at each setsockopt(2). If TCP_NODELAY is kept on, it notes what the program
 * asks for, and the kernel leaves a value of 0 out. The command's own calls have the option
 *   NS_CODE_OPTION. */
#ifndef NS_CODE_H
#define NS_CODE_H

#include "conn/kernel.h"
#include "policy/policy.h"

#include <linux/bpf.h>

/* What a rule asks for. */
enum {
    NS_CODE_NODELAY = 1, /* TCP_NODELAY */
    NS_CODE_DELACK = 2,  /* the least limit of delayed ACKs */
};

/* A socket whose TCP_NODELAY was set, or is kept on, has a mark: the value that its program asked
 * for, which is what an undo restores. It is kept in TCP_SAVE_SYN, which has no effect on a
 * connection. On a listener it has one: the kernel keeps the SYN of each connection
 * (tcp_conn_request, net/ipv4/tcp_input.c), which inherits the value. There it is the program's,
 * but for OWN_0 with TCP_NODELAY on, which --pid and --port set. An inherited mark counts as OWN_1,
 * as the program may have set its TCP_NODELAY since. In a group, the first program replaces it. A
 * map for sockets would cost a tenth of the connections a second. */
enum {
    NS_MARK_OPTION = 27, /* TCP_SAVE_SYN */
    NS_MARK_NONE = 0,
    NS_MARK_OWN_0 = 2,
    NS_MARK_OWN_1 = 1,
};

enum {
    /* An option that TCP does not know. The second program limits the delayed ACK to the value, in
     * microseconds, if that is possible, and the call succeeds. It fails if the socket's group has
     * no such program, as before Linux 5.15. */
    NS_CODE_OPTION = NS_KERNEL_MAGIC,
    /* Rules and addresses of a policy, together. The verifier follows at most 8192 jumps at a time
     * (BPF_COMPLEXITY_LIMIT_JMP_SEQ, kernel/bpf/verifier.c), and an address takes six. */
    NS_CODE_ENTRIES_MOST = 1300,
    NS_CODE_MOST = 20000,
};

struct ns_code {
    struct bpf_insn at[NS_CODE_MOST];
    size_t n;
};

/* NS_CODE_NODELAY, NS_CODE_DELACK, both or 0. */
unsigned ns_code_options_of(const struct ns_rule *rule);

/* The first rule that asks for a process or its arguments, which these programs do not know. NULL:
 * there is none. */
const struct ns_rule *ns_code_unfit(const struct ns_policy *policy);

/* The first program, of type BPF_PROG_TYPE_SOCK_OPS. delack: the least limit, in microseconds. 0;
 * -ENOTSUP: ns_code_unfit finds a rule; -E2BIG: the policy has more than NS_CODE_ENTRIES_MOST rules
 * and addresses. */
int ns_code_connections(struct ns_code *code, const struct ns_policy *policy, int delack);

/* The second program, for BPF_CGROUP_SETSOCKOPT; since Linux 5.15. The first one was made from this
 * policy. */
void ns_code_options(struct ns_code *code, const struct ns_policy *policy);

#endif
