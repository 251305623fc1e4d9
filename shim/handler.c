/* SPDX-License-Identifier: MIT */
/* Finds out which signal handlers there are, and whether one is on the stack. What is not
 * async-signal-safe (starting a thread allocates memory) must not be done inside one, and the calls
 * that a program makes do not tell: poll and read are allowed there. Owns nothing.
 * Async-signal-safe. */
#include "handler.h"

#include "mutant.h"
#include "real.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <ucontext.h>

#if defined(__x86_64__)

enum {
    PAGE = 4096,
    SCANNED = 64 * 1024,
    /* What is looked at of a frame: as far as the interrupted registers. */
    FRAME = sizeof(uintptr_t) + offsetof(ucontext_t, uc_mcontext.fpregs),
    SIGNALS = 64,
    RESTORERS = 4,
};

/* The kernel's struct sigaction (arch/x86/include/uapi/asm/signal.h); libc's hides the restorer. */
struct kernel_action {
    uintptr_t handler; /* 0 and 1 are SIG_DFL and SIG_IGN */
    unsigned long flags;
    uintptr_t restorer;
    uint64_t mask;
};

/* Where handlers return to: the word that the kernel puts on top of the stack before it calls one.
 * Returns how many there are, RESTORERS + 1 if too many or not to be known. */
static unsigned find_restorers(uintptr_t restorers[RESTORERS])
{
    const unsigned long sa_restorer = 0x04000000;
    unsigned count = 0;
    for (int number = 1; number <= SIGNALS; number++) {
        struct kernel_action action = {0};
        if (ns_real.syscall(SYS_rt_sigaction, number, NULL, &action, sizeof action.mask) != 0 ||
            action.handler <= 1)
            continue;
        unsigned i = 0;
        while (i < count && restorers[i] != action.restorer)
            i++;
        if (i < count)
            continue;
        if (count == RESTORERS || !(action.flags & sa_restorer))
            return RESTORERS + 1;
        restorers[count++] = action.restorer;
    }
    return count;
}

/* rt_sigprocmask reads the set before it looks at what to do with it, and this is nothing that can
 * be done: EFAULT or EINVAL (kernel/signal.c). */
static bool is_readable(uintptr_t page)
{
    return NS_MUTANT(handler_readable) ||
           (ns_real.syscall(SYS_rt_sigprocmask, -1, page, NULL, sizeof(uint64_t)) == -1 &&
            errno == EINVAL);
}

/* Is this where a handler returns to, and not a copy of that word? sigaction() leaves some behind,
 * on which later calls stand with arrays that they have not yet filled. What was interrupted lies
 * behind it: its stack pointer, further up the same stack, or else the alternate stack that this is
 * (struct rt_sigframe, arch/x86/include/asm/sigframe.h). */
__attribute__((no_sanitize("address"))) static bool is_frame(const uintptr_t *at)
{
    const ucontext_t *interrupted = (const void *)(at + 1);
    uintptr_t here = (uintptr_t)at, top = (uintptr_t)interrupted->uc_mcontext.gregs[REG_RSP];
    return !interrupted->uc_link &&
           (top - here < SCANNED ||
            here - (uintptr_t)interrupted->uc_stack.ss_sp < interrupted->uc_stack.ss_size);
}

/* Is one of these words on the stack at or above at? Reads what is not its own, as nothing else
 * may. */
__attribute__((no_sanitize("address"))) static bool is_on_stack(const uintptr_t *words,
                                                                unsigned count, uintptr_t at)
{
    uintptr_t end = at + SCANNED;
    uintptr_t readable = (at / PAGE + 1) * PAGE; /* so is the page that we stand on */
    for (; at < end; at += sizeof(uintptr_t)) {
        while (at + FRAME > readable) {
            if (!is_readable(readable))
                return false; /* no room for a frame */
            readable += PAGE;
        }
        for (unsigned i = 0; i < count; i++)
            if (*(const uintptr_t *)at == words[i] && is_frame((const uintptr_t *)at))
                return true;
    }
    return false;
}

bool ns_may_be_in_handler(void)
{
    /* The words that are looked for lie below it. */
    uintptr_t restorers[RESTORERS], frame = (uintptr_t)__builtin_frame_address(0);
    int saved = errno;
    unsigned count = find_restorers(restorers);
    bool may = count > RESTORERS || (count > 0 && is_on_stack(restorers, count, frame));
    may &= !NS_MUTANT(handler_found);
    errno = saved;
    return may;
}

#else

/* Elsewhere the kernel's own code is returned to, and nobody tells where that is. So any handler
 * counts. */
bool ns_may_be_in_handler(void)
{
    return ns_has_handler(NULL);
}

#endif

bool ns_has_handler(bool (*is)(int number, const struct sigaction *action))
{
    int saved = errno;
    bool has = false;
    for (int number = 1; number < NSIG && !has; number++) {
        struct sigaction action;
        has = NS_REAL(sigaction)(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL &&
              action.sa_handler != SIG_IGN && (!is || is(number, &action));
    }
    errno = saved;
    return has;
}
