/* SPDX-License-Identifier: MIT */
/* dlopen. The loader searches according to the caller (its DT_RUNPATH, its namespace), so libc's
 * dlopen must see the program's return address. The exported one therefore jumps to libc's and
 * leaves the stack as it was. It changes only the mode: see ns_loader_ignore_deepbind. */
#include "calls/loader.h"

#include "base/real.h"

#include <dlfcn.h>

/* The stub masks the mode with this. */
__attribute__((used, visibility("hidden"))) int ns_loader_mode_mask = -1;

void ns_loader_ignore_deepbind(void)
{
    ns_loader_mode_mask = ~RTLD_DEEPBIND;
}

/* Called from the stub; returns where to jump. */
void *ns_loader_begin(void);
__attribute__((used)) void *ns_loader_begin(void)
{
    void *next;
    void *(*open)(const char *, int) = NS_REAL(dlopen);
    __builtin_memcpy(&next, &open, sizeof next);
    return next;
}

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl dlopen\n"
        ".type dlopen, @function\n"
        "dlopen:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    pushq %rdi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %rsi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    subq $8, %rsp\n" /* the ABI's alignment at a call */
        "    .cfi_adjust_cfa_offset 8\n"
        "    call ns_loader_begin\n"
        "    addq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rsi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rdi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    andl ns_loader_mode_mask(%rip), %esi\n"
        "    jmp *%rax\n"
        "    .cfi_endproc\n"
        ".size dlopen, . - dlopen\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl dlopen\n"
        ".type dlopen, %function\n"
        "dlopen:\n"
        "    .cfi_startproc\n"
        "    hint #25\n" /* paciasp where there is pointer authentication, nothing elsewhere */
        "    .cfi_negate_ra_state\n"
        "    stp x29, x30, [sp, #-32]!\n"
        "    .cfi_adjust_cfa_offset 32\n"
        "    .cfi_rel_offset x29, 0\n"
        "    .cfi_rel_offset x30, 8\n"
        "    stp x0, x1, [sp, #16]\n"
        "    bl ns_loader_begin\n"
        "    mov x16, x0\n" /* a jump to a function's "bti c" must come through x16 or x17 */
        "    ldp x0, x1, [sp, #16]\n"
        "    ldp x29, x30, [sp], #32\n"
        "    .cfi_adjust_cfa_offset -32\n"
        "    .cfi_restore x29\n"
        "    .cfi_restore x30\n"
        "    hint #29\n" /* autiasp */
        "    .cfi_negate_ra_state\n"
        "    adrp x17, ns_loader_mode_mask\n"
        "    ldr w17, [x17, :lo12:ns_loader_mode_mask]\n"
        "    and w1, w1, w17\n"
        "    br x16\n"
        "    .cfi_endproc\n"
        ".size dlopen, . - dlopen\n");
#else
#error "dlopen needs a stub for this machine"
#endif
