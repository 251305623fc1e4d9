/* SPDX-License-Identifier: MIT */
/* Runs the BPF programs of cure/code.h without a kernel: the instructions that they use
 * (Documentation/bpf/standardization/instruction-set.rst), on memory of this process. */
#pragma once

#include "cure/code.h"
#include "policy/match.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

/* The options of a connection. */
struct bpf_run {
    int nodelay, delack, mark;
    bool is_old; /* before Linux 6.1, bpf_setsockopt does not know TCP_NODELAY */
};

static uint64_t bpf_help(struct bpf_run *run, int function, const uint64_t *reg)
{
    if (function == BPF_FUNC_sock_ops_cb_flags_set) {
        /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
        ((struct bpf_sock_ops *)reg[1])->bpf_sock_ops_cb_flags = (uint32_t)reg[2];
        return 0;
    }
    const int *value = (const int *)reg[4]; /* NOLINT(performance-no-int-to-ptr) */
    int *option = reg[3] == TCP_NODELAY          ? &run->nodelay
                  : reg[3] == NS_MARK_OPTION     ? &run->mark
                  : reg[3] == TCP_BPF_DELACK_MAX ? &run->delack
                                                 : NULL;
    if (!option || reg[2] != IPPROTO_TCP || reg[5] != sizeof(int))
        abort();
    if (run->is_old && option != &run->delack)
        return (uint64_t)-22;
    if (function == BPF_FUNC_getsockopt)
        memcpy((void *)value, option, sizeof *option);
    else if (function == BPF_FUNC_setsockopt)
        *option = *value;
    else
        abort();
    return 0;
}

static bool bpf_jumps(int op, uint64_t a, uint64_t b)
{
    return op == BPF_JEQ    ? a == b
           : op == BPF_JNE  ? a != b
           : op == BPF_JGT  ? a > b
           : op == BPF_JLT  ? a < b
           : op == BPF_JLE  ? a <= b
           : op == BPF_JSET ? (a & b) != 0
                            : (abort(), false);
}

static uint64_t bpf_compute(int op, uint64_t a, uint64_t b, int bits)
{
    return op == BPF_MOV   ? b
           : op == BPF_ADD ? a + b
           : op == BPF_SUB ? a - b
           : op == BPF_AND ? (a & b)
           : op == BPF_OR  ? (a | b)
           : op == BPF_END ? (bits == 16 ? ntohs((uint16_t)a) : ntohl((uint32_t)a))
                           : (abort(), 0U);
}

/* Loads or stores. Addresses are those of this process. */
static void bpf_move(const struct bpf_insn *at, uint64_t *reg)
{
    const bool loads = BPF_CLASS(at->code) == BPF_LDX;
    const unsigned width = BPF_SIZE((unsigned)at->code);
    const size_t size = width == BPF_DW ? 8 : width == BPF_H ? 2 : 4;
    char *memory = (char *)(uintptr_t)reg[loads ? at->src_reg : at->dst_reg] + at->off;
    const int64_t number = at->imm;
    if (!loads && at->dst_reg == 10 && at->off % 8 == 0)
        abort(); /* see the offsets in cure/code.c */
    if (loads) {
        reg[at->dst_reg] = 0;
        memcpy(&reg[at->dst_reg], memory, size);
    } else
        memcpy(memory, BPF_CLASS(at->code) == BPF_ST ? (const void *)&number : &reg[at->src_reg],
               size);
}

/* Runs the program to its end, and returns its result. context: struct bpf_sock_ops or bpf_sockopt.
 * Aborts at what the kernel's verifier would refuse, as far as one run shows it. */
static uint64_t bpf_run(struct bpf_run *run, const struct ns_code *code, void *context)
{
    uint64_t stack[64] = {0};
    uint64_t reg[11] = {[1] = (uintptr_t)context, [10] = (uintptr_t)(stack + 64)};
    for (size_t pc = 0;; pc++) {
        if (pc >= code->n)
            abort();
        const struct bpf_insn *at = &code->at[pc];
        const int class = BPF_CLASS(at->code);
        const bool is_wide = class == BPF_ALU64 || class == BPF_JMP;
        uint64_t a = reg[at->dst_reg],
                 b = BPF_SRC(at->code) == BPF_X ? reg[at->src_reg] : (uint64_t)(int64_t)at->imm;
        if (at->code == (BPF_JMP | BPF_EXIT))
            return reg[0];
        if (!is_wide) {
            a = (uint32_t)a;
            b = (uint32_t)b;
        }
        if (at->code == (BPF_LD | BPF_IMM | BPF_DW))
            reg[at->dst_reg] = (uint32_t)code->at[pc++].imm;
        else if (class == BPF_ALU || class == BPF_ALU64)
            reg[at->dst_reg] = bpf_compute(BPF_OP(at->code), a, b, at->imm);
        else if (class != BPF_JMP && class != BPF_JMP32)
            bpf_move(at, reg);
        else if (at->code == (BPF_JMP | BPF_CALL)) {
            reg[0] = bpf_help(run, at->imm, reg);
            memset(reg + 1, 0xAA, 5 * sizeof *reg);
        } else if (at->code == (BPF_JMP | BPF_JA) || bpf_jumps(BPF_OP(at->code), a, b))
            pc += (size_t)at->off; /* forwards only */
        if (at->off < 0 && (class == BPF_JMP || class == BPF_JMP32))
            abort();
    }
}

/* The context of the first program. active: by the end that has connected. */
static inline struct bpf_sock_ops bpf_connection(bool active, const struct ns_address *local,
                                                 const struct ns_address *remote)
{
    const bool v4 = IN6_IS_ADDR_V4MAPPED(&local->addr) && IN6_IS_ADDR_V4MAPPED(&remote->addr);
    struct bpf_sock_ops ops = {.op = active ? BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB
                                            : BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB,
                               .family = v4 ? AF_INET : AF_INET6,
                               .local_port = local->port,
                               .remote_port = htonl(remote->port)};
    memcpy(ops.local_ip6, &local->addr, sizeof ops.local_ip6);
    memcpy(ops.remote_ip6, &remote->addr, sizeof ops.remote_ip6);
    ops.local_ip4 = v4 ? ops.local_ip6[3] : 0;
    ops.remote_ip4 = v4 ? ops.remote_ip6[3] : 0;
    memcpy(&ops.sk, &(const void *){&ops}, sizeof(void *)); /* some pointer */
    return ops;
}
