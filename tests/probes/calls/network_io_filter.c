/* SPDX-License-Identifier: MIT */
/* Runs a command under the filter of systemd's SystemCallFilter=~@network-io, which kills a process
 * at each of these calls. */
#include "filter.h"

int main(int argc, char **argv)
{
    const int calls[] = {
#ifdef SYS_accept
        SYS_accept,
#endif
#ifdef SYS_socketcall
        SYS_socketcall,
#endif
        SYS_accept4,     SYS_bind,        SYS_connect,
        SYS_getpeername, SYS_getsockname, SYS_getsockopt,
        SYS_listen,      SYS_recvfrom,    SYS_recvmmsg,
        SYS_recvmsg,     SYS_sendmmsg,    SYS_sendmsg,
        SYS_sendto,      SYS_setsockopt,  SYS_shutdown,
        SYS_socket,      SYS_socketpair,  -1};
    if (argc > 1 && filter_calls(false, calls, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW))
        execvp(argv[1], argv + 1);
    return 127;
}
