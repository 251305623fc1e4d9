/* SPDX-License-Identifier: MIT */
/* System calls without a C library. The result is the kernel's: a value, or -errno. */
#ifndef NS_RAW_SYSCALL_H
#define NS_RAW_SYSCALL_H

#include <sys/syscall.h>

#if defined(__x86_64__)
static inline long ns_raw_syscall(long number, long a, long b, long c, long d, long e, long f)
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
#elif defined(__i386__) /* all registers are needed, with that of the frame */
long ns_raw_syscall(long number, long a, long b, long c, long d, long e, long f)
    __attribute__((visibility("hidden")));
__asm__(".pushsection .text\n.weak ns_raw_syscall\n.hidden ns_raw_syscall\n.type ns_raw_syscall, "
        "@function\nns_raw_syscall:\n"
        "push %ebp\n push %ebx\n push %esi\n push %edi\n"
        "mov 20(%esp), %eax\n mov 24(%esp), %ebx\n mov 28(%esp), %ecx\n mov 32(%esp), %edx\n"
        "mov 36(%esp), %esi\n mov 40(%esp), %edi\n mov 44(%esp), %ebp\n int $0x80\n"
        "pop %edi\n pop %esi\n pop %ebx\n pop %ebp\n ret\n.size ns_raw_syscall, . - "
        "ns_raw_syscall\n.popsection\n");
#else
/* syscall(2) has the registers. Not inlined into functions that call vfork, because gcc would warn
 * that a register may be clobbered. */
#define RAW_BY(instruction, r_number, r_a, r_b, r_c, r_d, r_e, r_f, ...)                           \
    __attribute__((noinline, unused)) static long ns_raw_syscall(long number, long a, long b,      \
                                                                 long c, long d, long e, long f)   \
    {                                                                                              \
        register long in __asm__(r_number) = number, first __asm__(r_a) = a;                       \
        register long second __asm__(r_b) = b, third __asm__(r_c) = c;                             \
        register long fourth __asm__(r_d) = d, fifth __asm__(r_e) = e, sixth __asm__(r_f) = f;     \
        __asm__ volatile(instruction                                                               \
                         : "+r"(in), "+r"(first), "+r"(second), "+r"(third), "+r"(fourth),         \
                           "+r"(fifth), "+r"(sixth)                                                \
                         :                                                                         \
                         : "memory", "cc", ##__VA_ARGS__);                                         \
        return first;                                                                              \
    }
#if defined(__aarch64__)
RAW_BY("svc 0", "x8", "x0", "x1", "x2", "x3", "x4", "x5")
#elif defined(__arm__)
/* r7 may be the frame pointer. */
RAW_BY("push {r7}\n mov r7, ip\n svc 0\n pop {r7}", "ip", "r0", "r1", "r2", "r3", "r4", "r5")
#elif defined(__riscv)
RAW_BY("ecall", "a7", "a0", "a1", "a2", "a3", "a4", "a5")
#elif defined(__s390x__)
RAW_BY("svc 0", "1", "2", "3", "4", "5", "6", "7")
#elif defined(__powerpc64__)
RAW_BY("sc\n bns+ 1f\n neg 3, 3\n1:", "0", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12",
       "ctr")
#else
#error "this machine needs a row"
#endif
#endif

#endif
