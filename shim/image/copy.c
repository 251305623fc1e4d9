/* SPDX-License-Identifier: MIT */
/* The first program of nagleshim's image: it copies files into a directory that other containers
 * see. Usage: copy DIRECTORY FILE...
 *
 * A file appears complete or not at all, and an existing file is replaced by a rename, because a
 * program may have it mapped. An error is printed in one line on standard error, with exit status
 * 1. The program is built without a C library, which the image lacks: it must not use allocation,
 * library functions or errno. */
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/vfs.h>

#include "base/raw_syscall.h"

/* The kernel's own, which <sys/statvfs.h> has by another name. */
enum { NOEXEC = 8 };

#define call(number, a, b, c, d, e) ns_raw_syscall(number, a, b, c, d, e, 0)

static size_t length(const char *text)
{
    size_t n = 0;
    while (text[n] != '\0')
        n++;
    return n;
}

static void say(const char *text)
{
    call(SYS_write, 2, (long)text, (long)length(text), 0, 0);
}

static const char *reason(long error)
{
    switch (-error) {
    case ENOENT:
        return "it is not there";
    case EACCES:
    case EPERM:
        return "permission denied";
    case ENOSPC:
    case EDQUOT:
        return "no space is left";
    case EROFS:
        return "the file system is read-only";
    case ENOTDIR:
        return "it is no directory";
    case ENAMETOOLONG:
        return "the name is too long";
    case ENOEXEC:
        return "it is mounted noexec, and no library could be loaded from there";
    default:
        return "an input or output error";
    }
}

static int failed(const char *what, const char *path, long error)
{
    say("nagleshim: cannot ");
    say(what);
    say(path);
    say(": ");
    say(reason(error));
    say("\n");
    return 1;
}

/* Join the parts into path. False if the result is too long. */
static bool join(char path[PATH_MAX], const char *directory, const char *between, const char *name,
                 const char *end)
{
    const char *parts[] = {directory, between, name, end};
    size_t n = 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        for (const char *from = parts[i]; *from != '\0'; from++) {
            if (n == PATH_MAX - 1)
                return false;
            path[n++] = *from;
        }
    path[n] = '\0';
    return true;
}

static const char *base_name(const char *path)
{
    const char *base = path;
    for (; *path != '\0'; path++)
        if (*path == '/')
            base = path + 1;
    return base;
}

/* Copy all remaining bytes from one descriptor to the other. 0 or -errno. */
static long copy_bytes(long from, long to)
{
    static char buffer[65536];
    long n;
    while ((n = call(SYS_read, from, (long)buffer, sizeof(buffer), 0, 0)) > 0)
        for (long done = 0; done < n;) {
            long wrote = call(SYS_write, to, (long)(buffer + done), n - done, 0, 0);
            if (wrote < 0)
                return wrote;
            done += wrote;
        }
    return n;
}

/* Copy an open file to a new file at path, which every user can read, whatever the umask is. */
static long write_new(long from, const char *path)
{
    long error, to;
    /* An earlier copy that was killed may have left the file. */
    call(SYS_unlinkat, AT_FDCWD, (long)path, 0, 0, 0);
    to = call(SYS_openat, AT_FDCWD, (long)path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444, 0);
    if (to < 0)
        return to;
    error = copy_bytes(from, to);
    if (error == 0)
        error = call(SYS_fchmod, to, 0444, 0, 0, 0);
    call(SYS_close, to, 0, 0, 0, 0);
    if (error != 0)
        call(SYS_unlinkat, AT_FDCWD, (long)path, 0, 0, 0);
    return error;
}

static int copy_file(const char *directory, const char *file)
{
    char path[PATH_MAX], new_path[PATH_MAX];
    const char *name = base_name(file);
    long error, from;
    if (!join(path, directory, "/", name, "") || !join(new_path, directory, "/.", name, ".new"))
        return failed("write into ", directory, -ENAMETOOLONG);
    from = call(SYS_openat, AT_FDCWD, (long)file, O_RDONLY | O_CLOEXEC, 0, 0);
    if (from < 0)
        return failed("read ", file, from);
    error = write_new(from, new_path);
    call(SYS_close, from, 0, 0, 0, 0);
    if (error == 0) {
        error = call(SYS_renameat2, AT_FDCWD, (long)new_path, AT_FDCWD, (long)path, 0);
        if (error != 0)
            call(SYS_unlinkat, AT_FDCWD, (long)new_path, 0, 0, 0);
    }
    return error == 0 ? 0 : failed("write ", path, error);
}

/* stack: the number of arguments, and the arguments, as the kernel passes them. */
static int copy(const long *stack)
{
    char *const *arguments = (char *const *)(stack + 1);
    struct statfs about;
    long error;
    if (stack[0] < 3) {
        say("usage: copy DIRECTORY FILE...\n");
        return 2;
    }
    error = call(SYS_statfs, (long)arguments[1], (long)&about, 0, 0, 0);
    if (error == 0 && (about.f_flags & NOEXEC))
        error = -ENOEXEC;
    if (error != 0)
        return failed("write into ", arguments[1], error);
    for (long i = 2; i < stack[0]; i++)
        if (copy_file(arguments[1], arguments[i]) != 0)
            return 1;
    return 0;
}

/* The start: the machine's part calls this with the address of the stack. */
_Noreturn void copy_start(const long *stack);
__attribute__((used)) void copy_start(const long *stack)
{
    for (;;)
        call(SYS_exit_group, copy(stack), 0, 0, 0, 0);
}

__asm__(".text\n .globl _start\n .type _start, %function\n"
#if defined(__arm__)
        ".arm\n"
#endif
        "_start:\n"
#if defined(__x86_64__)
        "xor %ebp, %ebp\n mov %rsp, %rdi\n and $-16, %rsp\n call copy_start\n"
#elif defined(__i386__)
        "mov %esp, %eax\n and $-16, %esp\n sub $12, %esp\n push %eax\n call copy_start\n"
#elif defined(__aarch64__)
        "mov x29, #0\n mov x0, sp\n bl copy_start\n"
#elif defined(__arm__)
        "mov r0, sp\n bl copy_start\n"
#elif defined(__riscv)
        ".option push\n .option norelax\n la gp, __global_pointer$\n .option pop\n"
        "mv a0, sp\n call copy_start\n"
#elif defined(__s390x__)
        "lgr %r2, %r15\n aghi %r15, -160\n brasl %r14, copy_start\n"
#elif defined(__powerpc64__) /* the kernel passes this address in r12 */
        "addis 2, 12, (.TOC. - _start)@ha\n addi 2, 2, (.TOC. - _start)@l\n"
        "mr 3, 1\n stdu 1, -32(1)\n bl copy_start\n nop\n"
#endif
);
