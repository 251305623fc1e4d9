/* SPDX-License-Identifier: MIT */
/* vfork. It returns twice into its caller's frame, so no C function can call it. The exported one
 * notes the caller's process and jumps to libc's, with the stack as it was. Async-signal-safe, as
 * vfork is. */
#include "calls/calls.h"

/* Called from the stub; returns where to jump. */
void *ns_vfork_begin(void);
__attribute__((used)) void *ns_vfork_begin(void)
{
    /* In a child of vfork that calls vfork, the first parent stays noted. */
    if (!ns_has_other_fds() && !ns_process_is_disabled()) {
        ns_handover_begins(true);
        ns_vfork_parent = getpid();
    }
    void *next;
    pid_t (*vfork_next)(void) = NS_REAL(vfork);
    __builtin_memcpy(&next, &vfork_next, sizeof next);
    return next;
}

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl vfork\n"
        ".type vfork, @function\n"
        "vfork:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    subq $8, %rsp\n" /* the ABI's alignment at a call */
        "    .cfi_adjust_cfa_offset 8\n"
        "    call ns_vfork_begin\n"
        "    addq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    jmp *%rax\n"
        "    .cfi_endproc\n"
        ".size vfork, . - vfork\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl vfork\n"
        ".type vfork, %function\n"
        "vfork:\n"
        "    .cfi_startproc\n"
        "    hint #25\n" /* paciasp if the CPU has pointer authentication, otherwise a no-op */
        "    .cfi_negate_ra_state\n"
        "    stp x29, x30, [sp, #-16]!\n"
        "    .cfi_adjust_cfa_offset 16\n"
        "    .cfi_rel_offset x29, 0\n"
        "    .cfi_rel_offset x30, 8\n"
        "    bl ns_vfork_begin\n"
        "    ldp x29, x30, [sp], #16\n"
        "    .cfi_adjust_cfa_offset -16\n"
        "    .cfi_restore x29\n"
        "    .cfi_restore x30\n"
        "    hint #29\n" /* autiasp */
        "    .cfi_negate_ra_state\n"
        "    mov x16, x0\n" /* a jump to a function's "bti c" must come through x16 or x17 */
        "    br x16\n"
        "    .cfi_endproc\n"
        ".size vfork, . - vfork\n");
#else
#error "vfork needs a stub for this machine"
#endif
