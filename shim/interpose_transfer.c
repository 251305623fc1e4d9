/* SPDX-License-Identifier: MIT */
/* The exported writes of what the kernel has: from a file or a pipe. Never held, but they take with
 * them what is. As async-signal-safe as the calls themselves. */
#include "interpose.h"

#include <sys/sendfile.h>

/* After a transfer inside the kernel. Where less came than was asked for, kernels before 6.5 have
 * sent the last piece with MSG_MORE and nothing after it. */
static void transferred(int fd, struct ns_sock *slot, ssize_t result, size_t asked, int flags,
                        struct ns_plain before)
{
    if (result > 0 && (size_t)result < asked && ns_engine_holds(fd, slot, 1, flags))
        ns_engine_held(fd, slot, result);
    else if (!NS_MUTANT(transfer_told))
        ns_engine_wrote(fd, slot, result, flags, before);
}

NS_EXPORT ssize_t sendfile(int out, int in, off_t *offset, size_t size)
{
    ssize_t result;
    if (ns_reader_refused(out, 0, &result))
        return result;
    struct ns_sock *slot = ns_engine_ruled(out);
    if (!slot)
        return NS_REAL(sendfile)(out, in, offset, size);
    struct ns_plain before;
    if (!ns_before_plain(out, slot, size, 0, &before, &result))
        return result;
    result = NS_REAL(sendfile)(out, in, offset, size);
    transferred(out, slot, result, size, 0, before);
    return result;
}

NS_EXPORT ssize_t sendfile64(int out, int in, off64_t *offset, size_t size)
{
    ssize_t result;
    if (ns_reader_refused(out, 0, &result))
        return result;
    struct ns_sock *slot = ns_engine_ruled(out);
    if (!slot)
        return NS_REAL(sendfile64)(out, in, offset, size);
    struct ns_plain before;
    if (!ns_before_plain(out, slot, size, 0, &before, &result))
        return result;
    result = NS_REAL(sendfile64)(out, in, offset, size);
    transferred(out, slot, result, size, 0, before);
    return result;
}

NS_EXPORT ssize_t splice(int in, off64_t *in_offset, int out, off64_t *out_offset, size_t size,
                         unsigned flags)
{
    ssize_t result;
    if (ns_reader_refused(out, 0, &result))
        return result;
    struct ns_sock *to = ns_engine_ruled(out);
    struct ns_sock *from = to ? NULL : ns_engine_reads(in); /* one of the two is a pipe */
    int more = flags & SPLICE_F_MORE && !NS_MUTANT(splice_more) ? MSG_MORE : 0;
    struct ns_plain before = {0};
    if (to) {
        /* SPLICE_F_NONBLOCK is the pipe's (splice(2)): the socket waits if it is one that does. */
        if (!ns_before_plain(out, to, size, more, &before, &result))
            return result;
    } else if (ns_owes() && !(flags & SPLICE_F_NONBLOCK) && !NS_MUTANT(splice_waits)) {
        ns_before_wait_for(in, POLLIN);
    }
    result = NS_REAL(splice)(in, in_offset, out, out_offset, size, flags);
    if (to)
        ns_engine_wrote(out, to, result, more, before);
    else if (from && !NS_MUTANT(splice_reads))
        ns_engine_read(in, from, result, errno);
    return result;
}
