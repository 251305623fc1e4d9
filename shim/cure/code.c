/* SPDX-License-Identifier: MIT */
/* See code.h. Owns no state and does no I/O. */
#include "cure/code.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <sys/socket.h>

/* Offsets in the stack, from its end. An address is four words and a port, as numbers. Each is the
 * upper half of eight bytes: without CAP_PERFMON, the verifier of Linux 6.1 refuses a
 * number beside one that it keeps track of, which is in a lower half. */
enum { VALUE = -4, WORD = 8, PORT = 4 * WORD, LOCAL = VALUE - 5 * WORD, REMOTE = LOCAL - 5 * WORD };

/* Appends an instruction. */
static void emit(struct ns_code *code, int op, int dst, int src, int off, int32_t imm)
{
    code->at[code->n++] = (struct bpf_insn){.code = (uint8_t)op,
                                            .dst_reg = (uint8_t)(dst & 0xF),
                                            .src_reg = (uint8_t)(src & 0xF),
                                            .off = (int16_t)off,
                                            .imm = imm};
}

/* Appends a jump to a place that land() sets. Jumps to one place form a chain: until then the
 * offset of each is its distance from the previous one. *last is the latest jump, or 0 for an empty
 * chain. op: BPF_JA, or BPF_JEQ, ..., which compare 32 bits without a sign. */
static void jump(struct ns_code *code, size_t *last, int op, int reg, uint32_t value)
{
    const int class = op == BPF_JA ? BPF_JMP : BPF_JMP32;
    const size_t here = code->n;
    emit(code, class | op | BPF_K, reg, 0, *last ? (int)(here - *last) : 0, (int32_t)value);
    *last = here;
}

/* Lets the jumps of a chain end at the next instruction. */
static void land(struct ns_code *code, size_t *last)
{
    while (*last) {
        const size_t here = *last, distance = (size_t)code->at[here].off;
        code->at[here].off = (int16_t)(code->n - here - 1);
        *last = distance ? here - distance : 0;
    }
}

/* Single instructions, which the function's code gets. STORE: before Linux 6.4 the verifier refuses
 * BPF_ST into the context. */
#define SET(reg, value) emit(code, BPF_ALU64 | BPF_MOV | BPF_K, reg, 0, 0, value)
#define COPY(reg, from) emit(code, BPF_ALU64 | BPF_MOV | BPF_X, reg, from, 0, 0)
#define ADD(reg, value) emit(code, BPF_ALU64 | BPF_ADD | BPF_K, reg, 0, 0, value)
#define LOAD(reg, base, offset) emit(code, BPF_LDX | BPF_MEM | BPF_W, reg, base, offset, 0)
#define LOAD_POINTER(reg, base, offset) emit(code, BPF_LDX | BPF_MEM | BPF_DW, reg, base, offset, 0)
#define STORE(base, offset, reg) emit(code, BPF_STX | BPF_MEM | BPF_W, base, reg, offset, 0)
#define STORE_NUMBER(offset, value) emit(code, BPF_ST | BPF_MEM | BPF_W, 10, 0, offset, value)
#define TO_HOST(reg, bits) emit(code, BPF_ALU | BPF_END | BPF_TO_BE, reg, 0, 0, bits)
#define CALL(function) emit(code, BPF_JMP | BPF_CALL, 0, 0, 0, function)

static void end(struct ns_code *code)
{
    SET(0, 1);
    emit(code, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

/* Calls bpf_getsockopt or bpf_setsockopt with the value in the stack. Register 0 becomes 0 or
 * negative. */
static void call(struct ns_code *code, int function, int socket, int option)
{
    COPY(1, socket);
    SET(2, IPPROTO_TCP);
    SET(3, option);
    COPY(4, 10);
    ADD(4, VALUE);
    SET(5, sizeof(int));
    CALL(function);
}

/* --- The rules ------------------------------------------------------------------------------- */

/* Matches the address at this place of the stack, and jumps if the list has no such address. */
static void match_list(struct ns_code *code, const struct ns_endpoint *list, size_t n, int place,
                       size_t *none)
{
    size_t found = 0;
    for (const struct ns_endpoint *pattern = list; pattern < list + n; pattern++) {
        size_t other = 0;
        for (unsigned word = 0; 32 * word < pattern->prefix; word++) {
            const unsigned bits = pattern->prefix - 32 * word;
            const uint32_t mask = bits >= 32 ? UINT32_MAX : ~(UINT32_MAX >> bits);
            LOAD(1, 10, place + WORD * (int)word);
            if (mask != UINT32_MAX)
                emit(code, BPF_ALU | BPF_AND | BPF_K, 1, 0, 0, (int32_t)mask);
            jump(code, &other, BPF_JNE, 1, ntohl(pattern->addr.s6_addr32[word]) & mask);
        }
        LOAD(1, 10, place + PORT);
        jump(code, &other, BPF_JLT, 1, pattern->port_low);
        jump(code, &other, BPF_JGT, 1, pattern->port_high);
        jump(code, &found, BPF_JA, 0, 0);
        land(code, &other);
    }
    jump(code, none, BPF_JA, 0, 0);
    land(code, &found);
}

/* Where a structure of the kernel has one end of a connection. */
struct end {
    int family, v4, v6, port;
    int swaps; /* the bits of its port, if that is in network order */
};
#define END(type, local, port_of, swaps)                                                           \
    {                                                                                              \
        offsetof(struct type, family), offsetof(struct type, local##_ip4),                         \
            offsetof(struct type, local##_ip6), offsetof(struct type, port_of##_port), swaps       \
    }
static const struct end of_context[] = {END(bpf_sock_ops, local, local, 0),
                                        END(bpf_sock_ops, remote, remote, 32)},
                        of_socket[] = {END(bpf_sock, src, src, 0), END(bpf_sock, dst, dst, 16)};
#undef END

/* Writes one end of the connection to the stack, from the structure in register base. */
static void read_address(struct ns_code *code, int base, const struct end *end, int place)
{
    size_t is_v6 = 0, done = 0;
    LOAD(1, base, end->family);
    jump(code, &is_v6, BPF_JNE, 1, AF_INET);
    STORE_NUMBER(place, 0);
    STORE_NUMBER(place + WORD, 0);
    STORE_NUMBER(place + 2 * WORD, 0xFFFF);
    LOAD(1, base, end->v4);
    TO_HOST(1, 32);
    STORE(10, place + 3 * WORD, 1);
    jump(code, &done, BPF_JA, 0, 0);
    land(code, &is_v6);
    for (int offset = 0; offset < 16; offset += 4) {
        LOAD(1, base, end->v6 + offset);
        TO_HOST(1, 32);
        STORE(10, place + WORD / 4 * offset, 1);
    }
    land(code, &done);
    emit(code, BPF_LDX | BPF_MEM | (end->swaps == 16 ? BPF_H : BPF_W), 1, base, end->port, 0);
    if (end->swaps)
        TO_HOST(1, end->swaps);
    STORE(10, place + PORT, 1);
}

unsigned ns_code_options_of(const struct ns_rule *rule)
{
    return (ns_send_modes[rule->send].nodelay ? NS_CODE_NODELAY : 0) |
           (rule->ack == NS_ACK_BEFORE_WAIT ? NS_CODE_DELACK : 0);
}

const struct ns_rule *ns_code_unfit(const struct ns_policy *policy)
{
    for (size_t i = 0; i < policy->n_rules; i++)
        if (policy->rules[i].process || policy->rules[i].args)
            return &policy->rules[i];
    return NULL;
}

/* How many addresses do the rules have? */
static size_t count_addresses(const struct ns_policy *policy)
{
    size_t n = 0;
    for (size_t i = 0; i < policy->n_rules; i++)
        n += policy->rules[i].local.n + policy->rules[i].remote.n;
    return n;
}

/* Sets register 7 to the options of the first rule that matches, or to 0. The connection's ends are
 * in the structure in register base, the operation in register 9. */
static void match_rules(struct ns_code *code, const struct ns_policy *policy, int base,
                        const struct end ends[2])
{
    size_t found = 0;
    if (count_addresses(policy) > 0) {
        read_address(code, base, &ends[0], LOCAL);
        read_address(code, base, &ends[1], REMOTE);
    }
    bool is_last = false; /* the verifier refuses instructions that are never reached */
    SET(7, 0);
    for (size_t i = 0; policy->enabled && !is_last && i < policy->n_rules; i++) {
        const struct ns_rule *rule = &policy->rules[i];
        size_t other = 0;
        if (rule->role != NS_ROLE_UNKNOWN)
            jump(code, &other, BPF_JNE, 9,
                 rule->role == NS_ROLE_CLIENT ? BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB
                                              : BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB);
        if (rule->local.list)
            match_list(code, rule->local.list, rule->local.n, LOCAL, &other);
        if (rule->remote.list)
            match_list(code, rule->remote.list, rule->remote.n, REMOTE, &other);
        is_last = !other;
        SET(7, (int32_t)ns_code_options_of(rule));
        jump(code, &found, BPF_JA, 0, 0);
        land(code, &other);
    }
    land(code, &found);
}

/* --- The programs ---------------------------------------------------------------------------- */

/* Registers: 6 the context, 7 the options of its rule, 8 its mark, 9 the operation. */
int ns_code_connections(struct ns_code *code, const struct ns_policy *policy, int delack)
{
    enum { FLAGS = offsetof(struct bpf_sock_ops, bpf_sock_ops_cb_flags) };
    size_t out = 0, ack = 0, first = 0, leave = 0, sets = 0;
    if (ns_code_unfit(policy))
        return -ENOTSUP;
    if (policy->n_rules + count_addresses(policy) > NS_CODE_ENTRIES_MOST)
        return -E2BIG;
    code->n = 0;
    LOAD(9, 1, offsetof(struct bpf_sock_ops, op));
    jump(code, &out, BPF_JLT, 9, BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB);
    jump(code, &out, BPF_JGT, 9, BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB);
    COPY(6, 1);
    /* The program of an inner group, which runs first, may have chosen. The kernel does not use
     * this field here. If a program of somebody else has written it since, a flag of the socket
     * shows the same. */
    LOAD(1, 6, offsetof(struct bpf_sock_ops, reply));
    jump(code, &out, BPF_JEQ, 1, NS_KERNEL_MAGIC);
    jump(code, &first, BPF_JEQ, 1, 0);
    LOAD(1, 6, FLAGS);
    jump(code, &out, BPF_JSET, 1, BPF_SOCK_OPS_RTO_CB_FLAG);
    land(code, &first);
    match_rules(code, policy, 6, of_context);
    jump(code, &leave, BPF_JEQ, 7, 0);
    SET(1, NS_KERNEL_MAGIC);
    STORE(6, offsetof(struct bpf_sock_ops, reply), 1);
    LOAD(2, 6, FLAGS);
    emit(code, BPF_ALU64 | BPF_OR | BPF_K, 2, 0, 0, BPF_SOCK_OPS_RTO_CB_FLAG);
    COPY(1, 6);
    CALL(BPF_FUNC_sock_ops_cb_flags_set);
    jump(code, &sets, BPF_JSET, 7, NS_CODE_NODELAY);
    land(code, &leave);
    /* What a listener has in the mark's option is its program's; here it would be a mark. */
    jump(code, &ack, BPF_JNE, 9, BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB);
    STORE_NUMBER(VALUE, NS_MARK_NONE);
    call(code, BPF_FUNC_setsockopt, 6, NS_MARK_OPTION);
    jump(code, &ack, BPF_JA, 0, 0);
    land(code, &sets);
    STORE_NUMBER(VALUE, 0);
    call(code, BPF_FUNC_getsockopt, 6, TCP_NODELAY);
    SET(8, NS_MARK_OWN_0);
    LOAD(1, 10, VALUE);
    emit(code, BPF_ALU64 | BPF_SUB | BPF_X, 8, 1, 0, 0);
    STORE_NUMBER(VALUE, 1);
    call(code, BPF_FUNC_setsockopt, 6, TCP_NODELAY);
    jump(code, &ack, BPF_JNE, 0, 0); /* before Linux 6.1 */
    STORE(10, VALUE, 8);
    call(code, BPF_FUNC_setsockopt, 6, NS_MARK_OPTION);
    land(code, &ack);
    emit(code, BPF_JMP32 | BPF_JSET | BPF_K, 7, 0, 1, NS_CODE_DELACK);
    jump(code, &out, BPF_JA, 0, 0);
    STORE_NUMBER(VALUE, delack);
    call(code, BPF_FUNC_setsockopt, 6, TCP_BPF_DELACK_MAX);
    land(code, &out);
    end(code);
    return 0;
}

/* The options that matter are the first ones to be recognized, as every other call of a program of
 * the group pays for the rest. Registers: 6 the context, 7 the first word of the value, 8 the
 * value, 9 the socket. */
void ns_code_options(struct ns_code *code, const struct ns_policy *policy)
{
    size_t pass = 0, wanted = 0, by_cure = 0, by_program = 0, is_mptcp = 0, leave_out = 0;
    code->n = 0;
    COPY(6, 1);
    LOAD(1, 6, offsetof(struct bpf_sockopt, optname));
    jump(code, &wanted, BPF_JEQ, 1, TCP_NODELAY);
    jump(code, &pass, BPF_JNE, 1, NS_CODE_OPTION);
    land(code, &wanted);
    LOAD(2, 6, offsetof(struct bpf_sockopt, level));
    jump(code, &pass, BPF_JNE, 2, IPPROTO_TCP);
    LOAD(2, 6, offsetof(struct bpf_sockopt, optlen));
    jump(code, &pass, BPF_JLT, 2, sizeof(int));
    LOAD_POINTER(8, 6, offsetof(struct bpf_sockopt, optval));
    LOAD_POINTER(3, 6, offsetof(struct bpf_sockopt, optval_end));
    COPY(4, 8);
    /* The kernel's buffer is larger than a short value. */
    ADD(4, 2 * sizeof(int));
    emit(code, BPF_JMP | BPF_JLE | BPF_X, 4, 3, 1, 0);
    jump(code, &pass, BPF_JA, 0, 0);
    LOAD(7, 8, 0);
    LOAD_POINTER(9, 6, offsetof(struct bpf_sockopt, sk));
    emit(code, BPF_JMP | BPF_JNE | BPF_K, 9, 0, 1, 0);
    jump(code, &pass, BPF_JA, 0, 0);
    jump(code, &by_cure, BPF_JEQ, 1, NS_CODE_OPTION);
    jump(code, &by_program, BPF_JNE, 2, 2 * sizeof(int));
    LOAD(1, 8, sizeof(int));
    jump(code, &pass, BPF_JEQ, 1, NS_KERNEL_MAGIC);

    land(code, &by_program);
    /* Without a connection, the value of the mark's option is the program's own. */
    LOAD(1, 9, offsetof(struct bpf_sock, state));
    jump(code, &pass, BPF_JEQ, 1, TCP_LISTEN);
    jump(code, &pass, BPF_JEQ, 1, TCP_CLOSE);
    LOAD(1, 9, offsetof(struct bpf_sock, protocol));
    jump(code, &is_mptcp, BPF_JEQ, 1, IPPROTO_MPTCP);
    STORE_NUMBER(VALUE, 0);
    call(code, BPF_FUNC_getsockopt, 9, NS_MARK_OPTION);
    LOAD(1, 10, VALUE);
    jump(code, &pass, BPF_JEQ, 1, NS_MARK_NONE);
    STORE_NUMBER(VALUE, NS_MARK_OWN_0);
    emit(code, BPF_JMP32 | BPF_JEQ | BPF_K, 7, 0, 1, 0);
    STORE_NUMBER(VALUE, NS_MARK_OWN_1);
    call(code, BPF_FUNC_setsockopt, 9, NS_MARK_OPTION);
    jump(code, &leave_out, BPF_JEQ, 7, 0);
    jump(code, &pass, BPF_JA, 0, 0);

    land(code, &is_mptcp);
    /* It has no mark and no role: the rules decide again. */
    jump(code, &pass, BPF_JNE, 7, 0);
    COPY(8, 9);
    SET(9, BPF_SOCK_OPS_VOID);
    match_rules(code, policy, 8, of_socket);
    jump(code, &leave_out, BPF_JSET, 7, NS_CODE_NODELAY);
    jump(code, &pass, BPF_JA, 0, 0);

    land(code, &by_cure);
    STORE(10, VALUE, 7);
    call(code, BPF_FUNC_setsockopt, 9, TCP_BPF_DELACK_MAX);
    land(code, &leave_out);
    SET(1, -1);
    STORE(6, offsetof(struct bpf_sockopt, optlen), 1);
    end(code);

    land(code, &pass);
    /* Before Linux 6.5 the kernel refuses a longer value, of any option, unless the program
     * declines to see it (Documentation/bpf/prog_cgroup_sockopt.rst). */
    LOAD(1, 6, offsetof(struct bpf_sockopt, optlen));
    jump(code, &by_program, BPF_JLT, 1, 4097);
    SET(1, 0);
    STORE(6, offsetof(struct bpf_sockopt, optlen), 1);
    land(code, &by_program);
    end(code);
}
