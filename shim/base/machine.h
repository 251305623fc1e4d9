/* SPDX-License-Identifier: MIT */
/* Everything that differs between architectures. A new one needs a block here; the compiler, the
 * linker and `make check-architectures` find the rest. Each block defines:
 *
 * NS_GLIBC_FIRST   the version of glibc that this port began with, as 100 * major + minor
 *                  (shlib-versions in glibc's sysdeps): older versions of a symbol do not exist
 * NS_RELOCATION_TYPES   of a function's address in calls and in data (elf.h)
 * NS_JUMP(name, begin)   assembly of the function name: call begin with the function's own first
 *                  two arguments, and jump to the address that it returns, with the arguments, the
 *                  stack and the return address as they were (the port's psABI) */
#ifndef NS_MACHINE_H
#define NS_MACHINE_H

#if defined(__x86_64__)
#define NS_GLIBC_FIRST 202
#define NS_RELOCATION_TYPES R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT
#define NS_JUMP(name, begin)                                                                       \
    "endbr64\n push %rdi\n push %rsi\n sub $8, %rsp\n .cfi_adjust_cfa_offset 24\n"                 \
    "call " begin "\n"                                                                             \
    "add $8, %rsp\n pop %rsi\n pop %rdi\n .cfi_adjust_cfa_offset -24\n jmp *%rax\n"

#elif defined(__i386__)
#define NS_GLIBC_FIRST 200
#define NS_RELOCATION_TYPES R_386_JMP_SLOT, R_386_GLOB_DAT
#define NS_JUMP(name, begin) /* the arguments are on the stack, and copied for begin */            \
    "endbr32\n sub $4, %esp\n push 12(%esp)\n push 12(%esp)\n .cfi_adjust_cfa_offset 12\n"         \
    "call " begin "\n"                                                                             \
    "add $12, %esp\n .cfi_adjust_cfa_offset -12\n jmp *%eax\n"

#elif defined(__aarch64__)
#define NS_GLIBC_FIRST 217
#define NS_RELOCATION_TYPES R_AARCH64_JUMP_SLOT, R_AARCH64_GLOB_DAT
/* Hints 25 and 29: paciasp and autiasp if the CPU has pointer authentication, otherwise no-ops. A
 * jump to a function's "bti c" must come through x16 or x17. */
#define NS_JUMP(name, begin)                                                                       \
    "hint #25\n .cfi_negate_ra_state\n stp x29, x30, [sp, #-32]!\n stp x0, x1, [sp, #16]\n"        \
    ".cfi_adjust_cfa_offset 32\n .cfi_rel_offset x29, 0\n .cfi_rel_offset x30, 8\n"                \
    "bl " begin "\n"                                                                               \
    "mov x16, x0\n ldp x0, x1, [sp, #16]\n ldp x29, x30, [sp], #32\n .cfi_adjust_cfa_offset -32\n" \
    ".cfi_restore x29\n .cfi_restore x30\n hint #29\n .cfi_negate_ra_state\n br x16\n"

#elif defined(__arm__)
#define NS_GLIBC_FIRST 204
#define NS_RELOCATION_TYPES R_ARM_JUMP_SLOT, R_ARM_GLOB_DAT
#define NS_JUMP(name, begin)                                                                       \
    ".arm\n push {r0, r1, r4, lr}\n .cfi_adjust_cfa_offset 16\n .cfi_rel_offset lr, 12\n"          \
    "bl " begin "\n"                                                                               \
    "mov ip, r0\n pop {r0, r1, r4, lr}\n .cfi_adjust_cfa_offset -16\n .cfi_restore lr\n bx ip\n"

#elif defined(__riscv) && __riscv_xlen == 64
#define NS_GLIBC_FIRST 227
#define NS_RELOCATION_TYPES R_RISCV_JUMP_SLOT, R_RISCV_64
#define NS_JUMP(name, begin)                                                                       \
    "addi sp, sp, -32\n .cfi_adjust_cfa_offset 32\n sd a0, 0(sp)\n sd a1, 8(sp)\n sd ra, 24(sp)\n" \
    ".cfi_rel_offset ra, 24\n"                                                                     \
    "call " begin "\n"                                                                             \
    "mv t1, a0\n ld a0, 0(sp)\n ld a1, 8(sp)\n ld ra, 24(sp)\n .cfi_restore ra\n"                  \
    "addi sp, sp, 32\n .cfi_adjust_cfa_offset -32\n jr t1\n"

#elif defined(__s390x__)
#define NS_GLIBC_FIRST 202
#define NS_RELOCATION_TYPES R_390_JMP_SLOT, R_390_GLOB_DAT
#define NS_JUMP(name, begin) /* the registers are saved in the caller's frame */                   \
    "stmg %r2, %r15, 16(%r15)\n .cfi_rel_offset r14, 112\n .cfi_rel_offset r15, 120\n"             \
    "aghi %r15, -160\n .cfi_adjust_cfa_offset 160\n"                                               \
    "brasl %r14, " begin "\n"                                                                      \
    "lgr %r1, %r2\n lmg %r2, %r15, 176(%r15)\n .cfi_adjust_cfa_offset -160\n"                      \
    ".cfi_restore r14\n .cfi_restore r15\n br %r1\n"

#elif defined(__powerpc64__) && _CALL_ELF == 2
#define NS_GLIBC_FIRST 217
#define NS_RELOCATION_TYPES R_PPC64_JMP_SLOT, R_PPC64_GLOB_DAT
/* r12 must be the called function's address, from which it computes r2. The caller restores its
 * own r2. */
#define NS_JUMP(name, begin)                                                                       \
    "0: addis 2, 12, (.TOC. - 0b)@ha\n addi 2, 2, (.TOC. - 0b)@l\n"                                \
    ".localentry " name ", . - " name "\n"                                                         \
    "mflr 0\n std 0, 16(1)\n .cfi_offset lr, 16\n stdu 1, -48(1)\n .cfi_adjust_cfa_offset 48\n"    \
    "std 3, 32(1)\n std 4, 40(1)\n"                                                                \
    "bl " begin "\n nop\n"                                                                         \
    "mr 12, 3\n ld 3, 32(1)\n ld 4, 40(1)\n addi 1, 1, 48\n .cfi_adjust_cfa_offset -48\n"          \
    "ld 0, 16(1)\n mtlr 0\n .cfi_restore lr\n mtctr 12\n bctr\n"

#else
#error "this architecture needs a block in machine.h"
#endif

/* Define the exported function `name`, which no C function can replace, because libc's function
 * must see its caller's return address. begin(a, b) gets its first two arguments. */
#define NS_JUMPS(name, begin)                                                                      \
    __asm__(".text\n .balign 16\n .globl " name "\n .type " name ", %function\n" name ":\n"        \
            ".cfi_startproc\n" NS_JUMP(name, begin) ".cfi_endproc\n"                               \
                                                    ".size " name ", . - " name "\n")

/* 32-bit systems: there are calls of programs compiled with _TIME_BITS=64, too (timed.def). */
#if __SIZEOF_LONG__ == 4 && !defined(__x86_64__)
#define NS_TIME64 1
#define NS_IF_TIME64(...) __VA_ARGS__
#else
#define NS_IF_TIME64(...)
#endif

/* Are addends of relocations in the relocations (rela) or at their places (rel)? See the psABI. */
#if defined(__i386__) || defined(__arm__)
#define NS_RELOCATION(rela, rel) rel
#else
#define NS_RELOCATION(rela, rel) rela
#endif

#endif
