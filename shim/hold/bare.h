/* SPDX-License-Identifier: MIT */
/* System calls for the deadline thread, which has no thread-local memory: the C library's own write
 * errno there, and a preloaded library's may do anything. Each returns what the kernel does: a
 * result, or -errno. Async-signal-safe. */
#ifndef NS_BARE_H
#define NS_BARE_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

static inline long ns_bare_syscall(long number, long a, long b, long c, long d, long e)
{
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return x0;
#else
#error "the deadline thread needs system calls for this machine"
#endif
}

static inline long ns_bare_getpid(void)
{
    return ns_bare_syscall(SYS_getpid, 0, 0, 0, 0, 0);
}

static inline long ns_bare_setsockopt(int fd, int level, int option, const int *value, long len)
{
    return ns_bare_syscall(SYS_setsockopt, fd, level, option, (long)value, len);
}

static inline long ns_bare_futex(_Atomic uint32_t *word, int operation, uint32_t value,
                                 const struct timespec *limit)
{
    return ns_bare_syscall(SYS_futex, (long)word, operation, value, (long)limit, 0);
}

static inline long ns_bare_prctl(int option, unsigned long value)
{
    return ns_bare_syscall(SYS_prctl, option, (long)value, 0, 0, 0);
}

static inline long ns_bare_clock_gettime(clockid_t clock, struct timespec *now)
{
    return ns_bare_syscall(SYS_clock_gettime, clock, (long)now, 0, 0, 0);
}

/* The kernel's own set, of 64 signals. */
static inline long ns_bare_sigprocmask(int how, const uint64_t *set, uint64_t *before)
{
    return ns_bare_syscall(SYS_rt_sigprocmask, how, (long)set, (long)before, sizeof *set, 0);
}

/* clone() with these flags and this stack, whose highest byte lies below top (a multiple of 16).
 * The new thread calls body and ends when that returns; tid is CLONE_PARENT_SETTID's and
 * CLONE_CHILD_CLEARTID's. Returns its number, or -errno. */
long ns_bare_thread(unsigned long flags, void *top, _Atomic uint32_t *tid, void (*body)(void));

#endif
