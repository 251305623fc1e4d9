/* SPDX-License-Identifier: MIT */
/* See code.h. Owns no state and does no I/O. */
#include "cure/code.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

/* Offsets in the stack, from its end. An address is four words and a port, as numbers. */
enum { VALUE = -4, LOCAL = -24, REMOTE = -44, PORT = 16 };

/* TCP_DELACK_MAX of every kernel (include/net/tcp.h): a fifth of a second. */
enum { DELACK_DEFAULT_US = 200000 };

/* Appends an instruction, and returns its place. */
static size_t emit(struct ns_code *code, int op, int dst, int src, int off, int32_t imm)
{
    code->at[code->n] = (struct bpf_insn){.code = (uint8_t)op,
                                          .dst_reg = (uint8_t)(dst & 0xF),
                                          .src_reg = (uint8_t)(src & 0xF),
                                          .off = (int16_t)off,
                                          .imm = imm};
    return code->n++;
}

/* Lets a jump end at the next instruction. */
static void land(struct ns_code *code, size_t jump)
{
    code->at[jump].off = (int16_t)(code->n - jump - 1);
}

static void set(struct ns_code *code, int reg, int32_t value)
{
    emit(code, BPF_ALU64 | BPF_MOV | BPF_K, reg, 0, 0, value);
}

static void copy(struct ns_code *code, int reg, int from)
{
    emit(code, BPF_ALU64 | BPF_MOV | BPF_X, reg, from, 0, 0);
}

static void load(struct ns_code *code, int reg, int base, int offset)
{
    emit(code, BPF_LDX | BPF_MEM | BPF_W, reg, base, offset, 0);
}

static void load_pointer(struct ns_code *code, int reg, int base, int offset)
{
    emit(code, BPF_LDX | BPF_MEM | BPF_DW, reg, base, offset, 0);
}

static void store(struct ns_code *code, int base, int offset, int reg)
{
    emit(code, BPF_STX | BPF_MEM | BPF_W, base, reg, offset, 0);
}

static void store_number(struct ns_code *code, int offset, int32_t number)
{
    emit(code, BPF_ST | BPF_MEM | BPF_W, 10, 0, offset, number);
}

/* A jump whose end land() sets. op: BPF_JEQ, ...; it compares 32 bits without a sign. */
static size_t jump_if(struct ns_code *code, int op, int reg, uint32_t value)
{
    return emit(code, BPF_JMP32 | op | BPF_K, reg, 0, 0, (int32_t)value);
}

/* The same for a pointer. */
static size_t jump_if_null(struct ns_code *code, int reg)
{
    return emit(code, BPF_JMP | BPF_JEQ | BPF_K, reg, 0, 0, 0);
}

static void call(struct ns_code *code, int function)
{
    emit(code, BPF_JMP | BPF_CALL, 0, 0, 0, function);
}

static void end(struct ns_code *code, int result)
{
    set(code, 0, result);
    emit(code, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

/* Calls bpf_getsockopt or bpf_setsockopt with the value in the stack. */
static void call_option(struct ns_code *code, int function, int socket, int option)
{
    copy(code, 1, socket);
    set(code, 2, IPPROTO_TCP);
    set(code, 3, option);
    copy(code, 4, 10);
    emit(code, BPF_ALU64 | BPF_ADD | BPF_K, 4, 0, 0, VALUE);
    set(code, 5, sizeof(int));
    call(code, function);
}

/* Limits the delay of ACKs to two ticks at 1000, 500, 250 or 100 Hz: the kernel accepts no less
 * (TCP_TIMEOUT_MIN, include/net/tcp.h). */
static void limit_delack(struct ns_code *code, int socket)
{
    static const int limits[] = {2000, 4000, 8000, 20000};
    enum { N = sizeof limits / sizeof *limits };
    size_t done[N];
    for (size_t i = 0; i < N; i++) {
        store_number(code, VALUE, limits[i]);
        call_option(code, BPF_FUNC_setsockopt, socket, TCP_BPF_DELACK_MAX);
        done[i] = jump_if(code, BPF_JEQ, 0, 0);
    }
    for (size_t i = 0; i < N; i++)
        land(code, done[i]);
}

/* Sets register 0 to the mark of the socket in register 2. Returns the jump that is taken if it has
 * none. flags: BPF_SK_STORAGE_GET_F_CREATE or 0. */
static size_t find_mark(struct ns_code *code, int map, int flags)
{
    emit(code, BPF_LD | BPF_IMM | BPF_DW, 1, BPF_PSEUDO_MAP_FD, 0, map);
    emit(code, 0, 0, 0, 0, 0);
    set(code, 3, 0);
    set(code, 4, flags);
    call(code, BPF_FUNC_sk_storage_get);
    return jump_if_null(code, 0);
}

/* --- The rules ------------------------------------------------------------------------------- */

static uint32_t word_of(const struct in6_addr *addr, unsigned word)
{
    const uint8_t *bytes = &addr->s6_addr[4 * word];
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Jumps to one place, each with the one before it in its imm. */
enum { CHAIN_END = -1 };

static void land_all(struct ns_code *code, int32_t last)
{
    while (last != CHAIN_END) {
        int32_t before = code->at[last].imm;
        code->at[last].imm = 0;
        land(code, (size_t)last);
        last = before;
    }
}

/* Matches the address at this place of the stack. Returns the jump that is taken if the list has no
 * such address. */
static size_t match_list(struct ns_code *code, const struct ns_endpoint *list, size_t n, int place)
{
    int32_t found = CHAIN_END;
    for (const struct ns_endpoint *pattern = list; pattern < list + n; pattern++) {
        size_t other[6], n_other = 0;
        for (unsigned word = 0; 32 * word < pattern->prefix; word++) {
            const unsigned bits = pattern->prefix - 32 * word;
            const uint32_t mask = bits >= 32 ? UINT32_MAX : ~(UINT32_MAX >> bits);
            load(code, 1, 10, place + (int)(4 * word));
            if (mask != UINT32_MAX)
                emit(code, BPF_ALU | BPF_AND | BPF_K, 1, 0, 0, (int32_t)mask);
            other[n_other++] = jump_if(code, BPF_JNE, 1, word_of(&pattern->addr, word) & mask);
        }
        load(code, 1, 10, place + PORT);
        other[n_other++] = jump_if(code, BPF_JLT, 1, pattern->port_low);
        other[n_other++] = jump_if(code, BPF_JGT, 1, pattern->port_high);
        found = (int32_t)emit(code, BPF_JMP | BPF_JA, 0, 0, 0, found);
        while (n_other > 0)
            land(code, other[--n_other]);
    }
    size_t none = emit(code, BPF_JMP | BPF_JA, 0, 0, 0, 0);
    land_all(code, found);
    return none;
}

/* Writes one end of the connection to the stack. v4 and v6 are offsets in the context. */
static void read_address(struct ns_code *code, int v4, int v6, int port, int place)
{
    const int to_host = BPF_ALU | BPF_END | BPF_TO_BE; /* the same as from big endian */
    load(code, 1, 6, offsetof(struct bpf_sock_ops, family));
    size_t is_v6 = jump_if(code, BPF_JNE, 1, AF_INET);
    store_number(code, place, 0);
    store_number(code, place + 4, 0);
    store_number(code, place + 8, 0xFFFF);
    load(code, 1, 6, v4);
    emit(code, to_host, 1, 0, 0, 32);
    store(code, 10, place + 12, 1);
    size_t done = emit(code, BPF_JMP | BPF_JA, 0, 0, 0, 0);
    land(code, is_v6);
    for (int offset = 0; offset < 16; offset += 4) {
        load(code, 1, 6, v6 + offset);
        emit(code, to_host, 1, 0, 0, 32);
        store(code, 10, place + offset, 1);
    }
    land(code, done);
    load(code, 1, 6, port);
    if (port == offsetof(struct bpf_sock_ops, remote_port)) /* the only one in network order */
        emit(code, to_host, 1, 0, 0, 32);
    store(code, 10, place + PORT, 1);
}

unsigned ns_code_mark(const struct ns_rule *rule)
{
    return (ns_send_modes[rule->send].nodelay ? NS_MARK_NODELAY : 0) |
           (rule->ack == NS_ACK_BEFORE_WAIT ? NS_MARK_DELACK : 0);
}

const struct ns_rule *ns_code_unfit(const struct ns_policy *policy)
{
    for (size_t i = 0; i < policy->n_rules; i++)
        if (policy->rules[i].process || policy->rules[i].args)
            return &policy->rules[i];
    return NULL;
}

/* Sets register 7 to the mark of the first rule that matches, or to 0. */
static void match_rules(struct ns_code *code, const struct ns_policy *policy)
{
    int32_t found = CHAIN_END;
    bool is_last = false; /* the verifier refuses instructions that are never reached */
    set(code, 7, 0);
    for (size_t i = 0; policy->enabled && !is_last && i < policy->n_rules; i++) {
        const struct ns_rule *rule = &policy->rules[i];
        size_t other[3], n_other = 0;
        if (rule->role != NS_ROLE_UNKNOWN)
            other[n_other++] =
                jump_if(code, BPF_JNE, 9,
                        rule->role == NS_ROLE_CLIENT ? BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB
                                                     : BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB);
        if (rule->local)
            other[n_other++] = match_list(code, rule->local, rule->n_local, LOCAL);
        if (rule->remote)
            other[n_other++] = match_list(code, rule->remote, rule->n_remote, REMOTE);
        set(code, 7, (int32_t)ns_code_mark(rule));
        found = (int32_t)emit(code, BPF_JMP | BPF_JA, 0, 0, 0, found);
        is_last = n_other == 0;
        while (n_other > 0)
            land(code, other[--n_other]);
    }
    land_all(code, found);
}

/* --- The programs ---------------------------------------------------------------------------- */

/* Conditional jumps to the end of a program. */
struct exits {
    size_t jumps[16], n;
};

static void leave_if(struct exits *exits, size_t jump)
{
    exits->jumps[exits->n++] = jump;
}

static void land_exits(struct ns_code *code, const struct exits *exits)
{
    for (size_t i = 0; i < exits->n; i++)
        land(code, exits->jumps[i]);
}

/* Adds the program's own TCP_NODELAY, in register own, to the mark in another register. */
static void add_own(struct ns_code *code, int mark, int own)
{
    size_t off = jump_if(code, BPF_JEQ, own, 0);
    emit(code, BPF_ALU | BPF_OR | BPF_K, mark, 0, 0, NS_MARK_OWN);
    land(code, off);
}

/* Registers: 6 the context, 7 the mark, 8 its place, 9 the operation. */
int ns_code_connections(struct ns_code *code, const struct ns_policy *policy, int map)
{
    struct exits exits = {.n = 0};
    size_t entries = policy->n_rules;
    for (size_t i = 0; i < policy->n_rules; i++)
        entries += policy->rules[i].n_local + policy->rules[i].n_remote;
    if (entries > NS_CODE_ENTRIES_MOST)
        return -E2BIG;
    code->n = 0;
    copy(code, 6, 1);
    load(code, 9, 6, offsetof(struct bpf_sock_ops, op));
    size_t active = jump_if(code, BPF_JEQ, 9, BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB);
    size_t passive = jump_if(code, BPF_JEQ, 9, BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB);
    end(code, 1);
    land(code, active);
    land(code, passive);
    read_address(code, offsetof(struct bpf_sock_ops, local_ip4),
                 offsetof(struct bpf_sock_ops, local_ip6),
                 offsetof(struct bpf_sock_ops, local_port), LOCAL);
    read_address(code, offsetof(struct bpf_sock_ops, remote_ip4),
                 offsetof(struct bpf_sock_ops, remote_ip6),
                 offsetof(struct bpf_sock_ops, remote_port), REMOTE);
    match_rules(code, policy);
    leave_if(&exits, jump_if(code, BPF_JEQ, 7, 0));
    load_pointer(code, 2, 6, offsetof(struct bpf_sock_ops, sk));
    leave_if(&exits, jump_if_null(code, 2));
    leave_if(&exits, find_mark(code, map, BPF_SK_STORAGE_GET_F_CREATE));
    copy(code, 8, 0);
    load(code, 1, 8, 0); /* the listener's mark, if that has one */
    leave_if(&exits, jump_if(code, BPF_JSET, 1, NS_MARK_LIBRARY | NS_MARK_RULED));
    emit(code, BPF_ALU | BPF_OR | BPF_K, 7, 0, 0, NS_MARK_RULED);
    size_t set_it = jump_if(code, BPF_JSET, 7, NS_MARK_NODELAY);
    size_t skip = emit(code, BPF_JMP | BPF_JA, 0, 0, 0, 0);
    land(code, set_it);
    size_t inherits = jump_if(code, BPF_JSET, 1, NS_MARK_NODELAY);
    store_number(code, VALUE, 0);
    call_option(code, BPF_FUNC_getsockopt, 6, TCP_NODELAY);
    load(code, 1, 10, VALUE);
    add_own(code, 7, 1);
    size_t own = emit(code, BPF_JMP | BPF_JA, 0, 0, 0, 0);
    land(code, inherits);
    emit(code, BPF_ALU | BPF_AND | BPF_K, 1, 0, 0, NS_MARK_OWN);
    emit(code, BPF_ALU | BPF_OR | BPF_X, 7, 1, 0, 0);
    land(code, own);
    store_number(code, VALUE, 1);
    call_option(code, BPF_FUNC_setsockopt, 6, TCP_NODELAY);
    land(code, skip);
    store(code, 8, 0, 7);
    size_t limit = jump_if(code, BPF_JSET, 7, NS_MARK_DELACK);
    end(code, 1);
    land(code, limit);
    limit_delack(code, 6);
    land_exits(code, &exits);
    end(code, 1);
    return 0;
}

/* setsockopt(TCP_NODELAY) by the program. Registers: 6 the context, 7 the value. */
static void keep_own(struct ns_code *code, int map, struct exits *exits)
{
    load_pointer(code, 2, 6, offsetof(struct bpf_sockopt, sk));
    leave_if(exits, jump_if_null(code, 2));
    leave_if(exits, find_mark(code, map, 0));
    load(code, 1, 0, 0);
    emit(code, BPF_ALU | BPF_AND | BPF_K, 1, 0, 0, ~NS_MARK_OWN);
    add_own(code, 1, 7);
    store(code, 0, 0, 1);
    leave_if(exits, jump_if(code, BPF_JNE, 7, 0));
    emit(code, BPF_ALU | BPF_AND | BPF_K, 1, 0, 0, NS_MARK_NODELAY);
    leave_if(exits, jump_if(code, BPF_JEQ, 1, 0));
    /* The kernel leaves the call out. It is stored from a register, since before Linux 6.4 the
     * verifier refuses BPF_ST into the context. */
    set(code, 1, -1);
    store(code, 6, offsetof(struct bpf_sockopt, optlen), 1);
    end(code, 1);
}

/* A call by the library. Register 6: the context. */
static void keep_out(struct ns_code *code, int map, struct exits *exits)
{
    load_pointer(code, 2, 6, offsetof(struct bpf_sockopt, sk));
    leave_if(exits, jump_if_null(code, 2));
    leave_if(exits, find_mark(code, map, BPF_SK_STORAGE_GET_F_CREATE));
    load(code, 1, 0, 0);
    emit(code, BPF_ALU | BPF_OR | BPF_K, 1, 0, 0, NS_MARK_LIBRARY);
    store(code, 0, 0, 1);
    end(code, 1);
}

/* A struct ns_code_call. Registers: 6 the context and then the socket, 7 the first word and then
 * the new mark, 8 the value and then the mark's place, 9 what the call asks for. */
static void change(struct ns_code *code, int map, struct exits *exits)
{
    load(code, 9, 8, offsetof(struct ns_code_call, mark));
    load_pointer(code, 6, 6, offsetof(struct bpf_sockopt, sk));
    leave_if(exits, jump_if_null(code, 6));
    load(code, 1, 6, offsetof(struct bpf_sock, protocol));
    leave_if(exits, jump_if(code, BPF_JNE, 1, IPPROTO_TCP)); /* MPTCP */
    copy(code, 2, 6);
    leave_if(exits, find_mark(code, map, BPF_SK_STORAGE_GET_F_CREATE));
    copy(code, 8, 0);
    load(code, 1, 8, 0);
    leave_if(exits, jump_if(code, BPF_JSET, 1, NS_MARK_LIBRARY));
    copy(code, 2, 1);
    emit(code, BPF_ALU | BPF_AND | BPF_K, 2, 0, 0, NS_MARK_CURED);
    leave_if(exits, emit(code, BPF_JMP32 | BPF_JEQ | BPF_X, 2, 9, 0, 0)); /* as it is already */
    size_t known = jump_if(code, BPF_JSET, 1, NS_MARK_NODELAY);
    set(code, 1, 0);
    add_own(code, 1, 7);
    land(code, known);
    emit(code, BPF_ALU | BPF_AND | BPF_K, 1, 0, 0, NS_MARK_OWN);
    emit(code, BPF_ALU | BPF_OR | BPF_X, 1, 9, 0, 0);
    copy(code, 7, 1);
    store(code, 8, 0, 7);

    store_number(code, VALUE, 1);
    size_t on = jump_if(code, BPF_JSET, 7, NS_MARK_NODELAY | NS_MARK_OWN);
    store_number(code, VALUE, 0);
    land(code, on);
    call_option(code, BPF_FUNC_setsockopt, 6, TCP_NODELAY);
    size_t limit = jump_if(code, BPF_JSET, 7, NS_MARK_DELACK);
    store_number(code, VALUE, DELACK_DEFAULT_US);
    call_option(code, BPF_FUNC_setsockopt, 6, TCP_BPF_DELACK_MAX);
    end(code, 0);
    land(code, limit);
    limit_delack(code, 6);
    end(code, 0);
}

void ns_code_options(struct ns_code *code, int map, bool changes)
{
    struct exits exits = {.n = 0};
    code->n = 0;
    copy(code, 6, 1);
    load(code, 1, 6, offsetof(struct bpf_sockopt, level));
    leave_if(&exits, jump_if(code, BPF_JNE, 1, IPPROTO_TCP));
    load(code, 1, 6, offsetof(struct bpf_sockopt, optname));
    leave_if(&exits, jump_if(code, BPF_JNE, 1, TCP_NODELAY));
    load(code, 9, 6, offsetof(struct bpf_sockopt, optlen));
    load_pointer(code, 8, 6, offsetof(struct bpf_sockopt, optval));
    load_pointer(code, 1, 6, offsetof(struct bpf_sockopt, optval_end));
    copy(code, 2, 8);
    emit(code, BPF_ALU64 | BPF_ADD | BPF_K, 2, 0, 0, sizeof(struct ns_code_call));
    leave_if(&exits, emit(code, BPF_JMP | BPF_JGT | BPF_X, 2, 1, 0, 0));
    load(code, 7, 8, 0);
    size_t by_program = jump_if(code, BPF_JEQ, 9, sizeof(int));
    load(code, 1, 8, offsetof(struct ns_code_call, magic));
    leave_if(&exits, jump_if(code, BPF_JNE, 1, NS_KERNEL_MAGIC));
    size_t by_library = jump_if(code, BPF_JEQ, 9, offsetof(struct ns_code_call, mark));
    size_t by_cure = jump_if(code, BPF_JEQ, 9, sizeof(struct ns_code_call));
    land_exits(code, &exits);
    /* Old kernels refuse a longer value, of any option, unless the program declines to see it
     * (Documentation/bpf/prog_cgroup_sockopt.rst). */
    load(code, 1, 6, offsetof(struct bpf_sockopt, optlen));
    size_t fits = jump_if(code, BPF_JLT, 1, 4097);
    set(code, 1, 0);
    store(code, 6, offsetof(struct bpf_sockopt, optlen), 1);
    land(code, fits);
    end(code, 1);

    exits.n = 0;
    land(code, by_program);
    keep_own(code, map, &exits);
    land(code, by_library);
    keep_out(code, map, &exits);
    land(code, by_cure);
    if (changes)
        change(code, map, &exits);
    land_exits(code, &exits);
    end(code, 1);
}
