/* SPDX-License-Identifier: MIT */
/* Libraries that the program opens with RTLD_DEEPBIND, which find libc's functions before the
 * exported ones (PHP does so for extensions). Their slots are changed when each is initialized,
 * before its constructors run. dlopen itself only notes the flag. The loader searches according to
 * the caller (its DT_RUNPATH, its namespace), so libc's dlopen must see the program's return
 * address: the exported one jumps to libc's and leaves the stack as it was. */
#include "base/redirect.h"
#include "base/wrapper.h"
#include "conn/fds.h"
#include "conn/process.h"

#include <dlfcn.h>

/* Set by any dlopen. Stays set, because the library cannot see when that call ends. */
static _Atomic bool opened_deep;

/* The _init of every object that is linked with glibc's crti.o calls this function, if some object
 * exports it. No libc does. */
void __gmon_start__(void);
/* Also called for objects that are initialized before ThreadSanitizer's runtime. */
__attribute__((no_sanitize("thread"))) NS_EXPORT void __gmon_start__(void)
{
    /* Nothing is done without rules or after a seccomp filter. */
    if (__builtin_expect(atomic_load_explicit(&opened_deep, memory_order_relaxed), 0) &&
        ns_fd_is_open(0) && !ns_process_is_disabled())
        ns_redirect_calls(__builtin_return_address(0), NULL, 0);
}

/* Called from the stub; returns where to jump. */
void *ns_loader_begin(const char *name, int mode);
__attribute__((used)) void *ns_loader_begin(const char *name, int mode)
{
    void *next;
    void *(*open)(const char *, int) = NS_REAL(dlopen);
    (void)name;
    if (mode & RTLD_DEEPBIND)
        atomic_store(&opened_deep, true);
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
        "    jmp *%rax\n"
        "    .cfi_endproc\n"
        ".size dlopen, . - dlopen\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl dlopen\n"
        ".type dlopen, %function\n"
        "dlopen:\n"
        "    .cfi_startproc\n"
        "    hint #25\n" /* paciasp if the CPU has pointer authentication, otherwise a no-op */
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
        "    br x16\n"
        "    .cfi_endproc\n"
        ".size dlopen, . - dlopen\n");
#else
#error "dlopen needs a stub for this machine"
#endif
