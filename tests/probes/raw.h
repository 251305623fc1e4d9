/* SPDX-License-Identifier: MIT */
/* System calls that no preloaded library sees. */
#ifndef PROBES_RAW_H
#define PROBES_RAW_H

#include <sys/syscall.h>

#if defined(__x86_64__)
static inline long raw(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
/* Not inlined into functions that call vfork, because gcc would warn that x0 may be clobbered. */
__attribute__((noinline, unused)) static long raw(long number, long a, long b, long c, long d,
                                                  long e, long f)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}
#endif
#define RAW(number, a, b, c, d)                                                                    \
    raw(SYS_##number, (long)(a), (long)(b), (long)(c), (long)(d), 0L, 0L)

/* Prints a line. */
#define RAW_SAY(...)                                                                               \
    do {                                                                                           \
        char raw_line[256];                                                                        \
        int raw_size = snprintf(raw_line, sizeof raw_line - 1, __VA_ARGS__);                       \
        raw_line[raw_size] = '\n';                                                                 \
        RAW(write, 1, raw_line, raw_size + 1, 0);                                                  \
    } while (0)

#endif
