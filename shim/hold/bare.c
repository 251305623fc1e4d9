/* SPDX-License-Identifier: MIT */
/* The start of a thread that the C library does not know of. Owns nothing. */
#include "hold/bare.h"

/* In the new thread the stack pointer is the only thing that is not its maker's, so what it is to
 * call travels in a register. Its frame is the last one: no return address, and none is looked for.
 */
#if defined(__x86_64__)
__asm__(".text\n"
        ".hidden ns_bare_thread\n"
        ".globl ns_bare_thread\n"
        ".type ns_bare_thread, @function\n"
        "ns_bare_thread:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    movq %rcx, %r9\n"  /* body */
        "    movq %rdx, %r10\n" /* both are tid: rdx for the parent, r10 for the child */
        "    xorl %r8d, %r8d\n" /* no thread-local memory */
        "    movl $56, %eax\n"  /* SYS_clone */
        "    syscall\n"
        "    testq %rax, %rax\n"
        "    jz 1f\n"
        "    ret\n"
        "1:\n"
        "    .cfi_undefined rip\n"
        "    xorl %ebp, %ebp\n"
        "    call *%r9\n"
        "    xorl %edi, %edi\n"
        "    movl $60, %eax\n" /* SYS_exit: this thread alone */
        "    syscall\n"
        "    hlt\n"
        "    .cfi_endproc\n"
        ".size ns_bare_thread, . - ns_bare_thread\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".hidden ns_bare_thread\n"
        ".globl ns_bare_thread\n"
        ".type ns_bare_thread, %function\n"
        "ns_bare_thread:\n"
        "    .cfi_startproc\n"
        "    hint #34\n" /* bti c */
        "    mov x9, x3\n"
        "    mov x4, x2\n" /* tid: x2 for the parent, x4 for the child */
        "    mov x3, xzr\n"
        "    mov x8, #220\n" /* SYS_clone */
        "    svc 0\n"
        "    cbz x0, 1f\n"
        "    ret\n"
        "1:\n"
        "    .cfi_undefined x30\n"
        "    mov x29, xzr\n"
        "    mov x30, xzr\n"
        "    blr x9\n"
        "    mov x0, xzr\n"
        "    mov x8, #93\n" /* SYS_exit */
        "    svc 0\n"
        "    brk #0\n"
        "    .cfi_endproc\n"
        ".size ns_bare_thread, . - ns_bare_thread\n");
#else
#error "the deadline thread needs a start for this machine"
#endif
